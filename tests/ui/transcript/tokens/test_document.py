"""Tokens cut into segments: the same however they come, and nothing that is done is done again."""

from __future__ import annotations

import random

import pytest
from made_traces import trace_of

from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.table import TraceTable
from app.insight.trace.token_groups import Groups
from app.insight.trace.tokens_shown import TINTS, strength
from ui.transcript.tokens.document import LEVELS, MOST_GROUPS, UNTINTED, TokenDocument

WORDS = [b" one", b" two", "ü".encode()[:1], "ü".encode()[1:], b".\n", b"\n\n", b" three", b""]


def pieces(count: int, seed: int = 1) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.choice(WORDS) for _ in range(count)]


def text_of(given: list[bytes]) -> str:
    groups = Groups()
    groups.feed(given)
    return "".join(spelled.raw for spelled in groups.spellings)


def shape(document: TokenDocument) -> list[tuple[int, int, str]]:
    made = [document.segment(at) for at in range(len(document.known_segments))]
    return [(segment.first_group, segment.end_group, segment.text) for segment in made]


@pytest.mark.parametrize("seed", range(6))
def test_a_document_that_grew_is_the_one_that_was_whole_at_once(seed: int) -> None:
    given = pieces(3_000, seed)
    traces = trace_of(given)
    table, rng = TraceTable(), random.Random(seed)
    growing = TokenDocument(MessageTokens(traces=table))
    at, known = 0, growing.known_segments
    while at < len(traces):
        step = rng.randint(1, 400)
        for token in traces[at : at + step]:
            table.append(token)
        at += step
        before, changed = known, growing.take_changes()
        known = growing.known_segments
        # What is before the first change is the very same object.
        assert all(old is new for old, new in zip(before[:changed], known[:changed], strict=True))
        assert changed <= len(before)
        assert growing.source_length == sum(len(segment.text) for segment in known)
    whole = TokenDocument(MessageTokens(traces=traces))
    whole.take_changes()
    assert shape(growing) == shape(whole)
    assert "".join(s.text for s in whole.known_segments) == text_of(given) == whole.source
    assert all(end - first <= MOST_GROUPS for first, end, _ in shape(whole))


def test_segments_end_at_the_end_of_a_line() -> None:
    document = TokenDocument(MessageTokens(before=[b" word"] * 300 + [b"\n"] + [b" more"] * 300))
    document.take_changes()
    assert [segment.text.endswith("\n") for segment in document.known_segments] == [True, False]


def test_a_long_text_is_read_in_slices() -> None:
    document = TokenDocument(MessageTokens(before=[b" word"] * 50_000))
    document.take_changes(0.0)
    assert 0 < document.groups.n_tokens < 50_000
    assert document.unread_chars > 0
    while document.unread_chars:
        document.take_changes(0.0)
    assert len(document.source) == 250_000


def test_tokens_that_are_taken_back_are_gone() -> None:
    table = TraceTable(trace_of([b"a", b" b", b" c"]))
    document = TokenDocument(MessageTokens(traces=table))
    assert document.source == "a b c"
    table.truncate(1)
    document.take_changes()
    assert document.source == "a"
    assert document.level(0) != UNTINTED


def test_tokens_that_came_in_the_place_of_others_are_read() -> None:
    """Between two layouts a banned string may be taken back and as many tokens be drawn again."""
    table = TraceTable(trace_of([b"a", b" bad", b" word"], [0.9, 0.9, 0.9]))
    document = TokenDocument(MessageTokens(traces=table))
    assert document.source == "a bad word"
    table.truncate(1)
    for token in trace_of([b"x", b" fine", b" text"], [0.9, 0.01, 0.01])[1:]:
        table.append(token)
    assert document.take_changes() == 0
    assert document.source == "a fine text"
    assert [document.level(at) for at in range(3)] == [document.level(0), *[LEVELS - 1] * 2]


@pytest.mark.parametrize("tint", list(TINTS))
def test_the_level_is_the_strength_of_the_token_in_steps(tint) -> None:
    shares = [0.999, 0.5, 0.2, 0.01]
    traces = trace_of([b"a", b" b", b" c", b" d"], shares)
    document = TokenDocument(MessageTokens(traces=traces), tint)
    document.take_changes()
    for at, token in enumerate(traces):
        share = strength(token, tint, document.usual_ms)
        assert share is not None
        assert document.level(at) == min(int(share * LEVELS), LEVELS - 1)
    if tint == "time":
        assert document.usual_ms == 20.5


def test_of_several_tokens_of_one_character_the_strongest_counts() -> None:
    halves = "ü".encode()
    traces = trace_of([b"a", halves[:1], halves[1:]], [0.99, 0.99, 0.02])
    document = TokenDocument(MessageTokens(traces=traces))
    document.take_changes()
    assert len(document.groups) == 2
    assert [document.level(0), document.level(1)] == [0, LEVELS - 1]


def test_what_was_not_drawn_has_no_tint() -> None:
    document = TokenDocument(MessageTokens(before=[b"a"], traces=trace_of([b" b"]), after=[b" c"]))
    document.take_changes()
    levels = [document.level(at) for at in range(3)]
    assert levels[0] == levels[2] == UNTINTED
    assert levels[1] != UNTINTED
    document.set_tint("entropy")
    assert document.level(1) == int(1.0 / 10 * LEVELS)


def test_paint_from_elsewhere_takes_the_place_of_the_tint_until_it_goes() -> None:
    tokens = MessageTokens(before=(b"said",), traces=trace_of([b" one", b"\xc3", b"\xbc"]))
    document = TokenDocument(tokens)
    document.take_changes()
    before = [document.level(group) for group in range(len(document.groups))]
    document.set_paint([1.0, 0.0, 0.25, 0.5])
    painted = [document.level(group) for group in range(len(document.groups))]
    assert painted == [LEVELS - 1, UNTINTED, int(0.5 * LEVELS)]  # ü is two tokens
    document.set_paint([1.0])
    assert [document.level(g) for g in range(3)] == [LEVELS - 1, UNTINTED, UNTINTED]
    document.set_paint(None)
    assert [document.level(group) for group in range(len(document.groups))] == before
