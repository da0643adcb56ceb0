"""What a fact is, and how the plain ones are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.amounts import bytes_words, percent


@dataclass(frozen=True, slots=True)
class Fact:
    """`value`: what was measured, in the unit that `names.py` gives. `text`: how it is shown."""

    value: float | str
    text: str


Facts = Mapping[str, Fact]
"""By the names of `names.NAMES`. What isn't known isn't there."""


def said(text: str) -> Fact:
    """A fact that is its own text."""
    return Fact(text, text)


def count(number: int, noun: str = "") -> Fact:
    """
    >>> count(1204).text, count(37, "tokens").text, count(1, "tokens").text
    ('1,204', '37 tokens', '1 token')
    """
    if noun:
        return Fact(number, f"{number:,} {noun.removesuffix('s') if number == 1 else noun}")
    return Fact(number, f"{number:,}")


def share(part: float) -> Fact:
    return Fact(part, percent(part))


def size(size_bytes: float) -> Fact:
    return Fact(size_bytes, bytes_words(size_bytes))


def times(ratio: float) -> Fact:
    """
    >>> times(8.166).text, times(38.33).text, times(12_345.6).text
    ('8.2', '38', '12,346')
    """
    return Fact(ratio, f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}")


def signed(number: float, digits: int = 1) -> Fact:
    """
    >>> signed(17.31).text, signed(-0.04).text, signed(-1.318, 2).text
    ('+17.3', '0.0', '−1.32')
    """
    shown = f"{number:+.{digits}f}"
    if float(shown) == 0:
        return Fact(number, shown[1:])
    return Fact(number, shown.replace("-", "−"))
