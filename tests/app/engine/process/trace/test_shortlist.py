"""The best candidates of a vocabulary against plain sorting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from app.engine.process.trace.shortlist import WIDEST, ShortlistFinder

logits = st.floats(-200, 200, width=32) | st.just(float("-inf"))


@given(
    scores=st.integers(1, 200).flatmap(lambda n: arrays(np.float32, n, elements=logits)),
    at_least=st.integers(0, 250),
)
def test_it_lists_all_that_are_near_the_best_and_as_many_as_asked_for(
    scores: np.ndarray, at_least: int
) -> None:
    finder = ShortlistFinder(len(scores))
    for is_large in (False, True, False):  # what the last call left behind changes nothing
        finder.looks_at_columns = is_large
        found = finder.find(scores, at_least)
        if not np.isfinite(scores).any():
            assert found.best == -math.inf
            assert len(found) == 0
            continue
        assert found.best == scores.max()
        assert np.flatnonzero(scores >= np.float32(found.limit)).tolist() == found.ids.tolist()
        assert np.all(np.diff(found.ids) > 0)
        assert np.array_equal(found.scores, scores[found.ids])
        probable = int((scores >= np.float32(found.best) - WIDEST).sum())
        assert len(found) >= min(at_least, probable)


@given(
    scores=st.integers(1, 200).flatmap(lambda n: arrays(np.float32, n, elements=logits)),
    at_least=st.integers(1, 250),
    k=st.integers(0, 250),
)
def test_the_best_few_are_the_best_of_all_or_nothing_is_said(
    scores: np.ndarray, at_least: int, k: int
) -> None:
    found = ShortlistFinder(len(scores)).find(scores, at_least)
    few = found.best_few(k)
    if few is None:
        is_probable = np.isfinite(scores) & (scores >= np.float32(found.best) - WIDEST)
        assert k > min(at_least, int(is_probable.sum()))
    else:
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
        assert few[0].tolist() == order
        assert few[1].tolist() == scores[order].tolist()


@pytest.mark.parametrize("place", [0, 4_095, 4_096, 4_097])
def test_what_does_not_fill_a_row_is_looked_at_too(place: int) -> None:
    scores = np.linspace(-1, 0, 4_098, dtype=np.float32)
    scores[place] = 500.0
    found = ShortlistFinder(4_098).find(scores, 2)
    assert found.best == 500.0
    assert place in found.ids
    assert found.scores[found.ids == place] == [500.0]


@pytest.mark.parametrize("n_vocab", [5, 16, 17, 49_152, 50_257])
def test_a_score_that_is_no_number_is_seen_wherever_it_stands(n_vocab: int) -> None:
    finder = ShortlistFinder(n_vocab)
    for place in (0, n_vocab // 2, n_vocab - 1):
        scores = np.zeros(n_vocab, np.float32)
        scores[place] = np.nan
        found = finder.find(scores, 3)
        assert math.isnan(found.best)
        assert len(found) == 0


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("n_vocab", [300, 49_152, 50_257, 262_144])
def test_it_lists_little_more_than_what_is_asked_for(spread: float, n_vocab: int) -> None:
    source = np.random.default_rng(5)
    finder = ShortlistFinder(n_vocab)
    for _ in range(5):
        found = finder.find(source.normal(0, spread, n_vocab).astype(np.float32), 64)
        assert 64 <= len(found) <= 100
