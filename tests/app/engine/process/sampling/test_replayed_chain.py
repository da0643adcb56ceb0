"""Chains with given numbers against llama.cpp's own with the seed that those numbers come from:
who is left, with what shares, and which token it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from native_chains import LARGE, Array, Steps, _sampler, random_sampling

from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.process.sampling.replayed_chain import NO_NUMBER, ReplayedChain, Undecided
from app.engine.protocol.messages import SURVIVED
from app.engine.protocol.replay_messages import BANNED_BEFORE, FORBIDDEN, AskedDraw
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Greedy,
    LogitBias,
    Mirostat,
    MirostatV2,
    Sampling,
    SelectStage,
    Temperature,
    TokenBias,
    TopK,
    Xtc,
)
from app.insight.sampling.dice import Uniforms

pytestmark = pytest.mark.weights

N_FEW = 25


@pytest.fixture(
    scope="module",
    params=["made", *(pytest.param(name, marks=pytest.mark.soak) for name in ("starter", "gemma"))],
)
def steps(request: pytest.FixtureRequest) -> Iterator[Steps]:
    made = Steps(request.getfixturevalue(request.param))
    yield made
    made.close()


class Native:
    """llama.cpp's own chain, stage by stage, and the numbers that its generators gave."""

    def __init__(self, sampling: Sampling, steps: Steps) -> None:
        seed = sampling.seed or 0
        self.stages = [*sampling.filters, sampling.select]
        self.samplers = [_sampler(stage, seed, steps.weights) for stage in self.stages]
        self._uniforms, self._floats = Uniforms(seed), Uniforms(seed, is_float=True)
        self._n_drawn = 0
        self._n_decided = [0] * len(self.stages)
        for token_id in steps.prompt:
            self.accept(token_id)

    def draw(self, scores: np.ndarray) -> tuple[Array, AskedDraw]:
        array, deciding = Array(scores), list[float | None]()
        for at, (stage, sampler) in enumerate(zip(self.stages, self.samplers, strict=True)):
            if isinstance(stage, Xtc):
                is_idle = stage.probability <= 0 or stage.threshold > 0.5
                decides = array.native.size > 1 and not is_idle
                deciding.append(self._floats[self._n_decided[at]] if decides else None)
                self._n_decided[at] += decides
            array.apply(sampler)
        select = self.stages[-1]
        is_drawn = isinstance(select, Dist) or (
            not isinstance(select, Greedy) and array.native.size > 1
        )
        uniform = self._uniforms[self._n_drawn] if is_drawn else None
        self._n_drawn += is_drawn
        return array, AskedDraw(0, uniform, deciding)

    def accept(self, token_id: int) -> None:
        for sampler in self.samplers:
            llama.llama_sampler_accept(sampler, token_id)

    def free(self) -> None:
        for sampler in self.samplers:
            llama.llama_sampler_free(sampler)


def chain_of(sampling: Sampling, steps: Steps) -> ReplayedChain:
    vocabulary = steps.weights.vocabulary
    chain = ReplayedChain(
        msgspec.structs.replace(sampling, seed=None),
        n_vocab=vocabulary.n_vocab,
        n_ctx=steps.weights.n_ctx,
        vocabulary=vocabulary,
    )
    chain.see_prompt(steps.prompt)
    return chain


def compare(sampling: Sampling, steps: Steps, source: random.Random, n_steps: int) -> None:
    """Half of the texts go on as they were drawn, half as somebody has written them."""
    native, chain = Native(sampling, steps), chain_of(sampling, steps)
    candidates = Candidates(steps.weights.vocabulary.n_vocab)
    follows = source.random() < 0.5
    for scores in steps.rows[:n_steps]:
        array, asked = native.draw(scores)
        drawn = chain.replayed(scores, candidates, asked, explain=True)
        told = chain.explained
        assert told is not None
        assert drawn.token_id == array.selected, sampling
        left = array.left
        assert told.left[-1] == (1 if isinstance(sampling.select, Greedy) else len(left)), sampling
        weights = np.exp((left["logit"] - left["logit"].max()).astype(np.float64))
        shares = dict(zip(left["id"].tolist(), weights / weights.sum(), strict=True))
        for token_id, share, removed_by in rows_of(told):
            if isinstance(sampling.select, Greedy):
                assert share == (token_id == array.selected)
            else:
                assert share == pytest.approx(shares.get(token_id, 0.0), abs=1e-6), sampling
                assert (removed_by == SURVIVED) == (token_id in shares), sampling
        text = array.selected if follows else int(source.choice(steps.prompt))
        native.accept(text)
        chain.accept(text)
    native.free()
    chain.close()


def rows_of(told: Any) -> list[tuple[int, float, int]]:
    return list(zip(told.ids.numbers(), told.shares.numbers(), told.removed_by.data, strict=True))


@pytest.mark.parametrize("count", [16, pytest.param(120, marks=pytest.mark.soak)])
def test_random_chains_leave_and_draw_what_llama_cpp_does(count: int, steps: Steps) -> None:
    n_vocab = steps.weights.vocabulary.n_vocab
    for seed in range(count // 4 if n_vocab > LARGE else count):
        source = random.Random(seed)
        compare(random_sampling(source, n_vocab, steps.prompt), steps, source, N_FEW)


@pytest.mark.parametrize(
    "select",
    [Mirostat(3.0, 0.2, 50), Mirostat(5.0, 0.1, 2), MirostatV2(2.0, 0.3), MirostatV2(6.0, 1.0),
     AdaptiveP(0.3, 0.9), AdaptiveP(0.0, 0.5), AdaptiveP(1.0, 0.99), AdaptiveP(-1.0, 0.9)],
    ids=repr,
)  # fmt: skip
def test_what_remembers_its_draws_is_replayed(select: SelectStage, steps: Steps) -> None:
    for seed in range(2):
        sampling = Sampling([Temperature(1.1)], select, seed=seed)
        compare(sampling, steps, random.Random(seed), N_FEW)


def test_each_candidate_has_the_stage_that_removed_it(steps: Steps) -> None:
    scores = steps.rows[0]
    best = np.argsort(-scores, kind="stable")
    sampling = Sampling([LogitBias([TokenBias(int(best[0]), ban=True)]), TopK(3)], Greedy())
    chain, candidates = chain_of(sampling, steps), Candidates(len(scores))
    asked = AskedDraw(0, banned=[int(best[1])])
    drawn = chain.replayed(scores, candidates, asked, written=int(best[-1]), explain=True)
    assert drawn.token_id == best[2]
    assert chain.explained is not None
    ends = {token_id: end for token_id, _, end in rows_of(chain.explained)}
    wanted = [0, BANNED_BEFORE, SURVIVED, 2, 2, 1]
    assert [ends[int(best[at])] for at in range(6)] == wanted
    assert ends[int(best[-1])] == 1
    assert chain.explained.left == [len(scores) - 2, 3, 1]
    chain.close()


def test_without_a_number_the_candidates_are_told_and_the_draw_is_not(steps: Steps) -> None:
    """What was chosen by hand counts as drawn: mirostat's limit moves by it."""
    sampling = Sampling([], MirostatV2(4.0, 0.5))
    chain, candidates = chain_of(sampling, steps), Candidates(len(steps.rows[0]))
    best = int(np.argmax(steps.rows[0]))
    limits = []
    for _ in range(2):
        with pytest.raises(Undecided, match=NO_NUMBER):
            chain.replayed(steps.rows[0], candidates, AskedDraw(0), written=best, explain=True)
        assert chain.explained is not None
        limits.append(chain.explained.memory)
        assert sum(share for _, share, _ in rows_of(chain.explained)) > 0.1
    assert limits[0] == 8.0
    assert limits[1] is not None
    assert limits[1] > 8.0
    chain.close()


def test_a_grammar_has_its_second_draw(steps: Steps) -> None:
    """As a reply is drawn: first freely, then among what is allowed, with the next numbers."""
    filters = [TopK(40), Xtc(0.5, 0.02), Temperature(2.0)]
    sampling = Sampling(filters, Dist(), seed=4, grammar="root ::= [b-y]+")
    vocabulary = steps.weights.vocabulary
    reply = Chain(sampling, n_vocab=vocabulary.n_vocab, n_ctx=512, vocabulary=vocabulary)
    reply.see_prompt(steps.prompt)
    chain = chain_of(sampling, steps)
    uniforms, floats = Uniforms(4), Uniforms(4, is_float=True)
    candidates = Candidates(vocabulary.n_vocab)
    n_drawn = n_second = 0
    for scores in steps.rows[:12]:
        token_id = reply.draw(scores, candidates).token_id
        following = range(n_drawn, n_drawn + 2)
        (first, again), (decides, decides_again) = (
            [numbers[at] for at in following] for numbers in (uniforms, floats)
        )
        asked = AskedDraw(0, first, [decides], again, [decides_again])
        drawn = chain.replayed(scores, candidates, asked, explain=True)
        told = chain.explained
        assert told is not None
        assert drawn.token_id == token_id
        n_drawn += 1 + told.is_second
        n_second += told.is_second
        assert told.is_second == (FORBIDDEN in told.removed_by.data)
        reply.accept(token_id)
        chain.accept(token_id)
    assert n_second > 0
    reply.close()
    chain.close()
