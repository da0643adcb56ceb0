"""The tour's texts are whole, and say nothing that isn't known."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.chat.tour.chapters import Unless, chapters, glossary, said
from app.insight.tour.facts import Fact

ID = Fact(7042, "7042")
CHAPTER = """
title = "From text to tokens"
[[steps]]
name = "ids"
at = { panel = "Tokens", widget = "token_table" }
see = ["It has ID {id}.", { text = "It has none.", lacks = "id" }]
"""


def test_a_sentence_is_said_with_its_facts() -> None:
    assert said(("It has ID {id}.",), {"id": ID}) == "It has ID 7042."


def test_what_is_not_known_is_not_said() -> None:
    assert said(("It has ID {id}.", "Its rank is {rank}."), {"id": ID}) == "It has ID 7042."


def test_another_sentence_stands_for_what_is_not_there() -> None:
    without = Unless("This model has no RoPE.", lacks="rope_base")
    assert said((without,), {}) == "This model has no RoPE."
    assert said((without,), {"rope_base": Fact(10_000, "10,000")}) == ""


def test_text_that_looks_like_a_fact_is_no_field(tmp_path: Path) -> None:
    """What stands in a fact (a token may be "{id}") is not read again."""
    assert said(("{token}",), {"token": Fact("{id}", "{id}"), "id": ID}) == "{id}"


def test_a_chapter_is_read_as_written(tmp_path: Path) -> None:
    (tmp_path / "1-tokens.toml").write_text(CHAPTER)
    (chapter,) = chapters(tmp_path)
    (step,) = chapter.steps
    assert (chapter.title, step.name, step.at.widget) == (
        "From text to tokens",
        "ids",
        "token_table",
    )
    assert said(step.see, {}) == "It has none."


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (CHAPTER + "tries = 1\n", "tries"),
        (CHAPTER.replace("name =", "nmae ="), "nmae"),
        (CHAPTER.replace("see = [", "see = [1, "), "see"),
        (CHAPTER + "[", "1-tokens.toml"),
    ],
)
def test_wrong_data_is_refused_by_name(tmp_path: Path, wrong: str, named: str) -> None:
    (tmp_path / "1-tokens.toml").write_text(wrong)
    with pytest.raises(ValueError, match=named) as refused:
        chapters(tmp_path)
    assert "1-tokens.toml" in str(refused.value)


def test_the_glossary_is_sorted_by_name(tmp_path: Path) -> None:
    term = '[[terms]]\nname = "{}"\nwords = ["x"]\ntext = "t"\nshow = {{ panel = "Cache" }}\n'
    (tmp_path / "glossary.toml").write_text(term.format("KV cache") + term.format("beam"))
    assert [each.name for each in glossary(tmp_path)] == ["beam", "KV cache"]
