"""The words around a message."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from models.records import Message, MessageCounts, MessageState, Role
from ui.transcript.summary import (
    continuation_trouble,
    ending_text,
    figures_text,
    spoken_text,
    trouble_text,
    version_text,
)

REPLY = Message("r", "c", None, Role.ASSISTANT, "Paris.", datetime.now(UTC))
COUNTS = MessageCounts(
    generated=40, tokens_per_s=52.44, first_token_s=0.312, reused=14, evaluated=1016
)


def test_figures() -> None:
    message = replace(REPLY, counts=COUNTS, stop_reason="end_token")
    assert figures_text(message) == (
        "40 tokens · 52.4 tokens/s · first token 0.31 s · "
        "14 prompt tokens cached, 1,016 processed · finished"
    )


def test_whole_figures_leave_where_there_is_no_room() -> None:
    message = replace(REPLY, counts=COUNTS, stop_reason="end_token")

    def within(length: int) -> str:
        return figures_text(message, lambda words: len(words) <= length)

    assert within(80) == "40 tokens · 52.4 tokens/s · first token 0.31 s · finished"
    assert within(50) == "40 tokens · 52.4 tokens/s · finished"
    assert within(30) == "40 tokens · finished"
    assert within(10) == within(1) == "40 tokens"


def test_what_was_left_out_of_the_prompt_is_said() -> None:
    message = replace(REPLY, settings={"cut": {"n_messages": 4, "n_tokens": 90}})
    assert figures_text(message) == "4 older messages dropped"
    for odd in ({"cut": []}, {"cut": {"n_messages": "x"}}, {"cut": {"n_messages": -1}}):
        assert figures_text(replace(REPLY, settings=odd)) == ""


def test_what_drafts_gained_is_said() -> None:
    report = {
        "kind": "lookup",
        "passes": 4,
        "by_position": [{"proposed": 4, "accepted": 3}],
        "drafted_s": 1.0,
        "drafted_tokens": 9,
        "plain_s": 1.2,
        "plain_tokens": 6,
    }
    said = [
        figures_text(replace(REPLY, settings={"draft_report": each}))
        for each in (
            *(report, {**report, "plain_s": 0.0}, {**report, "off": "Slower.", "plain_s": 0.6}),
            *({**report, "off": "The draft model failed."}, {}, 7),
        )
    ]
    assert said == [
        *("3 of 4 drafts accepted, 1.8× as fast", "3 of 4 drafts accepted"),
        *("drafts off: slower", "drafts switched off", "", ""),
    ]


def test_where_reasoning_was_closed_is_said() -> None:
    message = replace(REPLY, settings={"reasoning": {"n_tokens": 24, "limit": 24}})
    assert figures_text(message) == "reasoning ended at the limit of 24 tokens"
    assert figures_text(message, lambda words: False) != ""
    odd_ones = ({}, [], {"limit": "x"}, {"limit": -1}, {"n_tokens": 3, "limit": 0})
    for odd in odd_ones:
        assert figures_text(replace(REPLY, settings={"reasoning": odd})) == ""


def test_what_was_not_measured_is_not_shown() -> None:
    assert figures_text(REPLY) == ""
    assert figures_text(replace(REPLY, counts=MessageCounts(generated=1))) == "1 token"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("max_tokens", "reached the token limit"),
        ("stop_string", "hit a stop string"),
        ("turn_end", "finished"),
        ("context_full", "context window full"),
        ("something_new", "something new"),
        (None, ""),
    ],
)
def test_endings(reason: str | None, words: str) -> None:
    assert ending_text(replace(REPLY, stop_reason=reason)) == words


def test_stopped_by_the_user() -> None:
    assert ending_text(replace(REPLY, state=MessageState.STOPPED)) == "stopped by you"


def test_trouble_has_its_own_sentence() -> None:
    failed = replace(REPLY, state=MessageState.FAILED, stop_reason="native_error")
    assert ending_text(failed) == ""


def test_trouble() -> None:
    assert trouble_text(REPLY) == ""
    failed = replace(REPLY, state=MessageState.FAILED, error="The engine crashed.")
    assert trouble_text(failed) == "The engine crashed."
    for state in (MessageState.FAILED, MessageState.INTERRUPTED, MessageState.UNREADABLE):
        assert trouble_text(replace(REPLY, state=state)).endswith(".")


def test_versions_and_speech() -> None:
    message = replace(REPLY, sibling_index=1, sibling_count=3)
    assert version_text(message) == "2/3"
    assert spoken_text(message) == "Reply: Paris.\nVersion 2 of 3."


def test_what_is_said_of_a_continuation_that_is_not_what_was_asked_for() -> None:
    said = continuation_trouble
    assert said(replace(REPLY, stop_reason="end_token")) == ""
    assert said(replace(REPLY, content="", state=MessageState.STREAMING)) == ""
    assert said(replace(REPLY, content="", state=MessageState.STOPPED)) == ""
    empty = replace(REPLY, content="", stop_reason="end_token")
    assert said(empty) == "Nothing was added (finished)."
    full = replace(empty, stop_reason="context_full")
    assert said(full) == "Nothing was added (context window full)."
    failed = replace(REPLY, state=MessageState.FAILED, error="Make the grammar wider.")
    assert said(failed) == "Make the grammar wider."
