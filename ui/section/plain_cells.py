"""Cells of a table that is painted anew all the time: what the style would draw, in a third of the
time. A cell that is chosen, pointed at or has a sign is left to the style."""

from __future__ import annotations

from typing import Final, Protocol

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTableView

from ui.markdown.styles import Recent
from ui.theme import Theme

Index = QModelIndex | QPersistentModelIndex
PAD_PX: Final = 3
"""At the sides of a cell in a tight table (`ui/theme_sheet.py`)."""
MARGIN: Final = 3
"""That Qt adds to it."""
MAX_WIDTHS: Final = 4_096
_MARKED: Final = QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_MouseOver


class Cells(Protocol):
    """What a model says of a cell without any detour: its text, whether that stands at the right,
    and whether there is more to paint than that."""

    def plain(self, row: int, column: int) -> tuple[str, bool] | None: ...


class PlainCells(QStyledItemDelegate):
    def __init__(self, theme: Theme, cells: Cells, table: QTableView) -> None:
        super().__init__(table)
        self._theme = theme
        self._table = table
        self._cells = cells
        self._look()
        theme.changed.connect(self._look)

    def _look(self) -> None:
        self._side = self._theme.px(PAD_PX) + MARGIN
        self._ink = QPen(QColor(self._theme.colors.ink))
        self._metrics = QFontMetricsF(self._theme.font_small())
        self._height, self._ascent = int(self._metrics.height()), self._metrics.ascent()
        self._widths: dict[str, float] = Recent(MAX_WIDTHS)

    def _width(self, text: str) -> float:
        found = self._widths.get(text)
        if found is None:
            found = self._widths[text] = self._metrics.horizontalAdvance(text)
        return found

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        found = self._cells.plain(index.row(), index.column())
        if found is None or option.state & _MARKED:
            super().paint(painter, option, index)
            return
        text, is_right = found
        rect = option.rect
        x, y, h = rect.x(), rect.y(), rect.height()
        room = rect.width() - 2 * self._side
        wide = self._width(text)
        if wide > room:
            text = self._metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
            wide = self._metrics.horizontalAdvance(text)
        painter.setPen(self._ink)
        left = x + self._side + (room - wide if is_right else 0)
        painter.drawText(QPointF(left, y + (h - self._height) // 2 + self._ascent), text)
