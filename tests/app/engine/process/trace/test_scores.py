"""Copies of scores: nobody's is overwritten, and what nobody has is used again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from native_session import NativeSession

from app.engine.process.native.native import NativeError
from app.engine.process.trace import scores as scores_module
from app.engine.process.trace.scores import ExpAndSum, ScoreBuffers, ScoreRows, scores_of
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.stages import Dist, MinP, Penalties, Sampling, Temperature, TopK, TopP

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
        copy = buffers.copy(rows.now)
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
        last = [*last[-2:], buffers.copy(rows.now)]
        places.add(last[-1].ctypes.data)
    assert len(places) <= 4


def test_what_is_far_behind_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(monkeypatch)
    buffers = ScoreBuffers(N_VOCAB)
    many = [buffers.copy(rows.now) for _ in range(100)]
    assert len({copy.ctypes.data for copy in many}) == 100
    assert len(buffers._arrays) == 16


@pytest.mark.weights
def test_more_replies_at_once_have_more_that_are_used_again(
    made_session: NativeSession,
) -> None:
    """What eight leave behind in four passes, which is what the outbox may still have."""
    buffers = made_session.scheduler._writer._buffers
    scores = np.zeros(made_session.weights.vocabulary.n_vocab, np.float32)
    kept: list[np.ndarray] = []
    places = set()
    for _ in range(200):
        kept = [*kept[-8 * 4 :], buffers.copy(scores)]
        places.add(kept[-1].ctypes.data)
    assert len(places) == len(buffers._arrays) <= 40


def test_a_row_is_read_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, lying = Rows(monkeypatch), ScoreRows(None, N_VOCAB)
    seen = lying.at(0)
    for _ in range(3):
        wanted = rows.decode()
        assert lying.at(0) is seen
        assert np.array_equal(seen, wanted)
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1.0
    rows.now = np.ones(N_VOCAB, np.float32)  # llama.cpp has made room for more rows
    assert lying.at(0).tolist() == [1.0] * N_VOCAB


@pytest.mark.parametrize("way", [scores_of, lambda context, row, n: ScoreRows(context, n).at(row)])
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


CHAINS = {
    "top-k first": [Penalties(), TopK(k=40), TopP(p=0.95), MinP(p=0.05), Temperature(t=0.8)],
    "temperature first": [Temperature(t=0.7), MinP(p=0.01)],
    "penalties": [Penalties(repeat=1.3), TopK(k=200), Temperature(t=0.9)],
    "nothing": [],
}


@pytest.mark.weights
@pytest.mark.parametrize("chain", list(CHAINS))
@pytest.mark.parametrize("how", ["plain", "banned", "drafted"])
def test_measured_at_once_or_beside_the_next_decode_it_is_the_same(
    made_session: NativeSession, chain: str, how: str
) -> None:
    """On a processor tokens are measured where their scores lie, on a device from copies."""
    session, told = made_session, []
    ids = session.weights.vocabulary.tokenize("one two one two one two one")
    fields: dict[str, Any] = {"max_tokens": 12, "alternatives": 8, "record_stages": True}
    if how == "drafted":
        fields["drafts"] = Drafts(always=True)
    measurer = session.scheduler._writer._measurer
    assert measurer is not None
    for each in (measurer, None):
        session.scheduler._writer._measurer = each
        sampling = Sampling(filters=CHAINS[chain], select=Dist(), seed=5)
        if how == "banned":
            first = session.reply(ids, sampling, **fields, reuse_prefix=False)
            banned = session.weights.vocabulary.piece(first.token_ids[2]).decode("utf-8", "replace")
            sampling = structs.replace(sampling, banned_strings=[banned])
        request_id = session.add(ids, sampling, **fields, reuse_prefix=False)
        session.run()
        told.append([structs.replace(e.token, ms=1.0) for e in session.tokens(request_id)])
    assert told[0] == told[1]
    assert len(told[0]) >= 12
