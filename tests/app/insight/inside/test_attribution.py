"""The formula by itself."""

from __future__ import annotations

import numpy as np

from app.insight.inside.attribution import (
    Attribution,
    by_head,
    fitted_scale,
    frozen_norm,
    misfit,
)

RANDOM = np.random.default_rng(5)


def test_a_frozen_norm_gives_the_norm_of_the_whole_sum() -> None:
    """Σ write · direction = row · norm(Σ write), for both kinds of norm."""
    writes = RANDOM.normal(size=(9, 32))
    row, gain, bias = RANDOM.normal(size=(3, 32))
    for centred in (False, True):
        x = writes.sum(axis=0)
        x = x - x.mean() if centred else x
        normed = x / np.sqrt(np.mean(x * x) + 1e-6)
        norm = frozen_norm(writes.sum(axis=0), normed, gain, bias, centred)
        total = (writes @ norm.direction(row)).sum() + row @ bias
        np.testing.assert_allclose(total, row @ (normed * gain + bias))


def test_shares_of_heads_make_up_their_mix() -> None:
    mixing, heads, direction = (
        RANDOM.normal(size=(32, 24)),
        RANDOM.normal(size=24),
        RANDOM.normal(size=32),
    )
    shares = by_head(heads, mixing.T @ direction, 4)
    np.testing.assert_allclose(shares.sum(), mixing @ heads @ direction)


def test_what_is_left_is_said() -> None:
    heads = np.array([[1.0, 2.0], [np.nan, np.nan]])
    found = Attribution(
        1,
        2,
        difference=10.0,
        shown_difference=9.0,
        embedding=1.0,
        attn=np.array([4.0, 1.0]),
        ffn=np.array([2.0, 0.0]),
        others=np.array([0.0, 0.5]),
        heads=heads,
        attn_bias=np.array([0.25, 0.0]),
        norm_bias=0.5,
    )
    assert found.explained == 9.0
    assert found.unexplained == 1.0
    np.testing.assert_array_equal(found.between_heads, [0.75, np.nan])


def test_scales_are_fitted_and_misfits_are_seen() -> None:
    one = RANDOM.normal(size=50)
    assert misfit(one * fitted_scale(one, one * -3.5), one * -3.5) < 1e-12
    assert misfit(one, one + 1.0) > 0.5
    assert fitted_scale(np.zeros(3), np.ones(3)) == 0.0
    assert misfit(np.zeros(3), np.zeros(3)) == 0.0
