"""The harness itself, on a small stand-in: keys arrive, a close request is one, nothing stays."""

from __future__ import annotations

import sys

import psutil
import pytest
from x_server import Program, TookTooLongError, XServer, wait_for

pytestmark = pytest.mark.xvfb

STAND_IN = """
import subprocess, sys
from PySide6.QtWidgets import QApplication, QLineEdit

class Field(QLineEdit):
    def closeEvent(self, event):
        print("asked to close", flush=True)
        child.communicate()
        super().closeEvent(event)

child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
application = QApplication([])
field = Field()
field.setWindowTitle("Stand-in")
field.returnPressed.connect(lambda: print("line", field.text(), flush=True))
field.show()
sys.exit(application.exec())
"""


@pytest.fixture
def stand_in(x_server, tmp_path):
    command = [sys.executable, "-c", STAND_IN]
    with Program(command, x_server.display, tmp_path / "log") as program:
        yield program


def test_typed_keys_arrive(stand_in):
    stand_in.window("Stand-in")
    stand_in.type("Hello there?")
    stand_in.key("Return")
    wait_for("the line", lambda: "line Hello there?\n" in stand_in.printed())


def test_a_close_request_ends_the_program_and_its_child(stand_in):
    window = stand_in.window("Stand-in")
    (child,) = stand_in.children()
    stand_in.ask_to_close(window)
    assert stand_in.wait() == 0
    assert "asked to close" in stand_in.printed()
    assert stand_in.survivors() == []
    assert not child.is_running()


def test_a_child_that_survives_is_named(x_server, tmp_path):
    code = (
        "import subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "import time; time.sleep(60)"
    )
    with Program([sys.executable, "-c", code], x_server.display, tmp_path / "log") as program:
        (child,) = wait_for("the child", program.children)
        program.kill()
        assert [name.split()[0] for name in program.survivors(0.1)] == [str(child.pid)]
    assert not psutil.pid_exists(child.pid)


def test_a_screenshot_shows_the_screen(stand_in, tmp_path):
    stand_in.window("Stand-in")
    path = stand_in.screenshot(tmp_path / "screen.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_program_that_ends_early_says_so(x_server, tmp_path):
    command = [sys.executable, "-c", "print('no luck'); raise SystemExit(3)"]
    with (
        Program(command, x_server.display, tmp_path / "log") as program,
        pytest.raises(AssertionError, match=r"ended with 3: no luck"),
    ):
        program.window("Nothing")


def test_two_servers_choose_two_displays(x_server):
    with XServer() as other:
        assert other.display != x_server.display
        process = psutil.Process(other._process.pid)
    assert not process.is_running()


def test_waiting_ends():
    with pytest.raises(TookTooLongError, match="nothing did not come within 0 s"):
        wait_for("nothing", lambda: None, timeout_s=0.0)
