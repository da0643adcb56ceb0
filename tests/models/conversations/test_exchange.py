"""Whole conversations out of the store and into it: nothing is lost, nothing overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from sqlalchemy import Connection
from store_records import a_message, next_time
from whole_chats import a_chat, add_to, whole_chats

from models.conversations import exchange
from models.migrations.migrating import create_tables
from models.records import (
    Attachment,
    Folder,
    Imported,
    MessageState,
    Preset,
    Whereabouts,
    WholeConversation,
)
from models.store.connecting import close, connect_in_memory
from models.store.errors import NotFoundError, StoreError
from models.store.store import Store


def add(store: Store, *chats: WholeConversation, **options: Any) -> Imported:
    return store.add_all(chats, **options)


def stored_chats(store: Store) -> int:
    return len(store.list_conversations().result())


@pytest.fixture(scope="module")
def tables() -> Iterator[Connection]:
    """Empty tables in memory; each example takes back what it adds."""
    connection = connect_in_memory()
    with connection.begin():
        create_tables(connection)
    yield connection
    close(connection)


@given(chat=whole_chats())
def test_what_is_added_is_read_as_it_was(tables: Connection, chat: WholeConversation) -> None:
    with tables.begin() as transaction:
        assert exchange.whereabouts(tables, chat) is Whereabouts.NEW
        added = add_to(tables, chat)
        assert added == Imported((chat.conversation.id,))
        assert exchange.read_whole(tables, chat.conversation.id) == chat
        assert exchange.whereabouts(tables, chat) is Whereabouts.THERE
        again = add_to(tables, chat)
        assert again == Imported((), there=1)
        transaction.rollback()


def test_another_content_under_the_same_ids_gets_new_ones(store: Store) -> None:
    chat = a_chat(folder_id=None)
    add(store, chat)
    changed = replace(
        chat,
        messages=(
            replace(chat.messages[0], content="Another question?"),
            *chat.messages[1:-1],
            replace(
                chat.messages[-1],
                settings={"cut": {"last_message_id": "chat-1", "n_messages": 2}},
                attachments=(Attachment("a", "chat", "a.txt", "text", 4, next_time(), "chat-3"),),
            ),
        ),
        traces={"chat-3": b"trace"},
    )
    assert store.whereabouts(changed).result() is Whereabouts.OTHER
    added = add(store, changed)
    assert (len(added.ids), added.renamed) == (1, 1)
    assert store.read_whole("chat").result() == chat
    copy = store.read_whole(added.ids[0]).result()
    assert copy.messages[0].content == "Another question?"
    ids = [m.id for m in copy.messages]
    assert not set(ids) & {m.id for m in chat.messages}
    assert [m.parent_id for m in copy.messages] == [None, *ids[:-1]]
    assert copy.conversation.active_leaf_id == ids[-1]
    assert copy.traces == {ids[-1]: b"trace"}
    assert copy.messages[-1].settings["cut"] == {"last_message_id": ids[1], "n_messages": 2}
    assert copy.messages[-1].attachments[0].message_id == ids[-1]
    assert store.whereabouts(changed).result() is Whereabouts.THERE, "a second time adds nothing"
    assert add(store, changed) == Imported((), there=1)
    assert stored_chats(store) == 2


def test_a_chat_that_went_on_since_is_there_already(store: Store) -> None:
    chat = a_chat()
    add(store, chat)
    store.append_message(a_message(chat.conversation, chat.messages[-1]))
    store.update_conversation("chat", draft="and", is_pinned=True, is_archived=True)
    store.set_active_leaf("chat", chat.messages[0].id)
    assert store.whereabouts(chat).result() is Whereabouts.THERE


@pytest.mark.parametrize("what", ["title", "content", "trace", "trash", "deleted"])
def test_what_is_not_all_there_is_added_beside_it(
    store: Store, execute: Callable[..., Any], what: str
) -> None:
    chat = replace(a_chat(), traces={"chat-1": b"trace"})
    add(store, chat)
    match what:
        case "title":
            store.update_conversation("chat", title="Mine")
        case "content":
            store.update_message("chat-0", content="Mine")
        case "trace":
            store.save_trace("chat-1", b"mine")
        case "trash":
            store.trash_conversation("chat")
        case "deleted":
            execute("UPDATE message SET trashed_us = 5 WHERE id = 'chat-3'")
    assert store.whereabouts(chat).result() is Whereabouts.OTHER
    (copy_id,) = add(store, chat).ids
    copy = store.read_whole(copy_id).result()
    assert [m.content for m in copy.messages] == [m.content for m in chat.messages]
    assert list(copy.traces.values()) == [b"trace"]


def test_a_file_of_texts_is_compared_by_its_texts(store: Store) -> None:
    chat = a_chat()
    add(store, chat)
    bare = replace(chat, messages=tuple(replace(m, seed=7) for m in chat.messages))
    assert store.whereabouts(bare).result() is Whereabouts.OTHER
    bare = replace(bare, has_only_text=True)
    assert store.whereabouts(bare).result() is Whereabouts.THERE
    other = replace(bare, messages=(*bare.messages[:-1], replace(bare.messages[-1], content="x")))
    assert store.whereabouts(other).result() is Whereabouts.OTHER


def test_all_or_nothing(store: Store) -> None:
    folder = Folder("folder", "Travel", next_time())

    def chats() -> Iterator[WholeConversation]:
        yield a_chat("one", folder_id="folder")
        yield a_chat("two")
        raise StoreError("The file ends too early.")

    with pytest.raises(StoreError, match="ends too early"):
        store.add_all(chats(), [folder])
    assert stored_chats(store) == 0
    assert store.list_folders().result() == ()
    assert store.search("question").result().hits == ()
    assert add(store, a_chat("one")).ids == ("one",)


def test_what_was_added_is_found_and_goes_on(store: Store) -> None:
    chat = a_chat()
    add(store, chat)
    assert len(store.search("question").result().hits) == 2
    _, path = store.load_conversation("chat").result()
    assert [m.id for m in path] == [m.id for m in chat.messages]
    added = store.append_message(a_message(chat.conversation, path[-1])).result()
    assert store.load_conversation("chat").result()[1][-1].id == added.id


def test_keys_of_messages_are_never_used_twice(
    store: Store, execute: Callable[..., list[tuple[Any, ...]]]
) -> None:
    """The newest messages are gone when more are added."""
    add(store, a_chat("one"))
    trashed = store.trash_conversation("one").result().trashed_at
    assert trashed is not None
    store.purge_some(trashed.replace(year=trashed.year + 1)).result()
    add(store, a_chat("two"))
    assert execute("SELECT min(row_id) FROM message") == [(5,)]


def test_folders_come_along_with_those_around_them(store: Store) -> None:
    outer, inner, unused = (
        Folder("outer", "Work", next_time()),
        Folder("inner", "Cutaway", next_time(), parent_id="outer", position=3),
        Folder("unused", "Nobody", next_time()),
    )
    store.create_folder(replace(outer, name="My work"))
    add(store, a_chat(folder_id="inner"), folders=[inner, unused, outer])
    folders = {f.id: f for f in store.list_folders().result()}
    assert set(folders) == {"outer", "inner"}
    assert folders["outer"].name == "My work", "one that is there stays as it is"
    assert folders["inner"] == inner
    assert store.read_whole("chat").result().conversation.folder_id == "inner"
    add(store, a_chat("lost", folder_id="nowhere"), folders=[])
    assert store.read_whole("lost").result().conversation.folder_id is None


def test_presets_come_along_under_free_names(store: Store) -> None:
    time = next_time()
    mine = Preset("p", "Precise", time, time, {"temperature": 0.1})
    store.create_preset(mine)
    theirs = replace(mine, value={"temperature": 0.9})
    add(store, a_chat("same", preset_id="p"), presets=[mine])
    assert store.read_whole("same").result().conversation.preset_id == "p"
    for name in ("one", "two"):
        add(store, a_chat(name, preset_id="p"), presets=[theirs])
    presets = store.list_presets().result()
    assert [(p.name, p.value) for p in presets] == [
        ("Precise", {"temperature": 0.1}),
        ("Precise (2)", {"temperature": 0.9}),
    ]
    for name in ("one", "two"):
        assert store.read_whole(name).result().conversation.preset_id == presets[1].id
    add(store, a_chat("lost", preset_id="gone"))
    assert store.read_whole("lost").result().conversation.preset_id is None


def test_a_growing_reply_is_taken_as_interrupted(store: Store) -> None:
    chat = a_chat(n_turns=1)
    add(store, chat)
    reply = a_message(chat.conversation, "chat-1", content="half", state=MessageState.STREAMING)
    store.append_message(reply)
    whole = store.read_whole("chat").result()
    assert whole.messages[-1].state is MessageState.INTERRUPTED
    growing = replace(whole.messages[-1], state=MessageState.STREAMING, error=None)
    renamed = a_chat("other", n_turns=0)
    message = replace(growing, id="g", parent_id=None, conversation_id="other")
    add(store, replace(renamed, messages=(message,)))
    assert store.read_whole("other").result().messages[0].state is MessageState.INTERRUPTED


def test_unreadable_and_deleted_messages(store: Store, execute: Callable[..., Any]) -> None:
    """Case F04: what cannot be read is exported as far as it can; what was deleted is not."""
    add(store, a_chat())
    execute("UPDATE message SET state = 'nonsense', settings = '{' WHERE id = 'chat-1'")
    execute("UPDATE message SET trashed_us = 5 WHERE id = 'chat-3'")
    whole = store.read_whole("chat").result()
    assert [(m.id, m.state) for m in whole.messages] == [
        ("chat-0", MessageState.COMPLETE),
        ("chat-1", MessageState.UNREADABLE),
        ("chat-2", MessageState.COMPLETE),
    ]
    assert whole.messages[1].content == "**0**."
    with pytest.raises(NotFoundError):
        store.read_whole("nowhere").result()


def test_a_message_that_is_its_own_ancestor_is_exported_too(
    store: Store, execute: Callable[..., Any]
) -> None:
    add(store, a_chat(n_turns=1))
    execute("UPDATE message SET parent_row_id = 2 WHERE id = 'chat-0'")
    whole = store.read_whole("chat").result()
    assert [(m.id, m.parent_id) for m in whole.messages] == [("chat-0", None), ("chat-1", "chat-0")]
