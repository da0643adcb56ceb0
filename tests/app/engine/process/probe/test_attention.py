"""Rows of attention, against the formula written out one number at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from app.engine.process.probe.attention import _slopes, softmax_rows, value_norms

N_HEAD, N_KV_HEAD, N_CELLS, D = 6, 2, 9, 4


def made(seed: int) -> tuple[Any, Any, Any]:
    source = np.random.default_rng(seed)
    query = source.normal(size=(N_HEAD, D)).astype(np.float32)
    keys = source.normal(size=(N_KV_HEAD, N_CELLS, D)).astype(np.float32)
    mask = np.where(source.random(N_CELLS) < 0.3, -np.inf, 0).astype(np.float32)
    mask[0] = 0
    return query, keys, mask


def by_hand(
    query: Any, keys: Any, mask: Any, scale: float, cap: float, slopes: Any, sinks: Any
) -> list[list[float]]:
    rows = []
    for head, q in enumerate(query):
        powers = []
        for cell in range(N_CELLS):
            key = keys[head // (N_HEAD // N_KV_HEAD), cell]
            score = scale * math.fsum(float(a) * float(b) for a, b in zip(q, key, strict=True))
            if cap:
                score = cap * math.tanh(score / cap)
            bias = float(mask[cell])
            slope = 1.0 if slopes is None else float(slopes[head])
            powers.append(0.0 if bias == -math.inf else math.exp(score + slope * bias))
        total = math.fsum(powers) + (0.0 if sinks is None else math.exp(float(sinks[head])))
        rows.append([power / total for power in powers])
    return rows


@pytest.mark.parametrize("cap", [0.0, 0.7])
@pytest.mark.parametrize("has_sinks", [False, True])
@pytest.mark.parametrize("max_bias", [0.0, 8.0])
def test_rows_are_what_the_formula_says(cap: float, has_sinks: bool, max_bias: float) -> None:
    query, keys, mask = made(0)
    sinks = np.linspace(-1, 3, N_HEAD, dtype=np.float32) if has_sinks else None
    slopes = _slopes(N_HEAD, max_bias)
    if slopes is not None:  # with ALiBi the mask says how far away a token is
        mask = np.where(np.isinf(mask), mask, -np.arange(N_CELLS, dtype=np.float32)[::-1])
    rows = softmax_rows(query, keys, mask, scale=0.5, softcap=cap, slopes=slopes, sinks=sinks)
    wanted = by_hand(query, keys, mask, 0.5, cap, slopes, sinks)
    assert rows == pytest.approx(np.array(wanted), abs=1e-6)
    assert (rows[:, np.isinf(mask)] == 0).all()
    sums = rows.sum(axis=1)
    if has_sinks:
        assert (sums < 1).all(), "the sink has taken its part"
    else:
        assert sums == pytest.approx(np.ones(N_HEAD), abs=1e-6)


def test_large_scores_do_not_overflow() -> None:
    query, keys, mask = made(1)
    rows = softmax_rows(100 * query, 100 * keys, mask, scale=1.0)
    assert rows.sum(axis=1) == pytest.approx(np.ones(N_HEAD))


@pytest.mark.parametrize(
    ("n_head", "wanted"),
    [
        (4, [2**-2, 2**-4, 2**-6, 2**-8]),
        # Six: as for four, and every second one of eight (Press et al. 2108.12409).
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
    ],
)
def test_slopes_are_those_of_alibi(n_head: int, wanted: list[float]) -> None:
    slopes = _slopes(n_head, 8.0)
    assert slopes is not None
    assert slopes.tolist() == wanted


def test_the_size_of_a_value_is_that_of_the_value_mixed() -> None:
    source = np.random.default_rng(2)
    values = source.normal(size=(N_KV_HEAD, N_CELLS, D)).astype(np.float32)
    mixing = source.normal(size=(10, N_HEAD * D)).astype(np.float32)
    found = value_norms(values, mixing, N_HEAD)
    for head in range(N_HEAD):
        for cell in range(N_CELLS):
            mixed = mixing[:, head * D : (head + 1) * D] @ values[head // 3, cell]
            assert found[head, cell] == pytest.approx(np.linalg.norm(mixed), rel=1e-5)
