"""Lengths and shares of what each layer adds, against the definitions in double precision."""

from __future__ import annotations

import numpy as np

from app.insight.inside.way import norms, way


def test_shares_are_lengths_over_the_length_of_the_stream_after_the_layer() -> None:
    chance = np.random.default_rng(1)
    stream, first, second = (chance.standard_normal((3, 64)).astype(np.float32) for _ in range(3))
    found = way(stream, first, second)
    for layer in range(3):
        length = sum(float(x) ** 2 for x in stream[layer]) ** 0.5
        added = sum(float(x) ** 2 for x in first[layer]) ** 0.5
        np.testing.assert_allclose(found.norms[layer], length, rtol=1e-6)
        np.testing.assert_allclose(found.attention_shares[layer], added / length, rtol=1e-6)
    np.testing.assert_allclose(found.ffn_shares, norms(second) / norms(stream), rtol=1e-6)
    assert len(found) == 3


def test_what_is_not_there_has_no_length_and_a_stream_of_nothing_no_share() -> None:
    stream = np.array([[3, 4], [0, 0]], np.float32)
    writes = np.array([[np.nan, np.nan], [1, 0]], np.float32)
    found = way(stream, writes)
    assert np.isnan(found.attention_shares).all()
    assert np.isnan(found.ffn).all()
    assert found.norms.tolist() == [5, 0]


def test_large_numbers_do_not_overflow() -> None:
    assert norms(np.full((1, 4), 1e30, np.float32)).tolist() == [np.float32(2e30)]
