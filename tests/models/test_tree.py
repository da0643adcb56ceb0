"""The tree of messages, against a tree in plain Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import Connection, event
from store_records import a_conversation, a_message

from models import reading
from models.errors import NotFoundError, RefusedError
from models.records import Conversation, Message
from models.store import Store


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


@settings(max_examples=25, deadline=None)
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
    statements: list[str] = []

    def load_and_count(connection: Connection) -> tuple[Conversation, tuple[Message, ...]]:
        event.listen(
            connection, "before_cursor_execute", lambda *about: statements.append(about[2])
        )
        return reading.load_conversation(connection, conversation.id)

    start = time.perf_counter()
    _, path = store._read(load_and_count, None).result(60)
    elapsed_s = time.perf_counter() - start
    assert [m.id for m in path] == [f"id{i}" for i in range(1, 10001)]
    assert len(statements) < 6
    assert store.leaf_below("id1").result() == "id10000"
    assert len(statements) < 12
    assert elapsed_s < 5.0  # loose, for busy machines: 0.3 s were measured on one
