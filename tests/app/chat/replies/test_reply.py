"""A growing reply: how long its reasoning took."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest

from app.chat.replies.reply import Reply
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import Failed, Finished, Summary, TokenArrived, TokenTrace
from models.records import Message, MessageState, Role

NOTHING = Array("i4", [0], b"")


def token(text: str, part: Literal["content", "reasoning"]) -> TokenArrived:
    trace = TokenTrace(0, 1, text.encode(), 0.0, 1, 0.0, NOTHING, NOTHING, stages=[], ms=10.0)
    return TokenArrived(1, trace, text, part, 20)


@pytest.fixture
def reply() -> Reply:
    now = datetime.now(UTC)
    row = Message("r", "c", "u", Role.ASSISTANT, "", now, state=MessageState.STREAMING)
    return Reply(row)


def summary(text: str, reasoning: str) -> Summary:
    return Summary("end_token", text, reasoning)


def test_reasoning_is_timed_from_its_first_token_to_its_last(reply: Reply) -> None:
    for now, text, part in (
        (10.0, "", "reasoning"),
        (11.5, "Let me", "reasoning"),
        (14.0, " think.", "reasoning"),
        (15.0, "Four", "content"),
        (19.0, ".", "content"),
    ):
        reply.take_token(token(text, part), now)
    assert reply.snapshot().counts.reasoning_s == 4.0
    whole = reply.ended(Finished(1, summary("Four.", "Let me think.")))
    assert (whole.counts.reasoning_s, whole.content) == (4.0, "Four.")


def test_time_of_reasoning_is_kept_where_the_reply_breaks_off(reply: Reply) -> None:
    reply.take_token(token("Hm", "reasoning"), 1.0)
    reply.take_token(token("m", "reasoning"), 3.0)
    assert reply.closed().counts.reasoning_s == 2.0
    assert reply.ended(Failed(1, "native_error", "It died.")).counts.reasoning_s == 2.0


def test_no_figure_counts_how_long_somebody_thought_at_a_token(reply: Reply) -> None:
    """Step mode: each token is drawn, then held, then taken."""
    reply.asked_at = 100.0
    for drawn, again, taken, text, part in (
        (100.5, 120.0, 160.0, "Hm", "reasoning"),
        (160.2, 170.0, 200.0, "m", "reasoning"),
        (200.4, 210.0, 300.0, "Four", "content"),
    ):
        reply.hold(drawn)
        reply.hold(again)  # a choice was refused
        reply.take_token(token(text, part), taken)
    assert reply.figures(4096, 2).first_token_s == pytest.approx(0.5)
    assert reply.figures(4096, 2).tokens_per_s is None
    assert reply.snapshot().counts.reasoning_s == pytest.approx(0.2)
    assert reply.waited_s == pytest.approx(59.5 + 39.8 + 99.6)


def test_without_reasoning_there_is_no_time(reply: Reply) -> None:
    reply.take_token(token("Four", "content"), 1.0)
    assert reply.snapshot().counts.reasoning_s is None
    assert reply.ended(Finished(1, summary("Four", ""))).counts.reasoning_s is None
