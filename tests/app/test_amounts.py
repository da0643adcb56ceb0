"""Bytes in words: one base, one place."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from shown_numbers import number_in

from app import amounts
from app.amounts import bytes_words, part_words

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"byte": 1, "bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def test_the_examples_of_the_docstrings_hold() -> None:
    result = doctest.testmod(amounts)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (17, "17 bytes"), (999, "999 bytes"), (1000, "1 kB")],
)
def test_few_bytes_are_bytes(size: int, words: str) -> None:
    assert bytes_words(size) == words


@given(st.integers(1, 10**15))
def test_what_is_said_is_right_to_three_figures(size: int) -> None:
    number, unit = bytes_words(size).split(" ")
    assert number_in(number) * UNITS[unit] == pytest.approx(size, rel=0.0051)


@given(st.integers(0, 10**12), st.integers(1, 10**12))
def test_a_part_is_said_in_the_unit_of_the_whole_or_in_its_own(part: int, whole: int) -> None:
    first, second = part_words(part, whole).split(" of ")
    unit = first.split(" ")[1] if " " in first else second.split(" ")[1]
    number = number_in(first.split(" ")[0])
    assert number * UNITS[unit] == pytest.approx(part, rel=0.051, abs=1)


COUNTED_BY_1024 = re.compile(r"\b[KMGT]iB\b")


def test_nothing_else_in_the_program_writes_bytes() -> None:
    """No text of the program counts by 1,024."""
    found = []
    for folder in ("app", "ui", "models"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text("utf-8")
            if not COUNTED_BY_1024.search(source):  # a tree of all takes seconds
                continue
            tree = ast.parse(source)
            comments = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            found += [
                f"{path.relative_to(ROOT)}:{node.lineno}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in comments
                and COUNTED_BY_1024.search(node.value)
            ]
    assert [place for place in found if "logparse" not in place] == []  # llama.cpp's own words
