"""The window before it is complete: what is written counts, and nothing jumps afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import NOON, FakeBridge, FakeDesk

from app.chat.events import ConversationOpened, LastChatStays
from models.records import Conversation, Message, Role
from ui.chat.composer import MessageEdit
from ui.look.theme import Theme
from ui.shell.window import MainWindow

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


def send(window: MainWindow, text: str) -> None:
    QTest.keyClicks(edit(window), text)
    QTest.keyClick(edit(window), Qt.Key.Key_Return)


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
    assert desk.called("shelf.save_draft")[-1] == ("typed at once",)


def test_message_sent_before_there_is_a_desk_is_sent_once(frame, desk, bridge):
    window = frame()
    QTest.keyClicks(edit(window), "Hello")
    QTest.keyClick(edit(window), Qt.Key.Key_Return)
    assert edit(window).text() == ""
    complete(window, desk, bridge)
    QTest.keyClicks(edit(window), "Again")
    QTest.keyClick(edit(window), Qt.Key.Key_Return)
    assert desk.called("replies.send") == [("Hello",), ("Again",)]


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
        send(window, text)
    QTest.keyClicks(edit(window), "three")
    complete(window, desk, bridge)
    assert desk.called("replies.send") == [("one",), ("two",)]
    assert edit(window).text() == "three"
    assert desk.called("shelf.save_draft")[-1] == ("three",)


def test_what_the_desk_refuses_comes_before_what_is_being_written(frame, desk, bridge):
    desk.takes_messages = False
    window = frame()
    for text in ("one", "two"):
        send(window, text)
    QTest.keyClicks(edit(window), "three")
    complete(window, desk, bridge)
    assert edit(window).text() == "one\ntwo\nthree"


@pytest.mark.parametrize("size", [(1180, 780), (600, 500), (1440, 900)])
@pytest.mark.parametrize("zoom", [100, 200])
def test_composer_stays_where_it_is(qtbot, frame, theme, desk, bridge, size, zoom):
    theme.set_zoom(zoom)
    desk.settings.set("zoom_percent", zoom)
    window = frame(*size)
    QTest.keyClicks(edit(window), "one")
    before = place(window)
    complete(window, desk, bridge)
    wait_for_place(qtbot, window, before)


def test_frame_without_sidebar_is_as_wide_as_the_window_will_be(qtbot, frame, desk, bridge):
    desk.settings.set("sidebar_visible", False)
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


# --- the last chat, shown before there is a desk ---------------------------------------------


CHAT = Conversation("c9", "About ships", created_at=NOON, updated_at=NOON, draft="old")
MESSAGES = (
    Message("m1", "c9", None, Role.USER, "What is a sloop?", NOON),
    Message("m2", "c9", "m1", Role.ASSISTANT, "A boat with one mast.", NOON),
)


def opened(desk: FakeDesk, bridge: FakeBridge, draft: str = "old") -> None:
    """The desk has read it and says so."""
    desk.shelf.open, desk.shelf.path = replace(CHAT, draft=draft), MESSAGES
    bridge.emit_event(ConversationOpened(desk.shelf.open, MESSAGES))


def test_last_chat_is_read_before_there_is_a_desk_and_stays(qtbot, frame, desk, bridge):
    window = frame()
    before = place(window)
    window.show_chat(CHAT, MESSAGES)
    view = window.chat.transcript
    qtbot.waitUntil(lambda: view.repaints > 0)
    assert view.isVisible()
    assert len(view.rows) == 2
    assert window.chat.header.title.text() == "About ships"
    assert edit(window).hasFocus()
    wait_for_place(qtbot, window, before)
    corners = [view.item_origin(i) + view.mapTo(window, QPoint(0, 0)) for i in range(2)]
    complete(window, desk, bridge)
    assert window.chat.transcript is view
    wait_for_place(qtbot, window, before)
    opened(desk, bridge)
    wait_for_place(qtbot, window, before)
    after = [view.item_origin(i) + view.mapTo(window, QPoint(0, 0)) for i in range(2)]
    assert after == corners
    assert edit(window).text() == "old"


def test_nothing_that_changes_it_is_offered_before_the_desk_has_it(frame, desk, bridge):
    window = frame()
    window.show_chat(CHAT, MESSAGES)
    view = window.chat.transcript
    complete(window, desk, bridge)
    early = {offer.name for offer in view.offers_of(1)}
    opened(desk, bridge)
    late = {offer.name for offer in view.offers_of(1)}
    assert early < late
    assert "edit" in late - early


def test_what_is_sent_waits_until_the_desk_has_the_chat(frame, desk, bridge):
    window = frame()
    send(window, "first")
    window.show_chat(CHAT, MESSAGES)
    send(window, "second")
    complete(window, desk, bridge)
    send(window, "third")
    QTest.keyClicks(edit(window), "more")
    assert desk.called("replies.send") == []
    opened(desk, bridge, draft="more")
    assert desk.called("replies.send") == [("first",), ("second",), ("third",)]
    assert edit(window).text() == "more"
    send(window, "")
    assert desk.called("replies.send")[-1] == ("more",)


def test_what_was_sent_and_has_not_gone_is_a_draft_when_the_window_closes(frame, desk, bridge):
    window = frame()
    window.show_chat(CHAT, MESSAGES)
    send(window, "sent")
    complete(window, desk, bridge)
    QTest.keyClicks(edit(window), "more")
    window.close()
    assert desk.called("shelf.save_draft")[-1] == ("sent\nmore",)


def test_what_the_desk_refuses_then_is_in_the_field(frame, desk, bridge):
    desk.takes_messages = False
    window = frame()
    window.show_chat(CHAT, MESSAGES)
    send(window, "kept")
    complete(window, desk, bridge)
    opened(desk, bridge)
    assert edit(window).text() == "kept\nold"


def test_a_chat_that_does_not_come_goes_from_the_screen(frame, desk, bridge):
    window = frame()
    window.show_chat(CHAT, MESSAGES)
    send(window, "anew")
    QTest.keyClicks(edit(window), "rest")
    complete(window, desk, bridge)
    bridge.emit_event(LastChatStays())
    assert len(window.chat.transcript.rows) == 0
    assert window.chat.header.title.text() == desk.shelf.open.title
    assert desk.called("replies.send") == [("anew",)]
    assert edit(window).text() == "rest"
