"""A reply with a trace, looked at by a panel whose questions are answered by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_embedding import EmbeddingByHand
from made_inside import AnsweredByHand
from made_traces import trace_of
from recording_desk import FakeBridge, FakeDesk, conversation

from app.chat.events import ConversationOpened, TraceRead
from models.records import Message
from ui.section.looking import Looking

PIECES = (b" Paris", b",", b" of", b" course")


@pytest.fixture
def inside(desk: FakeDesk) -> AnsweredByHand:
    return AnsweredByHand(desk)


@pytest.fixture
def embedding(desk: FakeDesk) -> EmbeddingByHand:
    return EmbeddingByHand(desk)


@pytest.fixture
def reply(
    desk: FakeDesk,
    bridge: FakeBridge,
    looking: Looking,
    inside: AnsweredByHand,
    ask: Callable[..., tuple[Message, ...]],
) -> Message:
    """It is on screen, and somebody looks."""
    looking.set_awake(True)
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead(desk.shelf.path[-1].id, trace_of(PIECES)))
    return desk.shelf.path[-1]
