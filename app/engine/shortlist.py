"""The best few candidates of a whole vocabulary, found once per token for all who ask.

Top-k wants the best 40, the trace the best 64, and everybody the best score. Sorting 262,144
scores for each of them would cost more than the stages do, so this looks at them once:

    scores as 16 rows ──maximum down each column──▶ n / 16 maxima ──▶ columns near the best one
                                                                   ──▶ their 16 scores each

Numpy takes the maximum of rows with vector instructions, and whatever is near the best score lies
in one of the few columns whose maximum is. How near is near follows the last token: neighbours in
a text spread alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Scores = np.ndarray[Any, np.dtype[np.float32]]
Ids = np.ndarray[Any, np.dtype[np.int64]]

WIDEST: Final = 120.0
"""Scores further below the best one have no probability in float32 (e⁻¹²⁰ is 0 there)."""

_NEAREST: Final = 2.0**-10
_ROWS: Final = 16
_AIM: Final = (2, 6)
"""Find at least and at most so many times what is asked for; outside, reach less or further."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """All candidates whose score is at least `best` − `reach`: `ids` ascending, their `scores`.

    `best` is not finite where no score is a finite number, or one is none: then nothing is listed.
    """

    best: float
    reach: float
    ids: Ids
    scores: Scores

    def __len__(self) -> int:
        return len(self.ids)


_NOTHING: Final = (np.empty(0, np.int64), np.empty(0, np.float32))


class ShortlistFinder:
    """Finds shortlists in scores of one length. Keeps a buffer, so one thread at a time.

    >>> finder = ShortlistFinder(100)
    >>> found = finder.find(np.arange(100, dtype=np.float32), 2)
    >>> found.best, found.ids[-2:].tolist(), len(found) < 100
    (99.0, [98, 99], True)
    """

    def __init__(self, n_vocab: int) -> None:
        self._width = n_vocab // _ROWS
        self._whole = self._width * _ROWS
        self._maxima = np.empty(self._width, np.float32)
        self._starts = np.arange(_ROWS, dtype=np.int64)[:, None] * self._width
        self._reach = 8.0

    def find(self, scores: Scores, at_least: int) -> Shortlist:
        """At least so many candidates of `scores` [n_vocab], where there are as many with a
        probability; more where that costs nothing."""
        best = self._best(scores)
        if not math.isfinite(best):
            return Shortlist(best, 0.0, *_NOTHING)
        at_least = max(min(at_least, len(scores)), 1)
        ids, values = self._within(scores, best)
        while len(ids) < at_least and self._reach < WIDEST:
            self._reach = min(self._reach * 1.4, WIDEST)
            ids, values = self._within(scores, best)
        found = Shortlist(best, self._reach, ids, values)
        self._follow(values, best, at_least)
        return found

    def _follow(self, values: Scores, best: float, at_least: int) -> None:
        """Aim at a little more than is asked for next time."""
        few, many = _AIM[0] * at_least, _AIM[1] * at_least
        if len(values) > many:
            enough = len(values) - 2 * few
            self._reach = max(best - float(np.partition(values, enough)[enough]), _NEAREST)
        elif len(values) < few:
            self._reach = min(self._reach * 1.1, WIDEST)

    def _best(self, scores: Scores) -> float:
        """The largest score; NaN if one is."""
        best = -math.inf
        if self._width:
            rows = scores[: self._whole].reshape(_ROWS, self._width)
            rows.max(axis=0, out=self._maxima)
            best = float(self._maxima.max())
        if self._whole < len(scores):
            rest = float(scores[self._whole :].max())
            best = rest if math.isnan(rest) or rest > best else best
        return best

    def _within(self, scores: Scores, best: float) -> tuple[Ids, Scores]:
        limit = np.float32(best) - np.float32(self._reach)
        columns = np.flatnonzero(self._maxima >= limit)
        ids = (self._starts + columns).ravel()
        if self._whole < len(scores):
            ids = np.concatenate([ids, np.arange(self._whole, len(scores))])
        values = scores[ids]
        is_near = values >= limit
        return ids[is_near], values[is_near]
