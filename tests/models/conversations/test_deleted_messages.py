"""What readers make of messages that were deleted with all below them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from store_records import a_conversation, a_message, next_time

from models.records import Conversation, Message
from models.store.store import Store


@pytest.fixture
def chat(store: Store) -> Conversation:
    return store.create_conversation(a_conversation()).result()


Say = Callable[..., Message]


@pytest.fixture
def say(store: Store, chat: Conversation) -> Say:
    """say(content, parent) appends a message."""
    return lambda content, parent=None: store.append_message(
        a_message(chat, parent, content=content)
    ).result()


@pytest.fixture
def delete(execute: Callable[..., Any]) -> Callable[..., None]:
    def mark(*messages: Message) -> None:
        for message in messages:
            execute("UPDATE message SET trashed_us = 5 WHERE id = ?", message.id)

    return mark


def shown(store: Store, chat: Conversation) -> list[str]:
    return [m.content for m in store.load_conversation(chat.id).result()[1]]


def test_a_deleted_version_is_none(
    store: Store, chat: Conversation, say: Say, delete: Callable[..., None]
) -> None:
    question = say("question")
    first, second, third = (say(text, question) for text in ("first", "second", "third"))
    delete(second)
    assert [m.id for m in store.siblings(first.id).result()] == [first.id, third.id]
    path = store.load_path(chat.id, third.id).result()
    assert (path[1].sibling_index, path[1].sibling_count) == (1, 2)
    message = store.load_message(first.id).result()
    assert (message.sibling_index, message.sibling_count) == (0, 2)
    assert store.leaf_below(question.id).result() == third.id
    assert store.search("second").result().hits == ()


def test_a_deleted_message_can_still_be_asked_for(
    store: Store, say: Say, delete: Callable[..., None]
) -> None:
    message = say("alone")
    delete(message)
    loaded = store.load_message(message.id).result()
    assert loaded.trashed_at is not None
    assert loaded.trashed_at.microsecond == 5
    assert (loaded.sibling_index, loaded.sibling_count) == (0, 1)


def test_where_the_active_leaf_was_deleted_the_newest_version_beside_it_is_shown(
    store: Store, chat: Conversation, say: Say, delete: Callable[..., None]
) -> None:
    question = say("question")
    say("more", say("kept", question))
    gone = say("gone", question)
    below = say("gone too", gone)
    delete(gone, below)
    assert shown(store, chat) == ["question", "kept", "more"]
    store.set_active_leaf(chat.id, None).result()
    assert shown(store, chat) == ["question", "kept", "more"]


def test_where_nothing_stands_beside_it_the_path_ends_above(
    store: Store, chat: Conversation, say: Say, delete: Callable[..., None]
) -> None:
    question = say("question")
    reply = say("reply", question)
    delete(reply)
    assert shown(store, chat) == ["question"]
    assert [m.id for m in store.load_path(chat.id, reply.id).result()] == [question.id]
    delete(question)
    assert shown(store, chat) == []
    say("new")
    assert shown(store, chat) == ["new"]


def test_an_answer_to_what_was_deleted_is_deleted_too(
    store: Store, chat: Conversation, say: Say, delete: Callable[..., None]
) -> None:
    """A reply can come after its question is gone: restoring brings both back."""
    kept = say("kept")
    gone = say("gone", kept)
    delete(gone)
    late = say("late", gone)
    assert late.trashed_at == store.load_message(gone.id).result().trashed_at
    assert shown(store, chat) == ["kept"]


def test_the_time_of_deletion_is_no_field_to_change(store: Store, say: Say) -> None:
    with pytest.raises(TypeError, match="trashed_at"):
        store.update_message(say("x").id, trashed_at=next_time())
