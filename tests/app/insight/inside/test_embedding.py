"""Spellings, rankings, lengths and the map of words, against what can be told in other ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from app.insight.inside.embedding import (
    Neighbour,
    directions,
    folded,
    input_scale,
    is_length_telling,
    lengths_said,
    outcome,
    singular,
    spelling,
    word_map,
)

Matrix = np.ndarray[Any, Any]


# --- spellings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("dog", [" dog", "Dog", " DOG", "dogs", " Dogs", "dog's", "\tdog\n", "ｄｏｇ"]),
        ("city", ["City", " cities", "CITIES"]),
        ("church", [" churches"]),
        ("glass", ["Glass", " glasses"]),
        ("büro", ["Büro", " BÜRO", "büros"]),
        (".", [". ", " ."]),
        ("straße", ["STRASSE", "strasse"]),
    ],
)
def test_spellings_of_a_word_are_one(word: str, others: list[str]) -> None:
    assert {singular(each) for each in others} == {singular(word)}


def test_a_plural_is_no_spelling() -> None:
    assert {spelling(each) for each in (" dog", "Dog", " DOG", "\tdog\n", "ｄｏｇ")} == {"dog"}
    assert spelling(" dogs") == "dogs"
    assert spelling("dog's") == "dog's"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dog", "cat"),
        ("dog", "do"),
        ("bus", "bu"),
        ("this", "thi"),
        ("class", "clas"),
        ("as", "a"),
        ("ties", "ty"),
        (" ", ""),
        ("�", "��"),
        ("s", "'s"),
    ],
)
def test_what_are_two_words_stay_two(one: str, other: str) -> None:
    assert spelling(one) != spelling(other)
    assert singular(one) != singular(other)


@given(st.text(max_size=20))
def test_any_text_has_a_spelling_and_that_is_its_own(text: str) -> None:
    for fold in (spelling, singular):
        found = fold(text)
        assert bool(found) == bool(text)
        assert fold(f" {text}") == found or not text.strip()


WORDS = {1: " dog", 2: " dogs", 3: " cat", 4: "Dog", 5: " wolf", 6: "cats", 7: " king"}


def test_a_ranking_is_folded_where_its_first_spelling_stands() -> None:
    found = folded([1, 4, 3, 2, 6, 5], [1.0, 0.8, 0.5, 0.45, 0.4, 0.3], WORDS.__getitem__)
    assert found == (
        Neighbour((1, 4, 2), 0, 1.0),
        Neighbour((3, 6), 2, 0.5),
        Neighbour((5,), 5, pytest.approx(0.3)),
    )


def test_plurals_may_be_what_a_sum_is_about() -> None:
    """dogs − dog + cat"""
    near = folded([3, 2, 6, 1], [0.9, 0.8, 0.7, 0.1], WORDS.__getitem__, inputs=[2, 1, 3])
    assert [each.token_ids for each in near] == [(3,), (2,), (6,), (1,)]
    assert outcome(near) == near[2], "cats"


def test_inputs_stay_in_the_ranking_and_are_marked_apart_from_their_spellings() -> None:
    near = folded([4, 7, 3, 5], [0.9, 0.8, 0.7, 0.6], WORDS.__getitem__, inputs=[1, 7])
    assert [(each.is_input, each.is_variant) for each in near] == [
        (False, True),
        (True, False),
        (False, False),
        (False, False),
    ]
    assert outcome(near) == near[2], "the first word that was not put in, in whatever spelling"
    later = folded([4, 1, 3], [0.9, 0.8, 0.7], WORDS.__getitem__, inputs=[1])
    assert later[0] == Neighbour((4, 1), 0, 0.9, is_input=True)
    assert outcome(later[:1]) is None
    assert outcome(()) is None


# --- lengths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spread", "says", "sentence"),
    [
        ((1.8, 3.1, 7.5), True, "98% of all vectors are 1.80 to 7.50 long; the median is 3.10."),
        (
            (1.02, 1.03, 1.04),
            False,
            "All vectors are about 1.03 long, so length says nothing here.",
        ),
        ((0.0, 0.0, 0.0), False, "All vectors are zero."),
    ],
)
def test_lengths_are_told_where_they_differ(
    spread: tuple[float, float, float], says: bool, sentence: str
) -> None:
    assert is_length_telling(*spread) is says
    assert lengths_said(*spread) == sentence


def test_a_scale_is_found_and_what_is_none_is_told() -> None:
    source = np.random.default_rng(3)
    row, other = source.normal(size=(2, 64)).astype(np.float32)
    assert input_scale(row, row) == pytest.approx(1.0)
    assert input_scale(row, np.float32(-25.3) * row) == pytest.approx(-25.3, rel=1e-6)
    assert input_scale(row, row + np.float32(0.1) * other) is None
    assert input_scale(row, np.zeros(64)) is None
    assert input_scale(np.zeros(64), row) is None


# --- the map ------------------------------------------------------------------------------------


def reference_map(rows: Matrix, mean: Matrix) -> tuple[Matrix, Matrix]:
    """Axes and shares by the eigenvectors of the covariance, which is another way."""
    units = rows - mean
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    spread = units - units.mean(axis=0)
    sizes, axes = np.linalg.eigh(spread.T @ spread)
    return spread @ axes[:, [-1, -2]], sizes[[-1, -2]] / sizes.sum()


def test_axes_are_the_principal_ones_of_the_chosen_words() -> None:
    source = np.random.default_rng(1)
    mean = source.normal(size=24) * 3
    rows = (mean + source.normal(size=(40, 24))).astype(np.float32)
    found = word_map(rows, mean)
    points, variance = reference_map(rows.astype(np.float64), mean)
    np.testing.assert_allclose(np.abs(found.points), np.abs(points), atol=1e-9)
    np.testing.assert_allclose(found.variance, variance, atol=1e-12)
    assert found.share_shown == pytest.approx(variance.sum())
    again = word_map(rows[::-1], mean)
    np.testing.assert_allclose(again.points[::-1], found.points, atol=1e-9)


def test_neighbours_are_counted_as_one_would_by_hand() -> None:
    source = np.random.default_rng(2)
    rows, mean, k = source.normal(size=(30, 16)), np.zeros(16), 5
    found = word_map(rows, mean, k)
    cosine = directions(rows, mean) @ directions(rows, mean).T
    for word in range(30):
        others = [i for i in range(30) if i != word]
        near = sorted(others, key=lambda i: -cosine[word, i])[:k]
        on_map = sorted(others, key=lambda i: np.hypot(*(found.points[i] - found.points[word])))[:k]
        assert found.neighbours[word].tolist() == near
        assert found.kept[word] == len(set(near) & set(on_map)) / k
    assert found.share_kept == pytest.approx(found.kept.mean())


def test_what_lies_in_a_plane_keeps_all_neighbours() -> None:
    turns = np.linspace(0, 2.4, 12) ** 1.5
    plane = np.linalg.qr(np.random.default_rng(4).normal(size=(10, 2)))[0]
    rows = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ plane.T
    found = word_map(rows, np.zeros(10), k=3)
    assert found.share_shown == pytest.approx(1.0)
    assert found.share_kept == 1.0


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_words_have_a_map_too(n: int) -> None:
    rows = np.random.default_rng(5).normal(size=(n, 8)).astype(np.float32)
    found = word_map(rows, np.zeros(8))
    assert found.points.shape == (n, 2)
    assert found.neighbours.shape == (n, min(5, max(n - 1, 0)))
    assert np.isfinite(found.points).all()
    assert found.share_kept == 1.0
    assert found.share_shown <= 1.0 + 1e-12


def test_words_that_are_the_same_or_nothing_do_no_harm() -> None:
    same = np.ones((4, 8), np.float32)
    assert word_map(same, np.zeros(8)).share_shown == 0.0
    assert word_map(same, np.ones(8)).points.tolist() == [[0.0, 0.0]] * 4, "nothing but the mean"
    broken = np.random.default_rng(6).normal(size=(5, 8)).astype(np.float32)
    broken[2] = np.nan
    assert np.isfinite(word_map(broken, np.zeros(8)).points).all()
