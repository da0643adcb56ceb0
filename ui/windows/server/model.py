"""The requests as an item model, the newest first."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from PySide6.QtCore import QModelIndex, Qt

from app.chat.server.log import Logged
from ui.widgets.any_index import AnyIndex
from ui.widgets.table_model import TableModel
from ui.windows.server.words import STATES, count_words, rate_words, row_words, time_words

ROW_ROLE: Final = Qt.ItemDataRole.UserRole
TIME, STATE, CLIENT, ENDPOINT, MODEL, IN, CACHED, OUT, RATE = range(9)


class RequestsModel(TableModel):
    columns = (
        "Time",
        "State",
        "Client",
        "Endpoint",
        "Model",
        "Prompt",
        "Cached",
        "Reply",
        "Tokens/s",
    )
    hints = (
        "When the request came",
        "Waiting, running, or how it ended",
        "Its address and what its program calls itself",
        "The path that was asked for",
        "The model that was asked for",
        "Prompt tokens",
        "Prompt tokens that were in the KV cache already",
        "Tokens generated",
        "Speed of its replies together, from the second token on",
    )
    numbers = frozenset({IN, CACHED, OUT, RATE})

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Logged] = []

    def show(self, rows: Iterable[Logged]) -> None:
        """Show these, the oldest first. New ones come on top, so whoever has chosen one keeps it;
        what runs is painted anew."""
        shown = list(rows)[::-1]
        numbers = [row.number for row in self._rows]
        n_new = next((i for i, row in enumerate(shown) if row.number in numbers[:1]), len(shown))
        kept = [row.number for row in shown[n_new:]]
        if not numbers or kept != numbers[: len(kept)]:
            self.beginResetModel()
            self._rows = shown
            self.endResetModel()
            return
        if len(kept) < len(numbers):
            self.beginRemoveRows(QModelIndex(), len(kept), len(numbers) - 1)
            del self._rows[len(kept) :]
            self.endRemoveRows()
        if n_new:
            self.beginInsertRows(QModelIndex(), 0, n_new - 1)
            self._rows[:0] = shown[:n_new]
            self.endInsertRows()
        if self._rows:
            self.dataChanged.emit(
                self.index(0, 0), self.index(len(self._rows) - 1, len(self.columns) - 1)
            )

    def plain(self, row: int, column: int) -> tuple[str, bool] | None:
        """Of a cell: its text, and whether it stands at the right."""
        return self._text(self._rows[row], column), column in self.numbers

    def row(self, place: int) -> Logged | None:
        return self._rows[place] if 0 <= place < len(self._rows) else None

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(row, index.column())
        if role == ROW_ROLE:
            return row
        if role == Qt.ItemDataRole.ToolTipRole:
            return row_words(row)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        return None

    @staticmethod
    def _text(row: Logged, column: int) -> str:
        if column == TIME:
            return time_words(row.at, datetime.now(UTC))
        if column == STATE:
            return STATES[row.state]
        if column == RATE:
            return rate_words(row)
        counts = {IN: row.tokens_in, CACHED: row.cached, OUT: row.tokens_out}
        if column in counts:
            return count_words(counts[column])
        return {CLIENT: row.client, ENDPOINT: row.endpoint, MODEL: row.model}[column]
