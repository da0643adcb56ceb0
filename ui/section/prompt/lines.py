"""The tokens of a prompt in lines, laid out a slice at a time.

Tokens stand in groups of whole characters (`app.insight.trace.token_groups`), one box each. A line
ends where it is full and behind a line end of the text; a box that is wider than a line goes on in
the next. What must hold: laying out 32,000 tokens never holds the window up, so `read` stops at a
deadline and goes on where it stopped.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from app.insight.trace.token_groups import Groups, Spelling
from app.insight.trace.tokens_shown import SIGNS

CHUNK: Final = 256
"""Tokens between two looks at the clock."""


class TokenStrip(Protocol):
    """Tokens in a row."""

    def __len__(self) -> int: ...

    def pieces(self, first: int, end: int) -> list[bytes]: ...


_LAST_SIMPLE: Final = "\u0590"
"""Before it, letters stand from left to right, each in a cell of its own."""

Run = tuple[float, str]
"""Where a stretch of text begins in its line, and the text."""


@dataclass(frozen=True, slots=True)
class LineRuns:
    """What there is to write in a line: letters, and the marks that stand for spaces and bytes."""

    letters: tuple[Run, ...]
    marks: tuple[Run, ...]


class PromptLines:
    """Boxes by number: `x` and `width` of each, the group it shows, and the first one of each
    line. `measure`: how wide a text is in the fixed-pitch font."""

    def __init__(self, strip: TokenStrip, width: float, measure: Callable[[str], float]) -> None:
        self.strip = strip
        self.groups = Groups()
        self.x = array("f")
        self.width = array("f")
        self.group_of_box = array("I")
        self._room = max(width, 1.0)
        self.measure = measure
        self._cell = measure("x")
        self._line_starts = array("I", [0])
        self._first_box = array("I")
        self._cuts: dict[int, tuple[int, int]] = {}
        self._at = 0.0

    # --- reading --------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        return self.groups.n_tokens >= len(self.strip) and len(self._first_box) >= len(self.groups)

    def read(self, seconds: float) -> bool:
        """Lay more of it out, for about so long; whether all of it is laid out now."""
        ends_at = time.perf_counter() + seconds
        while not self.is_whole:
            first = self.groups.n_tokens
            self.groups.feed(self.strip.pieces(first, first + CHUNK))
            is_all = self.groups.n_tokens >= len(self.strip)
            # A character at the end may not be whole yet: its group is not final.
            end = len(self.groups) - (0 if is_all else 1)
            for group in range(len(self._first_box), end):
                self._place(group)
            if time.perf_counter() >= ends_at:
                break
        return self.is_whole

    def _place(self, group: int) -> None:
        spelling = self.groups.spellings[group]
        wide = self.measure(spelling.shown)
        if self._at and self._at + wide > self._room:
            self._end_line()
        self._first_box.append(len(self.x))
        if wide <= self._room:
            self._add(group, wide)
        else:
            self._place_in_shares(group, spelling)
        if spelling.breaks_line:
            self._end_line()

    def _add(self, group: int, wide: float) -> None:
        self.x.append(self._at)
        self.width.append(wide)
        self.group_of_box.append(group)
        self._at += wide

    def _place_in_shares(self, group: int, spelling: Spelling) -> None:
        """A group that is wider than a line."""
        shown, start = spelling.shown, 0
        while start < len(shown):
            end = start + self._fitting(shown[start:])
            self._cuts[len(self.x)] = (start, end)
            self._add(group, min(self.measure(shown[start:end]), self._room))
            start = end
            if start < len(shown):
                self._end_line()

    def _fitting(self, text: str) -> int:
        """How many characters fit, at least one."""
        low, high = 1, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.measure(text[:middle]) <= self._room:
                low = middle
            else:
                high = middle - 1
        return low

    def _end_line(self) -> None:
        self._line_starts.append(len(self.x))
        self._at = 0.0

    # --- where things are -----------------------------------------------------------------------

    @property
    def n_lines(self) -> int:
        """The last one may be empty: a text that ends with a line end goes on below it."""
        is_open = self._line_starts[-1] < len(self.x) or len(self._line_starts) == 1
        return len(self._line_starts) - (0 if is_open else 1)

    def boxes_of_line(self, line: int) -> range:
        starts = self._line_starts
        end = starts[line + 1] if line + 1 < len(starts) else len(self.x)
        return range(starts[line], end)

    def line_of_box(self, box: int) -> int:
        return bisect_right(self._line_starts, box) - 1

    def cut(self, box: int) -> tuple[int, int]:
        """Which characters [start, end) of its group's text a box shows."""
        whole = (0, len(self.groups.spellings[self.group_of_box[box]].shown))
        return self._cuts.get(box, whole)

    def tokens_of_box(self, box: int) -> range:
        group = self.group_of_box[box]
        return range(self.groups.firsts[group], self.groups.end_of(group))

    def boxes_of_token(self, token: int) -> range:
        """Nothing where it is not laid out yet."""
        group = self.groups.group_of(token)
        if not 0 <= token < self.groups.n_tokens or group >= len(self._first_box):
            return range(0)
        is_last = group + 1 >= len(self._first_box)
        return range(self._first_box[group], len(self.x) if is_last else self._first_box[group + 1])

    def token_at(self, line: int, x: float, *, is_near: bool = False) -> int | None:
        """The token at `x` in a line; with `is_near` the nearest one. Tokens that are one
        character together share its box from left to right."""
        if not 0 <= line < self.n_lines:
            return None
        boxes = self.boxes_of_line(line)
        if not boxes:
            return None
        box = max(bisect_right(self.x, x, boxes.start, boxes.stop) - 1, boxes.start)
        share = (x - self.x[box]) / max(self.width[box], 1.0)
        if not is_near and not 0 <= share <= 1:
            return None
        tokens = self.tokens_of_box(box)
        return min(tokens.start + max(int(share * len(tokens)), 0), tokens.stop - 1)

    def token_beside(self, token: int, lines: int) -> int | None:
        """The token so many lines below (above: negative), about there; at the ends the last one
        that there is."""
        boxes = self.boxes_of_token(token)
        if not boxes:
            return None
        box = boxes.start
        line = min(max(self.line_of_box(box) + lines, 0), self.n_lines - 1)
        return self.token_at(line, self.x[box] + self.width[box] / 2, is_near=True)

    # --- what is written ------------------------------------------------------------------------

    def runs(self, line: int) -> LineRuns:
        """The text of a line in as few stretches as possible: writing one costs far more than
        its length. Boxes whose characters each fill one cell are written together."""
        letters: list[Run] = []
        marks: list[Run] = []
        together: list[tuple[str, str]] = []
        begun = 0.0

        def end() -> None:
            for runs, number in ((letters, 0), (marks, 1)):
                text = "".join(pair[number] for pair in together).rstrip()
                if text:
                    runs.append((begun, text))
            together.clear()

        for box in self.boxes_of_line(line):
            pair, is_simple = self._written(box)
            if not is_simple:
                end()
                begun = self.x[box]
                together.append(pair)
                end()
                continue
            if not together:
                begun = self.x[box]
            together.append(pair)
        end()
        return LineRuns(tuple(letters), tuple(marks))

    def _written(self, box: int) -> tuple[tuple[str, str], bool]:
        """(letters, marks) of a box, spaces in place of the other kind; whether each character
        fills a cell. Where not, marks are written like letters."""
        spelling = self.groups.spellings[self.group_of_box[box]]
        start, end = self.cut(box)
        text = spelling.shown[start:end]
        if not self._is_simple(text):
            return (text, ""), False
        letters = list(text)
        marks = [" "] * len(text)
        for first, last in spelling.marks:
            for at in range(max(first, start) - start, min(last, end) - start):
                letters[at], marks[at] = " ", text[at]
        return ("".join(letters), "".join(marks)), True

    def _is_simple(self, text: str) -> bool:
        if text.isascii():
            return True
        is_plain = all(c < _LAST_SIMPLE or c in SIGNS for c in text)
        return is_plain and abs(self.measure(text) - len(text) * self._cell) < 0.01
