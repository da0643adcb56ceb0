"""The attention of one layer as a matrix: who looks (a row each) at whom (a column each).

A row is what one token's heads take from each token of the text, as the network had it when that
token was read last: token i was replayed behind the tokens before it. For three tokens, one head:

              <s>   The   cat
       <s>   100%    ·     ·        · comes later: nothing behind a token was there when it was
       The    80%   20%    ·          read. These are the *causal mask*
       cat    50%    5%   45%

How a cell comes to its number: the query q of the token that looks is held against the key k of the
one that is looked at; the closer they point the same way, the larger their product. The softmax
makes shares of the products of a row, which add up to 1 (Vaswani et al. 1706.03762, 3.2.1):

    s = q · k ÷ √d        share = e^s ÷ Σ e^s = e^(s − ln Σ e^s)

Of a long text the last tokens have a column each; the first one, on which so much falls, keeps its
own, and those between are added up in one: so a row always shows all of its attention. What must
hold: what a window or the mask hides is never shown as a share of 0; a formula is told only where
it gives the share that is shown.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

from app.insight.inside.attention import group_of, value_weighted, without_sink

Values = np.ndarray[Any, np.dtype[np.float32]]

N_PLACES: Final = 32

_AGREES: Final = 0.02
"""How far shares by the formula may be from those that are shown. A key in the cache is rounded (to
float16, or further), and a share of 50 % moves by a hundredth where its s moves by 0.04."""


class Cell(IntEnum):
    """What is known of a cell."""

    UNREAD = 0
    SEEN = 1
    LATER = 2
    OUTSIDE = 3
    """Of the window of this layer."""


class HeadRow(NamedTuple):
    """What one token's heads did in a layer: `shares` [n_head, n_tok]; `query` [n_head, d] and
    `key` [n_kv_head, d], turned by their position. None: this graph has none."""

    shares: Values
    query: Values | None = None
    key: Values | None = None


class Formula(NamedTuple):
    """share = e^(product ÷ √d − total)."""

    product: float
    d: int
    total: float

    @property
    def score(self) -> float:
        return float(self.product / np.sqrt(self.d))


def first_seen(shares: Values) -> int:
    """How many tokens at the beginning a layer hides (its window): those on which none of its heads
    puts anything. `shares` [n_head, n_tok].

    >>> first_seen(np.array([[0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0]], np.float32))
    2
    """
    seen = np.flatnonzero(np.nan_to_num(shares).max(axis=0))
    return int(seen[0]) if len(seen) else 0


class AttentionMatrix:
    """Of the last `n_places` tokens up to `place`; rows are put in as they come.

    `places`: of the rows, and of the last columns. `spans`: the tokens [start, end) of each column.
    `norms` [n_head, place + 1]: how large what each head brings from each token is (‖v · W_O‖). It
    is the same whoever looks; but those that the token at `place` can't see are not known.

    >>> made = AttentionMatrix(3, n_places=2)
    >>> made.spans
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    >>> made.put(3, HeadRow(np.array([[0.5, 0.25, 0.0, 0.25]], np.float32)))
    >>> made.shares(0).tolist()
    [[nan, nan, nan, nan], [0.5, 0.25, 0.0, 0.25]]
    >>> [[Cell(c).name for c in row] for row in made.cells]
    [['UNREAD', 'UNREAD', 'UNREAD', 'LATER'], ['SEEN', 'SEEN', 'SEEN', 'SEEN']]
    """

    def __init__(self, place: int, norms: Values | None = None, n_places: int = N_PLACES) -> None:
        first = max(place + 1 - n_places, 0)
        self.places = range(first, place + 1)
        before = [(0, 1), (1, first)] if first > 1 else [(0, 1)] if first else []
        self.n_before = len(before)
        self.spans = [*before, *((at, at + 1) for at in self.places)]
        self._norms = norms
        self._starts = np.array([start for start, _ in self.spans])
        self._rows: dict[int, HeadRow] = {}
        self._by_column: dict[int, tuple[Values, Values | None]] = {}
        self._hidden: dict[int, int] = {}
        self._told: dict[tuple[int, int], _Scores | None] = {}

    def __len__(self) -> int:
        return len(self.places)

    # --- what comes -----------------------------------------------------------------------------

    def put(self, place: int, row: HeadRow) -> None:
        """A row, whole. Only its columns are kept: a matrix stays as small as it looks."""
        plain, weighted = self._columns(row.shares), None
        if self._norms is not None:
            norms = self._norms[:, : place + 1]
            weighted = self._columns(value_weighted(row.shares, norms))
        self._told.clear()
        self._hidden[place] = first_seen(row.shares)
        self._by_column[place] = (plain, weighted)
        self._rows[place] = row._replace(shares=plain)

    def _columns(self, shares: Values) -> Values:
        """[n_head, n_tok] → [n_head, n_columns]; 0 for what comes later."""
        found = np.zeros((len(shares), len(self.spans)), np.float32)
        for column, (start, end) in enumerate(self.spans):
            found[:, column] = shares[:, start:end].sum(axis=1)  # of one number: itself
        return found

    def has_query(self, row: int) -> bool:
        """Whether it is here, with what its shares were made of."""
        place = self.places[row]
        return place in self._rows and self._rows[place].query is not None

    @property
    def has_norms(self) -> bool:
        return self._norms is not None

    # --- what is seen ---------------------------------------------------------------------------

    @property
    def cells(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """A `Cell` for each row and column. A column of several tokens is seen where one is."""
        found = np.full((len(self), len(self.spans)), int(Cell.UNREAD))
        last = np.array([end for _, end in self.spans]) - 1
        for row, place in enumerate(self.places):
            if place in self._rows:
                found[row] = np.where(last < self._hidden[place], Cell.OUTSIDE, Cell.SEEN)
            found[row, self._starts > place] = Cell.LATER
        return found

    def shares(
        self, head: int | None, *, hides_sink: bool = False, weighs_values: bool = False
    ) -> Values:
        """[n_rows, n_columns] of a head, or the mean over all (None); NaN in rows that are not
        here. `hides_sink`: without the first token, and the rest of each row is scaled to 1."""
        found = np.full((len(self), len(self.spans)), np.nan, np.float32)
        for row, place in enumerate(self.places):
            if place in self._by_column:
                plain, weighted = self._by_column[place]
                rows = weighted if weighs_values and weighted is not None else plain
                one = rows.mean(axis=0) if head is None else rows[head]
                found[row] = without_sink(one)[0] if hides_sink else one
        return found

    def norm(self, head: int, column: int) -> float | None:
        """How large what a head would bring from a column's token is; None where that is not
        known."""
        start, end = self.spans[column]
        if self._norms is None or end - start > 1:
            return None
        return float(self._norms[head, start])

    def formula(self, head: int, row: int, column: int) -> Formula | None:
        """How the share in a cell came about. None where that can't be told: a column of several
        tokens, a network that turns nothing or bends its scores; see `_AGREES`."""
        if (head, row) not in self._told:  # all its cells have the same
            self._told[head, row] = self._scores(head, row)
        scores = self._told[head, row]
        if scores is None or column < self.n_before:
            return None
        at = column - self.n_before
        if at >= len(scores.products) or np.isnan(scores.products[at]):
            return None
        return Formula(float(scores.products[at]), scores.d, scores.total)

    def _scores(self, head: int, row: int) -> _Scores | None:
        """q · k of a row with each token that has its own column, up to its own; NaN where that one
        is not here, or hidden. None where they don't make the row's shares."""
        place = self.places[row]
        mine = self._rows.get(place)
        if mine is None or mine.query is None:
            return None
        query = np.asarray(mine.query[head], np.float64)
        products = np.full(row + 1, np.nan)
        for at, other in enumerate(self.places[: row + 1]):
            looked_at = self._rows.get(other)
            if looked_at is None or looked_at.key is None or other < self._hidden[place]:
                continue
            # Several query heads share one key (grouped queries).
            n_head, n_kv_head = len(mine.query), len(looked_at.key)
            key = looked_at.key[group_of(head, n_head, n_kv_head)]
            if key.shape != query.shape:
                return None
            products[at] = query @ key
        shares = mine.shares[head, self.n_before : self.n_before + row + 1].astype(np.float64)
        known = ~np.isnan(products) & (shares > 0)
        if not known.any():
            return None
        scores = products / np.sqrt(len(query))
        # Σ e^s runs over tokens that have no column, too. But it is in every share of the row, so
        # one share tells it: the largest, whose digits are the surest.
        best = int(np.argmax(np.where(known, shares, -1)))
        total = float(scores[best] - np.log(shares[best]))
        with np.errstate(over="ignore"):  # of scores that are not this network's
            again = np.exp(scores[known] - total)
        return _Scores(products, len(query), total) if self._agree(again, shares[known]) else None

    @staticmethod
    def _agree(again: np.ndarray[Any, Any], shares: np.ndarray[Any, Any]) -> bool:
        return bool(np.abs(again - shares).max() < _AGREES)


class _Scores(NamedTuple):
    products: np.ndarray[Any, np.dtype[np.float64]]
    d: int
    total: float
