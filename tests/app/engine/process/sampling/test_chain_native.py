"""Every stage and random chains of them against llama.cpp's own chain, on the same scores."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from native_chains import LARGE, N_STEPS, Array, Steps, native_chain, random_sampling

from app.engine.process.native.native import llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.sampling.chain import Chain
from app.engine.process.sampling.registry import KINDS
from app.engine.process.trace.effects import StageFollower
from app.engine.process.trace.measuring import Measurer
from app.engine.protocol.messages import SURVIVED
from app.engine.protocol.stage_rules import stage_name
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
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

pytestmark = pytest.mark.weights


def few_or(count: int, few: int) -> pytest.MarkDecorator:
    """A few of what is tried; all of it in make soak."""
    return pytest.mark.parametrize("count", [few, pytest.param(count, marks=pytest.mark.soak)])


@pytest.fixture(scope="module", params=["starter", pytest.param("gemma", marks=pytest.mark.soak)])
def steps(request: pytest.FixtureRequest) -> Iterator[Steps]:
    made = Steps(request.getfixturevalue(request.param))
    yield made
    made.close()


def chain_of(sampling: Sampling, weights: Weights, prompt: list[int]) -> Chain:
    vocabulary = weights.vocabulary
    chain = Chain(sampling, n_vocab=vocabulary.n_vocab, n_ctx=weights.n_ctx, vocabulary=vocabulary)
    chain.see_prompt(prompt)
    return chain


def draws(steps: Steps, sampling: Sampling, forced: list[int] | None = None) -> list[int]:
    """What our chain draws, step by step; it accepts what it drew, or what is `forced`."""
    chain = chain_of(sampling, steps.weights, steps.prompt)
    candidates = Candidates(steps.weights.vocabulary.n_vocab)
    drawn = []
    for place, scores in enumerate(steps.rows):
        drawn.append(chain.draw(scores, candidates).token_id)
        chain.accept(drawn[-1] if forced is None else forced[place])
    chain.close()
    return drawn


def native_draws(steps: Steps, sampling: Sampling) -> list[int]:
    chain = native_chain(sampling, steps.weights, steps.prompt)
    context = steps.context
    drawn = [llama.llama_sampler_sample(chain, context, row) for row in range(len(steps.rows))]
    llama.llama_sampler_free(chain)
    return drawn


def compare(steps: Steps, seeds: range) -> None:
    for seed in seeds:
        source = random.Random(seed)
        sampling = random_sampling(source, steps.weights.vocabulary.n_vocab, steps.prompt)
        assert draws(steps, sampling) == native_draws(steps, sampling), sampling


@few_or(8, 3)
def test_random_chains_draw_what_llama_cpp_draws(count: int, steps: Steps) -> None:
    is_large = steps.weights.vocabulary.n_vocab > LARGE
    compare(steps, range(count // 3 if is_large and count < 8 else count))


@pytest.mark.soak
@pytest.mark.parametrize("start", [0, *range(1000, 1200, 20)])
def test_many_random_chains_draw_what_llama_cpp_draws(start: int, steps: Steps) -> None:
    compare(steps, range(start, start + 20))


def best_of(scores: np.ndarray, count: int) -> np.ndarray:
    """The IDs of the best, of equal ones the lower first. Sorting 262,144 takes 25 ms."""
    least = np.partition(scores, -count)[-count]
    ids = np.flatnonzero(scores >= least)
    return ids[np.argsort(-scores[ids], kind="stable")][:count]


@few_or(N_STEPS, 16)
def test_numbers_of_real_scores_equal_those_in_float64(count: int, steps: Steps) -> None:
    """Log-probability, rank, entropy and the best 64 of every step."""
    measurer = Measurer(steps.weights.vocabulary.n_vocab)
    for place, scores in enumerate(steps.rows[:count]):
        exact = scores.astype(np.float64)
        logprobs = exact - exact.max() - np.log(np.exp(exact - exact.max()).sum())
        best = best_of(scores, 64)
        token_id = int(best[place % 64])
        measured = measurer.measure(scores, token_id, 64)
        assert measured.logprob == pytest.approx(logprobs[token_id], abs=2e-5)
        assert measured.rank == 1 + int((exact > exact[token_id]).sum())
        entropy = -(np.exp(logprobs) * logprobs).sum() / np.log(2)
        assert measured.entropy == pytest.approx(entropy, abs=2e-4)
        assert measured.alternative_ids.tolist() == best.tolist()
        assert measured.alternative_logprobs == pytest.approx(logprobs[best], abs=2e-5)


# --- every stage, with a value that changes the outcome --------------------------------------

BASE = [TopK(100), Temperature(1.1)]

FILTERS: list[FilterStage] = [
    Penalties(64, 1.3, 0.5, 0.5),
    Dry(3.0, 1.75, 1),
    TopNSigma(0.7),
    TopK(3),
    Typical(0.3),
    TopP(0.4),
    MinP(0.4),
    Xtc(1.0, 0.05),
    Temperature(0.4),
    DynamicTemperature(1.0, 0.9, 1.0),
]
SELECTING: list[SelectStage] = [
    Dist(),
    Mirostat(3.0, 0.2, 100),
    MirostatV2(3.0, 0.2),
    AdaptiveP(0.3, 0.9),
]


def test_the_cases_name_every_stage() -> None:
    named = {type(stage) for stage in [*FILTERS, *SELECTING]} | {LogitBias, Greedy}
    assert named == set(KINDS)


def count_changes(steps: Steps, sampling: Sampling, without: Sampling) -> int:
    """Steps at which the stage changed the token; each is compared with llama.cpp's own too."""
    drawn = draws(steps, sampling)
    assert drawn == native_draws(steps, sampling)
    return sum(a != b for a, b in zip(drawn, draws(steps, without, forced=drawn), strict=True))


@pytest.mark.parametrize("stage", FILTERS, ids=stage_name)
def test_each_filter_changes_tokens_as_llama_cpp_does(
    stage: FilterStage, steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = 0
    for seed in range(8 * N_STEPS // len(steps.rows)):
        # A penalty is tried before the others, what shortens behind them.
        first = isinstance(stage, Penalties | Dry)
        filters = [stage, *BASE] if first else [*BASE, stage]
        changed += count_changes(steps, Sampling(filters, seed=seed), Sampling(BASE, seed=seed))
        if changed >= 20:
            break
    with capsys.disabled():
        n_draws = (seed + 1) * len(steps.rows)
        print(f"\n  {stage_name(stage)}: changed the token at {changed} of {n_draws}")
    assert changed >= 20


@pytest.mark.parametrize("select", SELECTING, ids=stage_name)
def test_each_selecting_stage_changes_tokens_as_llama_cpp_does(
    select: SelectStage, steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against greedy; greedy itself against all of them."""
    changed, seeds = 0, range(4 * N_STEPS // len(steps.rows))
    for seed in seeds:
        sampling = Sampling(BASE, select, seed=seed)
        changed += count_changes(steps, sampling, Sampling(BASE, Greedy(), seed=seed))
    with capsys.disabled():
        n_draws = len(seeds) * len(steps.rows)
        print(f"\n  {stage_name(select)}: another token than greedy at {changed} of {n_draws}")
    assert changed >= 20
    greedy = Sampling(BASE, Greedy())
    assert draws(steps, greedy) == native_draws(steps, greedy)


def test_logit_bias_changes_tokens_as_llama_cpp_does(
    steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best token of every step is banned or pushed down, so each step is one of its cases."""
    best = [int(scores.argmax()) for scores in steps.rows]
    biases = [TokenBias(t, bias=-9.0, ban=place % 2 == 0) for place, t in enumerate(set(best))]
    changed = count_changes(
        steps, Sampling([LogitBias(biases), *BASE], seed=3), Sampling(BASE, seed=3)
    )
    with capsys.disabled():
        print(f"\n  logit-bias: changed the token at {changed} of {len(steps.rows)}")
    assert changed >= 0.4 * len(steps.rows)


# --- where llama.cpp's own chain goes wrong --------------------------------------------------


def test_banning_the_best_after_sorting_draws_from_the_others(steps: Steps) -> None:
    for scores in steps.rows[:5]:
        best = best_of(scores, 3)
        ban = LogitBias([TokenBias(int(best[0]), ban=True)])
        sampling = Sampling([TopK(3), ban, TopP(0.99)], Greedy())
        chain = chain_of(sampling, steps.weights, [])
        draw = chain.draw(scores, Candidates(len(scores)), record=True)
        assert draw.token_id == best[1]
        chain.close()


def test_typical_sampling_with_a_banned_token_stays_sensible(steps: Steps) -> None:
    """With a ban of a token that would not be drawn anyway, the outcome is the same as without."""
    worst = int(steps.rows[0].argmin())
    plain = Sampling([Typical(0.5)], seed=4)
    banned = Sampling([LogitBias([TokenBias(worst, ban=True)]), Typical(0.5)], seed=4)
    rows, steps.rows = steps.rows, steps.rows[:5]
    assert draws(steps, plain) == draws(steps, banned)
    steps.rows = rows


# --- the number that drew ------------------------------------------------------------------------


@pytest.mark.parametrize("select", SELECTING, ids=stage_name)
def test_the_number_falls_on_the_drawn_token(select: SelectStage, steps: Steps) -> None:
    """Hundreds of draws: the number lies in the token's part of the distribution that the native
    sampler left behind, in native order, summed in float64."""
    candidates = Candidates(steps.weights.vocabulary.n_vocab)
    n_draws = 0
    for seed in range(24):
        filters: list[FilterStage] = [TopK(300), Xtc(0.3, 0.2)] if seed % 2 else [TopK(50)]
        chain = chain_of(Sampling(filters, select, seed=seed), steps.weights, steps.prompt)
        for scores in steps.rows:
            draw = chain.draw(scores, candidates)
            view, place = candidates.view, int(candidates.native.selected)
            if len(view) == 1 and not isinstance(select, Dist):
                assert draw.uniform is None
            else:
                assert draw.uniform is not None
                ends = np.cumsum(view["p"].astype(np.float64))
                ends /= ends[-1]
                # The native sums are in float32 parts of a float64 sum: they agree to 1e-6.
                start = ends[place - 1] if place else 0.0
                assert start - 1e-6 <= draw.uniform <= ends[place] + 1e-6
                n_draws += 1
            chain.accept(draw.token_id)
        chain.close()
    assert n_draws > 20 * len(steps.rows)


@few_or(8, 2)
def test_the_number_of_xtc_tells_whether_it_acts(count: int, steps: Steps) -> None:
    """XTC takes out candidates where its number is not above its probability and two or more of
    them reach its threshold; taken back, a draw takes the same number again."""
    candidates = Candidates(steps.weights.vocabulary.n_vocab)
    acted = spared = hopeless = 0
    for seed in range(count * N_STEPS // len(steps.rows)):
        sampling = Sampling([TopK(40), Xtc(0.5, 0.15), Temperature(0.9)], seed=seed)
        chain = chain_of(sampling, steps.weights, steps.prompt)
        for place, scores in enumerate(steps.rows):
            moment = chain.before_draw()
            draw = chain.draw(scores, candidates, record=True)
            best = scores[best_of(scores, 40)].astype(np.float64)
            shares = np.exp(best - best[0])
            shares /= shares.sum()
            n_above = int((shares >= 0.15).sum())
            follower = StageFollower(
                scores.copy(), draw.token_id, np.array([draw.token_id], np.int32)
            )
            effects = [follower.follow(snapshot) for snapshot in draw.snapshots]
            assert [effect.uniform is None for effect in effects] == [True, False, True, True]
            number = effects[1].uniform
            assert number is not None
            expected = 40 - (n_above - 1) if number <= 0.5 and n_above >= 2 else 40
            assert effects[1].left == expected
            acted += expected < 40
            spared += number > 0.5 and n_above >= 2
            hopeless += n_above < 2
            if place % 5 == 0:
                chain.restore(moment, place)
                again = chain.draw(scores, candidates, record=True)
                assert again.token_id == draw.token_id
                assert again.snapshots[1].uniform == number
            else:
                moment.free()
            chain.accept(draw.token_id)
        chain.close()
    assert min(acted, spared, hopeless) > 2.5 * count, (acted, spared, hopeless)


def test_no_number_of_xtc_where_one_candidate_is_left(steps: Steps) -> None:
    chain = chain_of(Sampling([TopK(1), Xtc(1.0, 0.1)], seed=3), steps.weights, steps.prompt)
    draw = chain.draw(steps.rows[0], Candidates(len(steps.rows[0])), record=True)
    assert draw.snapshots[1].stage == "xtc"
    assert draw.snapshots[1].uniform is None
    chain.close()


def test_numbers_are_those_of_the_standard_generator() -> None:
    """C++: the 10,000th output of std::mt19937 with its default seed is 4123659995."""
    raw = np.random.RandomState(5489)._bit_generator.random_raw(10_000)
    assert raw[9_999] == 4123659995
    uniforms = Uniforms(5489)
    for index in (0, 300, 4_999):
        low, high = int(raw[2 * index]), int(raw[2 * index + 1])
        assert uniforms[index] == pytest.approx((low + high * 2**32) / 2**64, abs=1e-15)
    assert Uniforms(0)[5000] != uniforms[5000]
    floats = Uniforms(5489, is_float=True)
    assert [floats[i] * 2**32 for i in (0, 9_999)] == pytest.approx([3499211612, 4123659995])


# --- the trace of the stages -----------------------------------------------------------------


@few_or(6, 2)
def test_stages_are_told_as_full_copies_would_tell_them(count: int, steps: Steps) -> None:
    """Left, probability and removed-by of random chains, from the differences that are recorded,
    against a native chain that is stopped and copied after every stage."""
    seen = 0
    for seed in range(500, 500 + count):
        source = random.Random(seed)
        sampling = random_sampling(source, steps.weights.vocabulary.n_vocab, steps.prompt)
        chain = chain_of(sampling, steps.weights, steps.prompt)
        native = native_chain(sampling, steps.weights, steps.prompt)
        candidates = Candidates(steps.weights.vocabulary.n_vocab)
        for scores in steps.rows[:12]:
            draw = chain.draw(scores, candidates, record=True)
            best = best_of(scores, 64).astype(np.int32)
            follower = StageFollower(scores.copy(), draw.token_id, best)
            array, gone = Array(scores), {}
            for stage, snapshot in enumerate(draw.snapshots):
                effect = follower.follow(snapshot)
                array.apply(llama.llama_sampler_chain_get(native, stage))
                finite = array.left
                assert effect.left == len(finite), (sampling, effect)
                weights = np.exp(finite["logit"].astype(np.float64) - finite["logit"].max())
                at = np.flatnonzero(finite["id"] == draw.token_id)
                share = float(weights[at[0]] / weights.sum()) if len(at) else 0.0
                assert effect.probability == pytest.approx(share, abs=1e-5)
                for place in np.flatnonzero(~np.isin(best, finite["id"])):
                    gone.setdefault(int(place), stage)
                seen += 1
            assert array.selected == draw.token_id
            assert follower.removed_by.tolist() == [gone.get(i, SURVIVED) for i in range(64)]
            chain.accept(draw.token_id)
            llama.llama_sampler_accept(native, draw.token_id)
        chain.close()
        llama.llama_sampler_free(native)
    assert seen > 33 / 12 * count * len(steps.rows[:12])
