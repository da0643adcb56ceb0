"""A shown prompt: every token has one origin, differences add up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st
from made_prompts import scores, shown

from app.engine.protocol.prompt_messages import ShownPart
from app.insight.prompt.parts import Surprise, counts, difference, tokens_of

PIECES = [b"<s>", b"Be", b" br", b"\xc3", b"\xa9f", b"", b"</s>"]


PARTS = (
    ShownPart(0, 1, "scaffold"),
    ShownPart(1, 3, "system", "s"),
    ShownPart(3, 6, "user", "u"),
    ShownPart(6, 7, "scaffold"),
)


def test_tokens_by_their_place() -> None:
    tokens = tokens_of(shown(PARTS, PIECES))
    assert len(tokens) == 7
    assert list(tokens.ids) == list(range(100, 107))
    assert [tokens.piece(i) for i in range(7)] == PIECES
    assert tokens.pieces(2, 5) == PIECES[2:5]
    assert tokens.pieces(5, 99) == PIECES[5:]
    assert [tokens.part(i).origin for i in range(7)] == [
        *("scaffold", "system", "system", "user", "user", "user", "scaffold"),
    ]
    assert [tokens.is_control(i) for i in range(7)] == [True, *[False] * 5, True]
    assert (tokens.attribute(0), tokens.attribute(1)) == (8, 4)


def test_counts_are_in_the_order_of_a_legend_and_add_up() -> None:
    found = counts(tokens_of(shown(PARTS, PIECES)))
    assert [(c.origin, c.n_tokens, c.n_bytes, c.n_parts) for c in found] == [
        ("scaffold", 2, 7, 2),
        ("system", 2, 5, 1),
        ("user", 3, 3, 1),
    ]
    assert sum(c.share for c in found) == pytest.approx(1)


@given(st.lists(st.sampled_from(["scaffold", "user", "odd"]), min_size=1, max_size=12))
def test_counts_of_any_parts_sum_to_the_whole(origins: list[str]) -> None:
    pieces = [b"x" * (1 + i % 3) for i in range(2 * len(origins))]
    parts = [ShownPart(2 * i, 2 * i + 2, origin) for i, origin in enumerate(origins)]
    tokens = tokens_of(shown(parts, pieces))
    found = counts(tokens)
    assert sum(c.n_tokens for c in found) == len(pieces)
    assert sum(c.n_bytes for c in found) == len(tokens.blob)
    assert sum(c.n_parts for c in found) == len(parts)
    assert {c.origin for c in found} == set(origins)


# --- surprise -----------------------------------------------------------------------------------


def test_surprise_is_minus_log2_of_the_probability() -> None:
    surprise = Surprise(5)
    assert [surprise.bits(i) for i in range(5)] == [None] * 5
    assert surprise.mean(0, 5) is None
    surprise.take(scores(1, [0.5, 0.125], [1, 3]))
    assert surprise.n_known == 2
    surprise.take(scores(3, [1.0, 0.0], [1, 900]))
    assert [surprise.bits(i) for i in range(5)] == [None, 1.0, 3.0, 0.0, math.inf]
    assert [surprise.rank(i) for i in range(5)] == [None, 1, 3, 1, 900]
    assert surprise.mean(0, 4) == pytest.approx(4 / 3)


def test_scores_that_do_not_fit_the_prompt_are_left_out() -> None:
    surprise = Surprise(3)
    for event in (scores(0, [0.5], [1]), scores(2, [0.5, 0.5], [1, 1]), scores(1, [], [])):
        surprise.take(event)
    assert [surprise.bits(i) for i in range(3)] == [None] * 3
    assert surprise.n_known == 0


# --- difference ---------------------------------------------------------------------------------


def test_a_next_turn_only_adds() -> None:
    found = difference([1, 2, 3], [1, 2, 3, 4, 5])
    assert (found.common, found.removed, found.added, found.same_end) == (3, 0, 2, 0)


def test_nothing_changed_and_nothing_common() -> None:
    same = difference([1, 2], [1, 2])
    assert (same.common, same.removed, same.added, same.same_end) == (2, 0, 0, 0)
    other = difference([1], [2])
    assert (other.common, other.removed, other.added, other.same_end) == (0, 1, 1, 0)
    assert difference([], []).common == 0


IDS = st.lists(st.integers(0, 2), max_size=12)


@given(IDS, IDS)
def test_the_parts_of_a_difference_make_up_both_prompts(before: list[int], now: list[int]) -> None:
    found = difference(before, now)
    assert before[: found.common] == now[: found.common]
    assert found.common + found.removed == len(before)
    assert found.common + found.added == len(now)
    if found.removed and found.added:
        assert before[found.common] != now[found.common]
    assert 0 <= found.same_end <= min(found.removed, found.added)
    if found.same_end:
        assert before[-found.same_end :] == now[-found.same_end :]
