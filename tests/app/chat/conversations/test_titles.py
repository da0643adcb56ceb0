"""Titles come from the first line that says something."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from app.chat.conversations import titles
from app.chat.conversations.titles import MAX_LENGTH, UNTITLED, title_from


def test_examples_in_the_docstring_hold() -> None:
    assert doctest.testmod(titles).failed == 0


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("", UNTITLED),
        (" \n\t ", UNTITLED),
        ("```\nprint(1)\n```", "print(1)"),
        ("- first\n- second", "first"),
        ("???", "???"),
        ("\U000e0049\U000e0067", UNTITLED),
        ("\u200b\ufe0f\ufe0f\u200d", UNTITLED),
        ("Hi\U000e0049 \u202ethere", "Hi there"),
        ("🏴\U000e0067\U000e0062\U000e007f!", "🏴\U000e0067\U000e0062\U000e007f!"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("a  lot   of    space", "a lot of space"),
    ],
)
def test_title_is_the_first_line_that_says_something(text: str, title: str) -> None:
    assert title_from(text) == title


def test_long_line_is_cut_at_a_word() -> None:
    title = title_from("Please explain how the key value cache of a transformer works, in detail")
    assert title == "Please explain how the key value cache of a…"


def test_line_without_spaces_is_cut_inside() -> None:
    assert title_from("好" * 100) == "好" * (MAX_LENGTH - 1) + "…"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text())
def test_any_text_gives_a_title_of_one_line(text: str) -> None:
    title = title_from(text)
    assert 0 < len(title) <= MAX_LENGTH
    assert "\n" not in title


def test_only_the_beginning_of_a_pasted_book_is_read():
    assert title_from("-\n" * 10_000 + "late") != "late"
