"""What stages leave of a few candidates, and where that cannot be told.

That it is what llama.cpp leaves of real scores,
`tests/app/engine/process/sampling/test_filters_native.py` proves.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.engine.protocol.stages import (
    Dry,
    DynamicTemperature,
    LogitBias,
    MinP,
    Penalties,
    Temperature,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.insight.sampling import filters
from app.insight.sampling.filters import Known, filtered, paths
from app.insight.sampling.pool import NO_REST, CannotTell, Pool, pool_of

LOGS = [math.log(p) for p in (0.4, 0.3, 0.15, 0.1)]


def few(n_vocab: int = 4) -> Pool:
    """Four candidates; of a vocabulary of four nothing is missing but 5 % of rounding."""
    return pool_of((30, 10, 40, 20), LOGS, n_vocab)


def many() -> Pool:
    """The same four, and 5 % on a thousand others."""
    return few(1004)


def ids(pool: Pool, stage: Any, **known: Any) -> list[tuple[int, ...]]:
    return [left.ids for left in filtered(pool, stage, **known)]


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        (TopK(2), 2),
        (TopP(0.6), 2),
        (TopP(0.6, min_keep=3), 3),
        (MinP(0.5), 2),
        (MinP(0.5, min_keep=3), 3),
        (TopNSigma(0.5), 1),
        (Temperature(0.0), 1),
        (TopK(0), 4),
        (TopP(1.0), 4),
        (MinP(0.0), 4),
        (Typical(1.0), 4),
        (TopNSigma(0.0), 4),
        (Dry(multiplier=0.0), 4),
    ],
    ids=repr,
)
def test_how_many_a_stage_leaves(stage: Any, left: int) -> None:
    (pool,) = filtered(few(), stage)
    assert pool.ids == (30, 10, 40, 20)[:left]


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        (TopNSigma(1.0), "needs the logits of all tokens"),
        (Typical(0.5), "needs the logits of all tokens"),
        (DynamicTemperature(1.0, 0.5), "needs the logits of all tokens"),
        (Penalties(8, 1.0, 0.5), "prompt tokens"),
        (Dry(), "all the text before the token"),
        (LogitBias([TokenBias(text="x", bias=1.0)]), "needs a loaded model"),
        (LogitBias([TokenBias(99, bias=1.0)]), "outside the recorded 4"),
    ],
    ids=repr,
)
def test_what_needs_more_than_was_recorded_says_so(stage: Any, reason: str) -> None:
    with pytest.raises(CannotTell) as refused:
        filtered(many(), stage)
    assert reason in refused.value.sentence
    assert refused.value.sentence.endswith(".")


def test_the_repetition_penalty_needs_the_logit_itself() -> None:
    known = Known([10], is_whole=True)
    with pytest.raises(CannotTell) as refused:
        filtered(few(), Penalties(8, 1.3), known=known)
    assert refused.value.sentence == filters.NEEDS_LOGIT
    assert ids(few(), Penalties(8, 1.3), known=Known([], is_whole=True)) == [few().ids]


def test_penalties_look_back_so_far_and_no_further() -> None:
    stage = Penalties(2, 1.0, 0.0, 5.0)
    # Token 30 stands three back: outside the window.
    assert ids(few(), stage, known=Known([30, 1, 1])) == [(30, 10, 40, 20)]
    assert ids(few(), stage, known=Known([1, 30, 1])) == [(10, 40, 20, 30)]


def test_a_stage_that_cuts_inside_the_recorded_ones_leaves_nothing_of_the_rest() -> None:
    for stage in (TopK(3), TopP(0.65), MinP(0.5)):
        (left,) = filtered(many(), stage)
        assert not left.rest
    for stage in (TopK(5), TopP(0.97), MinP(0.001)):
        assert any(left.rest for left in filtered(many(), stage))


def test_what_is_lowered_below_the_rest_may_be_one_of_it() -> None:
    """Top-k 3 would else keep a token that others have overtaken."""
    lowered, left = paths(many(), [LogitBias([TokenBias(40, bias=-9.0)]), TopK(3)])[0][1:]
    assert lowered.ids == (30, 10, 20)
    assert lowered.rest.most == 1001
    assert left.ids == (30, 10, 20)


def test_where_a_limit_is_too_near_both_outcomes_are_told() -> None:
    pool = pool_of((1, 2, 3), [math.log(p) for p in (0.5, 0.3, 0.2)], 3)
    assert ids(pool, TopP(0.8)) == [(1, 2), (1, 2, 3)]
    assert ids(pool, MinP(0.6)) == [(1, 2), (1,)]
    assert len(paths(pool, [TopP(0.8), Temperature(0.5)])) == 2


def test_equal_candidates_at_a_cut_are_not_told() -> None:
    pool = pool_of((1, 2, 3), [math.log(p) for p in (0.4, 0.3, 0.3)], 3)
    with pytest.raises(CannotTell) as refused:
        filtered(pool, TopK(2))
    assert refused.value.sentence == filters.TOO_CLOSE


def test_xtc_acts_by_its_number_and_both_ways_without_one() -> None:
    stage = Xtc(0.5, 0.2)
    assert ids(few(), stage, uniform=0.5) == [(10, 40, 20)]
    assert ids(few(), stage, uniform=0.51) == [(30, 10, 40, 20)]
    assert len(ids(few(), stage)) == 2
    assert ids(few(), Xtc(1.0, 0.2)) == [(10, 40, 20)]


def test_the_order_is_llama_cpps() -> None:
    def order(stages: list[Any]) -> list[int]:
        pool = paths(few(), stages)[0][-1]
        return [pool.ids[at] for at in pool.in_native_order()]

    assert order([Temperature(0.5)]) == [10, 20, 30, 40]  # nothing has sorted yet
    assert order([MinP(0.3)]) == [10, 30, 40]
    assert order([TopK(3)]) == [30, 10, 40]
    assert order([TopK(4), LogitBias([TokenBias(30, bias=-0.1)])]) == [30, 10, 40, 20]


def test_each_xtc_of_a_chain_has_its_own_number() -> None:
    chain = [Xtc(0.5, 0.3), Xtc(0.5, 0.3)]
    path = paths(few(), chain, Known(uniforms=[0.9, 0.1]))[0]
    assert [len(pool.ids) for pool in path] == [4, 4, 3]


def test_entries_without_a_chance_are_kept_where_too_few_others_are() -> None:
    """llama.cpp divides the entropy by the most that its array could have, so they count."""
    pool = Pool((7, 3), (0.0, -1.0), NO_REST, 10, True)
    for stage in (TopP(0.5, 3), MinP(0.9, 3)):
        (left,) = filtered(pool, stage)
        assert (left.ids, left.size) == ((7, 3), 3)
