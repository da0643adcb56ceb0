"""Acts on the tree of a chat in any order, each asked for with what was there some acts ago."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from examples import examples
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from store_records import a_conversation, a_message

from models.conversations import branching, reading, trash, writing
from models.migrations.migrating import create_tables
from models.records import Message, MessageState, PathStretch, Role
from models.store.connecting import close, connect_in_memory
from models.store.errors import StoreError
from models.store.store import Store

WHICH = st.integers(min_value=0, max_value=1_000_000)

VISIBLE_BELOW_DELETED = """
    SELECT count(*) FROM message AS m JOIN message AS p ON p.row_id = m.parent_row_id
    WHERE m.trashed_us IS NULL AND p.trashed_us IS NOT NULL
"""


class Acts(RuleBasedStateMachine):
    """What the window asks for is about messages that it has seen, deleted or not."""

    @initialize()
    def begin(self) -> None:
        self.connection = connect_in_memory()
        with self.connection.begin():
            create_tables(self.connection)
            self.chat = writing.create_conversation(self.connection, a_conversation())
        self.known: list[Message] = []
        self.append(0, False)

    def do(self, act: Callable[[], Any]) -> Any:
        """One transaction; refusing is allowed, in words."""
        try:
            with self.connection.begin():
                return act()
        except StoreError:
            return None

    def pick(self, which: int) -> Message | None:
        return self.known[which % len(self.known)] if self.known else None

    def visible(self) -> set[str]:
        with self.connection.begin():
            nodes = branching.load_tree(self.connection, self.chat.id)
        return {node.id for node in nodes if node.trashed_at is None}

    def stretch(self, above: str | None) -> PathStretch | None:
        """What stands below a message on the path that is shown."""
        with self.connection.begin():
            path = reading.load_conversation(self.connection, self.chat.id)[1]
        return PathStretch(path[-1].id, above, str(uuid.uuid4())) if path else None

    @rule(which=WHICH, is_reply=st.booleans())
    def append(self, which: int, is_reply: bool) -> None:
        parent = self.pick(which)
        state = MessageState.STREAMING if is_reply else MessageState.COMPLETE
        role = Role.ASSISTANT if is_reply else Role.USER
        message = a_message(self.chat, parent, role=role, state=state)
        stored = self.do(
            lambda: writing.append_message(self.connection, message, keep_in_view=not is_reply)
        )
        if stored is None:
            assert is_reply, "what somebody wrote is kept, whatever it was to hang on"
            return
        self.known.append(stored)
        assert is_reply or stored.trashed_at is None, "and in view"

    @rule(which=WHICH, other=WHICH, keep=st.booleans())
    def edit(self, which: int, other: int, keep: bool) -> None:
        old, leaf = self.pick(which), self.pick(other)
        assert old is not None
        assert leaf is not None
        following = PathStretch(leaf.id, old.id, str(uuid.uuid4())) if keep else None
        message = a_message(self.chat, old.parent_id)
        if self.do(lambda: branching.add_branch(self.connection, message, following)):
            self.known.append(message)
            assert message.id in self.visible()

    @rule(which=WHICH, only_this=st.booleans())
    def delete(self, which: int, only_this: bool) -> None:
        message = self.pick(which)
        assert message is not None
        following = self.stretch(message.id) if only_this else None
        self.do(lambda: branching.trash_branch(self.connection, message.id, following))

    @rule(which=WHICH)
    def restore(self, which: int) -> None:
        message, before = self.pick(which), self.visible()
        assert message is not None
        self.do(lambda: branching.restore_branch(self.connection, message.id))
        assert before <= self.visible()

    @rule(which=WHICH)
    def show(self, which: int) -> None:
        message = self.pick(which)
        assert message is not None
        self.do(lambda: writing.set_active_leaf(self.connection, self.chat.id, message.id))

    @rule()
    def purge(self) -> None:
        before, later = self.visible(), datetime.now(UTC) + timedelta(days=900)
        self.do(lambda: trash.purge_branches(self.connection, later))
        assert self.visible() == before

    @invariant()
    def nothing_visible_stands_below_what_is_deleted(self) -> None:
        with self.connection.begin():
            assert self.connection.exec_driver_sql(VISIBLE_BELOW_DELETED).scalar() == 0
            path = reading.load_conversation(self.connection, self.chat.id)[1]
        assert bool(path) == bool(self.visible())
        assert all(message.trashed_at is None for message in path)

    def teardown(self) -> None:
        if hasattr(self, "connection"):
            close(self.connection)


TestActs = Acts.TestCase
TestActs.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_a_database_with_a_message_below_a_deleted_one_is_mended_at_the_start(
    open_store: Any, execute: Any
) -> None:
    """Towards keeping: what it hangs on is there again."""
    store: Store = open_store()
    chat = store.create_conversation(a_conversation()).result()
    path: list[Message] = []
    for _ in range(5):
        path.append(store.append_message(a_message(chat, path[-1] if path else None)).result())
    beside = store.append_message(a_message(chat, path[0])).result()
    store.trash_branch(beside.id).result()
    store.close()
    execute("UPDATE message SET trashed_us = created_us WHERE id IN (?, ?)", path[1].id, path[2].id)
    assert execute(VISIBLE_BELOW_DELETED) == [(1,)]
    store = open_store()
    assert execute(VISIBLE_BELOW_DELETED) == [(0,)]
    there = store.load_path(chat.id, path[-1].id).result()
    assert [m.id for m in there] == [m.id for m in path]
    assert [b.id for b in store.list_trashed_branches().result()] == [beside.id]
    assert store.purge_branches(datetime.now(UTC) + timedelta(days=900)).result() == 1
    assert len(store.load_tree(chat.id).result()) == 5
