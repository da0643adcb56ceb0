"""A long text cut into parts of about one size, each ending where the text itself pauses.

A part should hold one thought: cut in the middle of one it answers nothing, and so long that it
holds ten it fits every question a little. So borders are looked for, from the strongest on:

    page        a page, sheet, chapter or slide ends. A part never crosses it, so its place is sure
    heading     a line that opens what follows ("# Results", "3.2 Depth of the harbour")
    paragraph   an empty line
    sentence    . ! ? and their kin, with a space behind them; 。！？ need none
    line, word  better than nothing

From where the last part ended, the next may reach `size` characters. Of the borders in its second
half the strongest is taken, and of equals the last one; where there is none, the text is cut hard.

    size 40    "One fact. Another one.¶¶A new paragraph that is longer than the rest."
    parts      "One fact. Another one.¶¶"
               "A new paragraph that is longer than the "
               "rest."

What must hold: the parts cover the text without gaps or overlaps, in its order.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.insight.retrieval.terms import UNSPACED

CHARACTERS_PER_TOKEN: Final = 4.0
"""Of English; of scripts without spaces it is nearer to one."""

_WORD, _LINE, _SENTENCE, _PARAGRAPH, _HEADING = range(5)
# Dots without end, as of a table of contents, are gone through once.
_BORDERS: Final = re.compile(
    r"""
      (?P<paragraph> \n [^\S\n]* \n \s* )
    | (?P<line> \n )
    | (?P<sentence> (?<![.!?…]) [.!?…]++ ["'”’»)\]]*+ [^\S\n]+ | [。．！？｡]+ [”’」』）]* )
    | (?P<word> [^\S\n]+ | [、，،；：] )
    """,
    re.VERBOSE,
)
_HEADING_LINE: Final = re.compile(r"#{1,6}\s+\S|\d{1,3}(?:\.\d{1,3})*\.?[^\S\n]+[^\W\d_]")
_LONGEST_HEADING: Final = 120
_KINDS: Final = {"word": _WORD, "line": _LINE, "sentence": _SENTENCE, "paragraph": _PARAGRAPH}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Characters [start, end) of a text, and the place where they begin ("page 12", or "")."""

    start: int
    end: int
    label: str = ""


def tokens_about(text: str) -> int:
    """How many tokens a text has, about, where nobody has counted them.

    >>> tokens_about("harbours"), tokens_about("東京タワー")
    (2, 5)
    """
    n_unspaced = sum(len(run) for run in re.findall(f"[{UNSPACED}]+", text))
    return max(1, n_unspaced + math.ceil((len(text) - n_unspaced) / CHARACTERS_PER_TOKEN))


def characters_for(tokens: int, text: str, n_tokens: int | None = None) -> int:
    """How many characters of a text are about so many tokens. `n_tokens`: of all of it, where they
    were counted.

    >>> characters_for(200, "abcd" * 100, 50), characters_for(200, "abcd" * 100)
    (1600, 800)
    """
    return max(1, round(tokens * len(text) / (n_tokens or tokens_about(text))))


def chunks_of(text: str, size: int, places: Sequence[tuple[int, str]] = ()) -> list[Chunk]:
    """The text in parts of at most `size` characters. `places`: where pages or the like begin, and
    what they are called. Parts of nothing but spaces are left out.

    >>> [(c.start, c.end, c.label) for c in chunks_of("One. Two. Three.", 10, [(0, "page 1")])]
    [(0, 10, 'page 1'), (10, 16, 'page 1')]
    """
    if size < 1:
        raise ValueError("a part has at least one character")
    found: list[Chunk] = []
    for start, end, label in pages_of(len(text), places):
        found += [
            Chunk(*span, label)
            for span in _cut(text, start, end, size)
            if not text[slice(*span)].isspace()
        ]
    return found


def pages_of(length: int, places: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    """[start, end) of each place with its name; what stands before the first has none.

    >>> list(pages_of(9, [(2, "page 1"), (5, "page 2")]))
    [(0, 2, ''), (2, 5, 'page 1'), (5, 9, 'page 2')]
    """
    marks = sorted((min(max(start, 0), length), label) for start, label in places)
    marks = marks if marks and marks[0][0] == 0 else [(0, ""), *marks]
    ends = [start for start, _ in marks[1:]] + [length]
    yield from ((start, end, label) for (start, label), end in zip(marks, ends, strict=True))


def label_at(position: int, places: Sequence[tuple[int, str]]) -> str:
    """What the place that holds this character is called."""
    at = bisect_right([start for start, _ in places], position)
    return places[at - 1][1] if at else ""


def _cut(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    borders = list(_borders(text, start, end))
    ends = [at for at, _ in borders]
    while end - start > size:
        first, last = bisect_right(ends, start + size // 2), bisect_right(ends, start + size)
        # The strongest; of equals the last.
        best = max(borders[first:last], key=lambda border: (border[1], border[0]), default=None)
        cut = best[0] if best is not None else start + size
        yield start, cut
        start = cut
    if start < end:
        yield start, end


def _borders(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where a part may end, in order, and how good a place that is."""
    for match in _BORDERS.finditer(text, start, end):
        at, kind = match.end(), _KINDS[match.lastgroup or "word"]
        if kind in (_LINE, _PARAGRAPH) and _is_heading(text, at, end):
            kind = _HEADING
        yield at, kind


def _is_heading(text: str, at: int, end: int) -> bool:
    """Whether the line that begins here opens what follows: marked or numbered, and short."""
    until = text.find("\n", at, min(end, at + _LONGEST_HEADING + 1))
    line = text[at : until if until >= 0 else min(end, at + _LONGEST_HEADING + 1)]
    is_short = len(line) <= _LONGEST_HEADING
    return (
        is_short and _HEADING_LINE.match(line) is not None and line.rstrip()[-1:] not in (".", ";")
    )
