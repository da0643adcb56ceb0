"""The chat that was open last: on screen before there is a desk, and unmoved when there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from store_records import a_conversation, a_message

from models.records import Role
from models.store.store import Store

QUICK = {"load": {"ms": 1}, "replies": [{"text": "An answer.", "ms": 1}]}


@pytest.fixture
def former_id(data_dir: Path) -> str:
    """A chat of a former run, longer than a screen and than what is read beforehand."""
    store = Store.open(data_dir, backup_after_s=None)
    chat = a_conversation(title="About ships", draft="left over")
    store.create_conversation(chat)
    parent = None
    for number in range(60):
        role = Role.ASSISTANT if number % 2 else Role.USER
        content = f"Message {number}.\n\n```python\nx = {number}\n```"
        message = a_message(chat, parent, role=role, content=content)
        store.append_message(message)
        parent = message.id
    store.set_setting("last_conversation_id", chat.id).result()
    store.close()
    return chat.id


def corners(person: Any) -> dict[str, tuple[int, int]]:
    """Where the messages in view are in the window."""
    view = person.window.chat.transcript
    origin = view.viewport().mapTo(person.window, view.viewport().rect().topLeft())
    found = {}
    for index in range(len(view.rows)):
        corner = view.item_origin(index).toPoint()
        if view.viewport().rect().contains(corner):
            found[view.rows.message(index).id] = (corner + origin).toTuple()
    return found


def test_it_is_read_before_there_is_a_desk_and_stays_where_it_is(
    open_window: Any, former_id: str
) -> None:
    person = open_window(QUICK)
    app, window = person.app, person.window
    person.wait(lambda: hasattr(window, "chat") and window.chat.transcript.repaints)
    assert app._made is None
    before = corners(person)
    assert len(before) > 1
    assert window.chat.header.title.text() == "About ships"
    person.wait_ready()
    person.wait(lambda: len(window.chat.transcript.rows) == 60)
    person.wait(lambda: not window.chat.transcript.is_update_due)
    assert app.desk.shelf.open.id == former_id
    assert corners(person) == before
    assert person.written() == "left over"
    assert not window.chat.transcript.is_locked
    person.press(Qt.Key.Key_Return)
    assert person.wait_ended().content == "An answer."
    assert app.desk.shelf.path[-2].content == "left over"


def test_a_window_that_closes_at_once_leaves_no_mark(
    open_window: Any, former_id: str, data_dir: Path
) -> None:
    person = open_window(QUICK)
    person.wait(lambda: hasattr(person.window, "chat"))
    assert (data_dir / "peeking-chat").exists()
    person.app.close()
    assert not (data_dir / "peeking-chat").exists()
