"""The best few candidates of a whole vocabulary, found once per token for all who ask.

Top-k wants the best 40, the trace the best 64, and everybody the best score. Sorting 262,144
scores for each of them would cost more than the stages do, so this looks at them once:

    scores as rows of 512 ──maximum down each column──▶ 512 maxima
    the k-th largest maximum is the limit: k columns reach it, so at least k scores do
    ──▶ the shortlist is what reaches the limit, seldom more than k

In a large vocabulary they are looked for in those columns alone (262,144: 0.07 ms, not 0.12). Numpy
takes the maximum of rows with vector instructions. Between two decodes the caches are cold and each
call of numpy's costs ten times what it costs in a loop, so few calls count more than short arrays.
Nothing is remembered from one token to the next: how scores are spread changes too much between
neighbours to be worth it.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
import numpy as np

Scores = np.ndarray[Any, np.dtype[np.float32]]
Ids = np.ndarray[Any, np.dtype[np.int64]]

WIDEST: Final = np.float32(120.0)
"""Scores further below the best one have no probability in float32 (e⁻¹²⁰ is 0 there)."""

_largest: Final = np.maximum.reduce
"""An array's own `max` goes through two functions of Python first."""

_COLUMNS: Final = 512
_MOST_ROWS: Final = 64
_LARGE: Final = 131_072
"""From so many scores on, a few calls of numpy's more cost less than one more look at all."""


class Shortlist(msgspec.Struct, frozen=True):
    """All candidates whose score is at least `limit`: `ids` ascending, and their `scores`.

    `best` is not finite where no score is a finite number, or one is none: then nothing is listed.
    """

    best: float
    limit: float
    ids: Ids
    scores: Scores

    def __len__(self) -> int:
        return len(self.ids)

    def best_few(self, k: int) -> tuple[Ids, Scores] | None:
        """IDs and scores of the k best of all, best first; of equals the smaller ID first. None
        where not so many are sure to be here."""
        if len(self.ids) < k:
            return None
        # The IDs ascend, and a stable sort leaves equals in their order.
        order = np.argsort(-self.scores, kind="stable")[:k]
        return self.ids.take(order), self.scores.take(order)

    def highest(self, count: int) -> list[float] | None:
        """The `count` highest scores of all, descending; None where not so many are listed."""
        if len(self.ids) < count:
            return None
        return sorted(self.scores.tolist(), reverse=True)[:count]


_NOTHING: Final = (np.empty(0, np.int64), np.empty(0, np.float32))


class ShortlistFinder:
    """Finds shortlists in scores of one length. Keeps a buffer, so one thread at a time.

    >>> finder = ShortlistFinder(10_000)
    >>> found = finder.find(np.arange(10_000, dtype=np.float32), 3)
    >>> found.best, found.limit, found.ids.tolist()[-3:]
    (9999.0, 9991.0, [9997, 9998, 9999])
    """

    def __init__(self, n_vocab: int) -> None:
        rows = max(n_vocab // max(_COLUMNS, n_vocab // _MOST_ROWS), 1)
        self._width = n_vocab // rows
        self._shape = (rows, self._width)
        self._whole = rows * self._width
        self._is_even = self._whole == n_vocab
        self._maxima = np.empty(self._width, np.float32)
        self.looks_at_columns = n_vocab >= _LARGE

    def find(self, scores: Scores, at_least: int) -> Shortlist:
        """At least so many candidates of `scores` [n_vocab], where there are as many with a
        probability."""
        maxima = self._maxima
        whole = scores if self._is_even else scores[: self._whole]
        table = whole.reshape(self._shape)
        _largest(table, axis=0, out=maxima)
        at = max(self._width - max(at_least, 1), 0)
        ordered = maxima.copy() if self.looks_at_columns else maxima
        ordered.partition(at)
        best = _largest(ordered[at:])
        if not self._is_even:
            best = np.maximum(best, _largest(scores[self._whole :]))
        if not math.isfinite(best):
            return Shortlist(float(best), math.nan, *_NOTHING)
        limit = max(ordered[at], best - WIDEST)
        if self.looks_at_columns:
            ids = self._in_columns(scores, table, limit)
        else:
            ids = (scores >= limit).nonzero()[0]
        return Shortlist(float(best), float(limit), ids, scores.take(ids))

    def _in_columns(self, scores: Scores, table: Scores, limit: np.float32) -> Ids:
        """IDs of the scores that reach the limit, by the columns whose maximum does."""
        columns = (self._maxima >= limit).nonzero()[0]
        rows, places = (table.take(columns, axis=1) >= limit).nonzero()
        ids: Ids = rows * self._width + columns.take(places)
        if not self._is_even:
            behind = (scores[self._whole :] >= limit).nonzero()[0]
            ids = np.concatenate([ids, behind + self._whole])
        return ids
