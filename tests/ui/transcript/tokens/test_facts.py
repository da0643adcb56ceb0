"""The words about a token are the trace's numbers."""

from __future__ import annotations

import dataclasses
import math
import struct
from datetime import UTC, datetime

import msgspec
import pytest
from made_traces import trace_of

from app.chat.replies.calls import with_calls
from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import VocabularyTable
from app.engine.protocol.pieces import Pieces
from app.engine.protocol.tool_messages import ToolCall
from app.insight.trace.message_tokens import MessageTokens, plain
from models.records import Message, Role
from ui.transcript.tokens.facts import (
    CHOSEN,
    CUT_NOW,
    IN_CALL,
    NO_TOKENS,
    RECORDED,
    facts_of,
    shown_percent,
    spoken,
)


@pytest.fixture
def words() -> Pieces:
    pieces = [f" w{number}".encode() for number in range(200)]
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    offsets = Array("u4", [201], b"".join(end.to_bytes(4, "little") for end in ends))
    return Pieces(VocabularyTable(offsets, b"".join(pieces), Array("i4", [200], bytes(800))))


def test_the_card_says_what_the_trace_holds(words: Pieces) -> None:
    share = 0.773
    tokens = MessageTokens(traces=trace_of([b"The", b" city"], [0.5, share]))
    facts = facts_of(tokens, 1, words, may_branch=True)
    trace = tokens.traces[1]
    assert facts.piece == "·city"
    assert facts.figures == "ID 101 · 77.3% · rank 1 · entropy 2.00 bits"
    assert f"{100 * math.exp(trace.logprob):.1f}%" in facts.figures
    assert facts.details == "token 2 of 2 · 21.0 ms · surprise when drawn 0.00 bits"
    assert facts.bytes == "bytes 20 63 69 74 79"
    assert facts.caption == RECORDED
    drawn, other = facts.alternatives
    assert (drawn.text, drawn.is_drawn, drawn.may_branch) == ("·w101", True, False)
    assert drawn.probability == pytest.approx(share)
    assert (other.text, other.is_drawn, other.may_branch) == ("·w7", False, True)
    assert other.probability == pytest.approx((1 - share) / 2)


def test_what_a_draft_proposed_is_told_with_what_both_gave_it() -> None:
    (token,) = trace_of([b"The"], [0.5])
    nats = [math.log(0.9), math.log(0.4)]
    rejected = Rejected([7, 8], [b" A", b"n"], math.log(0.125), nats)
    cases = {
        "drafted": {"drafted": True},
        "drafted (draft model 90.0%)": {"drafted": True, "draft_logprob": nats[0]},
        "draft ·A rejected (12.5%, draft model 90.0%) and 1 more": {"rejected": rejected},
        "draft ·A rejected (12.5%)": {"rejected": Rejected([7], [b" A"], math.log(0.125))},
    }
    for words, fields in cases.items():
        tokens = MessageTokens(traces=(msgspec.structs.replace(token, **fields),))
        assert facts_of(tokens, 0, None, may_branch=False).details.endswith(words)


def test_a_token_has_one_probability_in_its_card(words: Pieces) -> None:
    """Its candidates are stored in fewer digits, which may round to another tenth."""
    (token,) = trace_of([b"The"], [0.36849])
    coarse = Array("f4", [2], struct.pack("<2f", math.log(0.36851), math.log(0.1)))
    token = msgspec.structs.replace(token, alternative_logprobs=coarse)
    facts = facts_of(MessageTokens(traces=(token,)), 0, words, may_branch=True)
    assert " 36.8% " in facts.figures
    assert [shown_percent(each.probability) for each in facts.alternatives] == ["36.8", "10.0"]


def test_a_token_that_was_chosen_by_hand_is_not_called_drawn(words: Pieces) -> None:
    first, second = trace_of([b"The", b" city"])
    chosen = msgspec.structs.replace(second, chosen=True, uniform=None)
    tokens = MessageTokens(traces=(first, chosen))
    assert not any(each.is_chosen for each in facts_of(tokens, 0, words, True).alternatives)
    facts = facts_of(tokens, 1, words, may_branch=True)
    assert [(each.is_drawn, each.is_chosen) for each in facts.alternatives] == [
        (True, True),
        (False, False),
    ]
    assert facts.caption == CHOSEN
    assert "Load the model" in facts_of(tokens, 1, None, may_branch=True).caption


def test_without_the_vocabulary_ids_stand_there_and_nothing_branches() -> None:
    tokens = MessageTokens(traces=trace_of([b"The"]))
    facts = facts_of(tokens, 0, None, may_branch=True)
    assert [each.text for each in facts.alternatives] == ["ID 100", "ID 7"]
    assert not any(each.may_branch for each in facts.alternatives)
    assert "Load the model" in facts.caption


def test_what_was_not_drawn_says_so(words: Pieces) -> None:
    tokens = MessageTokens(before=[b" hi"], before_ids=[42])
    facts = facts_of(tokens, 0, words, may_branch=True)
    assert (facts.figures, facts.details) == ("ID 42", "token 1 of 1")
    assert facts.caption == CUT_NOW
    assert not facts.alternatives
    assert facts_of(plain("word"), 0, words, may_branch=True).caption == NO_TOKENS
    hint = "Load some weights."
    assert facts_of(plain("word", hint=hint), 0, None, may_branch=True).caption == hint


def test_a_screen_reader_hears_the_same_figures() -> None:
    tokens = MessageTokens(traces=trace_of([b"The", b" city"], [0.5, 0.773]))
    assert spoken(tokens, 1) == "·city. Token 2 of 2. ID 101 · 77.3% · rank 1 · entropy 2.00 bits"
    assert spoken(MessageTokens(before=[b"a"], before_ids=[5]), 0).startswith(
        "a. ID 5. Not generated"
    )


def test_a_token_of_a_call_is_called_so(words: Pieces) -> None:
    pieces = [b"Wait.", b"<tool_call>", b"{}</tool_call>"]
    tokens = MessageTokens(traces=trace_of(pieces, [0.5, 0.5, 0.5]))
    settings = with_calls({}, [ToolCall("c1", "clock", "{}")])
    now = datetime(2026, 11, 29, tzinfo=UTC)
    message = Message("m", "c", None, Role.ASSISTANT, "Wait.", now, settings=settings)
    told = [facts_of(tokens, i, words, may_branch=True, message=message).details for i in range(3)]
    assert [IN_CALL in details for details in told] == [False, True, True]
    bare = dataclasses.replace(message, settings={})
    assert IN_CALL not in facts_of(tokens, 2, words, may_branch=True, message=bare).details
