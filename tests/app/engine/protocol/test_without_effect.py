"""Settings without an effect: each reason, and that what is said is true."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from each import each
from examples import examples

from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    DynamicTemperature,
    Greedy,
    LogitBias,
    MinP,
    MirostatV2,
    Penalties,
    Sampling,
    Temperature,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.engine.protocol.without_effect import without_effect, worth_saying

IDLE: list[tuple[Sampling, str, str]] = [
    (Sampling([TopP(1.0)]), "top-p", "Top-p 1 keeps every token"),
    (Sampling([MinP(0.0)]), "min-p", "Min-p 0"),
    (Sampling([Typical(1.0)]), "typical", "Typical 1"),
    (Sampling([TopK(0)]), "top-k", "Top-k 0"),
    (Sampling([TopK(-1)]), "top-k", "Top-k 0"),
    (Sampling([TopK(50)]), "top-k", "all 50 tokens of the vocabulary"),
    (Sampling([TopNSigma(0.0)]), "top-n-sigma", "Top-n-sigma 0"),
    (Sampling([Penalties(0, 1.3)]), "penalties", "window of 0 tokens"),
    (Sampling([Penalties(64)]), "penalties", "stage is neutral"),
    (Sampling([Dry(0.0)]), "dry", "multiplier is 0"),
    (Sampling([Dry(last_n=0)]), "dry", "window of 0 tokens"),
    (Sampling([Xtc(0.0)]), "xtc", "probability 0"),
    (Sampling([Xtc(threshold=0.51)]), "xtc", "threshold is above 0.5"),
    (Sampling([TopK(3), Xtc(min_keep=3)]), "xtc", "must keep 3 tokens"),
    (Sampling([LogitBias([TokenBias(3)])]), "logit-bias", "0 for every token"),
    (Sampling([LogitBias([])]), "logit-bias", "0 for every token"),
    (Sampling([Temperature(1.0)]), "temperature", "Temperature 1"),
    (Sampling([DynamicTemperature(1.0, 0.0)]), "dynamic-temperature", "without spread"),
    (Sampling([TopP(0.5, 60)]), "top-p", "Top-p must keep every token"),
    (Sampling([TopK(1), Xtc(0.5)]), "xtc", "Only one token is left before XTC"),
    (Sampling([TopK(5), TopK(10)]), "top-k", "already keeps only 5"),
    (Sampling([TopK(1), TopP(0.5)]), "top-p", "Only one token is left"),
    (Sampling([Temperature(0.0), Penalties(64, 1.5)]), "penalties", "Only one token is left"),
    (Sampling([Temperature(0.7)], Greedy()), "temperature", "greedy always takes it"),
    (Sampling([TopK(5)], Greedy()), "top-k", "greedy always takes it"),
    (Sampling([Penalties(64, 1.2), MinP(0.1)], Greedy()), "min-p", "greedy always takes it"),
    (Sampling([], Greedy(), seed=3), "greedy", "the seed has no effect"),
    (Sampling([], AdaptiveP(-1.0)), "adaptive-p", "decay has no effect"),
    (Sampling([TopK(1)], MirostatV2()), "mirostat-v2", "Only one token is left"),
    (Sampling([], min_tokens=3, ban_end_token=True), "min-tokens", "End tokens are banned"),
]


@each(("sampling", "stage", "words"), IDLE)
def test_what_has_no_effect_is_named(sampling: Sampling, stage: str, words: str) -> None:
    found = without_effect(sampling, n_vocab=50, n_ctx=100)
    assert [name for name, _ in found] == [stage]
    assert words in found[0][1]
    assert found[0][1].endswith("no effect.")


BUSY: list[Sampling] = [
    Sampling([], Dist()),
    Sampling([], Greedy()),
    Sampling([TopK(10), TopP(0.9), MinP(0.1), Temperature(0.7)]),
    Sampling([TopK(10), TopK(5)]),
    Sampling([TopK(5), Penalties(64, 1.2)], Greedy()),
    Sampling([Temperature(0.5), Xtc(0.5, 0.1)], Greedy(), seed=4),
    Sampling([TopK(3), Typical(0.5)], Greedy()),
    Sampling([TopK(1), LogitBias([TokenBias(3, ban=True)])]),
    Sampling([Temperature(0.5), Penalties(64, 1.2)], Greedy()),
]


@pytest.mark.parametrize("sampling", BUSY, ids=range(len(BUSY)))
def test_nothing_is_said_of_what_may_have_an_effect(sampling: Sampling) -> None:
    assert without_effect(sampling, n_vocab=50, n_ctx=100) == []


def test_penalties_that_are_switched_off_are_not_worth_a_note() -> None:
    sampling = Sampling([Penalties(), TopP(1.0)])
    assert len(without_effect(sampling, n_vocab=50, n_ctx=9)) == 2
    assert [name for name, _ in worth_saying(sampling, n_vocab=50, n_ctx=9)] == ["top-p"]


def chances(sampling: Sampling) -> list[dict[int, float]]:
    """What each token's chance was at the draw, over 20 steps. (The same number may draw another
    token: a stage that removes nothing may still sort.)"""
    source = np.random.default_rng(8)
    chain = Chain(sampling, n_vocab=50, n_ctx=100)
    candidates, found = Candidates(50), []
    for step in range(20):
        scores = source.normal(0, 2, 50).astype(np.float32)
        token_id = chain.draw(scores, candidates).token_id
        if isinstance(sampling.select, Greedy):
            found.append({token_id: 1.0})
        else:
            found.append({int(c["id"]): float(c["p"]) for c in candidates.view if c["p"] > 0})
        chain.accept(step % 7)
    chain.close()
    return found


def any_filter(source: random.Random) -> Any:
    return source.choice(
        [
            Penalties(source.choice([0, 20]), source.choice([1.0, 1.5])),
            TopK(source.choice([0, 1, 4, 10, 50])),
            TopP(source.choice([0.0, 0.5, 1.0]), source.choice([1, 60])),
            MinP(source.choice([0.0, 0.3, 1.0])),
            Xtc(source.choice([0.0, 1.0]), source.choice([0.1, 0.6]), source.choice([1, 5])),
            Temperature(source.choice([0.0, 0.5, 1.0, 2.0])),
            DynamicTemperature(source.choice([0.0, 1.0]), source.choice([0.0, 0.4])),
            TopNSigma(source.choice([0.0, 1.0])),
            Typical(source.choice([0.4, 1.0])),
            LogitBias([TokenBias(7, bias=source.choice([0.0, 3.0]))]),
        ]
    )


def test_leaving_out_what_has_no_effect_changes_no_chance() -> None:
    """Random chains: every stage that is named can go, one after the other."""
    removed, n_chains = 0, examples(400)
    for seed in range(n_chains):
        source = random.Random(seed)
        filters = [any_filter(source) for _ in range(source.randint(1, 5))]
        select = source.choice([Greedy(), Dist()])
        sampling = Sampling(filters, select, seed=seed)
        for position in range(len(filters)):
            alone = without_effect(sampling, n_vocab=50, n_ctx=100)
            without = Sampling(filters[:position] + filters[position + 1 :], select, seed=seed)
            fewer = without_effect(without, n_vocab=50, n_ctx=100)
            if len(fewer) < len(alone) and idle_at(sampling, position):
                for ours, theirs in zip(chances(sampling), chances(without), strict=True):
                    assert ours == pytest.approx(theirs, abs=1e-6), (sampling, position)
                removed += 1
    assert removed > n_chains * 2 / 3


def idle_at(sampling: Sampling, position: int) -> bool:
    """Whether the stage at this place is one of those that are named."""
    from app.engine.protocol.without_effect import _by_place, _by_value

    stage = sampling.filters[position]
    return bool(_by_value(stage, 50) or _by_place(sampling, position, 50))
