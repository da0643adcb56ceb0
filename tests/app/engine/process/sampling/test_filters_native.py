"""Stages redone by arithmetic on 64 candidates against llama.cpp's own on all of them.

Nothing of `app.engine.process.sampling.chain` says what is right here: each native sampler is
applied by hand to the scores of real weights, and what it leaves is compared with what
`app.insight.sampling.filters` says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from native_chains import LARGE, Array, Steps, native_chain

from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.process.trace.measuring import Measurer
from app.engine.process.trace.outbox import TokenRecord
from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    DynamicTemperature,
    FilterStage,
    Greedy,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    SelectStage,
    Temperature,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.insight.sampling.dice import Uniforms
from app.insight.sampling.filters import Known, paths
from app.insight.sampling.pool import (
    SUM_ERROR,
    CannotTell,
    Pool,
    entropy_bits,
    pool_of,
    rest_share,
    shares,
)
from app.insight.sampling.what_if import DrawSettings, WhatIf, drawn, what_if

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module", params=["starter", pytest.param("gemma", marks=pytest.mark.soak)])
def steps(request: pytest.FixtureRequest) -> Iterator[Steps]:
    made = Steps(request.getfixturevalue(request.param))
    yield made
    pools.cache_clear()
    made.close()


def exact(scores: np.ndarray) -> np.ndarray:
    """Softmax in float64."""
    weights = np.exp(scores.astype(np.float64) - scores.max())
    return weights / weights.sum()


@cache
def pools(steps: Steps) -> list[Pool]:
    n_vocab = steps.weights.vocabulary.n_vocab
    measurer = Measurer(n_vocab)
    found = []
    for scores in steps.rows:
        measured = measurer.measure(scores, 0, 64)
        ids, logprobs = measured.alternative_ids, measured.alternative_logprobs
        found.append(pool_of(ids.tolist(), logprobs.tolist(), n_vocab))
    return found


def random_filters(source: random.Random, prompt: Sequence[int]) -> list[FilterStage]:
    """Two to six filters in any order; mostly top-k comes early, as people have it."""
    uniform, keep = source.uniform, source.choice([1, 1, 1, 3])
    biased = source.sample(sorted(set(prompt)), 6)
    filters: list[FilterStage] = [
        Penalties(source.choice([-1, 8, 64]), 1.0, uniform(0, 2), uniform(0, 2)),
        TopNSigma(uniform(0.5, 3)),
        TopK(source.choice([1, 5, 20, 40, 60])),
        Typical(uniform(0.2, 0.99), keep),
        TopP(uniform(0.2, 0.99), keep),
        MinP(uniform(0.005, 0.3), keep),
        Xtc(uniform(0.3, 1), uniform(0.02, 0.3), keep),
        Temperature(uniform(0.3, 1.9)),
        DynamicTemperature(uniform(0.5, 1.5), uniform(0.1, 0.5), uniform(0.5, 2)),
    ]
    chain = source.sample(filters, source.randint(2, 6))
    if source.random() < 0.7 and not any(isinstance(stage, TopK) for stage in chain):
        chain.insert(0, TopK(source.choice([10, 40, 63])))
    # Typical sampling behind a stage that leaves candidates of −∞ is what llama.cpp's own chain
    # gets wrong, and so is a bias behind a stage that sorts (see chain.py).
    if any(isinstance(stage, Typical) for stage in chain):
        chain = [stage for stage in chain if not isinstance(stage, TopNSigma)]
    if source.random() < 0.3:
        biases = [TokenBias(t, bias=uniform(-6, 0), ban=source.random() < 0.3) for t in biased]
        chain.insert(0, LogitBias(biases))
    return chain


def native_path(
    chain: Any, n_filters: int, scores: np.ndarray
) -> tuple[list[np.ndarray], list[int], Array]:
    """What is left before and after each stage, the entries of the array, and the array."""
    array = Array(scores)
    lefts, sizes = [array.left], [int(array.native.size)]
    for at in range(n_filters):
        array.apply(llama.llama_sampler_chain_get(chain, at))
        lefts.append(array.left)
        sizes.append(int(array.native.size))
    return lefts, sizes, array


def agrees(pool: Pool, left: np.ndarray, n_vocab: int) -> bool:
    """Whether the pool tells what llama.cpp has: who is left, in which order, with which share."""
    by_id = np.zeros(n_vocab)
    by_id[left["id"]] = exact(left["logit"])
    if not pool.rest:
        order = [pool.ids[at] for at in pool.in_native_order()]
        if order != left["id"].tolist():
            return False
    found = by_id[list(pool.ids)]
    if not (found > 0).all():
        return False
    beyond = rest_share(pool)
    if not beyond.low - 1e-3 <= 1 - found.sum() <= beyond.high + 1e-3:
        return False
    slack = 20 * pool.slack + 1e-4
    return all(
        share.low * (1 - slack) - 1e-7 <= p <= share.high * (1 + slack) + 1e-7
        for share, p in zip(shares(pool), found.tolist(), strict=True)
    )


def test_shares_equal_an_independent_softmax_of_native_logits(steps: Steps) -> None:
    for pool, scores in zip(pools(steps), steps.rows, strict=True):
        probabilities = exact(scores)
        for token_id, share in zip(pool.ids, shares(pool), strict=True):
            assert share.low == pytest.approx(probabilities[token_id], rel=1e-4)
            assert share.high == pytest.approx(probabilities[token_id], rel=1e-4)
        logits = scores[list(pool.ids)].astype(np.float64)
        assert pool.scores == pytest.approx(logits - scores.max(), abs=1e-5)
        entropy = -(probabilities * np.log2(np.maximum(probabilities, 1e-300))).sum()
        found = entropy_bits(pool)
        assert found.low - 1e-3 <= entropy <= found.high + 1e-3


@pytest.mark.parametrize("t", [0.2, 0.7, 1.0, 1.4, 2.5])
def test_what_the_rest_may_weigh_at_a_temperature_holds_what_it_weighs(
    t: float, steps: Steps
) -> None:
    for pool, scores in zip(pools(steps), steps.rows, strict=True):
        ((_, heated),) = paths(pool, [Temperature(t)])
        probabilities = exact(scores / np.float32(t))
        for token_id, share in zip(heated.ids, shares(heated), strict=True):
            assert share.low * 0.9999 <= probabilities[token_id] <= share.high * 1.0001
        beyond = 1 - sum(probabilities[token_id] for token_id in heated.ids)
        found = rest_share(heated)
        assert found.low - 1e-5 <= beyond <= found.high + 1e-5


def check_chain(steps: Steps, seed: int) -> tuple[int, int]:
    """One random chain at all steps, stage by stage. How many steps were told, and exactly."""
    source = random.Random(seed)
    filters = random_filters(source, steps.prompt)
    n_vocab = steps.weights.vocabulary.n_vocab
    if n_vocab > LARGE and not isinstance(filters[0], LogitBias):
        filters.insert(0, TopK(63))
    sampling = Sampling(filters, Dist(), seed=source.randint(0, 2**32 - 2))
    chain = native_chain(sampling, steps.weights, steps.prompt)
    deciding, uniforms = Uniforms(sampling.seed or 0, is_float=True), Uniforms(sampling.seed or 0)
    before, n_decided, n_told, n_exact = list(steps.prompt), 0, 0, 0
    for place, (pool, scores) in enumerate(zip(pools(steps), steps.rows, strict=True)):
        lefts, sizes, array = native_path(chain, len(filters), scores)
        at_xtc = next((i for i, s in enumerate(filters) if isinstance(s, Xtc)), None)
        number = None
        if at_xtc is not None and sizes[at_xtc] > 1:
            number, n_decided = deciding[n_decided], n_decided + 1
        array.apply(llama.llama_sampler_chain_get(chain, len(filters)))
        try:
            found = paths(pool, filters, Known(before, True, [number]))
        except CannotTell:
            pass
        else:
            n_told += 1
            right = [
                path
                for path in found
                if all(agrees(p, left, n_vocab) for p, left in zip(path, lefts, strict=True))
            ]
            assert right, (seed, place, filters, [[len(p.ids) for p in path] for path in found],
                           [len(left) for left in lefts])  # fmt: skip
            if len(found) == 1 and not found[0][-1].rest:
                n_exact += 1
                assert array.selected in drawn(found[0][-1], uniforms[place])
        before.append(array.selected)
        llama.llama_sampler_accept(chain, array.selected)
    llama.llama_sampler_free(chain)
    return n_told, n_exact


@pytest.mark.parametrize("share", [0.4, pytest.param(1.0, marks=pytest.mark.soak)])
def test_random_chains_leave_what_llama_cpps_stages_leave(share: float, steps: Steps) -> None:
    n_chains = int(share * (16 if steps.weights.vocabulary.n_vocab < LARGE else 6))
    counts = [check_chain(steps, seed) for seed in range(n_chains)]
    n_told, n_exact = (sum(column) for column in zip(*counts, strict=True))
    assert n_told > 0.6 * n_chains * len(steps.rows)
    assert n_exact > 0.4 * n_chains * len(steps.rows)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(1000, 1200, 20))
def test_many_random_chains_leave_what_llama_cpps_stages_leave(start: int, steps: Steps) -> None:
    for seed in range(start, start + 20):
        check_chain(steps, seed)


# --- what if --------------------------------------------------------------------------------------


def reply(steps: Steps, sampling: Sampling) -> list[TokenTrace]:
    """The trace of a reply as the engine records it, of the scores of these steps."""
    vocabulary = steps.weights.vocabulary
    chain = Chain(sampling, n_vocab=vocabulary.n_vocab, n_ctx=1024, vocabulary=vocabulary)
    chain.see_prompt(steps.prompt)
    candidates, measurer = Candidates(vocabulary.n_vocab), Measurer(vocabulary.n_vocab)
    traces = []
    for place, scores in enumerate(steps.rows):
        draw = chain.draw(scores, candidates, record=True)
        record = TokenRecord(
            *(1, place, draw.token_id, b"", scores, draw.snapshots, 64, 1.0), uniform=draw.uniform
        )
        traces.append(record.event(measurer).token)
        chain.accept(draw.token_id)
    chain.close()
    return traces


def native_first_change(
    steps: Steps, traces: list[TokenTrace], sampling: Sampling
) -> tuple[int, int] | None:
    """llama.cpp's own chain with the same seed, on the same scores and the reply's own tokens."""
    chain = native_chain(sampling, steps.weights, steps.prompt)
    found = None
    for place, scores in enumerate(steps.rows[: len(traces)]):
        _, _, array = native_path(chain, len(sampling.filters), scores)
        array.apply(llama.llama_sampler_chain_get(chain, len(sampling.filters)))
        if array.selected != traces[place].token_id:
            found = place, array.selected
            break
        llama.llama_sampler_accept(chain, array.selected)
    llama.llama_sampler_free(chain)
    return found


def settings_of(steps: Steps, sampling: Sampling) -> DrawSettings:
    n_vocab = steps.weights.vocabulary.n_vocab
    return DrawSettings(sampling.filters, sampling.select, n_vocab, prompt=steps.prompt)


def is_right(found: WhatIf, change: tuple[int, int] | None) -> bool:
    """What is sure is what llama.cpp drew; else the position is among those that are named."""
    unsure = {each.index: each.may_be for each in found.unsure}
    if change is not None and change[0] in unsure:
        may_be = unsure[change[0]]
        return not may_be or change[1] in may_be
    told = None if found.first is None else (found.first.index, found.first.token_id)
    return told == change


def to_the_next_edge(steps: Steps, traces: list[TokenTrace], sampling: Sampling) -> list[float]:
    """How far each number fell from where two candidates meet, by llama.cpp's own survivors."""
    chain = native_chain(sampling, steps.weights, steps.prompt)
    distances = []
    for trace, scores in zip(traces, steps.rows, strict=True):
        lefts, _, _ = native_path(chain, len(sampling.filters), scores)
        edges = np.cumsum(exact(lefts[-1]["logit"]))
        distances.append(float(np.abs(edges - trace.uniform).min()))
        llama.llama_sampler_accept(chain, trace.token_id)
    llama.llama_sampler_free(chain)
    return distances


OWN: list[list[FilterStage]] = [
    [TopK(40), TopP(0.95), MinP(0.05), Temperature(0.8)],
    [TopK(50), Temperature(1.3)],
    [TopK(40), Xtc(0.5, 0.1), Temperature(1.1)],
]


@pytest.mark.parametrize("own", OWN, ids=lambda f: "-".join(type(s).__name__ for s in f))
@pytest.mark.parametrize("count", [1, pytest.param(6, marks=pytest.mark.soak)])
def test_with_its_own_settings_nothing_changes(
    count: int, own: list[FilterStage], steps: Steps
) -> None:
    for seed in range(count):
        sampling = Sampling(own, Dist(), seed=seed)
        traces = reply(steps, sampling)
        found = what_if(traces, settings_of(steps, sampling))
        assert found.first is None
        assert found.looked_at == len(steps.rows)
        assert len(found.unsure) <= 3
        distances = to_the_next_edge(steps, traces, sampling)
        assert all(distances[each.index] < 2 * SUM_ERROR for each in found.unsure)


@pytest.mark.parametrize("count", [12, pytest.param(36, marks=pytest.mark.soak)])
def test_the_first_change_is_the_one_that_llama_cpp_draws_with_the_same_seed(
    count: int, steps: Steps
) -> None:
    source = random.Random(4)
    n_exact = n_changed = 0
    for number in range(count):
        own = Sampling(source.choice(OWN), Dist(), seed=source.randint(0, 2**32 - 2))
        chain = [
            source.choice([TopK(source.choice([3, 20, 60])), TopP(source.uniform(0.5, 0.98))]),
            Temperature(source.uniform(0.4, 1.6)),
            MinP(source.uniform(0.01, 0.2)),
            TopK(60),
        ]
        if number % 3 == 0:
            chain.insert(0, Penalties(16, source.choice([0.8, 1.0, 1.4]), 0.4, 0.3))
        source.shuffle(chain)
        select: SelectStage = Greedy() if number % 6 == 5 else Dist()
        other = Sampling(chain, select, seed=own.seed)
        traces = reply(steps, own)
        found, change = (
            what_if(traces, settings_of(steps, other)),
            native_first_change(steps, traces, other),
        )
        assert is_right(found, change), (number, other, found, change)
        n_exact += not found.unsure
        n_changed += found.first is not None
    assert n_exact > count / 2
    assert n_changed > count * 2 / 3


@pytest.mark.parametrize("count", [6, pytest.param(42, marks=pytest.mark.soak)])
def test_what_remembers_its_draws_is_walked_along_the_reply(count: int, steps: Steps) -> None:
    """Mirostat and adaptive-p with the reply's numbers: every second reply was drawn with just
    them, so that they are walked along to its end. Of a single candidate llama.cpp takes no number,
    and the next would be another one: others are compared up to there."""
    source = random.Random(9)
    n_told = n_own = 0
    for number in range(count):
        select = (
            Mirostat(source.uniform(3, 6), 0.2, source.choice([5, 40])),
            MirostatV2(source.uniform(3, 6), 0.3),
            AdaptiveP(source.uniform(0.1, 0.6), source.uniform(0.3, 0.95)),
        )[number % 3]
        chain = [TopK(source.choice([20, 40])), Temperature(source.uniform(0.6, 1.2))]
        other = Sampling(chain, select, seed=source.randint(0, 2**32 - 2))
        is_own = number % 2 == 0
        traces = reply(steps, other if is_own else Sampling(OWN[1], Dist(), seed=other.seed))
        if not is_own:
            traces = traces[: n_drawn_from_many(steps, other, traces)]
        found = what_if(traces, settings_of(steps, other))
        change = native_first_change(steps, traces, other)
        assert is_right(found, change), (number, other, found, change)
        if is_own:
            assert found.first is None
            n_told += found.looked_at - len(found.unsure)
            n_own += found.looked_at
    assert n_told > 0.5 * n_own


def n_drawn_from_many(steps: Steps, sampling: Sampling, traces: list[TokenTrace]) -> int:
    """How many first tokens llama.cpp draws from more than one candidate."""
    chain = native_chain(sampling, steps.weights, steps.prompt)
    count = 0
    for trace, scores in zip(traces, steps.rows, strict=True):
        _, _, array = native_path(chain, len(sampling.filters), scores)
        array.apply(llama.llama_sampler_chain_get(chain, len(sampling.filters)))
        if array.native.size < 2:
            break
        llama.llama_sampler_accept(chain, trace.token_id)
        count += 1
    llama.llama_sampler_free(chain)
    return count
