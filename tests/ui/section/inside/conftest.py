"""A reply with a trace, looked at by a panel whose questions are answered by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_embedding import EmbeddingByHand
from made_inside import AnsweredByHand
from made_traces import trace_of
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation

from app.chat.events import ConversationOpened, TraceRead
from models.records import Message
from ui.section.inside.card import InsideCard
from ui.section.inside.view import InsideView
from ui.section.looking import Looking
from ui.section.panel import Tools

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


@pytest.fixture
def view(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, reply: Message, qtbot: QtBot
) -> InsideView:
    return InsideView(looking, desk, bridge)  # type: ignore[arg-type]


@pytest.fixture
def show_card(
    view: InsideView, tools: Tools, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> Callable[..., InsideCard]:
    """Shows a card, so many pixels high, beside a token of the reply; what it asked for is
    answered."""

    def show(kind: type[InsideCard], height: int, token: int = 0) -> InsideCard:
        made = kind(tools, view)
        qtbot.addWidget(made)
        made.resize(360, height)
        made.show()
        qtbot.waitExposed(made)
        made.set_active(True)
        view.set_awake(True)
        looking.select(token)
        inside.answer()
        return made

    return show
