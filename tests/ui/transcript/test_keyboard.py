"""Where the keyboard is when another path of the chat is shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from PySide6.QtCore import Qt

from models.records import Message, Role
from ui.transcript.view import TranscriptView

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def path(*names: str, chat: str = "c") -> list[Message]:
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(name, chat, None, roles[i % 2], name, NOW) for i, name in enumerate(names)]


@pytest.fixture
def view(qtbot, view: TranscriptView) -> TranscriptView:
    view.set_conversation(path("a", "b", "c", "d"))
    view.activateWindow()
    qtbot.waitUntil(view.isActiveWindow)
    view.clearFocus()
    view.setFocus(Qt.FocusReason.TabFocusReason)
    view.keyboard.current = 2
    return view


@pytest.mark.parametrize(
    ("shown", "stands_on"),
    [
        (path("a", "b", "c2"), "c2"),  # edited
        (path("a2", "b2", "c2", "d2"), "c2"),  # edited, and so was the first
        (path("a", "b", "d"), "d"),  # deleted alone
        (path("a", "b"), "b"),  # deleted with what is below
        (path("a", "new", "b", "c", "d"), "c"),  # inserted above
    ],
)
def test_the_keyboard_stays_where_it_was(
    view: TranscriptView, shown: list[Message], stands_on: str
) -> None:
    view.set_conversation(shown)
    message = view.keyboard.message()
    assert message is not None
    assert message.id == stands_on
    assert view.keyboard.actions(), "Tab and its keys act on it"


def test_another_chat_or_nothing_is_begun_anew(view: TranscriptView) -> None:
    view.set_conversation(path("x", "y", "z", chat="other"))
    assert view.keyboard.current is None
    view.keyboard.current = 1
    view.set_conversation([])
    assert view.keyboard.current is None


def test_without_the_focus_no_place_is_kept(qtbot, view: TranscriptView) -> None:
    """Whoever comes back by Tab begins with what is in view, not with an old place."""
    view.clearFocus()
    qtbot.waitUntil(lambda: not view.keyboard.is_shown)
    changed = [replace(message, id=message.id + "2") for message in path("a", "b", "c", "d")]
    view.set_conversation(changed)
    assert view.keyboard.current is None
