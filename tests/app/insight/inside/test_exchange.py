"""Two words exchanged: which text that is, and how far two votes are apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from app.insight.inside.exchange import compare, exchanged
from app.insight.inside.word_spans import Span


@given(st.data())
def test_the_same_tokens_stand_there_in_another_order(data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, 9), min_size=3, max_size=12))
    cuts = st.integers(0, len(ids) - 1)
    a, b, c, d = sorted(data.draw(st.tuples(cuts, cuts, cuts, cuts)))
    if a == b or c == d:
        return
    found = exchanged(ids, (a, b), (c, d))
    assert sorted(found) == sorted(ids)
    assert found[-1] == ids[-1]
    assert exchanged(ids, (c, d), (a, b)) == found
    back = exchanged(found, (a, a + d - c), (a + d - b, d))
    assert back == ids, "exchanged twice, they are where they were"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, 0), (1, 2)),
        ((0, 2), (1, 3)),
        ((0, 1), (3, 4)),
        ((-1, 1), (2, 3)),
        ((0, 1), (2, 9)),
        ((1, 0), (2, 3)),
        ((1, 2), (1, 2)),
    ],
)
def test_places_that_are_none_are_refused(one: Span, other: Span) -> None:
    with pytest.raises(ValueError, match="two places"):
        exchanged([1, 2, 3, 4], one, other)


def test_votes_are_compared_as_one_would_by_hand() -> None:
    p, q = [0.5, 0.25, 0.125, 0.125], [0.125, 0.5, 0.25, 0.125]
    shift = np.float32(3.0)  # what all scores have more is no difference
    found = compare(np.log(np.float32(p)) + shift, np.log(np.float32(q)), n=2)
    assert found.token_ids.tolist() == [0, 1, 2], "the best of both"
    assert found.before.tolist() == pytest.approx([0.5, 0.25, 0.125])
    assert found.after.tolist() == pytest.approx([0.125, 0.5, 0.25])
    wanted = sum(a * math.log2(a / b) for a, b in zip(p, q, strict=True))
    assert found.bits == pytest.approx(wanted, abs=1e-6)
    assert found.before.argmax() != found.after.argmax()
    assert found.turned.size == 0


def test_the_same_votes_are_no_change() -> None:
    logits = np.random.default_rng(0).normal(size=50).astype(np.float32)
    stream = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    found = compare(logits, logits, (stream, stream))
    assert found.bits == 0.0
    np.testing.assert_allclose(found.turned, 0.0, atol=1e-12)


def test_streams_are_compared_by_layer() -> None:
    one = np.array([[1, 0], [1, 1], [0, 0], [np.nan, 1]], np.float32)
    other = np.array([[0, 1], [2, 2], [1, 0], [1, 1]], np.float32)
    turned = compare(np.zeros(4), np.zeros(4), (one, other)).turned
    assert turned[:2].tolist() == pytest.approx([1.0, 0.0])
    assert np.isnan(turned[2:]).all()


def test_scores_that_cannot_be_are_no_trouble() -> None:
    """Of a soft cap that leaves none, or a mask."""
    logits = np.array([0.0, -np.inf, 1.0], np.float32)
    found = compare(logits, logits, n=8)
    assert found.bits == 0.0
    assert found.before.tolist()[-1] == 0.0
