"""What is said of a stage against the candidates that llama.cpp has after it, on made-up scores.

The vocabularies are small and odd, scores are equal or −inf now and then, and the stages stand in
any order: whatever way a stage's doing was written down, it must say the same.
"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from native_chains import Array, native_chain

from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.process.trace.effects import StageFollower
from app.engine.process.trace.measuring import Measurer
from app.engine.process.trace.shortlist import ShortlistFinder
from app.engine.protocol.messages import SURVIVED
from app.engine.protocol.stages import (
    Dist,
    DynamicTemperature,
    Greedy,
    LogitBias,
    MinP,
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

SIZES = (1, 2, 7, 63, 64, 65, 130, 1_000, 2_047, 2_048, 2_049, 4_100, 9_000)


@given(
    seed=st.integers(0, 2**31),
    n_vocab=st.sampled_from(SIZES),
    alternatives=st.sampled_from((0, 1, 8, 64)),
    with_shortlist=st.booleans(),
)
@example(seed=0, n_vocab=65, alternatives=64, with_shortlist=True)
def test_each_stage_is_told_as_llama_cpp_has_it(
    seed: int, n_vocab: int, alternatives: int, with_shortlist: bool
) -> None:
    source = random.Random(seed)
    scores = made_up(source, n_vocab)
    sampling = chain_in_any_order(source, n_vocab)
    compare(scores, sampling, alternatives, with_shortlist)


@pytest.mark.parametrize(
    "filters",
    [
        [TopK(50), TopP(0.5)],
        [TopK(55), TopK(3)],
        [TopK(50), Temperature(0.7), MinP(0.3)],
        [TopP(0.9999999), TopK(5)],
        [TopK(50), Typical(1.0), TopK(4)],
        [Xtc(1.0, 0.5), TopP(0.4)],
    ],
    ids=lambda filters: "-".join(type(stage).__name__ for stage in filters),
)
def test_a_stage_that_sorts_and_keeps_all_does_not_mislead_the_next(filters: list[Any]) -> None:
    scores = np.random.default_rng(3).normal(0, 3, 50).astype(np.float32)
    for seed in range(5):
        compare(scores, Sampling(filters, Dist(), seed=seed), 20, with_shortlist=True)


def made_up(source: random.Random, n_vocab: int) -> np.ndarray:
    """Scores with equals, with −inf, or with next to nothing but the best one."""
    numbers = np.random.default_rng(source.randint(0, 2**31))
    scores = numbers.normal(0, source.choice([0.05, 2, 8, 60]), n_vocab).astype(np.float32)
    if source.random() < 0.4:
        scores = np.round(scores * 2) / np.float32(2)
    if source.random() < 0.4:
        scores[numbers.random(n_vocab) < source.choice([0.1, 0.9, 1.0])] = -np.inf
    if not np.isfinite(scores).any():
        scores[source.randrange(n_vocab)] = source.uniform(-30, 30)
    return scores


def chain_in_any_order(source: random.Random, n_vocab: int) -> Sampling:
    """Without what llama.cpp's own chain gets wrong (see chain.py)."""
    uniform = source.uniform
    some = source.sample(range(n_vocab), min(5, n_vocab // 2))
    filters: list[Any] = [
        TopNSigma(uniform(0.5, 3)),
        TopK(source.choice([1, 5, 40, 100, 1_000, n_vocab, n_vocab + 1, 20_000])),
        TopK(source.choice([2, 64, 65, n_vocab])),
        TopP(source.choice([uniform(0.2, 0.99), 0.9999999])),
        MinP(source.choice([uniform(0.01, 0.3), 1e-30])),
        Xtc(uniform(0.3, 1), uniform(0.02, 0.3)),
        Temperature(source.choice([1.0, uniform(0.5, 1.8)])),
        DynamicTemperature(uniform(0.5, 1.5), uniform(0.1, 0.5), uniform(0.5, 2)),
        Penalties(64, uniform(0.9, 1.6), uniform(0, 1), uniform(0, 1)),
    ]
    filters = source.sample(filters, source.randint(0, 5))
    if some and source.random() < 0.4:
        filters.insert(0, LogitBias([TokenBias(i, bias=uniform(-8, 8)) for i in some]))
    select = source.choice([Dist(), Dist(), Greedy()])
    return Sampling(filters, select, seed=source.randint(0, 2**31))


def compare(
    scores: np.ndarray, sampling: Sampling, alternatives: int, with_shortlist: bool
) -> None:
    n_vocab = len(scores)
    weights: Any = SimpleNamespace(
        vocabulary=SimpleNamespace(n_vocab=n_vocab), n_ctx=64, model=None
    )
    seen = list(range(0, n_vocab, max(n_vocab // 9, 1)))
    chain = Chain(sampling, n_vocab=n_vocab, n_ctx=64)
    chain.see_prompt(seen)
    shortlist = ShortlistFinder(n_vocab).find(scores, 64) if with_shortlist else None
    draw = chain.draw(scores, Candidates(n_vocab), record=True, shortlist=shortlist)
    measured = Measurer(n_vocab).measure(scores, draw.token_id, alternatives, shortlist)
    follower = StageFollower(scores, draw.token_id, measured.alternative_ids, measured)
    native, array = native_chain(sampling, weights, seen), Array(scores)
    gone: dict[int, int] = {}
    for stage, snapshot in enumerate(draw.snapshots):
        effect = follower.follow(snapshot)
        array.apply(llama.llama_sampler_chain_get(native, stage))
        left = candidates_of(array)
        assert effect.left == len(left), (sampling, effect)
        best = max(left.values())
        shares = {i: float(np.exp(np.float64(score) - best)) for i, score in left.items()}
        share = shares.get(draw.token_id, 0.0) / sum(shares.values())
        assert effect.probability == pytest.approx(share, abs=1e-5), (sampling, effect)
        for place, token_id in enumerate(measured.alternative_ids.tolist()):
            if token_id not in left:
                gone.setdefault(place, stage)
    assert array.selected == draw.token_id
    for place, removed_by in enumerate(follower.removed_by.tolist()):
        if scores[measured.alternative_ids[place]] > -np.inf:  # else no stage has done it
            assert removed_by == gone.get(place, SURVIVED), sampling
    chain.close()
    llama.llama_sampler_free(native)


def candidates_of(array: Array) -> dict[int, float]:
    """What is left, with a finite score."""
    native = array.native
    rows = [(native.data[i].id, native.data[i].logit) for i in range(native.size)]
    return {token_id: score for token_id, score in rows if score > -np.inf}
