"""A conversation too long to be read at once: shown from its end, whole soon after."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store_records import a_conversation, a_message

from app.chat import events
from app.chat.conversations.shelf import FIRST_PART, PART
from models.records import Message
from models.store.store import Store

LENGTH = FIRST_PART + PART + 30
ECHO = {"replies": [{"text": "Fine."}]}


@pytest.fixture
def long_id(data_dir: Path) -> str:
    """A stored conversation of LENGTH messages, each saying its number."""
    return make_long(data_dir, LENGTH)


def make_long(data_dir: Path, length: int) -> str:
    data_dir.mkdir(exist_ok=True)
    store = Store.open(data_dir, backup_after_s=None)
    try:
        conversation = a_conversation()
        store.create_conversation(conversation).result(20)
        first = store.append_message(a_message(conversation, id="m1", content="1")).result(20)
    finally:
        store.close()
    with closing(sqlite3.connect(data_dir / "db" / "cutaway.sqlite3")) as raw, raw:
        raw.create_function("search_text", 1, lambda text: text)
        raw.executemany(
            "INSERT INTO message (row_id, id, conversation_row_id, parent_row_id, role, state, "
            "created_us, is_pinned, content, reasoning) "
            "VALUES (?1, 'm' || ?1, 1, ?1 - 1, 'user', 'complete', ?1, 0, ?1, '')",
            [(number,) for number in range(2, length + 1)],
        )
        raw.execute("UPDATE conversation SET active_leaf_id = ?", (f"m{length}",))
    assert first.parent_id is None
    return conversation.id


def numbers(messages: tuple[Message, ...]) -> list[str]:
    return [message.content for message in messages]


def opened(room: Any, conversation_id: str) -> events.ConversationOpened:
    return room.until(
        lambda: next(
            (
                e
                for e in room.of(events.ConversationOpened)
                if e.conversation.id == conversation_id and e.messages
            ),
            None,
        )
    )


@pytest.fixture
def room(make_room: Any) -> Any:
    return make_room(ECHO)


def test_end_is_shown_first_and_the_rest_joins_in_order(room, long_id):
    room.start()
    room.desk.shelf.open_stored(long_id)
    first = opened(room, long_id)
    assert numbers(first.messages) == [str(n) for n in range(LENGTH - FIRST_PART + 1, LENGTH + 1)]
    room.until(lambda: len(room.desk.shelf.path) == LENGTH)
    assert numbers(room.desk.shelf.path) == [str(n) for n in range(1, LENGTH + 1)]
    parts = [numbers(e.messages) for e in room.of(events.EarlierArrived)]
    assert [len(part) for part in parts] == [PART, 30]
    assert parts[1] + parts[0] == [str(n) for n in range(1, LENGTH - FIRST_PART + 1)]


def test_prompt_holds_the_whole_path_though_only_its_end_is_there(room, long_id):
    """Sent in the same turn in which the end came on screen."""
    room.start_ready()
    asked = []
    engine = room.desk.loader.engine
    generate = engine.generate
    engine.generate = lambda request: (asked.append(request), generate(request))[1]
    room.desk.shelf.open_stored(long_id)
    opened(room, long_id)
    assert len(room.desk.shelf.path) < LENGTH
    room.desk.replies.send("And now?")
    room.until(lambda: not room.desk.replies.is_generating, "the reply")
    said = [message.content for message in asked[0].prompt.messages if message.role == "user"]
    assert said == [*(str(n) for n in range(1, LENGTH + 1)), "And now?"]
    room.until(lambda: len(room.desk.shelf.path) == LENGTH + 2)
    assert numbers(room.desk.shelf.path)[-2:] == ["And now?", "Fine."]


def test_parts_of_a_conversation_that_was_left_are_dropped(room, long_id):
    room.start()
    room.desk.shelf.open_stored(long_id)
    opened(room, long_id)
    room.desk.shelf.open_new()
    room.desk.shelf.open_stored(long_id)
    room.until(lambda: len(room.desk.shelf.path) == LENGTH)
    assert numbers(room.desk.shelf.path) == [str(n) for n in range(1, LENGTH + 1)]


@pytest.mark.usefixtures("soon")
def test_meter_counts_the_whole_path_or_nothing(room, long_id):
    room.start_ready()
    room.desk.shelf.open_stored(long_id)
    opened(room, long_id)
    asked = []
    engine = room.desk.loader.engine
    request = engine.request
    engine.request = lambda command: (asked.append(command), request(command))[1]
    room.desk.shelf.save_draft("draft")
    room.until(lambda: asked, "a count")
    assert len(asked[0].prompt.messages) >= LENGTH + 1


def test_message_that_is_its_own_ancestor_does_not_read_for_ever(room, data_dir, long_id):
    with closing(sqlite3.connect(data_dir / "db" / "cutaway.sqlite3")) as raw, raw:
        raw.execute("UPDATE message SET parent_row_id = ?1 WHERE row_id = 1", (LENGTH,))
    room.start()
    room.desk.shelf.open_stored(long_id)
    opened(room, long_id)
    room.until(lambda: room.desk.shelf.is_whole)
    assert len(numbers(room.desk.shelf.path)) == len(set(numbers(room.desk.shelf.path)))
