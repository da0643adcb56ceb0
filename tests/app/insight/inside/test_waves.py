"""Waves against the mean of every cosine, and turns undone."""

from __future__ import annotations

import numpy as np
import pytest

from app.insight.inside.position import Rope, frequencies, rotated
from app.insight.inside.waves import hands, some_of, unrotated, waves


@pytest.mark.parametrize(("n_positions", "n_columns"), [(50, 50), (50, 200), (1000, 64), (8000, 7)])
def test_a_column_is_the_mean_of_its_positions(n_positions: int, n_columns: int) -> None:
    rope = Rope(64, base=10_000.0)
    found = waves(rope, n_positions, n_columns)
    n_columns = min(n_columns, n_positions)
    every = np.cos(np.arange(n_positions)[None] * frequencies(rope)[:, None])
    groups = np.array_split(np.arange(n_positions), n_columns)
    assert found.shape == (32, n_columns)
    if n_positions % n_columns == 0:
        means = np.stack([every[:, group].mean(axis=1) for group in groups], axis=1)
        assert found == pytest.approx(means, abs=1e-9)
    else:
        starts = np.arange(n_columns) * n_positions // n_columns
        sizes = np.diff([*starts, n_positions])
        means = np.add.reduceat(every, starts, axis=1) / sizes
        assert found == pytest.approx(means, abs=1e-9)


def test_a_pair_that_stands_still_or_turns_wholly_is_no_division_by_nothing() -> None:
    still = Rope(2, scale=0.0)
    whole = Rope(2, scale=2 * np.pi)
    assert waves(still, 100, 10) == pytest.approx(np.ones((1, 10)))
    assert waves(whole, 100, 10) == pytest.approx(np.ones((1, 10)), abs=1e-9)


@pytest.mark.parametrize("order", ["interleaved", "halves"])
def test_a_turn_can_be_undone(order: str) -> None:
    rope = Rope(
        *(8, 100.0, order),  # type: ignore[arg-type]
        first_dim=2,
        scale=0.25,
        ext_factor=1.0,
        n_ctx_orig=64,
        beta_fast=8.0,
    )
    vector = np.random.default_rng(0).standard_normal(12)
    turned = rotated(rope, vector, 37)
    assert not np.allclose(turned, vector)
    assert unrotated(rope, turned, 37) == pytest.approx(vector)
    # both hands of a pair have one length, and all pairs are all turned dimensions
    before, after = hands(rope, vector), hands(rope, turned)
    ratio = np.linalg.norm(after, axis=1) / np.linalg.norm(before, axis=1)
    assert ratio == pytest.approx(np.full(4, ratio[0]))
    assert sorted(before.ravel()) == pytest.approx(sorted(vector[2:10]))


def test_shown_pairs_are_the_first_and_last_and_each_once() -> None:
    for n_pairs in range(1, 200):
        found = some_of(n_pairs, 8)
        assert found == sorted(set(found))
        assert (found[0], found[-1], len(found) <= 8) == (0, n_pairs - 1, True)
