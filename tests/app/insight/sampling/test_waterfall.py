"""Each candidate's end and share against the native chain run stage by stage in float64."""

from __future__ import annotations

import math
import struct

import msgspec
import numpy as np
import pytest

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import StageEffect, TokenTrace
from app.engine.protocol.stages import Dist
from app.insight.sampling.live import live
from app.insight.sampling.pool import SUM_ERROR
from app.insight.sampling.waterfall import waterfall
from app.insight.sampling.what_if import DrawSettings
from app.insight.trace.columns import pack, unpack

N = 500


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


class Chain:
    """Stages in float64 over all candidates, and the trace that the engine would record."""

    def __init__(self, seed: int, drawn: int) -> None:
        self.scores = np.random.default_rng(seed).normal(0, 3, N)
        self.before = softmax(self.scores)
        self.order = np.argsort(-self.scores)[:64]
        self.drawn = int(self.order[drawn])
        self.stages: list[StageEffect] = []
        self.truth: list[np.ndarray] = []
        self.removed_by = [255] * 64

    def then(self, stage: str, scores: np.ndarray) -> Chain:
        gone = np.isneginf(scores) & ~np.isneginf(self.scores)
        for at, token_id in enumerate(self.order):
            if gone[token_id]:
                self.removed_by[at] = len(self.stages)
        self.scores = scores
        p = softmax(scores)
        self.truth.append(p)
        left = int(np.isfinite(scores).sum())
        self.stages.append(StageEffect(stage, left, float(p[self.drawn])))
        return self

    def keep(self, stage: str, kept: np.ndarray) -> Chain:
        return self.then(stage, np.where(kept, self.scores, -np.inf))

    def top_k(self, k: int) -> Chain:
        limit = np.sort(self.scores)[-k]
        return self.keep("top-k", self.scores >= limit)

    def top_p(self, p: float) -> Chain:
        shares = softmax(self.scores)
        order = np.argsort(-shares)
        n = int(np.searchsorted(np.cumsum(shares[order]), p)) + 1
        kept = np.zeros(N, bool)
        kept[order[:n]] = True
        return self.keep("top-p", kept)

    def trace(self) -> TokenTrace:
        logprobs = np.log(self.before[self.order]).astype(np.float32)
        return TokenTrace(
            index=0,
            token_id=self.drawn,
            piece=b"x",
            logprob=math.log(self.before[self.drawn]),
            rank=1,
            entropy=1.0,
            alternative_ids=Array("i4", [64], self.order.astype("<i4").tobytes()),
            alternative_logprobs=Array("f4", [64], logprobs.tobytes()),
            stages=self.stages,
            ms=1.0,
            removed_by=Array("u1", [64], bytes(self.removed_by)),
        )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drawn", [0, 3])
def test_shares_are_those_of_the_chain(seed: int, drawn: int) -> None:
    chain = Chain(seed, drawn).top_k(40).top_p(0.9)
    chain.then("temperature", chain.scores / 0.7).then("dist", chain.scores)
    found = waterfall(chain.trace(), N, {2: 0.7})
    assert found.rest == pytest.approx(1 - chain.before[chain.order].sum(), abs=1e-6)
    for at, candidate in enumerate(found.candidates):
        assert candidate.probability == pytest.approx(chain.before[chain.order[at]], rel=1e-5)
        assert candidate.is_drawn == (candidate.token_id == chain.drawn)
    left = N
    for step, truth, effect in zip(found.steps, chain.truth, chain.stages, strict=True):
        assert step.shares is not None
        assert step.shares == pytest.approx(truth[chain.order], rel=1e-4, abs=1e-9)
        assert step.removed == left - effect.left
        left = effect.left


def test_each_candidate_tells_the_stage_that_removed_it() -> None:
    chain = Chain(1, 0).top_k(20).top_p(0.8)
    found = waterfall(chain.trace(), N)
    n_kept = chain.stages[1].left
    ends = [candidate.removed_by for candidate in found.candidates]
    assert ends == [None] * n_kept + [1] * (20 - n_kept) + [0] * 44


def test_shares_after_changed_scores_are_not_made_up() -> None:
    chain = Chain(2, 0)
    punished = chain.scores.copy()
    punished[chain.order[:3]] -= 1.5
    chain.then("penalties", punished).top_k(40)
    steps = waterfall(chain.trace(), N).steps
    assert [step.shares for step in steps] == [None, None]
    assert steps[1].left == 40


def test_penalties_that_changed_nothing_hide_nothing() -> None:
    chain = Chain(2, 0)
    chain.then("penalties", chain.scores).top_k(40)
    assert all(step.shares is not None for step in waterfall(chain.trace(), N).steps)


# --- a token that was chosen by hand, and that the stages would not have left -------------------


@pytest.mark.parametrize("temperature", [0.8, 0.02])
@pytest.mark.parametrize("drawn", [50, 63])
def test_behind_a_removed_token_the_others_have_their_shares(
    drawn: int, temperature: float
) -> None:
    chain = Chain(4, drawn).top_k(30).top_p(0.9)
    chain.then("temperature", chain.scores / temperature).then("dist", chain.scores)
    assert [effect.probability for effect in chain.stages] == [0.0] * 4
    for step, truth in zip(
        waterfall(chain.trace(), N, {2: temperature}).steps, chain.truth, strict=True
    ):
        assert step.shares == pytest.approx(truth[chain.order], rel=1e-4, abs=1e-9)


def test_a_token_too_cold_to_be_drawn_hides_nothing() -> None:
    chain = Chain(5, 20).top_k(40)
    chain.then("temperature", chain.scores / 0.01).then("dist", chain.scores)
    assert chain.stages[1].probability < 1e-60
    steps = waterfall(chain.trace(), N, {1: 0.01}).steps
    for step, truth in zip(steps, chain.truth, strict=True):
        assert step.shares == pytest.approx(truth[chain.order], rel=1e-3, abs=1e-9)


def test_shares_are_not_made_up_where_more_are_left_than_are_recorded() -> None:
    chain = Chain(6, 1)
    chain.keep("xtc", chain.scores < chain.scores[chain.order[2]])
    chain.then("temperature", chain.scores / 0.5).top_k(20)
    chain.then("penalties", chain.scores)
    steps = waterfall(chain.trace(), N, {1: 0.5}).steps
    assert [step.shares is None for step in steps] == [True, True, False, True]
    assert steps[2].shares == pytest.approx(chain.truth[2][chain.order], rel=1e-4, abs=1e-9)


def test_without_the_size_of_the_vocabulary_what_the_first_stage_removed_is_not_told() -> None:
    chain = Chain(7, 0)
    chain.then("penalties", chain.scores).top_k(40).top_p(0.9)
    told, known = waterfall(chain.trace(), None).steps, waterfall(chain.trace(), N).steps
    assert [step.removed for step in told] == [None, *(step.removed for step in known[1:])]
    assert [step.shares for step in told] == [step.shares for step in known]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e30, -1e30])
def test_numbers_that_no_softmax_gives_are_no_fault(number: float) -> None:
    chain = Chain(8, 1).top_k(20)
    trace = chain.trace()
    odd = struct.pack("<2f", number, number) + trace.alternative_logprobs.data[8:]
    for broken in (
        msgspec.structs.replace(trace, logprob=number),
        msgspec.structs.replace(trace, alternative_logprobs=Array("f4", [64], odd)),
        msgspec.structs.replace(trace, stages=[StageEffect("top-k", 20, number)]),
    ):
        found = waterfall(broken, N, {0: 0.01})
        assert len(found.candidates) == 64


def test_a_trace_without_stages_is_only_candidates() -> None:
    trace = Chain(3, 1).trace()
    assert waterfall(trace, N).steps == ()
    bare = TokenTrace(0, 5, b"x", -1.0, 1, 1.0, *[Array("i4", [0], b"")] * 2, [], 1.0)
    assert waterfall(bare, N).candidates == ()
    assert struct.calcsize("<i") == 4


@pytest.mark.parametrize("seed", range(5))
def test_of_a_stored_trace_the_drawn_token_is_told_exactly(seed: int) -> None:
    """The same token stands in several places of the window: with one and the same share."""
    chain = Chain(seed, 0).top_k(40)
    chain.then("temperature", chain.scores / 0.8)
    (read,) = unpack(pack([chain.trace()]))
    fall = waterfall(read, N, {1: 0.8})
    ((at, drawn),) = [pair for pair in enumerate(fall.candidates) if pair[1].is_drawn]
    assert drawn.probability == math.exp(read.logprob)
    for step in fall.steps:
        assert step.shares is not None
        assert step.shares[at] == step.probability
    before = live(read, DrawSettings([], Dist(), N)).rows[at].before
    assert before == pytest.approx(drawn.probability, rel=2 * SUM_ERROR)
