"""Copies, deleting and restoring in the tree, against a plain tree in Python."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from store_records import a_conversation, a_message, next_time

from models.records import Attachment, Conversation, Message, MessageState, PathStretch, Role
from models.store.errors import RefusedError
from models.store.store import Store


@dataclass
class PlainNode:
    id: str
    parent: str | None
    text: str
    trashed: int = 0


@dataclass
class PlainTree:
    """What the store should hold: every node in the order of its making, and which is active."""

    nodes: dict[str, PlainNode] = field(default_factory=dict)
    active: str | None = None
    acts: int = 0

    def add(self, node_id: str, parent: str | None, text: str) -> None:
        self.nodes[node_id] = PlainNode(node_id, parent, text)
        self.active = node_id

    def path(self, leaf: str | None) -> list[str]:
        above: list[str] = []
        while leaf is not None:
            above.insert(0, leaf)
            leaf = self.nodes[leaf].parent
        return above

    def versions(self, parent: str | None) -> list[str]:
        return [n.id for n in self.nodes.values() if n.parent == parent and not n.trashed]

    def leaf_below(self, node_id: str) -> str:
        below = self.versions(node_id)
        return self.leaf_below(below[-1]) if below else node_id

    def subtree(self, top: str) -> list[str]:
        return [n.id for n in self.nodes.values() if top in self.path(n.id)]

    def trash(self, top: str) -> None:
        self.acts += 1
        order = list(self.nodes)
        for node_id in self.subtree(top):
            self.nodes[node_id].trashed = self.nodes[node_id].trashed or self.acts
        if self.active is None or self.nodes[self.active].trashed:
            beside = self.versions(self.nodes[top].parent)
            before = [n for n in beside if order.index(n) < order.index(top)]
            if beside:
                self.active = self.leaf_below(before[-1] if before else beside[0])
            else:
                self.active = self.nodes[top].parent

    def restore(self, top: str) -> None:
        act = self.nodes[top].trashed
        for node_id in self.subtree(top):
            if self.nodes[node_id].trashed == act:
                self.nodes[node_id].trashed = 0
        for node_id in self.path(top):
            self.nodes[node_id].trashed = 0
        self.active = self.leaf_below(top)


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_whatever_is_done_the_tree_is_what_a_plain_one_would_be(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        store = Store.open(Path(folder), backup_after_s=None)
        try:
            do_and_compare(store, data)
        finally:
            store.close()


def do_and_compare(store: Store, data: st.DataObject) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    tree = PlainTree()
    for step in range(data.draw(st.integers(1, 14))):
        there = [n.id for n in tree.nodes.values() if not n.trashed]
        gone = [n.id for n in tree.nodes.values() if n.trashed]
        acts = (
            ["append"] + ["trash", "trash alone", "branch"] * bool(there) + ["restore"] * bool(gone)
        )
        act = data.draw(st.sampled_from(acts))
        if act == "append":
            parent = data.draw(st.sampled_from([None, *there, *there[-1:]]))
            message = a_message(conversation, parent, content=f"text {step}")
            store.append_message(message)
            tree.add(message.id, parent, message.content)
        elif act == "trash":
            top = data.draw(st.sampled_from(there))
            assert store.trash_branch(top).result().instead_id is None
            tree.trash(top)
        elif act == "restore":
            top = data.draw(st.sampled_from(gone))
            store.restore_branch(top)
            tree.restore(top)
        else:
            path = tree.path(tree.active)
            place = data.draw(st.integers(0, len(path) - 1)) if path else None
            if place is None:
                continue
            top, key = path[place], str(uuid.uuid4())
            has_following = place + 1 < len(path)
            following = PathStretch(path[-1], top, key) if has_following else None
            parent = tree.nodes[top].parent
            if act == "branch":
                message = a_message(conversation, parent, content=f"edited {step}")
                store.add_branch(message, following)
                tree.add(message.id, parent, message.content)
                parent = message.id
            else:
                store.trash_branch(top, following)
            for source in path[place + 1 :]:
                copy = str(uuid.uuid5(uuid.UUID(key), source))
                tree.add(copy, parent, tree.nodes[source].text)
                parent = copy
            if act == "trash alone":
                tree.trash(top)
        compare(store, conversation, tree)


def compare(store: Store, conversation: Conversation, tree: PlainTree) -> None:
    nodes = store.load_tree(conversation.id).result()
    assert [(n.id, n.parent_id, n.excerpt, n.trashed_at is not None) for n in nodes] == [
        (n.id, n.parent, n.text, n.trashed > 0) for n in tree.nodes.values()
    ]
    loaded, path = store.load_conversation(conversation.id).result()
    assert loaded.active_leaf_id == tree.active
    assert [m.id for m in path] == tree.path(tree.active)
    for message in path:
        versions = tree.versions(message.parent_id)
        assert (message.sibling_index, message.sibling_count) == (
            versions.index(message.id),
            len(versions),
        )
    tops = {
        n.id
        for n in tree.nodes.values()
        if n.trashed and (n.parent is None or tree.nodes[n.parent].trashed != n.trashed)
    }
    assert {b.id for b in store.list_trashed_branches().result()} == tops


@pytest.fixture
def chat(store: Store) -> tuple[Conversation, list[Message]]:
    """Four messages; the second is a reply with everything that a reply has."""
    conversation = a_conversation(title="About ants")
    store.create_conversation(conversation)
    first = a_message(conversation)
    reply = a_message(
        conversation,
        first,
        role=Role.ASSISTANT,
        content="Six legs.",
        reasoning="Insects.",
        token_ids=(5, 6, 7),
        seed=9,
        settings={"temperature": 0.5},
        weights_hash="abc",
        rendered_prompt="<user>…",
    )
    third = a_message(conversation, reply, content="And spiders?")
    fourth = a_message(conversation, third, role=Role.ASSISTANT, content="Eight.")
    for message in (first, reply, third, fourth):
        store.append_message(message)
    store.save_trace(reply.id, b"trace")
    return conversation, [first, reply, third, fourth]


def test_a_new_chat_gets_the_path_with_all_that_its_messages_have(
    store: Store, chat: tuple[Conversation, list[Message]]
) -> None:
    conversation, messages = chat
    store.create_attachment(
        Attachment(
            id=str(uuid.uuid4()),
            conversation_id=conversation.id,
            name="ants.txt",
            text="ants",
            size_bytes=4,
            created_at=next_time(),
            message_id=messages[0].id,
            kind="document",
            details={"places": [[0, "page 1"]]},
        )
    )
    branch = a_conversation(title="About ants (branch)", copied_from=messages[2].id)
    made = store.copy_conversation(
        branch, PathStretch(messages[2].id, None, str(uuid.uuid4()))
    ).result()
    opened, path = store.load_conversation(branch.id).result()
    assert opened == made
    assert opened.copied_from == messages[2].id
    assert [m.content for m in path] == [m.content for m in messages[:3]]
    assert not {m.id for m in path} & {m.id for m in messages}
    copy, source = store.load_message(path[1].id).result(), messages[1]
    for name in ("reasoning", "token_ids", "seed", "settings", "weights_hash", "rendered_prompt"):
        assert getattr(copy, name) == getattr(source, name)
    assert store.load_trace(path[1].id).result() == b"trace"
    attached = store.list_attachments(branch.id, path[0].id).result()
    assert [(a.name, a.text, a.kind, a.details) for a in attached] == [
        ("ants.txt", "ants", "document", {"places": [[0, "page 1"]]})
    ]
    assert [m.id for m in store.load_conversation(conversation.id).result()[1]] == [
        m.id for m in messages
    ]


def test_a_change_that_is_done_twice_adds_nothing_twice(
    store: Store, chat: tuple[Conversation, list[Message]]
) -> None:
    """As after a commit that failed once it was done."""
    conversation, messages = chat
    edited = a_message(conversation, messages[0], role=Role.ASSISTANT, content="Six.")
    following = PathStretch(messages[3].id, messages[1].id, str(uuid.uuid4()))
    leaf = store.add_branch(edited, following).result()
    nodes = store.load_tree(conversation.id).result()
    assert store.add_branch(edited, following).result() == leaf
    assert store.load_tree(conversation.id).result() == nodes


def test_a_reply_that_still_grows_is_copied_as_interrupted(
    store: Store, chat: tuple[Conversation, list[Message]]
) -> None:
    conversation, messages = chat
    growing = a_message(
        conversation, messages[3], role=Role.ASSISTANT, state=MessageState.STREAMING
    )
    store.append_message(growing)
    edited = a_message(conversation, content="Edited")
    leaf = store.add_branch(edited, PathStretch(growing.id, messages[0].id, str(uuid.uuid4())))
    assert store.load_message(leaf.result()).result().state is MessageState.INTERRUPTED


def test_a_stretch_must_lie_on_one_path(
    store: Store, chat: tuple[Conversation, list[Message]]
) -> None:
    conversation, messages = chat
    beside = a_message(conversation, messages[0], content="Beside")
    store.append_message(beside)
    wrong = PathStretch(beside.id, messages[1].id, str(uuid.uuid4()))
    with pytest.raises(RefusedError):
        store.add_branch(a_message(conversation), wrong).result()
    assert len(store.load_tree(conversation.id).result()) == 5


def test_what_was_deleted_is_listed_with_its_chat_and_gone_after_a_purge(
    store: Store, chat: tuple[Conversation, list[Message]]
) -> None:
    conversation, messages = chat
    assert store.trash_branch(messages[2].id).result().leaf_id == messages[1].id
    (branch,) = store.list_trashed_branches().result()
    assert (branch.id, branch.conversation_id, branch.conversation_title) == (
        messages[2].id,
        conversation.id,
        "About ants",
    )
    assert (branch.role, branch.excerpt, branch.n_messages) == (Role.USER, "And spiders?", 2)

    assert store.purge_branches(branch.trashed_at).result() == 0
    assert store.purge_branches(datetime.now(UTC) + timedelta(seconds=1)).result() == 2
    assert store.list_trashed_branches().result() == ()
    assert [n.id for n in store.load_tree(conversation.id).result()] == [m.id for m in messages[:2]]


def test_a_path_of_ten_thousand_is_branched_and_deleted_in_a_bounded_time(store: Store) -> None:
    conversation = a_conversation()
    store.create_conversation(conversation)
    top = a_message(conversation)
    store.append_message(top)
    leaf = top.id
    for _ in range(3):
        leaf = store.append_message(a_message(conversation, leaf)).result().id
    for _ in range(11):  # each time the whole path is copied below itself
        copied = PathStretch(leaf, None, str(uuid.uuid4()))
        leaf = store.add_branch(a_message(conversation, leaf), copied).result()
    began = time.monotonic()
    following = PathStretch(leaf, top.id, str(uuid.uuid4()))
    store.add_branch(a_message(conversation), following).result()
    store.trash_branch(top.id).result()
    assert len(store.load_tree(conversation.id).result()) > 20_000
    assert time.monotonic() - began < 15
