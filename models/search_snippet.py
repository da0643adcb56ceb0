"""The line of a text around what was searched for, and where in it the words stand.

Words are compared as the index compares them: without case and diacritics, whole unless the
last one is unfinished, signs of Chinese, Japanese and Korean wherever they stand. Nothing here
changes the length of a text, so places in the folded text are places in the real one.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from models.search_index import CJK_PATTERN, is_finished, pieces

_BEFORE, _LENGTH = 40, 160
_CJK_SIGN = CJK_PATTERN.rstrip("+")
_PART = re.compile(rf"{CJK_PATTERN}|(?:(?!{_CJK_SIGN})[^\W_])+")
_CJK = re.compile(CJK_PATTERN)
_ACCENTS = "[\u0300-\u036f]*"
_GAP = r"[\W_]*"
# To the index a word also ends where Chinese begins. A word's first letter is looked for before
# it is asked what stands before it: `re` finds a letter fast.
_BEGINS = rf"(?:(?<![^\W_]{{0}})|(?<={_CJK_SIGN}{{0}}))"
_ENDS = rf"(?:(?![^\W_])|(?={_CJK_SIGN}))"
_SPACE = re.compile(r"\s")
_WHITE = re.compile(r"[\s\0]+")

Marks = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Snippet:
    """One line; `marks` are the places (start, end) in it that were searched for."""

    text: str
    marks: Marks = ()


class Matcher:
    """Finds in texts what was typed (without filters). Make one per search."""

    def __init__(self, words: str) -> None:
        self._patterns = _patterns(words)

    def is_in(self, text: str) -> bool:
        folded = fold(text)
        return any(pattern.search(folded) for pattern in self._patterns)

    def snippet(self, text: str) -> Snippet:
        """About a line around the first place where one of the pieces stands."""
        folded = fold(text)
        places = [found for pattern in self._patterns if (found := pattern.search(folded))]
        first = min((place.start() for place in places), default=0)
        start = _whole_word(text, max(0, first - _BEFORE), first)
        end = min(len(text), start + _LENGTH)
        spans = self._spans(folded, start, end)
        return _on_one_line(text, start, end, spans)

    def _spans(self, folded: str, start: int, end: int) -> list[tuple[int, int]]:
        """Where the pieces stand between two places, in order, none inside of another."""
        found = sorted(
            (place.start(), min(place.end(), end))
            for pattern in self._patterns
            for place in pattern.finditer(folded, start, end)
            if place.start() < place.end()
        )
        spans: list[tuple[int, int]] = []
        for begin, stop in found:
            if spans and begin <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
            else:
                spans.append((begin, stop))
        return spans


def fold(text: str) -> str:
    """Lower case without diacritics, character by character."""
    if text.isascii():
        return text.lower()
    return text.translate(_FOLDED)


class _Folding(dict[int, str]):
    """Each character's folded one, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        base = unicodedata.normalize("NFD", char)
        # Hangul comes apart into letters, which is no diacritic.
        char = base[0] if len(base) > 1 and unicodedata.combining(base[1]) else char
        lower = char.lower()
        self[code] = lower if len(lower) == 1 else char
        return self[code]


_FOLDED = _Folding()


@lru_cache(maxsize=8)
def _patterns(words: str) -> tuple[re.Pattern[str], ...]:
    found = pieces(words)
    last_is_open = bool(found) and not is_finished(words)
    patterns = []
    for number, piece in enumerate(found):
        parts = _PART.findall(fold(piece))
        if parts:
            patterns.append(_pattern(parts, last_is_open and number == len(found) - 1))
    return tuple(patterns)


def _pattern(parts: list[str], is_open: bool) -> re.Pattern[str]:
    """The words of one piece behind each other; at its ends no word goes on."""
    body = _GAP.join(_ACCENTS.join(map(re.escape, part)) + _ACCENTS for part in parts)
    first = re.escape(parts[0][0])
    before = "" if _CJK.match(parts[0]) else _BEGINS.format(first)
    after = "" if is_open or _CJK.match(parts[-1]) else _ENDS
    return re.compile(first + before + body.removeprefix(first) + after)


def _whole_word(text: str, start: int, first: int) -> int:
    """The beginning of the next word behind `start`, if there is one before `first`."""
    if start == 0:
        return 0
    space = _SPACE.search(text, start, first)
    return space.end() if space else start


def _on_one_line(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> Snippet:
    """The part of the text with each run of white space as one space."""
    line = "…" if start else ""
    marks: list[tuple[int, int]] = []
    place = start
    for begin, stop in [*spans, (end, end)]:
        line = _joined(line, text[place:begin])
        if begin < stop:
            begun = len(line)
            line = _joined(line, text[begin:stop])
            marks.append((begun, len(line)))
        place = stop
    line = line.rstrip()
    return Snippet(f"{line}…" if end < len(text) else line, tuple(marks))


def _joined(line: str, more: str) -> str:
    more = _WHITE.sub(" ", more)
    if not line or line == "…" or line.endswith(" "):
        more = more.lstrip()
    return line + more
