"""The tree of messages, against a tree in plain Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from sqlalchemy import Connection, event
from store_records import a_conversation, a_message

from models.conversations import reading
from models.records import Conversation, Message
from models.store.errors import NotFoundError, RefusedError
from models.store.store import Store


@dataclass
class ReferenceTree:
    """What the store should answer. Messages in the order they were added."""

    messages: list[Message] = field(default_factory=list)
    active: str | None = None

    def parent_of(self, message_id: str) -> str | None:
        return next(m.parent_id for m in self.messages if m.id == message_id)

    def children(self, parent_id: str | None) -> list[str]:
        return [m.id for m in self.messages if m.parent_id == parent_id]

    def path(self, message_id: str | None) -> list[str]:
        if message_id is None:
            return []
        return [*self.path(self.parent_of(message_id)), message_id]

    def leaf_below(self, message_id: str) -> str:
        children = self.children(message_id)
        return self.leaf_below(children[-1]) if children else message_id


def check(store: Store, conversation: Conversation, tree: ReferenceTree) -> None:
    loaded, path = store.load_conversation(conversation.id).result()
    assert loaded.active_leaf_id == tree.active
    assert [m.id for m in path] == tree.path(tree.active)
    for message in path:
        versions = tree.children(message.parent_id)
        assert message.parent_id == tree.parent_of(message.id)
        assert message.sibling_count == len(versions)
        assert versions[message.sibling_index] == message.id


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_the_tree_is_what_a_plain_tree_would_be(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        store = Store.open(Path(folder), backup_after_s=None)
        try:
            grow_and_compare(store, data)
        finally:
            store.close()


def grow_and_compare(store: Store, data: st.DataObject) -> None:
    conversation, other = a_conversation(), a_conversation()
    store.create_conversation(conversation)
    store.create_conversation(other)
    store.append_message(a_message(other))
    tree = ReferenceTree()
    for _ in range(data.draw(st.integers(1, 15))):
        ids = [m.id for m in tree.messages]
        parent = data.draw(st.sampled_from([None, *ids, *ids[-1:], *ids[-1:]]))
        message = a_message(conversation, parent)
        added = store.append_message(message).result()
        tree.messages.append(message)
        tree.active = message.id
        versions = tree.children(parent)
        assert added == replace(
            message, sibling_index=len(versions) - 1, sibling_count=len(versions)
        )
        if data.draw(st.booleans()):
            tree.active = data.draw(st.sampled_from([m.id for m in tree.messages]))
            store.set_active_leaf(conversation.id, tree.active)
    check(store, conversation, tree)
    for message in tree.messages:
        siblings = store.siblings(message.id).result()
        assert [m.id for m in siblings] == tree.children(message.parent_id)
        assert store.leaf_below(message.id).result() == tree.leaf_below(message.id)
        path = store.load_path(conversation.id, message.id).result()
        assert [m.id for m in path] == tree.path(message.id)


def test_an_edit_hides_nothing_for_good(store: Store) -> None:
    """Case F12: the first of four turns is edited; what followed can be reached again."""
    conversation = a_conversation()
    store.create_conversation(conversation)
    path: list[Message] = []
    for _ in range(8):
        path.append(
            store.append_message(a_message(conversation, path[-1] if path else None)).result()
        )
    edited = store.append_message(a_message(conversation, None, content="edited")).result()
    assert (edited.sibling_index, edited.sibling_count) == (1, 2)
    assert [m.id for m in store.load_conversation(conversation.id).result()[1]] == [edited.id]
    leaf = store.leaf_below(path[0].id).result()
    store.set_active_leaf(conversation.id, leaf)
    again = store.load_conversation(conversation.id).result()[1]
    assert [m.id for m in again] == [m.id for m in path]
    assert (again[0].sibling_index, again[0].sibling_count) == (0, 2)


def test_a_leaf_must_be_of_its_conversation(store: Store) -> None:
    here, there = a_conversation(), a_conversation()
    store.create_conversation(here)
    store.create_conversation(there)
    message = store.append_message(a_message(here)).result()
    with pytest.raises(RefusedError):
        store.set_active_leaf(there.id, message.id).result()
    with pytest.raises(NotFoundError):
        store.load_path(there.id, message.id).result()
    with pytest.raises(NotFoundError):
        store.set_active_leaf(here.id, "nowhere").result()
    for question in (store.siblings, store.leaf_below, store.load_message):
        with pytest.raises(NotFoundError):
            question("nowhere").result()


def test_a_leaf_that_leads_nowhere_means_the_newest_message(
    store: Store, execute: Callable[..., Any]
) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    first = store.append_message(a_message(conversation)).result()
    second = store.append_message(a_message(conversation, first)).result()
    execute("UPDATE conversation SET active_leaf_id = 'gone'")
    assert [m.id for m in store.load_conversation(conversation.id).result()[1]] == [
        first.id,
        second.id,
    ]


def test_a_message_that_is_its_own_ancestor_ends_the_walk(
    store: Store, execute: Callable[..., Any]
) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    first = store.append_message(a_message(conversation)).result()
    second = store.append_message(a_message(conversation, first)).result()
    execute("UPDATE message SET parent_row_id = 2 WHERE row_id = 1")
    path = store.load_conversation(conversation.id).result(10)[1]
    assert {m.id for m in path} == {first.id, second.id}
    assert store.leaf_below(first.id).result(10) in {first.id, second.id}


def test_ten_thousand_messages_open_at_once(store: Store, execute: Callable[..., Any]) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation).result()
    execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO message (row_id, id, conversation_row_id, parent_row_id, role, state, "
        "created_us, is_pinned, content, reasoning, counts, settings, token_ids, rendered_prompt) "
        "SELECT i, 'id' || i, 1, nullif(i - 1, 0), iif(i % 2, 'user', 'assistant'), 'complete', "
        "i, 0, hex(zeroblob(200)), '', iif(i % 2, NULL, '{\"generated\": 12}'), "
        "iif(i % 2, NULL, '{\"temperature\": 0.8}'), iif(i % 2, NULL, zeroblob(400)), "
        "iif(i % 2, NULL, zeroblob(20000)) FROM n"
    )
    short = a_conversation()
    store.create_conversation(short)
    store.append_message(a_message(short)).result()
    execute("UPDATE conversation SET active_leaf_id = NULL")  # as it is in the other one
    statements: list[str] = []

    def count(connection: Connection) -> None:
        event.listen(
            connection, "before_cursor_execute", lambda *about: statements.append(about[2])
        )

    store._read(count).result(60)
    store.load_conversation(short.id).result(60)
    for_one, statements[:] = len(statements), []
    start = time.perf_counter()
    _, path = store.load_conversation(conversation.id).result(60)
    elapsed_s = time.perf_counter() - start
    assert [m.id for m in path] == [f"id{i}" for i in range(1, 10001)]
    assert len(statements) == for_one  # as many questions for 10,000 messages as for one
    assert store.leaf_below("id1").result() == "id10000"
    assert len(statements) < for_one + 6
    assert elapsed_s < 5.0  # loose, for busy machines: 0.3 s were measured on one


def test_path_comes_in_parts_that_join_without_a_gap(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    last = None
    for number in range(10):
        last = store.append_message(a_message(conversation, last, content=str(number))).result()
    assert last is not None
    whole = store.load_conversation(conversation.id).result()[1]
    tail = store.load_conversation(conversation.id, newest=4).result()[1]
    assert [m.content for m in tail] == ["6", "7", "8", "9"]
    middle = store.load_above(conversation.id, tail[0].id, 4).result()
    first = store.load_above(conversation.id, middle[0].id, 4).result()
    assert [m.content for m in first] == ["0", "1"]
    assert first[0].parent_id is None
    assert first + middle + tail == whole
    assert store.load_above(conversation.id, first[0].id, 4).result() == ()


def test_newest_part_of_a_short_path_is_the_whole(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    message = store.append_message(a_message(conversation)).result()
    assert store.load_conversation(conversation.id, newest=200).result()[1] == (message,)


def test_opening_reads_no_more_than_the_newest_part(
    store: Store, execute: Callable[..., Any]
) -> None:
    """Counted in SQLite's own steps: what is read must not grow with the conversation."""
    steps = []
    for name, length in (("short", 1000), ("long", 20000)):
        conversation = a_conversation(id=name, active_leaf_id=f"{name}{length}")
        store.create_conversation(conversation).result()
        first = execute("SELECT coalesce(max(row_id), 0) FROM message")[0][0]
        execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) "
            "INSERT INTO message (row_id, id, conversation_row_id, parent_row_id, role, state, "
            "created_us, is_pinned, content, reasoning) "
            "SELECT ?2 + i, ?3 || i, (SELECT row_id FROM conversation WHERE id = ?3), "
            "iif(i = 1, NULL, ?2 + i - 1), 'user', 'complete', i, 0, 'text', '' FROM n",
            length,
            first,
            name,
        )
        steps.append(store._read(partial(_steps_of_opening, conversation_id=name)).result(60))
    assert 0 < steps[1] <= steps[0] * 1.5


def _steps_of_opening(connection: Connection, conversation_id: str) -> int:
    """How many hundreds of SQLite's steps the last 200 messages cost."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(count, 100)
    try:
        assert len(reading.load_conversation(connection, conversation_id, 200)[1]) == 200
    finally:
        driver.set_progress_handler(None, 0)
    return counted
