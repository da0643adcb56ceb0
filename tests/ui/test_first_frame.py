"""The window before it is complete: what is written counts, and nothing jumps afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from ui.composer import MessageEdit
from ui.theme import Theme
from ui.window import MainWindow

Frame = Callable[..., MainWindow]


@pytest.fixture
def frame(qtbot: QtBot, theme: Theme) -> Frame:
    def build(width: int = 1180, height: int = 780, **look: Any) -> MainWindow:
        window = MainWindow(None, None, theme, look)
        qtbot.addWidget(window)
        window.resize(width, height)
        window.show()
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        return window

    return build


def complete(window: MainWindow, desk: FakeDesk, bridge: FakeBridge) -> None:
    window.complete(desk, bridge)  # type: ignore[arg-type]


def edit(window: MainWindow) -> MessageEdit:
    found = window.findChild(MessageEdit, "composer")
    assert found is not None
    return found


def place(window: MainWindow) -> QRect:
    """Where the text field is in the window."""
    field = edit(window)
    return QRect(field.mapTo(window, QPoint(0, 0)), field.size())


def wait_for_place(qtbot: QtBot, window: MainWindow, before: QRect) -> None:
    """The layouts come to rest with the next events."""
    with contextlib.suppress(qtbot.TimeoutError):
        qtbot.waitUntil(lambda: place(window) == before, timeout=2000)
    assert place(window) == before


def test_keys_are_taken_before_there_is_a_desk(frame, desk, bridge):
    window = frame()
    assert edit(window).hasFocus()
    QTest.keyClicks(edit(window), "typed ")
    complete(window, desk, bridge)
    QTest.keyClicks(edit(window), "at once")
    assert edit(window).text() == "typed at once"
    assert edit(window).hasFocus()
    assert desk.called("save_draft")[-1] == ("typed at once",)


def test_message_sent_before_there_is_a_desk_is_sent_once(frame, desk, bridge):
    window = frame()
    QTest.keyClicks(edit(window), "Hello")
    QTest.keyClick(edit(window), Qt.Key.Key_Return)
    assert edit(window).text() == ""
    complete(window, desk, bridge)
    QTest.keyClicks(edit(window), "Again")
    QTest.keyClick(edit(window), Qt.Key.Key_Return)
    assert desk.called("send") == [("Hello",), ("Again",)]


def test_caret_stays_where_it_is_and_before_it_comes_the_old_draft(frame, desk, bridge):
    window = frame()
    QTest.keyClicks(edit(window), "wrds")
    for _ in range(3):
        QTest.keyClick(edit(window), Qt.Key.Key_Left)
    complete(window, desk, bridge)
    QTest.keyClicks(edit(window), "o")
    assert edit(window).text() == "words"
    window.chat.composer.set_text("left over\nwords")
    QTest.keyClicks(edit(window), "u")
    assert edit(window).text() == "left over\nwourds"


def test_all_that_is_written_before_there_is_a_desk_keeps_its_order(frame, desk, bridge):
    window = frame()
    for text in ("one", "two"):
        QTest.keyClicks(edit(window), text)
        QTest.keyClick(edit(window), Qt.Key.Key_Return)
    QTest.keyClicks(edit(window), "three")
    complete(window, desk, bridge)
    assert desk.called("send") == [("one",), ("two",)]
    assert edit(window).text() == "three"
    assert desk.called("save_draft")[-1] == ("three",)


def test_what_the_desk_refuses_comes_before_what_is_being_written(frame, desk, bridge):
    desk.takes_messages = False
    window = frame()
    for text in ("one", "two"):
        QTest.keyClicks(edit(window), text)
        QTest.keyClick(edit(window), Qt.Key.Key_Return)
    QTest.keyClicks(edit(window), "three")
    complete(window, desk, bridge)
    assert edit(window).text() == "one\ntwo\nthree"


@pytest.mark.parametrize("size", [(1180, 780), (600, 500), (1440, 900)])
@pytest.mark.parametrize("zoom", [100, 200])
def test_composer_stays_where_it_is(qtbot, frame, theme, desk, bridge, size, zoom):
    theme.set_zoom(zoom)
    desk.set_setting("zoom_percent", zoom)
    window = frame(*size)
    QTest.keyClicks(edit(window), "one")
    before = place(window)
    complete(window, desk, bridge)
    wait_for_place(qtbot, window, before)


def test_frame_without_sidebar_is_as_wide_as_the_window_will_be(qtbot, frame, desk, bridge):
    desk.set_setting("sidebar_visible", False)
    window = frame(sidebar_visible=False)
    before = place(window)
    complete(window, desk, bridge)
    window.columns.restore(False, 0)
    wait_for_place(qtbot, window, before)


@pytest.mark.parametrize(
    "look",
    [
        {"sidebar_width": "wide", "theme": 3, "zoom_percent": "x", "window_geometry": 7},
        {"sidebar_width": -5, "theme": "pink", "window_geometry": "zz"},
    ],
)
def test_broken_memory_of_the_look_is_no_trouble(frame, look):
    assert frame(**look).isVisible()
    Theme.remembered(look)


def test_frame_can_be_closed_and_resized(frame):
    window = frame()
    window.resize(700, 500)
    assert window.close()
