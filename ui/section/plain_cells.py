"""Cells of a table that is painted anew all the time: what the style would draw, in a third of the
time. A cell that is chosen, pointed at or has a sign is left to the style, and so is a text that
needs another font: where that one is higher, the style moves the line."""

from __future__ import annotations

import math
from typing import Final, Protocol

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QRawFont
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTableView

from ui.look.theme import Theme
from ui.look.theme_sheet import CELL_PX, ITEM_MARGIN
from ui.markdown.recent import Recent

Index = QModelIndex | QPersistentModelIndex
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
        self._cells = cells
        self._look()
        theme.changed.connect(self._look)

    def _look(self) -> None:
        self._side = self._theme.px(CELL_PX) + ITEM_MARGIN
        self._ink = QPen(QColor(self._theme.colors.ink))
        self._small = self._theme.font_small()
        self._metrics, self._font = QFontMetricsF(self._small), QRawFont.fromFont(self._small)
        self._height, self._ascent = int(self._metrics.height()), self._metrics.ascent()
        self._widths: dict[str, float] = Recent(MAX_WIDTHS)

    def _width(self, text: str) -> float:
        """Infinite where it needs another font."""
        found = self._widths.get(text)
        if found is None:
            is_own = text.isascii() or all(self._font.supportsCharacter(ord(c)) for c in text)
            found = self._metrics.horizontalAdvance(text) if is_own else math.inf
            self._widths[text] = found
        return found

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        found = self._cells.plain(index.row(), index.column())
        if found is None or option.state & _MARKED or self._width(found[0]) == math.inf:
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
        # The painter has that of the viewport, which keeps the former zoom's.
        painter.setFont(self._small)
        painter.setPen(self._ink)
        left = x + self._side + (room - wide if is_right else 0)
        painter.drawText(QPointF(left, y + (h - self._height) // 2 + self._ascent), text)
