"""The line of a text around what was searched for, and where in it the words stand.

Words are compared as the index compares them: without case and diacritics, whole unless the
last one is unfinished, signs of Chinese, Japanese and Korean wherever they stand. Nothing here
changes the length of a text, so places in the folded text are places in the real one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from models.search.index import CJK_PATTERN, is_finished, literals, pieces

_BEFORE, _LENGTH = 40, 160
_CJK_SIGN = CJK_PATTERN.rstrip("+")
_PART = re.compile(rf"{CJK_PATTERN}|(?:(?!{_CJK_SIGN})[^\W_])+")
_CJK = re.compile(CJK_PATTERN)
_ACCENTS = "[\u0300-\u036f]*"
_GAP = r"[\W_]*"
# To the index a word also ends where Chinese begins.
_GOES_ON = re.compile(rf"(?!{_CJK_SIGN})[^\W_]")
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
        self._pieces = _pieces(words)

    def is_in(self, text: str) -> bool:
        folded = fold(text)
        return any(piece.first_in(folded) for piece in self._pieces)

    def snippet(self, text: str) -> Snippet:
        """About a line around the first place where one of the pieces stands."""
        folded = fold(text)
        places = [found for piece in self._pieces if (found := piece.first_in(folded))]
        first = min((place.start() for place in places), default=0)
        start = _whole_word(text, max(0, first - _BEFORE), first)
        end = min(len(text), start + _LENGTH)
        spans = self._spans(folded, start, end)
        return _on_one_line(text, start, end, spans)

    def _spans(self, folded: str, start: int, end: int) -> list[tuple[int, int]]:
        """Where the pieces stand between two places, in order, none inside of another."""
        found = sorted(
            (place.start(), min(place.end(), end))
            for piece in self._pieces
            for place in piece.places(folded, start, end)
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


@dataclass(frozen=True, slots=True)
class _Piece:
    """Words behind each other. What stands around them is asked where they are found: a pattern
    that asks it is slow to make, and asks it at every place."""

    pattern: re.Pattern[str]
    begins_word: bool
    ends_word: bool

    def first_in(self, text: str) -> re.Match[str] | None:
        return next(self.places(text, 0, len(text)), None)

    def places(self, text: str, start: int, end: int) -> Iterator[re.Match[str]]:
        while found := self.pattern.search(text, start, end):
            is_whole = self._is_whole(text, *found.span())
            if is_whole:
                yield found
            start = found.end() if is_whole else found.start() + 1

    def _is_whole(self, text: str, start: int, end: int) -> bool:
        if self.begins_word and start and _GOES_ON.match(text, start - 1):
            return False
        return not (self.ends_word and _GOES_ON.match(text, end))


@lru_cache(maxsize=8)
def _pieces(words: str) -> tuple[_Piece, ...]:
    found = pieces(words)
    signs = literals(words)
    last_is_open = bool(found) and not is_finished(words)
    made = []
    for number, piece in enumerate(found):
        parts = _PART.findall(fold(piece))
        if piece in signs:
            pattern = re.compile(re.escape(fold(piece)))
            made.append(_Piece(pattern, begins_word=False, ends_word=False))
        elif parts:
            made.append(_piece(parts, last_is_open and number == len(found) - 1))
    return tuple(made)


def _piece(parts: list[str], is_open: bool) -> _Piece:
    """The words of one piece behind each other; at its ends no word goes on."""
    body = _GAP.join(_ACCENTS.join(map(re.escape, part)) + _ACCENTS for part in parts)
    return _Piece(
        re.compile(body),
        begins_word=not _CJK.match(parts[0]),
        ends_word=not (is_open or _CJK.match(parts[-1])),
    )


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
