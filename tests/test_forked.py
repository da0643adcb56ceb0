"""Forked children: processes as those that are started, of their own and of nobody else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from forked import CAN_FORK, Forking
from guards import LeakGuard
from scripted_talk import wait_until_gone

from app.engine.client.process import child_command, child_environment
from app.engine.protocol import wire
from app.engine.protocol.messages import Hello

pytestmark = [
    pytest.mark.usefixtures("forked_children"),
    pytest.mark.skipif(not CAN_FORK, reason="children are forked on Linux only"),
]

PATIENCE_S = 20.0


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"hello": {"notes": ["here"]}, "replies": [{"text": "Hi"}]}))
    process = start(str(path))
    yield process
    process.kill()
    process.communicate()


def start(script: str, **environment: str) -> subprocess.Popen[bytes]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = child_command("scripted", script)
    return subprocess.Popen(command, env=child_environment(environment), **pipes)


def hello(process: subprocess.Popen[bytes]) -> Hello:
    assert process.stdout is not None
    payload = wire.FrameReader(process.stdout).read()
    assert payload is not None
    message = wire.decode_event(payload)
    assert isinstance(message, Hello)
    return message


def test_it_is_a_child_of_this_process_and_speaks(child: subprocess.Popen[bytes]) -> None:
    assert isinstance(child, Forking)
    told = hello(child)
    assert (told.pid, told.notes) == (child.pid, ["here"])
    assert psutil.Process(child.pid).ppid() == os.getpid()
    assert "forked.py" in " ".join(psutil.Process(child.pid).cmdline())


def test_it_ends_with_its_stdin(child: subprocess.Popen[bytes]) -> None:
    hello(child)
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0


def test_a_signal_ends_it_and_is_its_exit_code(child: subprocess.Popen[bytes]) -> None:
    hello(child)
    child.kill()
    assert child.wait(PATIENCE_S) == -signal.SIGKILL


def test_the_guard_sees_it(tmp_path: Path) -> None:
    guard = LeakGuard()
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": [{"text": "Hi"}]}))
    process = start(str(path))
    assert any(str(process.pid) in leak for leak in guard.leaks(patience_s=0))
    process.communicate(timeout=PATIENCE_S)
    assert guard.leaks() == []


def test_what_it_complains_of_and_its_exit_code_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{")
    process = start("bad.json")
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert b"bad.json" in said


def test_two_have_each_their_own_pipes(tmp_path: Path) -> None:
    """The end of one's stdin must not wait for the other's end."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": [{"text": "Hi"}]}))
    first, second = start(str(path)), start(str(path))
    first.communicate(timeout=PATIENCE_S)
    assert second.poll() is None
    second.communicate(timeout=PATIENCE_S)
    assert (first.returncode, second.returncode) == (0, 0)


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """Also where that one is killed: what is forked for a killed worker must not stay."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": [{"text": "Hi"}]}))
    code = f"""
import signal, os, subprocess, sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parent.parent)]!r}
from forked import CAN_FORK, Forking, Source
from app.engine.client.process import child_command
Forking.sources["scripted"] = Source("scripted")
pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
child = Forking(child_command("scripted", {str(path)!r}), **pipes)
child.stdout.read(1)
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        start_new_session=True,
    )
    assert done.returncode == -signal.SIGKILL
    wait_until_gone(int(done.stdout), PATIENCE_S)


@pytest.mark.usefixtures("forked_windows")
def test_python_is_forked_with_its_arguments_folder_and_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "ends.py"
    file.write_text("import sys\nsys.exit('No ' + ' '.join(sys.argv[1:]))")
    code = "import os, sys; print(os.getcwd(), sys.argv[1:], 'ui.shell.window' in sys.modules)"
    command = [sys.executable, "-c", code, "a", "b"]
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == f"{tmp_path} ['a', 'b'] True\n"
    failed = subprocess.run(
        [sys.executable, str(file), "luck"], capture_output=True, text=True, check=False
    )
    assert (failed.returncode, failed.stdout, failed.stderr) == (1, "", "No luck\n")


def test_other_programs_are_started() -> None:
    done = subprocess.run([sys.executable, "-c", "print('hi')"], capture_output=True, check=True)
    assert done.stdout.strip() == b"hi"
