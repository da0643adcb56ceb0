"""The matrix of a layer, against softmaxes that are written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.insight.inside.attention import value_weighted, without_sink
from app.insight.inside.attention_matrix import AttentionMatrix, Cell, HeadRow, first_seen

N_HEAD, N_KV_HEAD, D = 4, 2, 8


class Layer:
    """A layer of a made-up network: all tokens at once, a triangle of scores."""

    def __init__(self, n_tokens: int, window: int = 0, cap: float = 0.0, seed: int = 5) -> None:
        chance = np.random.default_rng(seed)
        self.queries = chance.standard_normal((n_tokens, N_HEAD, D)).astype(np.float32) * 2
        self.keys = chance.standard_normal((n_tokens, N_KV_HEAD, D)).astype(np.float32)
        self.norms = chance.random((N_HEAD, n_tokens)).astype(np.float32) + 0.1
        back = np.arange(n_tokens)[:, None] - np.arange(n_tokens)
        self.visible = (back >= 0) & ((back < window) | (not window))
        keys = np.repeat(self.keys, N_HEAD // N_KV_HEAD, axis=1).astype(np.float64)
        scores = np.einsum("ihd,jhd->hij", self.queries, keys) / np.sqrt(D)
        if cap:
            scores = cap * np.tanh(scores / cap)
        powers = np.where(self.visible, np.exp(scores), 0)
        self.shares = (powers / powers.sum(axis=2, keepdims=True)).astype(np.float32)

    def row(self, place: int) -> HeadRow:
        return HeadRow(self.shares[:, place, : place + 1], self.queries[place], self.keys[place])

    def matrix(self, place: int, n_places: int, norms: Any = None) -> AttentionMatrix:
        made = AttentionMatrix(place, norms, n_places)
        for each in made.places:
            made.put(each, self.row(each))
        return made


def test_a_short_text_has_a_row_and_a_column_for_each_token() -> None:
    layer = Layer(6)
    matrix = layer.matrix(5, 32)
    assert list(matrix.places) == [0, 1, 2, 3, 4, 5]
    assert matrix.spans == [(at, at + 1) for at in range(6)]
    for head in range(N_HEAD):
        assert np.array_equal(matrix.shares(head), layer.shares[head])
    assert matrix.shares(None) == pytest.approx(layer.shares.mean(axis=0), abs=1e-6)
    later = np.triu(np.ones((6, 6), bool), 1)
    assert ((matrix.cells == Cell.LATER) == later).all()
    assert ((matrix.cells == Cell.SEEN) == ~later).all()


def test_of_a_long_text_the_rest_is_added_up_so_that_rows_sum_to_one() -> None:
    layer = Layer(20)
    matrix = layer.matrix(18, 5)
    assert matrix.spans == [(0, 1), (1, 14), *((at, at + 1) for at in range(14, 19))]
    found = matrix.shares(2)
    assert found.sum(axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert found[:, 0] == pytest.approx(layer.shares[2, 14:19, 0])
    assert found[:, 1] == pytest.approx(layer.shares[2, 14:19, 1:14].sum(axis=1), abs=1e-6)
    assert np.array_equal(found[:, 2:], layer.shares[2, 14:19, 14:19])


def test_one_token_before_the_shown_ones_is_the_first_one() -> None:
    matrix = Layer(4).matrix(3, 3)
    assert (matrix.n_before, matrix.spans[:2]) == (1, [(0, 1), (1, 2)])


def test_what_a_window_hides_is_told_from_what_gets_nothing() -> None:
    layer = Layer(10, window=3)
    layer.shares[0, 9, 8] = 0.0  # seen, and nothing is taken
    matrix = layer.matrix(9, 32)
    wanted = np.where(layer.visible, Cell.SEEN, Cell.OUTSIDE)
    wanted[np.triu_indices(10, 1)] = Cell.LATER
    assert (matrix.cells == wanted).all()
    assert first_seen(layer.shares[:, 9]) == 7
    short = layer.matrix(9, 4)  # tokens 0, 1-5 and then 6, 7, 8, 9
    assert short.cells[:, :2].tolist() == [
        [Cell.OUTSIDE, Cell.SEEN],
        [Cell.OUTSIDE, Cell.SEEN],
        [Cell.OUTSIDE, Cell.OUTSIDE],
        [Cell.OUTSIDE, Cell.OUTSIDE],
    ]


def test_rows_that_are_not_here_are_neither_shares_nor_zeros() -> None:
    layer = Layer(5)
    matrix = AttentionMatrix(4)
    matrix.put(4, HeadRow(layer.shares[:, 4]))
    assert np.isnan(matrix.shares(0)[:4]).all()
    assert np.array_equal(matrix.shares(0)[4], layer.shares[0, 4])
    assert (matrix.cells[:4][np.tri(4, 5, dtype=bool)] == Cell.UNREAD).all()
    assert matrix.formula(0, 4, 2) is None  # no query yet
    assert (matrix.has_query(4), matrix.has_query(3)) == (False, False)


@pytest.mark.parametrize("n_places", [32, 4])
def test_the_first_token_is_hidden_and_values_weigh_as_in_the_row(n_places: int) -> None:
    layer = Layer(9)
    matrix = layer.matrix(8, n_places, layer.norms)
    first = matrix.places[0]
    for head in range(N_HEAD):
        for row, place in enumerate(matrix.places):
            plain = layer.shares[head, place, : place + 1]
            weighted = value_weighted(plain, layer.norms[head, : place + 1])
            end = matrix.n_before + row + 1
            for hides in (False, True):
                for weighs, whole in ((False, plain), (True, weighted)):
                    wanted = without_sink(whole)[0] if hides else whole
                    found = matrix.shares(head, hides_sink=hides, weighs_values=weighs)[row]
                    assert found[matrix.n_before : end] == pytest.approx(wanted[first:], abs=1e-5)
                    assert found.sum() == pytest.approx(wanted.sum(), abs=1e-5)
    assert matrix.norm(1, matrix.n_before) == pytest.approx(float(layer.norms[1, first]))
    assert matrix.norm(1, 0) == pytest.approx(float(layer.norms[1, 0]))


@pytest.mark.parametrize(("window", "n_places"), [(0, 32), (0, 4), (3, 32), (3, 4)])
def test_each_share_is_what_its_formula_says(window: int, n_places: int) -> None:
    layer = Layer(9, window)
    matrix = layer.matrix(8, n_places)
    n_told = 0
    for head in range(N_HEAD):
        for row, place in enumerate(matrix.places):
            for column in range(matrix.n_before, len(matrix.spans)):
                looked_at = matrix.spans[column][0]
                found = matrix.formula(head, row, column)
                assert (found is not None) == bool(layer.visible[place, looked_at])
                if found is not None:
                    key = layer.keys[looked_at, head // 2]
                    product = float(layer.queries[place, head] @ key)
                    assert found.product == pytest.approx(product, rel=1e-5)
                    assert found.d == D
                    share = np.exp(found.score - found.total)
                    assert share == pytest.approx(layer.shares[head, place, looked_at], abs=1e-5)
                    n_told += 1
    assert n_told
    assert all(matrix.formula(0, row, 0) is None for row in range(4)) or not matrix.n_before


def test_where_scores_are_bent_no_formula_is_told() -> None:
    layer = Layer(9, cap=0.7)
    matrix = layer.matrix(8, 32)
    assert all(matrix.formula(head, 8, 4) is None for head in range(N_HEAD))
    assert np.array_equal(matrix.shares(0), layer.shares[0])


def test_keys_of_another_width_than_queries_make_no_product() -> None:
    layer = Layer(3)
    matrix = AttentionMatrix(2)
    for place in range(3):
        matrix.put(place, layer.row(place)._replace(key=layer.keys[place, :, :4]))
    assert matrix.formula(0, 2, 1) is None
