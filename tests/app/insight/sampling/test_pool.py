"""The recorded candidates: softmax, the rest's bounds, entropy."""

from __future__ import annotations

import math
import random

import pytest
from made_traces import trace_of

from app.insight.sampling.pool import (
    CannotTell,
    entropy_bits,
    heated,
    pool_of,
    recorded,
    rest_share,
    shares,
)


def spread(count: int, seed: int) -> list[float]:
    """Probabilities of a whole vocabulary, the largest first."""
    source = random.Random(seed)
    weights = sorted((math.exp(source.gauss(0, 2)) for _ in range(count)), reverse=True)
    return [weight / sum(weights) for weight in weights]


def test_all_shares_and_the_rest_are_one() -> None:
    probabilities = spread(500, 1)
    pool = pool_of(range(64), [math.log(p) for p in probabilities[:64]], 500)
    assert sum(share.low for share in shares(pool)) + rest_share(pool).high == pytest.approx(
        1, 0.01
    )
    for share, p in zip(shares(pool), probabilities, strict=False):
        assert share.low <= p * 1.00001
        assert p * 0.99999 <= share.high


@pytest.mark.parametrize("t", [0.1, 0.5, 0.99, 1.0, 1.01, 2.0, 20.0])
def test_after_a_temperature_the_true_shares_lie_within_what_is_told(t: float) -> None:
    for seed in range(8):
        probabilities = spread(700, seed)
        pool = heated(pool_of(range(64), [math.log(p) for p in probabilities[:64]], 700), t)
        weights = [p ** (1 / t) for p in probabilities]
        true = [weight / sum(weights) for weight in weights]
        for share, p in zip(shares(pool), true, strict=False):
            assert share.low * 0.9999 - 1e-12 <= p <= share.high * 1.0001 + 1e-12
        beyond = rest_share(pool)
        assert beyond.low * 0.9999 - 1e-9 <= sum(true[64:]) <= beyond.high * 1.0001 + 1e-9
        entropy = -sum(p * math.log2(p) for p in true if p > 0)
        assert entropy_bits(pool).low - 1e-3 <= entropy <= entropy_bits(pool).high + 1e-3


def test_a_whole_vocabulary_has_no_rest() -> None:
    pool = pool_of((1, 0), (math.log(0.75), math.log(0.25)), 2)
    assert not pool.rest
    assert entropy_bits(pool).low == entropy_bits(pool).high == pytest.approx(0.8113, abs=1e-4)


def test_nothing_recorded_is_said_in_words() -> None:
    with pytest.raises(CannotTell) as reason:
        pool_of((), (), 10)
    assert "weren't recorded" in reason.value.sentence


def test_a_candidate_without_any_chance_is_none() -> None:
    assert pool_of((1, 2), (0.0, -math.inf), 2).ids == (1,)


@pytest.mark.parametrize("logprobs", [(math.inf, 0.0), (900.0, 3.0), (math.nan, -1.0), (-1.0,)])
def test_numbers_that_no_softmax_gives_are_no_fault(logprobs: tuple[float, ...]) -> None:
    """A trace comes from another process or out of a file."""
    pool = pool_of((1, 2), logprobs, 10)
    assert all(0 <= share.low <= share.high <= 1 for share in shares(pool))
    assert 0 <= entropy_bits(pool).low <= entropy_bits(pool).high < 10


@pytest.mark.parametrize("logprobs", [(math.nan, math.nan), (-1e30, -1e30), (-800.0, -900.0)])
def test_numbers_that_say_nothing_count_as_not_recorded(logprobs: tuple[float, ...]) -> None:
    with pytest.raises(CannotTell):
        pool_of((1, 2), logprobs, 10)


def test_candidates_come_from_the_trace() -> None:
    (token,) = trace_of([b"a"], [0.6])
    assert recorded(token, 100).ids == (100, 7)
