"""What a screen reader can ask of a transcript."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtTest import QTest

from models.records import Message, MessageState, Role
from ui.look.theme import Theme
from ui.transcript import keyboard
from ui.transcript.view import TranscriptView

NOW = datetime.now(UTC)
NAME = QAccessible.Text.Name


def message(number: int, text: str, **fields: object) -> Message:
    role = Role.ASSISTANT if number % 2 else Role.USER
    return replace(Message(f"m{number}", "c", None, role, text, NOW), **fields)


def chat(count: int) -> list[Message]:
    return [message(i, f"text {i}") for i in range(count)]


@pytest.fixture
def active() -> Iterator[None]:
    QAccessible.setActive(True)
    yield
    QAccessible.setActive(False)


@pytest.fixture
def view(qtbot, active) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(800, 500)
    with qtbot.waitExposed(made):
        made.show()
    return made


def asked(view: TranscriptView) -> QAccessibleInterface:
    return QAccessible.queryAccessibleInterface(view)


def test_every_message_is_an_item_that_says_it(view: TranscriptView) -> None:
    view.set_conversation(chat(300))
    listed = asked(view)
    assert listed.role() == QAccessible.Role.List
    assert listed.text(NAME) == "Conversation"
    names = [listed.child(i).text(NAME) for i in range(300)]
    assert names == [f"{'Reply' if i % 2 else 'You'}: text {i}" for i in range(300)]
    item = listed.child(7)
    assert item.role() == QAccessible.Role.ListItem
    assert item.text(QAccessible.Text.Description) == "Message 8 of 300"
    assert listed.indexOfChild(item) == 7
    assert item.parent().object() is view
    assert view.rows.items_made < 20, "nothing is laid out for being read"


def test_items_stand_where_the_messages_are(view: TranscriptView) -> None:
    view.set_conversation(chat(100))
    listed = asked(view)
    last, first = listed.child(99), listed.child(0)
    assert not last.state().offscreen
    assert first.state().offscreen
    middle = last.rect().center()
    assert view.rect().translated(view.mapToGlobal(view.rect().topLeft())).contains(middle)
    assert listed.childAt(middle.x(), middle.y()).text(NAME) == last.text(NAME)


def test_item_of_the_keyboard_has_the_focus(view: TranscriptView) -> None:
    view.set_conversation(chat(10))
    view.activateWindow()
    view.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(view, Qt.Key.Key_End)
    QTest.keyClick(view, Qt.Key.Key_Up)
    focused = asked(view).focusChild()
    assert focused.text(NAME) == "You: text 8"
    assert focused.state().focused


def test_item_follows_its_message_and_ends_with_it(view: TranscriptView) -> None:
    messages = chat(20)
    view.set_conversation(messages[10:])
    item = asked(view).child(3)
    assert item.text(NAME) == "Reply: text 13"
    view.add_earlier(messages[:10])
    assert item.text(NAME) == "Reply: text 13"
    assert asked(view).indexOfChild(item) == 13
    view.change_message(replace(messages[13], content="changed"))
    assert item.text(NAME) == "Reply: changed"
    view.set_conversation(messages[:5])
    assert not item.isValid()
    assert item.text(NAME) == ""
    assert asked(view).indexOfChild(item) == -1


def test_buttons_on_the_transcript_are_children_too(view: TranscriptView) -> None:
    view.set_conversation(chat(100))
    view.verticalScrollBar().setValue(0)
    view.add_message(message(101, "news"))
    listed = asked(view)
    names = [listed.child(i).text(NAME) for i in range(len(view.rows), listed.childCount())]
    assert "Jump to the new text" in names


def test_what_comes_by_itself_is_not_said_all_the_time(
    qtbot, view: TranscriptView, monkeypatch
) -> None:
    said: list[str] = []

    def note(event: object) -> None:
        if hasattr(event, "message"):
            said.append(event.message())

    monkeypatch.setattr(keyboard.QAccessible, "updateAccessibility", note)
    view.keyboard._rest.setInterval(100)
    view.set_conversation([message(0, "hi"), message(1, "", state=MessageState.STREAMING)])
    for number in range(20):
        view.append_text("m1", f"word {number} ")
    assert said == []
    for number in range(5):
        view.change_message(message(1, f"end {number}"))
    assert said == ["Reply: end 0"]
    qtbot.waitUntil(lambda: len(said) == 2, timeout=5000)
    assert said[1] == "Reply: end 4"
