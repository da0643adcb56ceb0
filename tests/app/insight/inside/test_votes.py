"""Scores, probabilities and the lens, against the definitions in double precision."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from app.insight.inside.votes import Lens, lens_of, log_total, votes


def test_probabilities_are_the_softmax_and_ranks_count_all_tokens() -> None:
    logits = np.random.default_rng(2).normal(0, 4, 500).astype(np.float32)
    total = sum((Decimal(float(x)).exp() for x in logits), Decimal(0))
    worst = int(logits.argmin())
    found = votes(logits, 7, worst)
    order = np.argsort(-logits, kind="stable")
    assert [vote.token_id for vote in found.rows] == [*order[:7], worst]
    assert [vote.rank for vote in found.rows] == [1, 2, 3, 4, 5, 6, 7, 500]
    for vote in found.rows:
        share = float(Decimal(float(logits[vote.token_id])).exp() / total)
        assert math.isclose(vote.probability, share, rel_tol=1e-5)
        assert vote.logit == logits[vote.token_id]
    assert found.of(worst) is found.rows[-1]
    assert found.of(None) is None


def test_one_that_is_among_the_best_stands_there_once() -> None:
    found = votes(np.array([1, 3, 2], np.float32), 2, 1)
    assert [vote.token_id for vote in found.rows] == [1, 2]
    assert [vote.token_id for vote in votes(np.array([1, 3], np.float32), 10).rows] == [1, 0]


def test_scores_too_large_for_an_exponential_are_added_all_the_same() -> None:
    assert math.isclose(log_total(np.array([900, 900], np.float32)), 900 + math.log(2))


@pytest.mark.parametrize(
    ("ranks", "layer"),
    [([9, 4, 1, 1], 2), ([1, 2, 1, 1], 2), ([1, 1, 1, 1], 0), ([1, 1, 1, 2], None), ([3, 1], 1)],
)
def test_a_token_leads_from_where_it_stays_the_best(ranks: list[int], layer: int | None) -> None:
    n = len(ranks)
    arrays = {
        "lens_ids": np.zeros((n, 2), np.int32),
        "lens_logits": np.zeros((n, 2), np.float32),
        "lens_total": np.zeros(n, np.float32),
        "lens_target_ranks": np.array(ranks, np.int32)[:, None] - 1,
    }
    lens = lens_of(arrays)
    assert lens is not None
    assert lens.leads_from == layer


def test_where_nothing_came_next_no_token_leads() -> None:
    arrays = {
        "lens_ids": np.zeros((2, 2), np.int32),
        "lens_logits": np.zeros((2, 2), np.float32),
        "lens_total": np.zeros(2, np.float32),
        "lens_target_ranks": np.zeros((2, 0), np.int32),
    }
    lens = lens_of(arrays)
    assert lens is not None
    assert (lens.ranks, lens.leads_from) == (None, None)
    assert lens_of({}) is None


def test_the_last_row_is_held_against_the_real_scores() -> None:
    logits = np.array([0, 5, 3], np.float32)
    lens = Lens(
        np.array([[0, 1], [1, 2]], np.int32),
        np.array([[9, 9], [5, 3.25]], np.float32),
        np.array([10, math.log(math.exp(5) + math.exp(3.25))], np.float32),
        None,
    )
    assert lens.difference(logits) == 0.25
    assert math.isclose(lens.probability(1), 1 / (1 + math.exp(-1.75)), rel_tol=1e-5)
