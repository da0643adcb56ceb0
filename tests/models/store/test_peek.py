"""The last chat without SQLAlchemy: the same as the store says, or nothing."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store_records import a_conversation, a_message, next_time

from models.records import Attachment, ConversationKind, Message, MessageState, Role
from models.store import peek
from models.store.store import Store

ROOT = Path(__file__).resolve().parents[3]
Execute = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def last(store: Store) -> str:
    """A chat with a version beside its path, an attachment and a reply with figures."""
    chat = a_conversation(title="Käse 🧀")
    store.create_conversation(chat)
    first = a_message(chat, content="eins")
    text = Attachment("a1", chat.id, "a.txt", "text", 4, next_time(), message_id=first.id, tokens=2)
    store.append_message(first).result()
    store.create_attachment(text).result()
    for content in ("alt", "neu"):
        reply = a_message(chat, first, role=Role.ASSISTANT, content=content, seed=7)
        store.append_message(reply).result()
    store.set_setting("last_conversation_id", chat.id).result()
    return chat.id


def told_by(store: Store, conversation_id: str) -> tuple[Any, Any]:
    return store.load_conversation(conversation_id, newest=peek.NEWEST).result()


def test_it_is_what_the_store_says(store: Store, last: str, data_dir: Path) -> None:
    conversation, messages = told_by(store, last)
    assert [message.content for message in messages] == ["eins", "neu"]
    assert messages[1].sibling_count == 2
    assert messages[0].attachments
    assert peek.last_chat(data_dir) == (conversation, messages)
    store.close()
    assert peek.last_chat(data_dir) == (conversation, messages)


def test_of_a_long_chat_it_is_the_end(store: Store, last: str, data_dir: Path) -> None:
    parent = told_by(store, last)[1][-1].id
    for number in range(peek.NEWEST + 5):
        message = a_message(told_by(store, last)[0], parent, content=f"number {number}")
        store.append_message(message).result()
        parent = message.id
    found = peek.last_chat(data_dir)
    assert found == told_by(store, last)
    assert found is not None
    assert len(found[1]) == peek.NEWEST
    assert found[1][0].parent_id is not None


def _leaf(store: Store, last: str, **changes: Any) -> Message:
    return store.update_message(told_by(store, last)[1][-1].id, **changes).result()


UNUSUAL: dict[str, Callable[[Store, str, Execute, Path], object]] = {
    "another version": lambda _s, _l, execute, _d: execute(
        "UPDATE alembic_version SET version_num = '0001'"
    ),
    "no chat was open": lambda _s, _l, execute, _d: execute("DELETE FROM setting"),
    "the setting is no id": lambda _s, _l, execute, _d: execute("UPDATE setting SET value = '[[1'"),
    "another setting": lambda _s, _l, execute, _d: execute("UPDATE setting SET value = '{}'"),
    "in the trash": lambda store, last, _e, _d: store.trash_conversation(last).result(),
    "a document": lambda _s, _l, execute, _d: execute(
        "UPDATE conversation SET kind = ?", ConversationKind.TEXT.value
    ),
    "a reply was cut off": lambda store, last, _e, _d: _leaf(
        store, last, state=MessageState.STREAMING
    ),
    "a very long message": lambda store, last, _e, _d: _leaf(
        store, last, content="a" * (peek.LONGEST + 1)
    ),
    "the leaf is nowhere": lambda _s, _l, execute, _d: execute(
        "UPDATE conversation SET active_leaf_id = 'x'"
    ),
    "a deleted leaf": lambda _s, _l, execute, _d: execute("UPDATE message SET trashed_us = 5"),
    "damage was reported": lambda _s, _l, _e, data_dir: (data_dir / "db" / "suspect").touch(),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_is_unusual_is_left_to_the_store(
    what: str, store: Store, last: str, execute: Execute, data_dir: Path
) -> None:
    assert peek.last_chat(data_dir) is not None
    UNUSUAL[what](store, last, execute, data_dir)
    assert peek.last_chat(data_dir) is None


def test_nothing_there_or_nothing_readable(data_dir: Path, database: Path) -> None:
    assert peek.last_chat(data_dir) is None
    database.parent.mkdir(parents=True)
    for content in (b"", b"no database" * 1000, b"SQLite format 3\0" + bytes(4096)):
        database.write_bytes(content)
        assert peek.last_chat(data_dir) is None


def test_a_damaged_page_is_left_to_the_store(store: Store, last: str, database: Path) -> None:
    for _ in range(30):
        chat, messages = told_by(store, last)
        store.append_message(a_message(chat, messages[-1], content="x" * 3000))
    store.close()
    data = bytearray(database.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    database.write_bytes(data)
    assert peek.last_chat(database.parents[1]) is None


def test_a_lock_is_not_waited_for(store: Store, last: str, database: Path) -> None:
    store.close()
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        assert peek.last_chat(database.parents[1]) is None


def test_neither_sqlalchemy_nor_alembic_is_imported(
    store: Store, last: str, data_dir: Path
) -> None:
    code = (
        "import json, sys; from pathlib import Path; from models.store.peek import last_chat\n"
        f"found = last_chat(Path({json.dumps(str(data_dir))}))\n"
        "print(found[0].id, 'sqlalchemy' in sys.modules or 'alembic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [last, "False"]
