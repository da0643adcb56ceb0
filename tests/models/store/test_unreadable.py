"""Case F04: rows that older versions, other programs or damage left odd are never hidden.

They come back with defaults, or marked unreadable, and never as an exception.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store_records import START, a_conversation, a_message

from models.migrations.migrating import create_tables
from models.records import ConversationKind, MessageCounts, MessageState, Role
from models.store.connecting import connect_in_memory
from models.store.salvage import Counted, salvage
from models.store.store import Store

Execute = Callable[..., list[tuple[Any, ...]]]


@pytest.mark.parametrize(
    ("column", "value", "field", "expected"),
    [
        ("settings", "{broken", "settings", {}),
        ("settings", "[1, 2]", "settings", {}),
        ("settings", "[" * 100_000, "settings", {}),
        ("settings", 12, "settings", {}),
        ("counts", "not json", "counts", MessageCounts()),
        (
            "counts",
            '{"generated": null, "unknown": 1, "evaluated": 3}',
            "counts",
            MessageCounts(evaluated=3),
        ),
        ("counts", '{"generated": "many"}', "counts", MessageCounts()),
        ("token_ids", b"abc", "token_ids", None),
        ("token_ids", "text", "token_ids", None),
        ("rendered_prompt", b"no zlib", "rendered_prompt", None),
        ("rendered_prompt", 5, "rendered_prompt", None),
        ("created_us", "yesterday", "created_at", START.fromtimestamp(0, START.tzinfo)),
        ("created_us", 2**62, "created_at", START.fromtimestamp(0, START.tzinfo)),
        ("seed", "seed", "seed", None),
        ("content", b"\xffbytes", "content", "\ufffdbytes"),
        ("content", 12.5, "content", "12.5"),
        ("state", "paused", "state", MessageState.UNREADABLE),
        ("role", "narrator", "state", MessageState.UNREADABLE),
        ("role", "narrator", "role", Role.ASSISTANT),
    ],
)
def test_an_odd_value_becomes_its_default(
    open_store: Any, execute: Execute, column: str, value: Any, field: str, expected: Any
) -> None:
    store = fill(open_store)
    execute(f"UPDATE message SET {column} = ? WHERE id = 'odd'", value)
    message = store.load_message("odd").result()
    assert getattr(message, field) == expected
    path = store.load_conversation("c").result()[1]
    assert [m.id for m in path] == ["first", "odd", "last"]
    assert store.siblings("odd").result()[0].id == "odd"


@pytest.mark.parametrize(
    "column", ["content", "reasoning", "role", "state", "created_us", "is_pinned"]
)
def test_nulls_do_not_hide_a_message(
    open_store: Any, execute: Execute, database: Path, column: str
) -> None:
    fill(open_store).close()
    allow_nulls(database, "message")
    execute(f"UPDATE message SET {column} = NULL WHERE id = 'odd'")
    store = open_store()
    path = store.load_conversation("c").result()[1]
    assert [m.id for m in path] == ["first", "odd", "last"]
    is_lost = column in {"content", "role", "state"}
    assert (path[1].state is MessageState.UNREADABLE) == is_lost


def test_an_odd_conversation_is_listed(open_store: Any, execute: Execute, database: Path) -> None:
    fill(open_store).close()
    allow_nulls(database, "conversation")
    execute(
        "UPDATE conversation SET title = NULL, kind = 'song', updated_us = 'x', draft = NULL, "
        "system_prompt = X'ff41', is_pinned = NULL, folder_id = 3"
    )
    store = open_store()
    (conversation,) = store.list_conversations().result()
    assert conversation.id == "c"
    assert (conversation.title, conversation.draft) == ("", "")
    assert conversation.system_prompt == "\ufffdA"
    assert conversation.kind is ConversationKind.CHAT
    assert conversation.folder_id == "3"
    assert not conversation.is_pinned


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("conversation", "is_pinned", 7),
        ("message", "is_pinned", "x"),
        ("message", "token_ids", "text"),
        ("message", "rendered_prompt", 5),
        ("message", "content", b"\xff"),
        ("message", "seed", 1e300),
        ("token_trace", "blob", "text"),
    ],
)
def test_an_odd_value_is_saved_with_all_others_out_of_a_damaged_file(
    open_store: Any, execute: Execute, database: Path, table: str, column: str, value: Any
) -> None:
    """One flipped bit makes a text of a blob, and every other row is as it was."""
    store = fill(open_store)
    for message_id in ("first", "odd", "last"):
        store.save_trace(message_id, b"trace").result()
    store.close()
    execute(f"UPDATE {table} SET {column} = ?", value)
    with connect_in_memory() as target:
        with target.begin():
            create_tables(target)
        assert salvage(database, target, None) == Counted(4, 1, 3, 0)
        assert target.exec_driver_sql("SELECT count(*) FROM token_trace").scalar() == 3
        assert target.exec_driver_sql(f"SELECT {column} FROM {table}").scalar() == value


@pytest.mark.parametrize("value", ["text", b"\xff", 0.5, 1e300, ""])
@pytest.mark.parametrize(("column", "kept"), [("parent_row_id", 3), ("conversation_row_id", 2)])
def test_what_should_be_the_number_of_a_row_and_is_none_ends_no_rescue(
    open_store: Any, execute: Execute, database: Path, column: str, kept: int, value: Any
) -> None:
    fill(open_store).close()
    execute(f"UPDATE message SET {column} = ? WHERE id = 'odd'", value)
    with connect_in_memory() as target:
        with target.begin():
            create_tables(target)
        salvage(database, target, None)
        found = target.exec_driver_sql("SELECT id, content FROM message WHERE content != ''").all()
        assert len(found) == kept
        assert {"first", "last"} <= {row.id for row in found}
        assert target.exec_driver_sql("SELECT id FROM conversation").all() == [("c",)]


@pytest.mark.parametrize("value", ["x", b"\xff", 1e300])
def test_a_chat_whose_time_is_odd_can_be_gone_on_with(
    open_store: Any, execute: Execute, value: Any
) -> None:
    store = fill(open_store)
    execute("UPDATE conversation SET updated_us = ?", value)
    conversation, path = store.load_conversation("c").result()
    added = store.append_message(a_message(conversation, path[-1], id="new")).result()
    (listed,) = store.list_conversations().result()
    assert listed.updated_at == added.created_at


def test_text_that_is_no_utf8_is_read(open_store: Any, execute: Execute) -> None:
    """Such text makes the sqlite3 module raise while it fetches, unless it is told not to."""
    store = fill(open_store)
    execute("UPDATE message SET error = CAST(X'41ff42' AS TEXT) WHERE id = 'odd'")
    assert store.load_message("odd").result().error == "A\ufffdB"


def fill(open_store: Any) -> Store:
    store: Store = open_store()
    conversation = a_conversation(id="c")
    store.create_conversation(conversation)
    parent = None
    for message_id in ("first", "odd", "last"):
        parent = store.append_message(a_message(conversation, parent, id=message_id)).result()
    return store


def allow_nulls(database: Path, table: str) -> None:
    """Take NOT NULL out of a table's definition, as a schema of another version might."""
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = ?", (table,)
        )


def test_equal_token_ids_of_messages_are_one_object(store: Store) -> None:
    """Ten thousand messages hold a million of them: numbers of their own would be 30 MB."""
    conversation = a_conversation()
    store.create_conversation(conversation)
    first = store.append_message(a_message(conversation, token_ids=(70_001, 70_002))).result()
    store.append_message(a_message(conversation, first, token_ids=(70_002, 70_001)))
    one, two = store.load_conversation(conversation.id).result()[1]
    assert one.token_ids == (70_001, 70_002)
    assert two.token_ids == (70_002, 70_001)
    assert one.token_ids[0] is two.token_ids[1]
