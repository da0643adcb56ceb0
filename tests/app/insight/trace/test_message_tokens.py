"""Which tokens of a message were drawn, and which stand around them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import pytest

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import TokenTrace, VocabularyTable
from app.engine.protocol.pieces import Pieces
from app.insight.trace.message_tokens import (
    MessageTokens,
    most_uncertain_place,
    of_reply,
    pieces_of,
    plain,
    usual_ms,
)
from app.insight.trace.table import TraceTable
from models.records import Message, Role

WORDS = [b"zero", b" one", b" two", b" three", b" four", b" five"]
REPLY = Message("r", "c", None, Role.ASSISTANT, "zero one two", datetime.now(UTC))


@pytest.fixture
def words() -> Pieces:
    ends = [0]
    for word in WORDS:
        ends.append(ends[-1] + len(word))
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return Pieces(
        VocabularyTable(
            Array("u4", [len(ends)], offsets),
            b"".join(WORDS),
            Array("i4", [len(WORDS)], bytes(4 * len(WORDS))),
        )
    )


def trace(index: int, token_id: int, **fields: Any) -> TokenTrace:
    values: dict[str, Any] = {
        "logprob": -0.5, "rank": 1, "entropy": float(index % 7), "ms": 10.0 + index,
        "alternative_ids": Array("i4", [0], b""), "alternative_logprobs": Array("f4", [0], b""),
        "stages": [],
    }  # fmt: skip
    return TokenTrace(index=index, token_id=token_id, piece=WORDS[token_id], **values | fields)


def test_the_tokens_of_a_trace_are_all_drawn(words: Pieces) -> None:
    traces = [trace(at, token_id) for at, token_id in enumerate((0, 1, 2))]
    found = of_reply(replace(REPLY, token_ids=(0, 1, 2)), traces, words)
    assert found is not None
    assert [found.place_of(at) for at in range(len(found))] == [0, 1, 2]
    assert found.pieces(0, 3) == WORDS[:3]
    assert found.id_of(2) == 2


def test_a_given_beginning_stands_before_what_was_drawn(words: Pieces) -> None:
    message = replace(REPLY, token_ids=(5, 4, 0, 1), settings={"given": {"tokens": 2}})
    found = of_reply(message, [trace(0, 0), trace(1, 1)], words)
    assert found is not None
    assert found.pieces(0, 4) == [b" five", b" four", b"zero", b" one"]
    assert [found.place_of(at) for at in range(4)] == [None, None, 0, 1]
    assert [found.id_of(at) for at in range(4)] == [5, 4, 0, 1]


def test_the_beginning_of_a_branch_is_in_its_trace(words: Pieces) -> None:
    given = {"tokens": 3, "traced": 2, "chosen": [3], "characters": 0}
    message = replace(REPLY, token_ids=(5, 0, 1, 3, 4), settings={"given": given})
    found = of_reply(message, [trace(at, ident) for at, ident in enumerate((0, 1, 3, 4))], words)
    assert found is not None
    assert found.pieces(0, len(found)) == [WORDS[ident] for ident in (5, 0, 1, 3, 4)]
    assert [found.place_of(at) for at in range(5)] == [None, 0, 1, 2, 3]


def test_a_typed_beginning_without_ids_stands_there_in_words(words: Pieces) -> None:
    given = {"tokens": None, "characters": 10, "reasoning_characters": 0}
    message = replace(REPLY, content="Typed here one", settings={"given": given})
    found = of_reply(message, [trace(0, 1)], words)
    assert found is not None
    assert b"".join(found.pieces(0, len(found))) == b"Typed here one"
    assert found.place_of(len(found) - 1) == 0


def test_what_is_longer_than_its_trace_goes_on_untraced(words: Pieces) -> None:
    message = replace(REPLY, token_ids=(0, 1, 2, 3))
    found = of_reply(message, [trace(0, 0), trace(1, 1)], words)
    assert found is not None
    assert found.pieces(0, 4) == WORDS[:4]
    assert [found.place_of(at) for at in range(4)] == [0, 1, None, None]
    unread = of_reply(message, [trace(0, 0), trace(1, 1)], None)
    assert unread is not None
    assert len(unread) == 2
    assert "weren't recorded" in unread.note


def test_without_a_trace_the_ids_tell_the_pieces_or_nothing_does(words: Pieces) -> None:
    message = replace(REPLY, token_ids=(0, 1))
    found = of_reply(message, (), words, "nothing was recorded")
    assert found is not None
    assert found.are_tokens
    assert (found.pieces(0, 2), found.place_of(0)) == (WORDS[:2], None)
    assert found.note == "nothing was recorded"
    assert of_reply(message, (), None) is None
    assert of_reply(REPLY, (), words) is None


@pytest.mark.parametrize(
    "given", ["x", {"tokens": "two"}, {"tokens": -1}, {"tokens": 2.5}, {"tokens": 1, "traced": 9}]
)
def test_odd_stored_settings_make_no_crash(words: Pieces, given: Any) -> None:
    message = replace(REPLY, token_ids=(0, 1), settings={"given": given})
    found = of_reply(message, [trace(0, 0), trace(1, 1)], words)
    assert found is not None
    assert found.pieces(0, len(found))[-2:] == WORDS[:2]


@pytest.mark.parametrize("text", ["", "One\n\n  two\tthree ", "x" * 200, "\n" * 5, " a\r\nb"])
def test_the_words_of_a_text_spell_it(text: str) -> None:
    found = plain(text)
    assert b"".join(found.before).decode() == text
    assert not found.are_tokens
    assert all(len(word) <= 70 for word in found.before)


def test_parts_of_pieces_are_those_of_the_whole() -> None:
    traces = [trace(at, at % 6) for at in range(9)]
    tokens = MessageTokens(before=[b"b"] * 3, traces=TraceTable(traces), after=[b"a"] * 2)
    whole = tokens.pieces(0, len(tokens))
    assert whole == [b"b"] * 3 + [t.piece for t in traces] + [b"a"] * 2
    for first in range(len(whole)):
        for end in range(first, len(whole) + 1):
            assert tokens.pieces(first, end) == whole[first:end]


def test_a_growing_table_says_what_its_tokens_say() -> None:
    traces = [trace(at, at % 6, ms=float((at * 7) % 31)) for at in range(50)]
    table = TraceTable(traces)
    assert pieces_of(table, 3, 40) == pieces_of(traces, 3, 40)
    assert usual_ms(table) == usual_ms(traces) == median(t.ms for t in traces)
    entropies = [token.entropy for token in traces]
    place = entropies.index(max(entropies)) if entropies else None
    assert most_uncertain_place(table) == most_uncertain_place(traces) == place
    assert most_uncertain_place(()) is None
