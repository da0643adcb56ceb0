"""Words about moments: short, with units, and exact enough to tell neighbours apart."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from app.amounts import time_text
from app.insight.time.timeline import KINDS, Stretch
from ui.section.time.scale import step_for
from ui.section.time.words import pass_text, stretch_lines, tick_text, token_lines, tokens_text


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0.0, "0.00 ms"),
        (3.14159, "3.14 ms"),
        (42.04, "42.0 ms"),
        (420.4, "420 ms"),
        (1234.0, "1.23 s"),
        (1_234_000.0, "1,234 s"),
    ],
)
def test_a_time_has_about_three_figures(ms: float, words: str) -> None:
    assert time_text(ms) == words


@given(st.floats(1e-2, 1e6), st.integers(0, 200))
def test_neighbours_on_the_axis_have_different_words(least: float, first: int) -> None:
    step = step_for(least)
    words = [tick_text(number * step, step) for number in range(first, first + 5)]
    assert len(set(words)) == 5
    assert all(word == "0" or word.endswith("s") for word in words)


def test_who_shared_a_pass() -> None:
    assert pass_text(0, 0) == ""
    assert pass_text(1, 1) == "alone in its pass"
    assert pass_text(1, 64) == "alone in its pass"
    assert pass_text(3, 3) == "3 replies in the pass"
    assert pass_text(2, 65) == "2 replies in the pass, 65 tokens"
    assert pass_text(4, 70, of_many=True) == "up to 4 replies in the pass, up to 70 tokens"
    assert (tokens_text(1), tokens_text(1200)) == ("1 token", "1,200 tokens")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_stretch_has_its_card(kind: str) -> None:
    name, figures, sentence = stretch_lines(Stretch(kind, 1500.0, 20.0, 4, 2, 5))
    assert name == f"{KINDS[kind].name} · 20.0 ms"
    assert figures.endswith("from 1.50 s")
    assert sentence == KINDS[kind].sentence
    assert ("200 tokens/s" in figures) == (kind in ("prefill", "reread"))


def test_the_speed_of_all_is_said_where_all_wrote() -> None:
    assert token_lines(0, "·a", 20.0, 5.0, 4, 4)[-1] == "200 tokens/s for all 4 together"
    assert len(token_lines(0, "·a", 20.0, 5.0, 4, 60)) == 2
    assert len(token_lines(0, "·a", 20.0, 5.0, 1, 1)) == 2
