"""The chain stage by stage against llama.cpp's own chain, and every value that it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from each import each
from native_session import NativeSession

from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain, NoCandidate, check, fresh_seed
from app.engine.process.trace.effects import StageFollower
from app.engine.process.trace.scores import scores_of
from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.stage_rules import MAX_SEED
from app.engine.protocol.stages import (
    Dist,
    Greedy,
    MinP,
    Penalties,
    Sampling,
    Temperature,
    TopK,
    TopP,
)

BAD: list[tuple[Sampling, str, str]] = [
    (Sampling([Temperature(math.nan)]), "filters[0].t", "Temperature must be between 0 and 100"),
    (Sampling([Temperature(math.inf)]), "filters[0].t", "Temperature"),
    (Sampling([Temperature(-0.1)]), "filters[0].t", "not -0.1"),
    (Sampling([Temperature("hot")]), "filters[0].t", "must be a number, not 'hot'"),
    (Sampling([Temperature(True)]), "filters[0].t", "must be a number"),
    (Sampling([TopK(), TopP(1.5)]), "filters[1].p", "Top-p must be between 0 and 1, not 1.5"),
    (Sampling([TopP(0.5, 0)]), "filters[0].min_keep", "Top-p's minimum number of tokens"),
    (Sampling([MinP(-0.5)]), "filters[0].p", "Min-p"),
    (Sampling([MinP(0.5, -1)]), "filters[0].min_keep", "Min-p"),
    (Sampling([TopK(-2)]), "filters[0].k", "Top-k must be 0 (off) or a whole number up to"),
    (Sampling([TopK(1.5)]), "filters[0].k", "must be a whole number, not 1.5"),
    (Sampling([TopK(10**12)]), "filters[0].k", "Top-k"),
    (Sampling([Penalties(last_n=-2)]), "filters[0].last_n", "Penalty window"),
    (Sampling([Penalties(repeat=0.0)]), "filters[0].repeat", "Repetition penalty"),
    (Sampling([Penalties(repeat=math.nan)]), "filters[0].repeat", "not nan"),
    (Sampling([Penalties(frequency=1e9)]), "filters[0].frequency", "Frequency penalty"),
    (Sampling([Penalties(presence=-math.inf)]), "filters[0].presence", "Presence penalty"),
    (Sampling(seed=-1), "seed", "Seed must be a whole number from 0"),
    (Sampling(seed=2**32 - 1), "seed", "Seed"),
    (Sampling(seed=1.0), "seed", "Seed"),
    (Sampling([Greedy()]), "filters", "“greedy” selects a token, so it must be the last stage"),
    (Sampling([], TopK()), "select", "must select a token"),
    (Sampling([TopK()] * 33), "filters", "at most 32 stages"),
    (Sampling(["—🙂"]), "filters[0]", "Unknown sampling stage"),
    (Sampling([Temperature("x" * 10_000)]), "filters[0].t", "…"),
]


@each(("sampling", "field", "words"), BAD)
def test_bad_value_is_refused_by_name(sampling: Any, field: str, words: str) -> None:
    with pytest.raises(BadSetting) as caught:
        check(sampling)
    assert caught.value.field == field
    assert words in caught.value.sentence
    assert caught.value.sentence.endswith(".")
    assert len(caught.value.sentence) < 200
    with pytest.raises(BadSetting):
        Chain(sampling, n_vocab=100, n_ctx=100)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling([], Greedy()),
        Sampling([], seed=0),
        Sampling([], seed=MAX_SEED),
        Sampling([Temperature(0), TopK(0), TopK(-1), TopP(0.0), TopP(1), MinP(0)]),
        Sampling([Penalties(-1, 1.3, -2.0, 2.0), Penalties(0)]),
    ],
    ids=lambda value: None,
)
def test_sensible_values_pass(sampling: Sampling) -> None:
    check(sampling)


def test_fresh_seeds_differ_and_stay_in_range() -> None:
    seeds = {fresh_seed() for _ in range(200)}
    assert len(seeds) > 190
    assert all(0 <= seed <= MAX_SEED for seed in seeds)


def test_missing_seed_is_drawn_and_a_given_one_is_kept() -> None:
    chains = [Chain(Sampling(seed=seed), n_vocab=10, n_ctx=10) for seed in (None, None, 0, 7)]
    seeds = [chain.seed for chain in chains]
    assert seeds[2:] == [0, 7]
    assert seeds[0] != seeds[1]
    for chain in chains:
        chain.close()


CHAINS: list[Sampling] = [
    Sampling([], Greedy()),
    Sampling([], Dist(), seed=0),
    Sampling(seed=11),
    Sampling([TopK(40), TopP(0.95), MinP(0.05), Temperature(0.8)], seed=12),
    Sampling([Temperature(1.5), TopK(100)], seed=13),
    Sampling([Penalties(64, 1.2, 0.3, 0.2), TopK(5), Temperature(1.2)], seed=14),
    Sampling([MinP(0.02), Penalties(-1, 1.1), Temperature(1.0), TopP(0.9)], seed=15),
    Sampling([TopP(0.7, 3), Temperature(2.0), MinP(0.1, 2), TopK(7)], seed=MAX_SEED),
    Sampling([Penalties(16, 1.5), TopK(20), Temperature(0.0)], seed=16),
    Sampling([Temperature(0.7), Temperature(1.4), TopK(0), TopP(1.0)], seed=17),
]


def native_chain(sampling: Sampling, n_vocab: int, n_ctx: int) -> Any:
    """The same chain built by hand as llama.cpp's own."""
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    for stage in sampling.filters:
        if isinstance(stage, Penalties):
            last_n = n_ctx if stage.last_n < 0 else stage.last_n
            sampler = llama.llama_sampler_init_penalties(
                n_vocab, last_n, stage.repeat, stage.frequency, stage.presence
            )
        elif isinstance(stage, TopK):
            sampler = llama.llama_sampler_init_top_k(stage.k)
        elif isinstance(stage, TopP):
            sampler = llama.llama_sampler_init_top_p(stage.p, stage.min_keep)
        elif isinstance(stage, MinP):
            sampler = llama.llama_sampler_init_min_p(stage.p, stage.min_keep)
        else:
            sampler = llama.llama_sampler_init_temp(stage.t)
        llama.llama_sampler_chain_add(chain, sampler)
    if isinstance(sampling.select, Greedy):
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_greedy())
    else:
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_dist(sampling.seed or 0))
    return chain


@pytest.mark.weights
@pytest.mark.parametrize("file", ["made", pytest.param("starter", marks=pytest.mark.soak)])
@pytest.mark.parametrize("number", range(len(CHAINS)))
def test_tokens_equal_llama_cpps_own_chain(
    number: int, file: str, request: pytest.FixtureRequest, native_log: NativeLog
) -> None:
    """30 tokens drawn stage by stage, then the same by llama_sampler_sample, on the same scores.

    Both look at the scores of the same decodes: the session draws, and beside it the native
    chain samples from the context that the session has just decoded.
    """
    weights: Weights = request.getfixturevalue(file)
    session = NativeSession(weights, native_log)
    sampling = CHAINS[number]
    n_vocab, n_ctx = weights.vocabulary.n_vocab, weights.n_ctx
    prompt = weights.vocabulary.tokenize("Once upon a time, in a small village by the sea,")
    chain = Chain(sampling, n_vocab=n_vocab, n_ctx=n_ctx)
    chain.see_prompt(prompt)
    reference = native_chain(sampling, n_vocab, n_ctx)
    for token_id in prompt:
        llama.llama_sampler_accept(reference, token_id)
    candidates, ours, theirs = Candidates(n_vocab), [], []
    cells = session.scheduler._slots[0].cells
    batch = session.scheduler._batch
    tokens = prompt
    for _ in range(30):
        batch.clear()
        row = batch.add(tokens, len(cells), 0, want_scores=True)
        assert llama.llama_decode(weights.context, batch.native) == 0
        cells.ids.extend(tokens)
        draw = chain.draw(scores_of(weights.context, row, n_vocab), candidates)
        chain.accept(draw.token_id)
        ours.append(draw.token_id)
        theirs.append(llama.llama_sampler_sample(reference, weights.context, row))
        tokens = [draw.token_id]
    assert ours == theirs
    if isinstance(sampling.select, Greedy):
        assert len(set(ours)) > 3
    chain.close()
    llama.llama_sampler_free(reference)


def test_stages_say_what_they_left() -> None:
    chain = Chain(Sampling([TopK(4), TopP(0.8), Temperature(2.0)], seed=1), n_vocab=6, n_ctx=10)
    scores = np.log(np.array([0.05, 0.4, 0.1, 0.3, 0.05, 0.1], np.float32))
    draw = chain.draw(scores, Candidates(6), record=True)
    follower = StageFollower(scores, 1, np.arange(6, dtype=np.int32))
    effects = [follower.follow(snapshot) for snapshot in draw.snapshots]
    assert [(e.stage, e.left) for e in effects] == [
        ("top-k", 4),
        ("top-p", 3),
        ("temperature", 3),
        ("dist", 3),
    ]
    assert effects[0].probability == pytest.approx(0.4 / 0.9, abs=1e-5)
    assert effects[1].probability == pytest.approx(0.4 / 0.8, abs=1e-5)
    roots = [math.sqrt(p) for p in (0.4, 0.3, 0.1)]
    assert effects[2].probability == pytest.approx(roots[0] / sum(roots), abs=1e-5)
    chain.close()


def test_penalties_see_the_prompt_within_their_window() -> None:
    scores = np.array([1.0, 0.9, 0.0], np.float32)
    for window, expected in ((1, 0), (2, 1), (-1, 1)):
        sampling = Sampling([Penalties(window, repeat=2.0)], Greedy())
        chain = Chain(sampling, n_vocab=3, n_ctx=10)
        chain.see_prompt([0, 2])
        assert chain.draw(scores, Candidates(3)).token_id == expected
        chain.close()


@pytest.mark.parametrize(
    ("scores", "sampling", "stage"),
    [
        ([math.nan, 1.0], Sampling(), "scores"),
        ([-math.inf, -math.inf], Sampling(), "scores"),
        ([math.inf, 1.0], Sampling(), "scores"),
        ([3e38, 1e38], Sampling([Temperature(1e-3)]), "temperature"),
    ],
)
def test_nothing_left_names_the_stage(scores: list[float], sampling: Sampling, stage: str) -> None:
    chain = Chain(sampling, n_vocab=2, n_ctx=10)
    with pytest.raises(NoCandidate) as caught:
        chain.draw(np.array(scores, np.float32), Candidates(2))
    assert caught.value.evidence == stage
    assert caught.value.sentence.endswith(".")
    chain.close()


def test_one_finite_candidate_is_enough() -> None:
    chain = Chain(Sampling(seed=3), n_vocab=3, n_ctx=10)
    scores = np.array([-math.inf, -5.0, -math.inf], np.float32)
    assert [chain.draw(scores, Candidates(3)).token_id for _ in range(5)] == [1] * 5
    chain.close()


def test_same_seed_draws_the_same_and_another_seed_does_not() -> None:
    def drawn(seed: int) -> list[int]:
        chain = Chain(Sampling([], seed=seed), n_vocab=50, n_ctx=10)
        candidates, scores = Candidates(50), np.zeros(50, np.float32)
        tokens = [chain.draw(scores, candidates).token_id for _ in range(20)]
        chain.close()
        return tokens

    assert drawn(5) == drawn(5)
    assert drawn(0) == drawn(0)
    assert drawn(5) != drawn(0)
