"""Attention as a person looks at it, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.protocol.inside_messages import HEAD_SCORES
from app.insight.inside.attention import (
    by_span,
    entropy_bits,
    group_of,
    hardest_look,
    role_of,
    strongest,
    without_sink,
)


def random_rows(*shape: int) -> np.ndarray:
    rows = np.random.default_rng(0).gamma(0.3, size=shape).astype(np.float32)
    return rows / rows.sum(axis=-1, keepdims=True)


def test_what_is_left_without_the_sink_keeps_its_proportions() -> None:
    rows = random_rows(3, 4, 20)
    rest, mass = without_sink(rows)
    assert mass == pytest.approx(rows[..., 0])
    assert rest.sum(axis=-1) == pytest.approx(np.ones((3, 4)), abs=1e-5)
    assert (rest[..., 0] == 0).all()
    for layer in range(3):
        for head in range(4):
            left = 1 - float(rows[layer, head, 0])
            for token in range(1, 20):
                wanted = float(rows[layer, head, token]) / left
                assert float(rest[layer, head, token]) == pytest.approx(wanted, abs=1e-5)


def test_a_head_that_sees_only_the_sink_shows_nothing_rather_than_noise() -> None:
    rest, mass = without_sink(np.array([1.0, 1e-9, 0.0], np.float32))
    assert mass == 1.0
    assert not rest.any()


def test_spans_take_what_falls_on_their_tokens() -> None:
    rows = random_rows(2, 5, 30)
    spans = [(0, 3), (3, 3), (3, 17), (17, 30)]
    found = by_span(rows, spans)
    for at, (start, end) in enumerate(spans):
        wanted = sum(rows[..., token] for token in range(start, end))
        assert found[..., at] == pytest.approx(wanted + np.zeros((2, 5)), abs=1e-5)
    assert found.sum(axis=-1) == pytest.approx(np.ones((2, 5)), abs=1e-5)


def test_entropy_and_the_strongest() -> None:
    even = np.full((8,), 1 / 8, np.float32)
    assert entropy_bits(even) == pytest.approx(3.0)
    rows = random_rows(6, 9)
    assert strongest(rows[0], 3)[0][1] == rows[0].max()


def test_each_query_head_belongs_to_one_group() -> None:
    assert [group_of(h, 4, 1) for h in range(4)] == [0, 0, 0, 0]
    assert [group_of(h, 4, 4) for h in range(4)] == [0, 1, 2, 3]


def scores(**given: float) -> np.ndarray:
    return np.array([given.get(name, 0.0) for name in HEAD_SCORES], np.float32)


def test_a_role_is_the_highest_score_that_is_high_enough() -> None:
    role = role_of(scores(previous=0.4, induction=0.9, entropy=1.0))
    assert role is not None
    assert (role.name, role.score) == ("induction", pytest.approx(0.9))
    assert role_of(scores(previous=0.29, entropy=0.9)) is None


def test_the_hardest_look_is_at_the_largest_share_that_is_no_sink() -> None:
    rows = random_rows(7, 12)
    rows[:, 0] = 1.0
    look = hardest_look(rows)
    assert look is not None
    shares = {(h, t): float(rows[h, t]) for h in range(7) for t in range(1, 12)}
    assert shares[look.head, look.token] == look.weight == max(shares.values())


def test_where_nothing_else_is_seen_there_is_no_look() -> None:
    assert hardest_look(np.ones((3, 1), np.float32)) is None
    assert hardest_look(np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)) is None
    assert hardest_look(np.full((2, 5), np.nan, np.float32)) is None
