"""The table of a reply's tokens as an item model: in any order, filtered, and as it grows.

Sorting and filtering work on lists of row numbers: Qt's own proxy asks for each cell through
Python, which takes seconds at 32,000 tokens.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from app.engine.protocol import TokenTrace
from app.insight.tokens_shown import hexadecimal, visible

Index = QModelIndex | QPersistentModelIndex

COLUMNS: Final = ("#", "Token", "ID", "Prob.", "Rank", "Entropy", "Time", "Bytes")
_UNITS: Final = {"Prob.": "%", "Entropy": "bit", "Time": "ms"}
_HINTS: Final = {
    "#": "Place among the tokens that were drawn, from 1",
    "Token": "The piece of text; · is a space, ↵ a line break",
    "ID": "The number that stands for it in the vocabulary",
    "Prob.": "Probability before samplers, at temperature 1, in percent",
    "Rank": "How many were as probable or more, before samplers; 1 is the most probable",
    "Entropy": "How uncertain the choice was, before samplers, in bits",
    "Time": "From the token before to this one, in milliseconds",
    "Bytes": "What the piece is made of, in hexadecimal",
}
_TEXTUAL: Final = frozenset((1, 7))

_KEYS: Final[tuple[Callable[[TokenTrace], Any], ...]] = (
    lambda token: token.index,
    lambda token: token.piece,
    lambda token: token.token_id,
    lambda token: token.logprob,
    lambda token: token.rank,
    lambda token: token.entropy,
    lambda token: token.ms,
    lambda token: token.piece,
)


def cell(token: TokenTrace, at: int, column: int) -> str:
    """What stands in a cell, without its unit."""
    match column:
        case 0:
            return f"{at + 1:,}"
        case 1:
            return visible(token.piece)
        case 2:
            return str(token.token_id)
        case 3:
            return percent(token.logprob)
        case 4:
            return f"{token.rank:,}"
        case 5:
            return f"{token.entropy:.2f}"
        case 6:
            return f"{token.ms:.1f}"
        case _:
            return hexadecimal(token.piece)


def percent(logprob: float) -> str:
    """A probability in percent, with as many digits as tell it from 0.

    >>> percent(math.log(0.773)), percent(math.log(0.00012)), percent(-math.inf)
    ('77.3', '0.012', '0')
    """
    share = 100 * math.exp(min(logprob, 0.0)) if not math.isnan(logprob) else 0.0
    if share == 0:
        return "0"
    return f"{share:.1f}" if share >= 1 else f"{share:.2g}" if share >= 1e-4 else f"{share:.0e}"


class TokenModel(QAbstractTableModel):
    """`show` takes a trace, `grow` says that there is more of it."""

    def __init__(self) -> None:
        super().__init__()
        self._traces: Sequence[TokenTrace] = ()
        self._known = 0
        self._rows: list[int] = []
        self._sorted_by: tuple[int, bool] = (0, False)
        self._filter = ""

    # --- what is shown --------------------------------------------------------------------------

    def show(self, traces: Sequence[TokenTrace]) -> None:
        self.beginResetModel()
        self._traces, self._known = traces, len(traces)
        self._rows = self._ordered(range(self._known))
        self.endResetModel()

    def holds(self, traces: Sequence[TokenTrace]) -> bool:
        """Whether it shows this very trace, which may have grown."""
        return traces is self._traces

    def grow(self) -> None:
        """The trace has become longer, or shorter. In the order of the reply the new rows come
        below; in any other one all are ordered anew."""
        known, self._known = self._known, len(self._traces)
        if self._known < known or self._sorted_by != (0, False):
            self.show(self._traces)
            return
        more = [at for at in range(known, self._known) if self._passes(at)]
        if more:
            self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(more) - 1)
            self._rows += more
            self.endInsertRows()

    def set_filter(self, text: str) -> None:
        """Only tokens in whose piece the text stands, or whose ID it is."""
        if text != self._filter:
            self._filter = text
            self.show(self._traces)

    def place_of(self, row: int) -> int:
        """The place in the trace of a row."""
        return self._rows[row]

    def row_of(self, place: int | None) -> int | None:
        """The row of a place in the trace; None where it is filtered out."""
        if place is None:
            return None
        if self._sorted_by == (0, False) and not self._filter:
            return place if place < len(self._rows) else None
        return self._rows.index(place) if place in self._rows else None

    def as_csv(self) -> str:
        """The rows as they stand, with units in the heading."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([_heading(column) for column in range(len(COLUMNS))])
        for at in self._rows:
            token = self._traces[at]
            row = [cell(token, at, column) for column in range(len(COLUMNS))]
            row[0], row[4] = str(at + 1), str(token.rank)
            writer.writerow(row)
        return out.getvalue()

    def _passes(self, at: int) -> bool:
        if not self._filter:
            return True
        token, wanted = self._traces[at], self._filter.casefold()
        if str(token.token_id) == wanted.strip():
            return True
        text = token.piece.decode("utf-8", "replace").casefold()
        return wanted in text or wanted in visible(token.piece).casefold()

    def _ordered(self, places: Sequence[int]) -> list[int]:
        kept = [at for at in places if self._passes(at)]
        column, is_down = self._sorted_by
        if column:
            key, traces = _KEYS[column], self._traces
            kept.sort(key=lambda at: key(traces[at]), reverse=is_down)
        elif is_down:
            kept.reverse()
        return kept

    # --- Qt -------------------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.DisplayRole:
            at = self._rows[index.row()]
            return cell(self._traces[at], at, index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() not in _TEXTUAL:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return _heading(section)
        if role == Qt.ItemDataRole.ToolTipRole:
            return _HINTS[COLUMNS[section]]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            is_text = section in _TEXTUAL
            side = Qt.AlignmentFlag.AlignLeft if is_text else Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        wanted = (max(column, 0), order is Qt.SortOrder.DescendingOrder)
        if wanted != self._sorted_by:
            self._sorted_by = wanted
            self.show(self._traces)


def _heading(column: int) -> str:
    name = COLUMNS[column]
    return f"{name} {_UNITS[name]}" if name in _UNITS else name
