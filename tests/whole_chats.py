"""Made-up whole conversations, for the tests of export and import."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from sqlalchemy import Connection

from models.conversations import importing
from models.conversations.tag_names import tidied
from models.records import (
    Attachment,
    Conversation,
    ConversationKind,
    Imported,
    Message,
    MessageCounts,
    MessageState,
    Role,
    WholeConversation,
)

T = TypeVar("T")

NOON = datetime(2026, 5, 3, 12, 0, 0, 123456, tzinfo=UTC)

_numbers = itertools.count(2**64)

# Whatever a text field of the database can hold: no lone surrogates.
texts = st.text(max_size=40)
times = st.integers(-(10**15), 4 * 10**15).map(
    lambda us: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
)
numbers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
settings = st.dictionaries(texts, json_values, max_size=3)
counts = st.builds(
    MessageCounts,
    prompt_tokens=st.none() | numbers,
    generated=st.none() | numbers,
    tokens_per_s=st.none() | floats,
    reasoning_s=st.none() | floats,
)
states = st.sampled_from([s for s in MessageState if s is not MessageState.STREAMING])


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def attachments(
    draw: st.DrawFn, conversation_id: str, message_id: str | None
) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(
            id=new_id(),
            conversation_id=conversation_id,
            name=draw(texts),
            text=draw(texts),
            size_bytes=draw(numbers),
            created_at=draw(times),
            message_id=message_id,
            tokens=draw(optional(numbers)),
            position=position,
            kind=draw(st.sampled_from(["text", "document", "picture", "audio"])),
            details=draw(settings),
        )
        for position in range(draw(st.integers(0, 2)))
    )


def new_id() -> str:
    """One that no other record of this run has."""
    return str(uuid.UUID(int=next(_numbers)))


@st.composite
def messages(draw: st.DrawFn, conversation_id: str) -> tuple[Message, ...]:
    made: list[Message] = []
    for _ in range(draw(st.integers(0, 6))):
        message_id = new_id()
        made.append(
            Message(
                id=message_id,
                conversation_id=conversation_id,
                parent_id=draw(st.sampled_from([None, *(m.id for m in made)])),
                role=draw(st.sampled_from(Role)),
                content=draw(texts),
                created_at=draw(times),
                state=draw(states),
                reasoning=draw(texts),
                token_ids=draw(
                    optional(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3).map(tuple))
                ),
                is_pinned=draw(st.booleans()),
                stop_reason=draw(optional(texts)),
                error=draw(optional(texts)),
                seed=draw(optional(numbers)),
                settings=draw(settings),
                weights_name=draw(optional(texts)),
                weights_hash=draw(optional(texts)),
                rendered_prompt=draw(optional(texts)),
                counts=draw(counts),
                attachments=draw(attachments(conversation_id, message_id)),
            )
        )
    return tuple(made)


@st.composite
def whole_chats(draw: st.DrawFn) -> WholeConversation:
    """With a tree of any shape, traces, attachments, and settings of any kind."""
    conversation_id = new_id()
    tree = draw(messages(conversation_id))
    ids = [m.id for m in tree]
    drafted = draw(attachments(conversation_id, None))
    attached = [*drafted, *(each for m in tree for each in m.attachments)]
    return WholeConversation(
        conversation=Conversation(
            id=conversation_id,
            title=draw(texts),
            created_at=draw(times),
            updated_at=draw(times),
            kind=draw(st.sampled_from(ConversationKind)),
            is_pinned=draw(st.booleans()),
            is_archived=draw(st.booleans()),
            system_prompt=draw(texts),
            draft=draw(texts),
            weights_path=draw(optional(texts)),
            active_leaf_id=draw(st.sampled_from([None, *ids])),
            is_titled_by_user=draw(st.booleans()),
            settings=draw(settings),
            copied_from=draw(optional(st.uuids().map(str))),
            tags=tidied(draw(st.lists(texts, max_size=3))),
        ),
        messages=tree,
        traces={m: draw(st.binary(max_size=20)) for m in ids if draw(st.booleans())},
        draft_attachments=drafted,
        files={
            each.id: (draw(texts), draw(st.binary(min_size=1, max_size=20)))
            for each in attached
            if each.kind != "text"
        },
    )


def a_chat(name: str = "chat", n_turns: int = 2, **fields: Any) -> WholeConversation:
    """Questions and answers in a row, with ids made of `name`."""
    made: list[Message] = []
    for number in range(n_turns):
        for role, text in ((Role.USER, f"Question {number}?"), (Role.ASSISTANT, f"**{number}**.")):
            made.append(
                Message(
                    id=f"{name}-{len(made)}",
                    conversation_id=name,
                    parent_id=made[-1].id if made else None,
                    role=role,
                    content=text,
                    created_at=NOON,
                )
            )
    leaf_id = made[-1].id if made else None
    conversation = Conversation(name, name.title(), NOON, NOON, active_leaf_id=leaf_id)
    return WholeConversation(replace(conversation, **fields), tuple(made))


def add_to(connection: Connection, *chats: WholeConversation, **options: Any) -> Imported:
    """Import on one connection, in the transaction that it is in."""

    def now(work: Callable[[Connection], T], /) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work(connection))
        return done

    return importing.add_all(now, now, chats, **options)
