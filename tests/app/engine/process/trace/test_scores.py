"""Copies of scores: nobody's is overwritten, and what nobody has is used again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from native_session import NativeSession

from app.engine.process.native.native import NativeError
from app.engine.process.trace import scores as scores_module
from app.engine.process.trace.scores import ExpAndSum, ScoreBuffers, scores_of

N_VOCAB = 1000


class Rows:
    """What llama.cpp has in its one place: other numbers after each decode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = np.zeros(N_VOCAB, np.float32)
        self._source = np.random.default_rng(3)
        monkeypatch.setattr(scores_module, "_logits_address", lambda *_: self.now.ctypes.data)

    def decode(self) -> np.ndarray[Any, Any]:
        """The next scores, and a copy of them that nobody changes."""
        self.now[:] = self._source.normal(0, 3, N_VOCAB)
        return self.now.copy()


def test_what_is_kept_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, buffers = Rows(monkeypatch), ScoreBuffers(N_VOCAB)
    source = np.random.default_rng(7)
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(400):
        wanted = rows.decode()
        copy = buffers.copy(None, 0)
        assert np.array_equal(copy, wanted)
        kept.append((copy[10:20], wanted[10:20]) if source.random() < 0.3 else (copy, wanted))
        del copy
        while len(kept) > source.integers(1, 40):
            kept.pop(int(source.integers(len(kept))))
        assert all(np.array_equal(copy, wanted) for copy, wanted in kept)


def test_what_nobody_has_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, buffers = Rows(monkeypatch), ScoreBuffers(N_VOCAB)
    places = set()
    last: list[np.ndarray] = []
    for _ in range(100):
        rows.decode()
        last = [*last[-2:], buffers.copy(None, 0)]
        places.add(last[-1].ctypes.data)
    assert len(places) <= 4


def test_what_is_far_behind_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    Rows(monkeypatch)
    buffers = ScoreBuffers(N_VOCAB)
    many = [buffers.copy(None, 0) for _ in range(100)]
    assert len({copy.ctypes.data for copy in many}) == 100
    assert len(buffers._arrays) == 16


@pytest.mark.weights
def test_more_replies_at_once_have_more_that_are_used_again(
    made_session: NativeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What eight leave behind in four passes, which is what the outbox may still have."""
    buffers = made_session.scheduler._writer._buffers
    Rows(monkeypatch)
    kept: list[np.ndarray] = []
    places = set()
    for _ in range(200):
        kept = [*kept[-8 * 4 :], buffers.copy(None, 0)]
        places.add(kept[-1].ctypes.data)
    assert len(places) == len(buffers._arrays) <= 40


@pytest.mark.parametrize(
    "way", [scores_of, lambda context, row, n: ScoreBuffers(n).copy(context, row)]
)
def test_a_row_that_has_none(starter: Any, way: Any) -> None:
    with pytest.raises(NativeError):
        way(starter.context, 10_000, starter.vocabulary.n_vocab)


@pytest.mark.parametrize("has_ggml", [True, False])
def test_exponentials_and_their_sum(has_ggml: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_ggml:
        monkeypatch.setattr(scores_module, "_exp", None)
    values, out = np.zeros(999, np.float32), np.zeros(999, np.float32)
    weigh = ExpAndSum(values, out)
    for spread in (0.0, 1.0, 50.0):
        values[:] = -np.abs(np.random.default_rng(2).normal(0, spread, 999))
        values[5] = -np.inf
        wanted = np.exp(values.astype(np.float64))
        assert math.isclose(weigh(), wanted.sum(), rel_tol=1e-6)
        assert np.allclose(out, wanted, rtol=1e-6, atol=1e-30)
