"""The table of a reply's tokens as an item model: in any order, filtered, and as it grows.

Sorting and filtering work on lists of row numbers: Qt's own proxy asks for each cell through
Python, which takes seconds at 32,000 tokens. Of a trace that grows no token is made for it, only
the column that is sorted by is read.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QIcon

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import Pieces
from app.insight.trace.table import TraceTable, cuts_of
from app.insight.trace.tokens_shown import (
    SIGNS,
    UNKNOWN,
    bits_text,
    hexadecimal,
    percent,
    rank_text,
    safe_cell,
    visible,
)
from ui.markdown.recent import Recent

Index = QModelIndex | QPersistentModelIndex

_WHOLE_MS: Final = 100
"""From here on tenths of a millisecond say nothing."""
MAX_PLAIN: Final = 512
"""Rows whose texts are kept: those in view, and what was scrolled by."""

CHOSEN: Final = "chosen by you"
DRAFTED: Final = "drafted"
INSERTED: Final = "written to end the reasoning"


def origin(token: TokenTrace) -> str:
    """How it came to stand there, where the sampler did not simply draw it."""
    if token.inserted:
        return INSERTED
    return CHOSEN if token.chosen else DRAFTED if token.drafted else ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: a row of `COLUMNS`, and nothing else, makes one.

    `text`: what stands in a cell, without its unit; None where it is not the token that says it.
    `unit`: the second line of the heading, with the arrow; None: there is none. `field`: the number
    that is sorted by. `widest`: what is seen whole, besides what depends on reply and vocabulary.
    """

    title: str
    hint: str
    text: Callable[[TokenTrace], str] | None = None
    unit: str | None = None
    field: str = ""
    widest: tuple[str, ...] = ()
    is_text: bool = False


COLUMNS: Final = (
    Column("#", "Position in the reply, from 1"),
    Column(
        "Token",
        "Text of the token; · is a space, ↵ a line break. A symbol in front means chosen by you "
        "or proposed by a draft model",
        lambda token: visible(token.piece),
        widest=("·token",),
        is_text=True,
    ),
    Column(
        "ID",
        "Its number in the vocabulary",
        lambda token: str(token.token_id) if token.token_id >= 0 else UNKNOWN,
        field="token_id",
    ),
    Column(
        "Prob.",
        "Probability before samplers, at temperature 1, in percent",
        lambda token: percent(token.logprob),
        unit="%",
        field="logprob",
        widest=("0.00012", "5e-07", "100.0"),
    ),
    Column(
        "Rank",
        "Number of tokens at least as probable, before samplers; 1 is the most probable",
        lambda token: rank_text(token.rank),
        unit="",
        field="rank",
    ),
    Column(
        "Entropy",
        "How uncertain the choice was, before samplers, in bits",
        lambda token: bits_text(token.entropy),
        unit="bit",
        field="entropy",
        widest=("17.99",),
    ),
    Column(
        "Time",
        "Time since the previous token, in milliseconds",
        lambda token: f"{token.ms:.1f}" if token.ms < _WHOLE_MS else f"{token.ms:,.0f}",
        unit="ms",
        field="ms",
        widest=("1,234",),
    ),
    Column(
        "Type",
        "Type in the vocabulary: normal text, control token, single byte, …",
        widest=("user-defined",),
        is_text=True,
    ),
    Column(
        "Bytes",
        "Bytes of the text, in hexadecimal",
        lambda token: hexadecimal(token.piece),
        widest=("e2 96 81 41",),
        is_text=True,
    ),
)
NUMBER, TOKEN, ID, PROBABILITY, RANK, ENTROPY, TIME, TYPE, BYTES = range(len(COLUMNS))


class TokenModel(QAbstractTableModel):
    """`show` takes a trace, `grow` says that there is more of it, `set_words` what IDs stand for.
    `signs`: icons by what `origin` says."""

    def __init__(self) -> None:
        super().__init__()
        self.signs: dict[str, QIcon] = {}
        self._traces: Sequence[TokenTrace] = ()
        self._words: Pieces | None = None
        self._known = self._n_cuts = 0
        self._rows: list[int] = []
        self._keys: list[Any] = []
        self._sorted_by: tuple[int, bool] = (NUMBER, False)
        self._filter = ""
        self._plain: dict[int, tuple[list[str], bool]] = Recent(MAX_PLAIN)

    # --- what is shown --------------------------------------------------------------------------

    def show(self, traces: Sequence[TokenTrace]) -> None:
        self.beginResetModel()
        self._plain.clear()
        self._traces, self._known, self._n_cuts = traces, len(traces), cuts_of(traces)
        self._order()
        self.endResetModel()

    def holds(self, traces: Sequence[TokenTrace]) -> bool:
        """Whether it shows this very trace, which may have grown."""
        return traces is self._traces

    def grow(self) -> None:
        """The trace has become longer, or shorter. New rows come where the order wants them."""
        known, now = self._known, len(self._traces)
        if now < known or cuts_of(self._traces) != self._n_cuts:
            self.show(self._traces)
            return
        self._known = now
        more = [at for at in range(known, now) if self._shows(at)]
        if not more:
            return
        if self._sorted_by == (NUMBER, False):
            self.beginInsertRows(QModelIndex(), len(self._rows), len(self._rows) + len(more) - 1)
            self._rows += more
            self.endInsertRows()
            return
        for at, key in zip(more, self._keys_of(more), strict=True):
            row = _place(self._keys, key, is_down=self._sorted_by[1])
            self.beginInsertRows(QModelIndex(), row, row)
            self._rows.insert(row, at)
            self._keys.insert(row, key)
            self.endInsertRows()

    def set_words(self, words: Pieces | None) -> None:
        """What the types are read from; without it they are empty."""
        if words is self._words:
            return
        self._words = words
        self._plain.clear()
        if self._sorted_by[0] == TYPE:
            self.show(self._traces)
        elif self._rows:
            last = len(self._rows) - 1
            self.dataChanged.emit(self.index(0, TYPE), self.index(last, TYPE))

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
        if self._sorted_by == (NUMBER, False) and not self._filter:
            return place if place < len(self._rows) else None
        try:
            return self._rows.index(place)
        except ValueError:
            return None

    def as_csv(self) -> str:
        """The rows as they stand, with units in the heading; numbers as programs read them."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*(heading(column) for column in range(len(COLUMNS))), "Origin"])
        for at in self._rows:
            token = self._traces[at]
            row = [self.cell(token, at, column) for column in range(len(COLUMNS))]
            row[NUMBER], row[RANK] = str(at + 1), str(token.rank or UNKNOWN)
            row[TIME], row[TOKEN] = f"{token.ms:.1f}", safe_cell(row[TOKEN])
            writer.writerow([*row, origin(token) or "drawn"])
        return out.getvalue()

    def cell(self, token: TokenTrace, at: int, column: int) -> str:
        """What stands in a cell, without its unit."""
        text = COLUMNS[column].text
        if text is not None:
            return text(token)
        return f"{at + 1:,}" if column == NUMBER else self._type(token.token_id)

    def _type(self, token_id: int) -> str:
        return "" if self._words is None else self._words.kind(token_id) or ""

    # --- order ----------------------------------------------------------------------------------

    def _shows(self, at: int) -> bool:
        if not self._filter:
            return True
        token = self._traces[at]
        return self._passes(token.token_id, token.piece)

    def _passes(self, token_id: int, piece: bytes) -> bool:
        wanted = self._filter.casefold()
        if str(token_id) == wanted.strip():
            return True
        if wanted in piece.decode("utf-8", "replace").casefold():
            return True
        return not SIGNS.isdisjoint(wanted) and wanted in visible(piece).casefold()

    def _order(self) -> None:
        if self._filter:
            known = zip(self._ids(), self._pieces(), strict=True)
            rows = [at for at, each in enumerate(known) if self._passes(*each)]
        else:
            rows = list(range(self._known))
        column, is_down = self._sorted_by
        self._keys = []
        if column == NUMBER:
            self._rows = rows[::-1] if is_down else rows
            return
        keys = self._all_keys()
        rows.sort(key=keys.__getitem__, reverse=is_down)
        self._rows = rows
        self._keys = [keys[at] for at in rows]

    def _ids(self) -> Sequence[int]:
        if isinstance(self._traces, TraceTable):
            return self._traces.column("token_id")
        return [token.token_id for token in self._traces]

    def _pieces(self) -> list[bytes]:
        traces = self._traces
        if not isinstance(traces, TraceTable):
            return [token.piece for token in traces]
        ends = traces.column("piece_end")
        return [bytes(traces.pieces[first:end]) for first, end in pairwise((0, *ends))]

    def _all_keys(self) -> Sequence[Any]:
        """What the tokens are sorted by, by their place in the trace."""
        column = self._sorted_by[0]
        if column in (TOKEN, BYTES):
            return self._pieces()
        if column == TYPE:
            return [self._type(token_id) for token_id in self._ids()]
        if isinstance(self._traces, TraceTable):
            return _ordered(self._traces.column(COLUMNS[column].field))
        return self._keys_of(range(self._known))

    def _keys_of(self, places: Iterable[int]) -> list[Any]:
        column = self._sorted_by[0]
        tokens = (self._traces[at] for at in places)
        if column == NUMBER:
            return list(places)
        if column == TYPE:
            return [self._type(token.token_id) for token in tokens]
        if column in (TOKEN, BYTES):
            return [token.piece for token in tokens]
        field = COLUMNS[column].field
        return _ordered([getattr(token, field) for token in tokens])

    # --- Qt -------------------------------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._row(index.row())[0][column]
        if role == Qt.ItemDataRole.TextAlignmentRole and not COLUMNS[column].is_text:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if column == TOKEN and role in _TOKEN_ROLES:
            return self._about(self._traces[self._rows[index.row()]], role)
        return None

    def plain(self, row: int, column: int) -> tuple[str, bool] | None:
        """The text of a cell and whether it stands at the right; None where there is a sign."""
        texts, has_sign = self._row(row)
        return (
            None if has_sign and column == TOKEN else (texts[column], not COLUMNS[column].is_text)
        )

    def _row(self, row: int) -> tuple[list[str], bool]:
        """The texts of a row, and whether it has a sign: a token never changes."""
        at = self._rows[row]
        found = self._plain.get(at)
        if found is None:
            token = self._traces[at]
            texts = [self.cell(token, at, column) for column in range(len(COLUMNS))]
            found = self._plain[at] = (texts, bool(origin(token)))
        return found

    def _about(self, token: TokenTrace, role: int) -> Any:
        """The sign of a token that the sampler did not draw, and what a reader is told of it."""
        how, text = origin(token), visible(token.piece)
        if role == Qt.ItemDataRole.DecorationRole:
            return self.signs.get(how)
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{text} ({how})" if how else text
        return f"{text}, {how}" if how else None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            column, is_down = self._sorted_by
            sign = ("", " ↓" if is_down else " ↑")[section == column]
            return f"{heading_lines(section)}{sign}".replace("\n ", "\n").rstrip("\n")
        if role == Qt.ItemDataRole.ToolTipRole:
            return COLUMNS[section].hint
        if role == Qt.ItemDataRole.TextAlignmentRole:
            is_text = COLUMNS[section].is_text
            side = Qt.AlignmentFlag.AlignLeft if is_text else Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        wanted = (max(column, 0), order is Qt.SortOrder.DescendingOrder)
        if wanted != self._sorted_by:
            self._sorted_by = wanted
            self.show(self._traces)
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(COLUMNS) - 1)


_TOKEN_ROLES: Final = frozenset(
    (
        Qt.ItemDataRole.DecorationRole,
        Qt.ItemDataRole.ToolTipRole,
        Qt.ItemDataRole.AccessibleTextRole,
    )
)


def heading_lines(column: int) -> str:
    """The name, and in a second line the unit, which may be empty."""
    title, unit = COLUMNS[column].title, COLUMNS[column].unit
    return title if unit is None else f"{title}\n{unit}"


def heading(column: int) -> str:
    return f"{COLUMNS[column].title} {COLUMNS[column].unit or ''}".rstrip()


def _ordered(numbers: Sequence[float | None]) -> list[float]:
    """Numbers that can be sorted: what is none stands below all others."""
    return [-math.inf if number is None or number != number else number for number in numbers]


def _place(keys: Sequence[Any], key: Any, *, is_down: bool) -> int:
    """Where a new key goes so that the order holds, behind its equals."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        goes_before = key > keys[middle] if is_down else key < keys[middle]
        low, high = (low, middle) if goes_before else (middle + 1, high)
    return low
