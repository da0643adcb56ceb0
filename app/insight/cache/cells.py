"""The cells of the KV cache in the order in which they were written, and what each one holds.

Sequences that share a beginning hold the same run of cells (`app.engine.process.cache.cells`), so
its cells stand here once:

    a: run 1: 0-7                 cells  0-2: positions 0-2 of a and b
    b: run 1: 0-3, run 2: 3-5            3-6: positions 3-6 of a
                                         7-8: positions 3-4 of b

A stretch is as many cells in a row as are alike. Pure, and without numpy: a full window of 32,768
cells is a few hundred stretches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from app.engine.protocol.cache_messages import CacheMap, CacheSlot, CellPart, LastTurn
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.pieces import unpack
from app.insight.prompt.parts import named

TURNS: Final = ("reused", "evaluated", "written")
"""What the last turn did with a token."""


class CellStretch(NamedTuple):
    """Cells [first, first + n). They hold the tokens from `position` on of the slots `holders`
    (indexes into `CacheMap.slots`), which come from `origin`, as `ShownPart` has it.
    `in_message`: how many tokens of its message stand before. `turn`: what the last turn of its
    chat did with them; empty where there was none."""

    first: int
    n: int
    position: int
    holders: tuple[int, ...]
    origin: str
    message_id: str | None
    in_message: int
    turn: str


class CellMap:
    """`prefer`: of sequences that share cells, the conversation whose messages are named."""

    def __init__(self, told: CacheMap, prefer: str = "") -> None:
        self.told = told
        self._ids: dict[int, tuple[int, ...]] = {}
        self._parts = [_numbered(named(slot.parts)) for slot in told.slots]
        turns = {turn.conversation: turn for turn in told.turns}
        self._turns = [turns.get(slot.conversation) for slot in told.slots]
        order = sorted(range(len(told.slots)), key=lambda i: told.slots[i].conversation != prefer)
        self.stretches = tuple(self._lay_out(order))
        self._firsts = [stretch.first for stretch in self.stretches]

    @property
    def n_used(self) -> int:
        last = self.stretches[-1] if self.stretches else None
        return 0 if last is None else last.first + last.n

    def at(self, cell: int) -> CellStretch | None:
        """What a cell holds; None for a free one."""
        index = bisect_right(self._firsts, cell) - 1
        if index < 0 or cell >= self.n_used:
            return None
        return self.stretches[index]

    def slot_of(self, stretch: CellStretch) -> CacheSlot:
        """The sequence whose messages the stretch names."""
        return self.told.slots[stretch.holders[0]]

    def token_id(self, cell: int) -> int | None:
        stretch = self.at(cell)
        if stretch is None:
            return None
        holder = stretch.holders[0]
        if holder not in self._ids:
            self._ids[holder] = unpack(self.told.slots[holder].token_ids)
        position = stretch.position + cell - stretch.first
        ids = self._ids[holder]
        return ids[position] if position < len(ids) else None

    def media_at(self, cell: int) -> tuple[MediaSpan, int] | None:
        """The picture that a cell is of, and which of its cells it is."""
        stretch = self.at(cell)
        if stretch is None:
            return None
        position = stretch.position + cell - stretch.first
        spans = self.slot_of(stretch).media
        return next(
            (
                (span, position - span.start)
                for span in spans
                if span.start <= position < span.start + span.count
            ),
            None,
        )

    def cells_of(self, message_id: str) -> tuple[int, int] | None:
        """The first and the last cell of a message."""
        found = [s for s in self.stretches if s.message_id == message_id]
        return (found[0].first, found[-1].first + found[-1].n - 1) if found else None

    def cell_of(self, message_id: str, index: int) -> int | None:
        """The cell of a message's token."""
        for stretch in self.stretches:
            at = index - stretch.in_message
            if stretch.message_id == message_id and 0 <= at < stretch.n:
                return stretch.first + at
        return None

    def counts(self, key: Callable[[CellStretch], str]) -> dict[str, int]:
        """Cells by what `key` says of a stretch, in the order in which they first come."""
        counts: dict[str, int] = {}
        for stretch in self.stretches:
            name = key(stretch)
            counts[name] = counts.get(name, 0) + stretch.n
        return counts

    # --- laying out -------------------------------------------------------------------------

    def _lay_out(self, order: list[int]) -> Iterator[CellStretch]:
        first = 0
        for start, end, holders in _pieces_of_runs(self.told.slots, order):
            yield from self._cut(start, end, holders, first)
            first += end - start

    def _cut(
        self, start: int, end: int, holders: tuple[int, ...], first: int
    ) -> Iterator[CellStretch]:
        """Cut positions [start, end) where message or turn change."""
        parts, turn = self._parts[holders[0]], self._turns[holders[0]]
        starts = [part.start for part, _ in parts]
        borders = {start, end}
        borders |= {at for part, _ in parts for at in (part.start, part.end) if start < at < end}
        borders |= {at for at in _turn_borders(turn) if start < at < end}
        for left, right in pairwise(sorted(borders)):
            part, before = _part_at(parts, starts, left)
            yield CellStretch(
                first=first + left - start,
                n=right - left,
                position=left,
                holders=holders,
                origin=_origin(part),
                message_id=part.message_id if part else None,
                in_message=before + left - part.start if part else 0,
                turn=_turn_at(turn, left),
            )


def _pieces_of_runs(
    slots: Iterable[CacheSlot], order: list[int]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(start, end, holders) of all cells in the order in which they were written; a run is cut
    where one of its holders ends."""
    held: dict[int, list[tuple[int, int, int]]] = {}
    for index, slot in enumerate(slots):
        for run in slot.runs:
            held.setdefault(run.number, []).append((run.start, run.end, index))
    for number in sorted(held):
        start = held[number][0][0]
        for end in sorted({end for _, end, _ in held[number]}):
            holders = [index for _, last, index in held[number] if last >= end]
            yield start, end, tuple(sorted(holders, key=order.index))
            start = end


def _numbered(parts: list[CellPart]) -> list[tuple[CellPart, int]]:
    """Each part with the number of tokens of its message before it."""
    seen: dict[str, int] = {}
    numbered = []
    for part in parts:
        before = seen.get(part.message_id, 0) if part.message_id else 0
        numbered.append((part, before))
        if part.message_id:
            seen[part.message_id] = before + part.end - part.start
    return numbered


def _part_at(
    parts: list[tuple[CellPart, int]], starts: list[int], position: int
) -> tuple[CellPart | None, int]:
    index = bisect_right(starts, position) - 1
    if index < 0 or position >= parts[index][0].end:
        return None, 0
    return parts[index]


def _origin(part: CellPart | None) -> str:
    """As prompts name it; what a reply has drawn is the reply's like what it said before."""
    if part is None:
        return "unknown"
    return "assistant" if part.origin == "reply" else part.origin


def _turn_borders(turn: LastTurn | None) -> tuple[int, ...]:
    return () if turn is None else (turn.reused, turn.reused + turn.evaluated)


def _turn_at(turn: LastTurn | None, position: int) -> str:
    if turn is None:
        return ""
    reused, read = _turn_borders(turn)
    return TURNS[0] if position < reused else TURNS[1] if position < read else TURNS[2]


# --- squares ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    """`n_shown` cells from the first on are drawn, `per_square` to a square, `columns` squares to
    a row; a square is `pitch` pixels wide with its gap."""

    n_shown: int
    per_square: int
    columns: int
    pitch: int

    @property
    def n_squares(self) -> int:
        return -(-self.n_shown // self.per_square)

    @property
    def rows(self) -> int:
        return -(-self.n_squares // self.columns)


SMALLEST_SHOWN: Final = 256


def grid_for(n_used: int, n_ctx: int, width: int, height: int, least: int, most: int) -> Grid:
    """Squares as large as there is room for, between `least` and `most` pixels.

    Free cells are not all drawn: so many cells are as the next power of two has, so that squares
    keep their size while a reply grows. Rows have 16, 32, 64, … squares where that fills the
    width, so that the last row is a whole one and positions can be counted.

    >>> grid_for(70, 4096, 360, 200, 4, 11)
    Grid(n_shown=256, per_square=1, columns=32, pitch=11)
    >>> grid_for(32000, 32768, 360, 200, 4, 11)
    Grid(n_shown=32768, per_square=8, columns=90, pitch=4)
    """
    n_shown = SMALLEST_SHOWN
    while n_shown < min(n_used + n_used // 8, n_ctx):
        n_shown *= 2
    n_shown = max(1, min(n_shown, n_ctx))
    even = [
        (pitch, columns)
        for pitch in range(most, least - 1, -1)
        if (columns := 1 << (max(1, width // pitch).bit_length() - 1)) > 1
        and -(-n_shown // columns) * pitch <= height
    ]
    for pitch, columns in even:
        if 4 * columns * pitch >= 3 * width:
            return Grid(n_shown, 1, columns, pitch)
    for pitch in range(most, least - 1, -1):
        columns = max(1, width // pitch)
        if -(-n_shown // columns) * pitch <= height:
            return Grid(n_shown, 1, columns, pitch)
    columns, per_square = max(1, width // least), 1
    while -(-n_shown // (per_square * columns)) * least > height:
        per_square *= 2
    return Grid(n_shown, per_square, columns, least)


def squares(
    cells: CellMap, grid: Grid, color_of: Callable[[CellStretch], int], free: int
) -> bytearray:
    """One byte per square, row by row: the color of its first cell; 0 where there is no cell."""
    n_squares, per_square = grid.n_squares, grid.per_square
    drawn = bytearray([free]) * n_squares
    for stretch in cells.stretches:
        first = -(-stretch.first // per_square)
        end = min(-(-(stretch.first + stretch.n) // per_square), n_squares)
        if first < end:
            drawn[first:end] = bytes((color_of(stretch),)) * (end - first)
    return drawn + bytes(grid.columns * grid.rows - n_squares)
