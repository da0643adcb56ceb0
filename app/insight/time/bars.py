"""Where the tokens of a reply lie on its time line, as columns.

The line says when so many tokens were written, the trace how long each took:

    line       prefill 120 ms · first 1 ms · decode 2 tokens 31 ms
    trace                       1.0          15.1   15.7
    tokens at                   120          121    136.2 … 152

Between two tokens lie some microseconds that belong to neither, so the tokens of a stretch are
scaled to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from app.insight.time.timeline import WRITING, Stretch

Column = np.ndarray[Any, np.dtype[np.float64]]
Counts = np.ndarray[Any, np.dtype[np.int64]]

_OFTEN: Final = 90
_FAR: Final = 2.0


@dataclass(frozen=True, slots=True)
class Bars:
    """One row per token of the trace: from when to when, what its trace says (`ms`), and how many
    replies (`slots`) and tokens (`batch`) its pass held; 0 where that is not known."""

    starts: Column
    ends: Column
    ms: Column
    slots: Counts
    batch: Counts

    def __len__(self) -> int:
        return len(self.starts)

    def at(self, moment_ms: float) -> int | None:
        """The token that was written then."""
        found = int(np.searchsorted(self.starts, moment_ms, "right")) - 1
        return found if found >= 0 and moment_ms <= self.ends[found] else None

    def between(self, left_ms: float, right_ms: float) -> tuple[int, int]:
        """The tokens of which something lies there, as a range."""
        first = int(np.searchsorted(self.ends, left_ms, "left"))
        return first, max(int(np.searchsorted(self.starts, right_ms, "right")), first)


def bars(stretches: Sequence[Stretch], token_ms: Sequence[float]) -> Bars:
    """A token that was drawn and then held in step mode lies where it was drawn. Tokens of which
    the line knows nothing have no bar, and neither have those without a trace.

    >>> line = [Stretch("first", 120, 1.0, 1), Stretch("decode", 121, 30.0, 2, 1, 1)]
    >>> found = bars(line, [1.0, 10.0, 20.0])
    >>> found.starts.tolist(), found.ends.tolist()
    ([120.0, 121.0, 131.0], [121.0, 131.0, 151.0])
    """
    ms = np.maximum(np.nan_to_num(np.asarray(token_ms, np.float64), posinf=0.0), 0.0)
    pieces: list[tuple[Stretch, int, int]] = []
    at = 0
    drawn: Stretch | None = None
    for stretch in stretches:
        if stretch.kind not in WRITING:
            continue
        if not stretch.tokens:
            drawn = stretch
            continue
        n_left = stretch.tokens
        if drawn is not None:
            pieces.append((drawn, at, 1))
            at, n_left, drawn = at + 1, n_left - 1, None
        pieces.append((stretch, at, n_left))
        at += n_left
    ends = np.zeros(min(at, len(ms)))
    starts, slots = np.zeros_like(ends), np.zeros(len(ends), np.int64)
    batch = np.zeros_like(slots)
    for stretch, first, n_tokens in pieces:
        own = slice(first, min(first + n_tokens, len(ends)))
        if first < own.stop:
            ends[own] = _ends_in(stretch, ms[own], is_whole=own.stop == first + n_tokens)
            starts[own] = [stretch.start_ms, *ends[own][:-1]]
            slots[own], batch[own] = stretch.slots, stretch.batch
    return Bars(starts, ends, ms[: len(ends)], slots, batch)


def _ends_in(stretch: Stretch, ms: Column, *, is_whole: bool) -> Column:
    added = np.cumsum(ms)
    known = float(added[-1])
    if known <= 0:
        return np.full(len(ms), stretch.start_ms)
    # A trace that ends before the reply does has no share of what came after it.
    scale = stretch.ms / known if is_whole else min(stretch.ms / known, 1.0)
    return np.asarray(stretch.start_ms + added * scale)


def shared(found: Bars) -> list[tuple[float, float, int]]:
    """From when to when how many replies were in each pass; neighbours that agree are one.

    >>> line = [Stretch("decode", 0, 10.0, 1, 1, 1), Stretch("decode", 10, 20.0, 2, 4, 4)]
    >>> shared(bars(line, [10.0, 10.0, 10.0]))
    [(0.0, 10.0, 1), (10.0, 30.0, 4)]
    """
    if not len(found):
        return []
    gaps = (np.diff(found.slots) != 0) | (found.starts[1:] - found.ends[:-1] > 1e-3)
    firsts = [0, *(np.flatnonzero(gaps) + 1).tolist(), len(found)]
    return [
        (float(found.starts[a]), float(found.ends[b - 1]), int(found.slots[a]))
        for a, b in pairwise(firsts)
    ]


def full_ms(found: Bars) -> float:
    """What a bar of full height stands for: the slowest token, or twice what nearly all stay
    under where a few took much longer. The first token is drawn without a pass of its own."""
    ms = found.ms[1:] if len(found) > 1 else found.ms
    if not len(ms):
        return 0.0
    slowest, often = float(ms.max()), _percentile(ms, _OFTEN)
    return min(slowest, _FAR * often) if often > 0 else slowest


def _percentile(values: Column, q: float) -> float:
    """As numpy's, between the two nearest values; numpy's own takes milliseconds beside a reply.

    >>> _percentile(np.array([1.0, 2.0, 4.0]), 75)
    3.0
    """
    place = (len(values) - 1) * q / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    ordered = np.partition(values, (low, high))
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def highest(found: Bars, first: int, end: int, xs: Column) -> tuple[Counts, Column]:
    """Of tokens [first, end), which begin at the pixels `xs`: each pixel's slowest one."""
    columns = np.floor(xs).astype(np.int64)
    begins = np.flatnonzero(np.diff(columns, prepend=columns[:1] - 1))
    return columns[begins], np.maximum.reduceat(found.ms[first:end], begins)
