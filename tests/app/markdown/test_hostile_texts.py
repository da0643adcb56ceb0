"""Replies that are signs for the most part are read about as fast as prose of their length.

What is counted are calls of Python functions per character, not seconds: it is the same on every
machine, and what grows with the square of a text shows in it.
"""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from app.markdown import brackets, highlight
from app.markdown.blocks import CodeBlock, LiteralBlock, TextBlock
from app.markdown.document import Document

PROSE = "The quick brown fox jumps over *the* lazy [dog](http://a.test) and `sleeps`. "
SIZE = 8_000
MOST_CALLS = 46
"""Per character; prose takes less than one, a row of signs that are read one by one about 20."""


def calls_per_character(text: str) -> float:
    count = 0

    def watch(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    document = Document(text)
    sys.setprofile(watch)
    try:
        for segment in document.segments:
            document.blocks(segment)
    finally:
        sys.setprofile(None)
    return count / len(text)


def filled(piece: str) -> str:
    return piece * (SIZE // len(piece))


@pytest.mark.parametrize(
    "text",
    [
        *map(filled, ("!", "[", "![", "]", "[^a", "[ ", "*a", "_a ", "~~a", "`a ``b ", "<", "&")),
        *map(filled, ("[a](", "[a](b) ", "$x", "\\", "(", "|", "- ", "> ")),
        "[" * (SIZE // 2) + "]" * (SIZE // 2),
        "[" * 2900 + "](http://a.test)",
        "[a]: b\n\n" + "[" * 2900 + "]",
        "![" * 1400 + "](a)" * 300,
        "| a " * 2000 + "|\n" + "|---" * 2000 + "|\n" + "| b " * 2000 + "|\n",
        ("| a " * 500 + "|\n") + ("|---" * 500 + "|\n") + ("| b " * 500 + "|\n") * 20,
    ],
    ids=lambda text: f"{text[:8]!r}-{len(text)}",
)
def test_signs_are_read_in_linear_time(text: str) -> None:
    assert calls_per_character(text) < MOST_CALLS


def test_the_measure_sees_what_is_not_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the match of brackets the same text takes many times as many calls."""
    assert calls_per_character(filled(PROSE)) < 5
    monkeypatch.setattr(brackets, "beginnings", lambda *_: None)
    assert calls_per_character("[" * 2_000) > MOST_CALLS


# What is passed over is what markdown-it makes nothing of


def markdown(*, is_guarded: bool) -> MarkdownIt:
    made = MarkdownIt("js-default", {"html": False, "linkify": False})
    if is_guarded:
        brackets.use(made)
    return made


GUARDED, PLAIN = markdown(is_guarded=True), markdown(is_guarded=False)
PIECES = [
    "[",
    "]",
    "](u)",
    "![",
    "[a](u)",
    "[a][r]",
    "[r]",
    "`",
    "``",
    "\\",
    "<http://x[y>",
    " b ",
    "*",
]


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.booleans())
def test_every_link_of_commonmark_is_one(pieces: list[str], has_references: bool) -> None:
    """Among so many brackets that they are matched beforehand."""
    text = "".join(pieces) + " " + "[x](y) " * (brackets.DENSE + 1)
    text = f"{text}\n\n[r]: http://r.test" if has_references else text
    assert GUARDED.render(text) == PLAIN.render(text)


# Tables and code


def test_a_table_of_very_many_columns_is_shown_as_it_was_written() -> None:
    source = "| a " * 200 + "|\n" + "|---" * 200 + "|\n" + "| b " * 200 + "|"
    document = Document(source)
    blocks = [block for segment in document.segments for block in document.blocks(segment)]
    assert all(isinstance(block, LiteralBlock) for block in blocks)
    assert "\n".join(b.text for b in blocks if isinstance(b, LiteralBlock)) == source


def test_an_unknown_language_asks_no_other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import pygments.plugin

    def fail(*_: object) -> None:
        raise AssertionError("Pygments looked for plug-ins")

    monkeypatch.setattr(pygments.plugin, "iter_entry_points", fail)
    highlight._lexer.cache_clear()
    assert list(highlight.runs("x = 1", "no-such-language")) == []
    for known in ("python", "Py", "c++", "js", "jsonc", "JSON", "bash", "rust", "html", "diff"):
        assert highlight._lexer(known) is not None or known == "jsonc"
    highlight._lexer.cache_clear()


def test_prose_and_code_are_what_they_were() -> None:
    document = Document("[a](http://b.test)\n\n```python\nx = 1\n```\n")
    blocks = [block for segment in document.segments for block in document.blocks(segment)]
    assert [type(block) for block in blocks] == [TextBlock, CodeBlock]
