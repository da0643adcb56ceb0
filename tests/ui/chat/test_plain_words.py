"""Excerpts without Markdown's signs."""

from __future__ import annotations

import pytest

from ui.chat.plain_words import plain_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Think of a **staircase** of blocks", "Think of a staircase of blocks"),
        ("__Bold__ and ~~gone~~", "Bold and gone"),
        ("call `print(x)` once", "call print(x) once"),
        ("## Steps to take", "Steps to take"),
        ("the first $n$ numbers, $n + 1$ of them", "the first n numbers, n + 1 of them"),
        ("**one** and **two**", "one and two"),
        ("**`code` in bold**", "`code` in bold"),
    ],
)
def test_signs_are_left_out(text: str, words: str) -> None:
    assert plain_words(text)[0] == words


@pytest.mark.parametrize(
    "text",
    [
        "2**3 and 4**5",
        "f(**a, **b)",
        "it costs $5 to check, or $10",
        "a __dunder__name",
        "C# is no heading",
        "**not closed, since the excerpt ends",
        "$HOME and $PATH",
        "plain",
        "",
    ],
)
def test_what_is_no_pair_stays(text: str) -> None:
    assert plain_words(text) == (text, ())


def test_marks_follow_their_words() -> None:
    text = "A **bold** word, $n$ and bold"
    words, marks = plain_words(text, [(4, 8), (25, 29)])
    assert words == "A bold word, n and bold"
    assert [words[a:b] for a, b in marks] == ["bold", "bold"]


def test_what_was_searched_for_is_left_as_it_is() -> None:
    text = "Think of a **staircase**"
    words, marks = plain_words(text, [(11, 13)])
    assert words == "Think of a **staircase"
    assert [words[a:b] for a, b in marks] == ["**"]
