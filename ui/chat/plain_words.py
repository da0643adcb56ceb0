"""An excerpt in one line of plain words: Markdown's signs left out. No Qt.

No parser, since an excerpt may begin and end anywhere: only pairs that are whole are taken off,
and only where they cannot be part of code or of a sum. What was searched for is never touched.

>>> plain_words("Think of a **staircase** of $n$ blocks, `2**3` of them")[0]
'Think of a staircase of n blocks, 2**3 of them'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.markdown.maths import inline_formula

Marks = tuple[tuple[int, int], ...]

_PAIRS = re.compile(
    r"(?P<code>`+)(?P<inside>[^`]+)(?P=code)"
    r"|(?<![\w*])(?P<bold>\*\*|__|~~)(?=[^\s*_~])(?P<words>.+?)(?<=[^\s*_~])(?P=bold)(?![\w*])"
)
_HEADING = re.compile(r"#{1,6} +(?=\S)")


def plain_words(text: str, marks: Sequence[tuple[int, int]] = ()) -> tuple[str, Marks]:
    """The words, and the places in them that `marks` names in the text."""
    signs = [span for span in sorted(set(_signs(text))) if not _touches(span, marks)]
    kept, at = [], 0
    for start, end in signs:
        kept.append(text[at:start])
        at = end
    kept.append(text[at:])

    def moved(place: int) -> int:
        return place - sum(end - start for start, end in signs if end <= place)

    return "".join(kept), tuple((moved(start), moved(end)) for start, end in marks)


def _signs(text: str) -> Iterator[tuple[int, int]]:
    """Where signs stand, without overlaps."""
    if (heading := _HEADING.match(text)) is not None:
        yield heading.span()
    code: list[tuple[int, int]] = []
    for pair in _PAIRS.finditer(text):
        inside = "inside" if pair["code"] else "words"
        yield pair.start(), pair.start(inside)
        yield pair.end(inside), pair.end()
        if pair["code"]:
            code.append(pair.span())
    start = text.find("$")
    while start >= 0:
        found = inline_formula(text, start)
        end = start + 1
        if found is not None and not any(a <= start < b for a, b in code):
            opening, _tex, end = found
            yield start, start + len(opening)
            yield end - len(opening), end
        start = text.find("$", end)


def _touches(span: tuple[int, int], marks: Sequence[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in marks)
