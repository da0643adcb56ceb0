"""The server's requests: listed live, the chosen one kept, and what can be done with it."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot
from recording_desk import NOON, FakeBridge, FakeDesk

from app.chat.events import ServedChanged, ServerChanged
from app.chat.server.log import Logged
from models.records import MessageCounts
from ui.look.theme import Theme
from ui.windows.server import window as window_module
from ui.windows.server.model import CLIENT, ENDPOINT, IN, MODEL, STATE, TIME, RequestsModel
from ui.windows.server.window import RequestsWindow
from ui.windows.server.words import row_words

Key = Qt.Key


def row(number: int, **fields: Any) -> Logged:
    return Logged(
        number,
        f"client {number}",
        "/v1/chat/completions",
        NOON + timedelta(seconds=number),
        **fields,
    )


def over(number: int, **fields: Any) -> Logged:
    return row(number, **{"status": 200, "seconds": 1.5, **fields})


def answered(number: int, notes: list[str] | None = None) -> Logged:
    """One whose reply has ended."""
    counts = MessageCounts(prompt_tokens=9, reused=4, tokens_per_s=12.5)
    reply = SimpleNamespace(
        ended=SimpleNamespace(state="complete", counts=counts),
        reply=SimpleNamespace(n_generated=1),
        has_begun=True,
        notes=notes or [],
    )
    return over(number, replies=[reply])


@pytest.fixture
def window(
    qtbot: QtBot,
    desk: FakeDesk,
    bridge: FakeBridge,
    theme: Theme,
    monkeypatch: pytest.MonkeyPatch,
) -> RequestsWindow:
    monkeypatch.setattr(window_module, "SHOW_MS", 1)
    desk.server.log = []
    made = RequestsWindow(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.open()
    qtbot.waitUntil(made.isActiveWindow)
    return made


def show(window: RequestsWindow, desk: FakeDesk, *rows: Logged) -> None:
    desk.server.log = list(rows)
    window._show()


def clients(window: RequestsWindow) -> list[str]:
    model = window.model
    return [str(model.index(at, CLIENT).data()) for at in range(model.rowCount())]


def test_the_newest_is_first_and_the_chosen_one_stays(
    window: RequestsWindow, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    assert window.body.currentWidget() is window.nothing
    show(window, desk, over(1), over(2))
    assert clients(window) == ["client 2", "client 1"]
    QTest.keyClick(window.table, Key.Key_Down)
    desk.server.log = [over(1), over(2), row(3)]
    bridge.emit_event(ServedChanged())
    qtbot.waitUntil(lambda: len(clients(window)) == 3)
    assert window.chosen is not None
    assert window.chosen.number == 1
    assert "client 1" in window.words.text()


def test_what_is_forgotten_goes(window: RequestsWindow, desk: FakeDesk) -> None:
    show(window, desk, over(1), over(2), row(3))
    show(window, desk, over(2), row(3), row(4))
    assert clients(window) == ["client 4", "client 3", "client 2"]
    show(window, desk, row(3))  # cleared
    assert clients(window) == ["client 3"]
    show(window, desk)
    assert window.body.currentWidget() is window.nothing
    assert not window.words.isVisible()


def test_a_line_says_how_it_is(window: RequestsWindow, desk: FakeDesk) -> None:
    show(window, desk, over(1, status=503, sentence="No model is loaded.", model="some"))
    model = window.model
    assert [str(model.index(0, c).data()) for c in (STATE, ENDPOINT, MODEL, IN)] == [
        "Failed",
        "/v1/chat/completions",
        "some",
        "–",
    ]
    assert str(model.index(0, TIME).data()).endswith(
        f"{(NOON + timedelta(seconds=1)).astimezone():%H:%M:%S}"
    )
    assert "HTTP 503 after 1.5 s\nNo model is loaded." in window.words.text()
    noted = answered(2, notes=["A grammar can't enforce “minimum”."] * 2)
    assert row_words(noted).count("A grammar can't enforce “minimum”.") == 1
    assert "9 prompt tokens, 4 cached; 1 generated" in row_words(noted)
    assert not window.open_button.isEnabled()
    assert not window.stop_button.isEnabled()


def test_keys_and_buttons_do_it(window: RequestsWindow, desk: FakeDesk) -> None:
    desk.server.curl = lambda each: f"curl {each.number}"
    show(window, desk, over(1), row(2))
    QTest.keyClick(window.table, Key.Key_Delete)
    QTest.keyClick(window.table, Key.Key_Return)
    window.curl_button.click()
    window.clear_button.click()
    window.switch_button.click()
    assert desk.calls[-4:] == [
        ("server.stop", 2),
        ("server.open", 2),
        ("server.clear",),
        ("server.set_on", True),
    ]
    assert QGuiApplication.clipboard().text() == "curl 2"


def test_what_was_written_in_another_request_is_asked_about(
    window: RequestsWindow, desk: FakeDesk, qtbot: QtBot
) -> None:
    show(window, desk, over(1), answered(2))
    desk.server.opened.has_own = True
    window.open_chosen()
    box = window.findChild(QMessageBox, "discard_request_dialog")
    assert box is not None
    assert desk.calls == []
    next(each for each in box.buttons() if each.text() == "Discard").click()
    assert desk.calls == [("server.open", 2)]


def test_the_address_that_is_copied_is_the_one_listened_on(
    window: RequestsWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    assert not window.copy_url_button.isEnabled()
    desk.server.state = ServerChanged("on", "http://127.0.0.1:8642")
    desk.server.is_on = True
    bridge.emit_event(desk.server.state)
    window.copy_url_button.click()
    assert QGuiApplication.clipboard().text() == "http://127.0.0.1:8642/v1"
    assert window.switch_button.text() == "Stop server"


@pytest.mark.parametrize("percent", [100, 200])
def test_a_narrow_window_keeps_who_and_how(
    window: RequestsWindow, desk: FakeDesk, theme: Theme, percent: int
) -> None:
    show(window, desk, over(1))
    theme.set_zoom(percent)
    window.resize(640, 560)
    shown = [c for c in range(len(RequestsModel.columns)) if not window.table.isColumnHidden(c)]
    assert {CLIENT, STATE, ENDPOINT} <= set(shown)
    assert sum(map(window.table.columnWidth, shown)) <= window.table.viewport().width() + 1
