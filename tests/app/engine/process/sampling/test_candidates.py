"""The array that samplers change: what is read of it, and what of it is written at all."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from app.engine.process.native.arrays import CANDIDATE
from app.engine.process.native.native import llama
from app.engine.process.sampling.candidates import Candidates
from app.engine.process.trace.shortlist import ShortlistFinder


def test_candidate_is_llama_token_data() -> None:
    assert CANDIDATE.itemsize == ctypes.sizeof(llama.llama_token_data)
    candidates = Candidates(5)
    candidates.fill(np.array([0.5, 1.5, 2.5, 3.5, 4.5], np.float32))
    assert candidates.reference  # written as soon as somebody takes it
    rows = [(candidates.native.data[i].id, candidates.native.data[i].logit) for i in range(5)]
    assert rows == [(0, 0.5), (1, 1.5), (2, 2.5), (3, 3.5), (4, 4.5)]
    assert (candidates.native.size, candidates.native.selected) == (5, -1)


def test_view_follows_what_a_sampler_leaves() -> None:
    candidates = Candidates(1000)
    scores = np.linspace(-1, 1, 1000).astype(np.float32)
    sampler = llama.llama_sampler_init_top_k(3)
    for _ in range(2):  # filling again brings everything back
        candidates.fill(scores)
        assert len(candidates.view) == 1000
        llama.llama_sampler_apply(sampler, candidates.reference)
        assert candidates.view["id"].tolist() == [999, 998, 997]
    llama.llama_sampler_free(sampler)


def test_view_follows_an_array_elsewhere() -> None:
    candidates = Candidates(3)
    candidates.fill(np.zeros(3, np.float32))
    other = (llama.llama_token_data * 2)()
    other[1].id, other[1].logit = 42, 7.0
    candidates.native.data, candidates.native.size = other, 2
    assert candidates.view["id"].tolist() == [0, 42]
    assert candidates.view["logit"].tolist() == [0.0, 7.0]


@pytest.mark.parametrize("k", [1, 40, 100])
@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
def test_narrowed_candidates_hold_the_best(k: int, spread: float) -> None:
    source = np.random.default_rng(k)
    candidates = Candidates(5000)
    for _ in range(30):
        scores = source.normal(0, spread, 5000).astype(np.float32)
        candidates.fill(scores)
        candidates.narrow(k)
        view = candidates.view
        best = np.sort(scores)[-k:]
        assert k < len(view) <= 5000
        assert np.array_equal(np.sort(view["logit"])[-k:], best)
        assert np.array_equal(scores[view["id"]], view["logit"])
        assert np.all(np.diff(view["id"]) > 0)
    assert len(view) < 2000


@pytest.mark.parametrize("k", [1, 40, 100, 500])
def test_a_shortlist_that_is_too_short_for_a_stage_is_not_enough(k: int) -> None:
    """It holds more than the stage keeps, but not for sure the best ones."""
    source = np.random.default_rng(k)
    candidates, finder = Candidates(50_000), ShortlistFinder(50_000)
    for _ in range(10):
        scores = source.normal(0, 3, 50_000).astype(np.float32)
        candidates.fill(scores, finder.find(scores, 64))
        candidates.narrow(k)
        best = np.sort(scores)[-k:]
        assert np.array_equal(np.sort(candidates.view["logit"])[-k:], best)
        assert len(candidates.view) < 50_000


def test_equal_scores_are_left_to_the_sorting_stage() -> None:
    scores = np.arange(5000, dtype=np.float32)
    scores[10] = scores[4999]
    candidates = Candidates(5000)
    for given in (scores, np.zeros(5000, np.float32), np.full(5000, -np.inf, np.float32)):
        candidates.fill(given)
        candidates.narrow(40)
        assert candidates.native.size == len(candidates.view) == 5000
    candidates.fill(np.arange(5000, dtype=np.float32))
    candidates.narrow(3000)  # not worth it
    assert candidates.native.size == 5000


def test_scores_that_were_given_are_never_changed() -> None:
    scores = np.arange(50, dtype=np.float32)
    candidates = Candidates(50)
    candidates.fill(scores)
    candidates.ban(np.array([49], np.int32))
    assert candidates.best_score == 48
    assert candidates.first_score == 0
    assert scores[49] == 49
    assert candidates.view["logit"][49] == -np.inf
    assert candidates.first_score == 0
