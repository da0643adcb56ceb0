"""The hub through the whole window; offline, it opens no socket, whatever is pressed."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keyring
import pytest
from fake_hub.acts import Act, captive_portal
from fake_hub.hub import FakeAccount, FakeHub
from fake_hub.repos import FakeFile, FakeRepo
from gguf_writer import tiny_llama
from keyring.backends import fail
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPushButton

from models.records import DownloadState
from ui.library.hub.page import HubPage

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = {"replies": [{"text": "Hello"}]}
REPO = "ana/tiny-GGUF"


@pytest.fixture
def hub(fake_hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    tiny_llama(tmp_path / "tiny.gguf")
    weights = [FakeFile("tiny-F32.gguf", (tmp_path / "tiny.gguf").read_bytes())]
    fake_hub.add(
        FakeRepo(REPO, weights, card="# Tiny", downloads=900),
        FakeRepo("ben/gated-GGUF", weights, card="# Gated", gated="manual"),
    )
    fake_hub.accounts["hf_secret"] = FakeAccount("ben", frozenset({"ben/gated-GGUF"}))
    monkeypatch.setenv("HF_ENDPOINT", fake_hub.endpoint)
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())
    yield fake_hub
    keyring.set_keyring(before)


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every connection that is tried, and every name that is looked up."""
    tried: list[str] = []
    for name in ("connect", "connect_ex", "sendto"):
        original = getattr(socket.socket, name)

        def noted(sock: socket.socket, *args: Any, _original: Any = original) -> Any:
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                tried.append(f"connection to {args[-1]}")
            return _original(sock, *args)

        monkeypatch.setattr(socket.socket, name, noted)
    look_up = socket.getaddrinfo

    def looked_up(*args: Any, **named: Any) -> Any:
        tried.append(f"name {args[0]}")
        return look_up(*args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return tried


class Visitor:
    """Somebody on the hub's page."""

    def __init__(self, person: Any) -> None:
        self.person = person
        self.desk = person.app.desk
        person.window.action_registry.run("hub")
        self.page: HubPage = person.find(HubPage, "hub_page")
        person.wait(self.page.isVisible)

    def type(self, text: str) -> None:
        field = self.find(QLineEdit, "library_search")
        field.clear()
        self.person.qtbot.keyClicks(field, text)
        self.person.qtbot.keyClick(field, Qt.Key.Key_Return)

    def find(self, kind: Any, name: str) -> Any:
        found = self.page.findChild(kind, name)
        assert found is not None, name
        return found

    def press(self, name: str) -> None:
        button = self.find(QPushButton, name)
        if button.isVisible() and button.isEnabled():
            self.person.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)

    def title(self) -> str:
        return self.page.panel.title.text()

    def wait(self, condition: Callable[[], Any]) -> Any:
        return self.person.wait(condition)


def press_everything(visitor: Visitor) -> None:
    """All that could want a connection."""
    page, desk = visitor.page, visitor.desk
    for text in (
        "tiny",
        REPO,
        f"{REPO}:F32",
        f"hf.co/{REPO}:F32",
        f"{desk.hub.state.endpoint}/{REPO}",
    ):
        visitor.type(text)
        visitor.wait(lambda: True)
    for name in ("search_again_button", "hub_state_button", "hub_state_second"):
        visitor.press(name)
    page.filters.sort.setCurrentIndex(1)
    page.filters.fitting.setChecked(True)
    page.open_dialog()
    dialog = page._dialog
    assert dialog is not None
    dialog.token.setText("hf_secret")
    dialog.use_button.click()
    visitor.wait(lambda: dialog.use_button.isEnabled())
    dialog.address.setText("127.0.0.1:9")
    dialog.set_button.click()
    visitor.wait(lambda: dialog.set_button.isEnabled())
    dialog.close()
    for name in ("downloads", "library", "hub"):
        visitor.person.window.action_registry.run(name)
    page.results.end_reached.emit()
    page.detail.look_again()
    visitor.type("tiny")
    visitor.person.qtbot.wait(50)


def test_offline_opens_no_socket(open_window, hub, connects):
    """E12: no request in offline mode. That the same presses connect otherwise is the next test."""
    person = open_window(SCRIPT)
    person.wait_ready()
    visitor = Visitor(person)
    press_everything(visitor)
    visitor.wait(lambda: visitor.title() == "Offline")
    assert not visitor.find(QPushButton, "hub_state_button").isVisible()
    person.send("Hi")
    assert person.wait_ended().content == "Hello"
    assert connects == []
    assert (hub.n_connections, hub.requests) == (0, [])


def test_the_switch_opens_no_socket_and_online_the_same_presses_do(open_window, hub, connects):
    person = open_window(SCRIPT, is_offline=False)
    person.wait(lambda: not person.app.desk.hub.state.why_offline)
    person.app.desk.settings.set("offline", True)
    visitor = Visitor(person)
    press_everything(visitor)
    visitor.wait(lambda: visitor.title() == "Offline")
    assert (connects, hub.n_connections) == ([], 0)
    person.app.desk.settings.set("offline", False)
    press_everything(visitor)
    visitor.wait(lambda: len(connects) > 3)


def test_a_download_under_way_ends_when_it_goes_offline(open_window, hub, connects):
    hub.script(Act(stall_after=100), server="cdn", for_ever=True)
    person = open_window(SCRIPT, is_offline=False)
    visitor = Visitor(person)
    visitor.wait(lambda: not visitor.desk.hub.state.why_offline)
    visitor.type(f"{REPO}:F32")
    assert not visitor.page.detail.act_button.isEnabled()
    visitor.wait(lambda: visitor.page.detail.act_button.isEnabled())
    visitor.wait(lambda: visitor.desk.downloads._downloads is not None)  # the queue is read
    visitor.page.detail.act_button.click()
    visitor.wait(
        lambda: (
            [d.state for d in visitor.desk.downloads.all] == [DownloadState.RUNNING]
            and len(hub.asked(server="cdn")) >= 2
        )
    )
    visitor.desk.settings.set("offline", True)
    gate = visitor.desk.hub.gate
    visitor.wait(lambda: gate.n_connections == 0)
    connects.clear()
    person.qtbot.wait(400)
    assert connects == []
    person.app.close()
    again = open_window(SCRIPT, "--offline", is_offline=False)
    again.wait_ready()
    again.window.action_registry.run("downloads")
    again.wait(lambda: len(again.app.desk.downloads.all) == 1)
    again.qtbot.wait(300)
    assert connects == []


def test_search_choose_look_go_online_again_and_meet_a_login_page(open_window, hub):
    person = open_window(SCRIPT, is_offline=False)
    visitor = Visitor(person)
    page = visitor.page
    visitor.wait(lambda: not visitor.desk.hub.state.why_offline)
    visitor.type("gguf")
    visitor.wait(lambda: len(page.results.results.repos) == 2)
    person.qtbot.keyClick(page.search, Qt.Key.Key_Down)
    visitor.wait(lambda: page.detail.card.text == "# Tiny")
    table = page.detail.table
    table.setFocus()
    person.qtbot.keyClick(table, Qt.Key.Key_Down)
    if not table.currentIndex().isValid():
        table.choose(table.weights.files[0])
    visitor.wait(lambda: "free" in page.detail.file_words.text())
    fit = table.weights.fit_of(table.weights.files[0])
    assert fit is not None
    assert "probably" not in fit.words
    visitor.desk.settings.set("offline", True)
    visitor.type("tiny")
    visitor.wait(lambda: visitor.title() == "Offline")
    visitor.press("hub_state_button")
    visitor.wait(lambda: [r.id for r in page.results.results.repos] == [REPO])
    assert not visitor.desk.settings.now.offline
    # E12: a captive portal answers everything with a page; the chat goes on.
    hub.script(captive_portal(), for_ever=True)
    visitor.type("tiny")
    visitor.wait(lambda: visitor.title() == "Not a hub")
    assert "log in with a browser" in visitor.page.panel.words.text()
    person.send("Hi")
    assert person.wait_ended().content == "Hello"


def test_a_token_opens_what_is_gated_and_is_stored_nowhere(open_window, hub, data_dir, caplog):
    """E10, and where a token may not be: the database, the log, the settings."""
    caplog.set_level(logging.DEBUG)
    person = open_window(SCRIPT, is_offline=False)
    visitor = Visitor(person)
    page = visitor.page
    visitor.wait(lambda: not visitor.desk.hub.state.why_offline)
    visitor.type("ben/gated-GGUF:F32")
    visitor.wait(lambda: "gated" in page.detail.file_words.text())
    assert page.detail.gate_note.isVisible()
    page.detail.token_button.click()
    dialog = page._dialog
    assert dialog is not None
    assert dialog.token.echoMode() is QLineEdit.EchoMode.Password
    person.qtbot.keyClicks(dialog.token, "hf_secret")
    person.qtbot.keyClick(dialog.token, Qt.Key.Key_Return)
    visitor.wait(lambda: "ben" in dialog.token_sentence.text())
    assert "until Cutaway closes" in dialog.token_sentence.text()
    assert dialog.token.text() == ""
    dialog.close()
    visitor.wait(lambda: page.detail.card.text == "# Gated")
    visitor.wait(lambda: "free" in page.detail.file_words.text())
    person.app.close()
    files = [path for path in data_dir.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if b"hf_secret" in path.read_bytes()] == []
    assert "hf_secret" not in caplog.text
    assert {each.token for each in hub.asked(server="cdn")} == {None}


def test_the_window_imports_nothing_that_connects_before_it_is_asked(forked_windows, tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    code = f"""
import sys, time
import main
from PySide6.QtTest import QTest
app = main.build(["--data-dir", {str(tmp_path / "data")!r}, "--scripted", {str(script)!r}])
ends_at = time.monotonic() + 20
while app.desk.hub.state.why_offline and time.monotonic() < ends_at:
    QTest.qWait(1)
assert not app.desk.hub.state.why_offline
app.close()
heavy = ("httpx2", "httpcore2", "huggingface_hub", "keyring")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
