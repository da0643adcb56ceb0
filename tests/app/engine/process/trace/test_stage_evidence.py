"""From a real reply to the rows of the sampling cards, against llama.cpp's chain stage by stage.

That the engine's record itself is right, `test_chain_native.py` proves for random chains
(`test_stages_are_told_as_full_copies_would_tell_them`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from native_chains import Array, native_chain
from native_session import NativeSession

from app.engine.process.native.arrays import CANDIDATE
from app.engine.process.native.native import NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.sampling.chain import Chain
from app.engine.protocol.messages import TokenTrace
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
from app.insight.sampling.stage_evidence import Evidence, evidence

pytestmark = pytest.mark.weights

PROMPT = "Once upon a time, in a small village by the sea, there lived"
N_TOKENS = 16


def on_files(cases: Sequence[Any], real: Any) -> list[Any]:
    """Each case on small weights; on the starter weights `real` by default, and all in soak."""
    soak = [pytest.param("starter", each, marks=pytest.mark.soak) for each in cases if each != real]
    return [*(("made", each) for each in cases), ("starter", real), *soak]


@pytest.fixture
def weights(file: str, request: pytest.FixtureRequest) -> Weights:
    found: Weights = request.getfixturevalue(file)
    return found


@pytest.fixture
def session(weights: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(weights, native_log)


def name_of(value: object) -> str:
    stages = value if isinstance(value, list) else [value]
    return value if isinstance(value, str) else "-".join(type(s).__name__ for s in stages)


class Run:
    """A reply, its trace, and the scores that each of its tokens was drawn from."""

    def __init__(
        self,
        session: NativeSession,
        sampling: Sampling,
        spy: pytest.MonkeyPatch,
        n_tokens: int = N_TOKENS,
        **fields: Any,
    ) -> None:
        self.sampling, self.weights = sampling, session.weights
        self.rows: list[np.ndarray] = []
        draw = Chain.draw

        def watched(chain: Chain, scores: Any, *rest: Any, **named: Any) -> Any:
            self.rows.append(np.array(scores, copy=True))
            return draw(chain, scores, *rest, **named)

        spy.setattr(Chain, "draw", watched)
        vocabulary = self.weights.vocabulary
        self.prompt = vocabulary.tokenize(PROMPT, add_bos=vocabulary.add_bos)
        request_id = session.add(
            self.prompt,
            sampling,
            max_tokens=n_tokens,
            alternatives=64,
            record_stages=True,
            **fields,
        )
        session.run()
        self.tokens: list[TokenTrace] = [each.token for each in session.tokens(request_id)]

    @property
    def stages(self) -> tuple[Any, ...]:
        return (*self.sampling.filters, self.sampling.select)

    def told(self, token: TokenTrace) -> Evidence:
        return evidence(token, self.stages, self.weights.vocabulary.n_vocab)


def left_by(native: Any, position: int, array: Array) -> np.ndarray:
    """The candidates that llama.cpp's own stage leaves."""
    array.apply(llama.llama_sampler_chain_get(native, position))
    address = ctypes.cast(array.native.data, ctypes.c_void_p).value or 0
    start = (address - array.data.ctypes.data) // CANDIDATE.itemsize
    view = array.data[start : start + array.native.size]
    return view[view["logit"] > -np.inf].copy()


CHAINS: list[list[FilterStage]] = [
    [TopK(40), TopP(0.9), MinP(0.05), Temperature(0.8)],
    [Penalties(64, 1.3), TopK(20), Temperature(1.2)],
    [TopNSigma(1.0), Temperature(1.5), TopK(12)],
    [TopK(30), Xtc(0.7, 0.05), Temperature(1.1)],
    [Typical(0.6), TopK(10)],
    [LogitBias([TokenBias(28, bias=3.0), TokenBias(253, ban=True)]), TopK(20)],
    [Dry(2.0, 1.75, 1), TopK(10), Temperature(0.8)],
    [TopK(25), DynamicTemperature(1.0, 0.5)],
    [Temperature(0.7), MinP(0.1)],
    [Temperature(1.0)],
]


@pytest.mark.parametrize(("file", "filters"), on_files(CHAINS, CHAINS[0]), ids=name_of)
def test_each_card_shows_what_llama_cpps_own_stage_left(
    filters: list[FilterStage],
    session: NativeSession,
    weights: Weights,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(session, Sampling(filters, Dist(), seed=11), monkeypatch)
    native = native_chain(run.sampling, weights, run.prompt)
    n_told = n_marks = 0
    for scores, token in zip(run.rows, run.tokens, strict=False):
        told, array = run.told(token), Array(scores)
        best = np.argsort(-scores, kind="stable")[:64].tolist()
        before, n_before = set(best), len(scores)
        for position, row in enumerate(told.stages):
            view = left_by(native, position, array)
            ids = set(view["id"].tolist())
            assert (row.position, row.left) == (position, len(view))
            assert row.removed == n_before - len(view)
            assert {c.token_id for c in row.removed_known} == before - ids
            kept = {k.token_id: k.share for k in row.kept}
            assert set(kept) - {token.token_id} == ids & set(best) - {token.token_id}
            parts = np.exp(view["logit"].astype(np.float64) - view["logit"].max())
            shares = dict(zip(view["id"].tolist(), parts / parts.sum(), strict=True))
            for token_id, share in kept.items():
                if share is not None:
                    assert share == pytest.approx(shares[token_id], rel=2e-3, abs=1e-5)
                    n_told += 1
            before, n_before = before & ids, len(view)
        n_marks += check_draw(told, token, view)
        llama.llama_sampler_accept(native, token.token_id)
    llama.llama_sampler_free(native)
    weighs = any(isinstance(s, Penalties | LogitBias | Dry) for s in filters)
    assert n_told > 100 or weighs
    has_marks = not weighs and not any(isinstance(s, Typical | DynamicTemperature) for s in filters)
    assert n_marks > 10 if has_marks and len(filters) > 1 else n_marks < N_TOKENS


SELECTING: list[SelectStage] = [Mirostat(3.0, 0.2, 50), MirostatV2(3.0, 0.2), AdaptiveP(0.3, 0.9)]


@pytest.mark.parametrize(("file", "select"), on_files(SELECTING, SELECTING[0]), ids=name_of)
def test_the_last_card_shows_what_another_selecting_stage_left(
    select: SelectStage,
    session: NativeSession,
    weights: Weights,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(session, Sampling([TopK(30)], select, seed=5), monkeypatch)
    native = native_chain(run.sampling, weights, run.prompt)
    n_numbers = 0
    for scores, token in zip(run.rows, run.tokens, strict=False):
        told, array = run.told(token), Array(scores)
        left_by(native, 0, array)
        view = left_by(native, 1, array)
        row, draw = told.stages[1], told.draw
        assert row.left == len(view)
        best = np.argsort(-scores, kind="stable")[:64].tolist()
        assert {k.token_id for k in row.kept} >= set(view["id"].tolist()) & set(best)
        assert draw is not None
        assert draw.parts == ()
        assert draw.reason
        n_numbers += draw.uniform is not None
        assert (draw.uniform is None) == (len(view) == 1)
        llama.llama_sampler_accept(native, token.token_id)
    llama.llama_sampler_free(native)
    assert n_numbers > 3


def check_draw(told: Evidence, token: TokenTrace, view: np.ndarray) -> int:
    """Where a mark is shown, the candidates lie as llama.cpp has them."""
    assert told.draw is not None
    assert told.draw.uniform == token.uniform is not None
    assert bool(told.draw.parts) != bool(told.draw.reason)
    if not told.draw.parts:
        return 0
    assert [part.token_id for part in told.draw.parts] == view["id"].tolist()
    (mine,) = [part for part in told.draw.parts if part.start <= token.uniform < part.end]
    assert mine.token_id == token.token_id
    return 1


BESIDE: list[list[FilterStage]] = [
    [TopK(40), TopP(0.9), MinP(0.05), Temperature(0.8)],
    [Temperature(0.02), TopK(20)],
    [TopP(0.99), TopK(12)],
]


@pytest.mark.parametrize("rank", [12, 55, 3_000])
@pytest.mark.parametrize(("file", "filters"), on_files(BESIDE, BESIDE[2]), ids=name_of)
def test_of_a_token_chosen_by_hand_the_cards_show_what_was_left_beside_it(
    filters: list[FilterStage],
    rank: int,
    session: NativeSession,
    weights: Weights,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Branches mostly begin with what the stages would not have left."""
    sampling = Sampling(filters, Dist(), seed=11)
    drawn = Run(session, sampling, monkeypatch, n_tokens=1)
    by_score = np.argsort(-drawn.rows[0], kind="stable")
    chosen_id = int(by_score[min(rank, len(by_score) - 100)])
    run = Run(session, sampling, monkeypatch, n_tokens=2, forced_ids=[chosen_id])
    token, array = run.tokens[0], Array(run.rows[0])
    assert (token.token_id, token.chosen) == (chosen_id, True)
    native = native_chain(sampling, weights, run.prompt)
    told = run.told(token)
    best = np.argsort(-run.rows[0], kind="stable")[:64].tolist()
    n_told = 0
    for position, row in enumerate(told.stages):
        view = left_by(native, position, array)
        parts = np.exp(view["logit"].astype(np.float64) - view["logit"].max())
        shares = dict(zip(view["id"].tolist(), parts / parts.sum(), strict=True))
        assert {k.token_id for k in row.kept} - {chosen_id} == set(shares) & set(best) - {chosen_id}
        for kept in row.kept:
            if kept.share is not None:
                assert kept.share == pytest.approx(shares.get(kept.token_id, 0.0), rel=2e-3)
                n_told += 1
        is_told = all(kept.share is not None for kept in row.kept if not kept.is_drawn)
        assert bool(row.reason) != is_told
        assert is_told or len(view) > len(row.kept)
    llama.llama_sampler_free(native)
    assert n_told >= 2


@pytest.mark.parametrize("file", ["made"])
def test_greedy_draws_no_number(session: NativeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(session, Sampling([TopK(5)], Greedy()), monkeypatch, n_tokens=2)
    draw = run.told(run.tokens[0]).draw
    assert draw is not None
    assert (draw.uniform, draw.parts) == (None, ())
    assert "Greedy takes the best" in draw.reason


@pytest.mark.parametrize("file", ["made", pytest.param("starter", marks=pytest.mark.soak)])
def test_what_forbids_tokens_before_the_stages_has_its_own_row(
    session: NativeSession, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling([TopK(40)], Dist(), seed=3, grammar="root ::= [0-9]+", ban_end_token=True)
    run = Run(session, sampling, monkeypatch, n_tokens=2)
    rows = run.told(run.tokens[0]).stages
    assert [(row.name, row.position) for row in rows] == [
        ("end-token-ban", None), ("grammar", None), ("top-k", 0), ("dist", 1),
    ]  # fmt: skip
    assert rows[1].left < weights.vocabulary.n_vocab // 4
    assert sum(len(row.removed_known) for row in rows) + len(rows[-1].kept) >= 64
