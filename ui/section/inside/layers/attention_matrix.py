"""A head's attention as a picture: who looks (rows) at whom (columns).

What can't be looked at is no pale tile but none at all (what comes later), or a striped one
(outside the layer's window).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QWidget

from app.insight.inside.attention_matrix import Cell
from ui.look.theme import Theme
from ui.section.inside.rows import LEFT, RIGHT, STEPS, Picture, bring_into_view, elided
from ui.widgets.kit import show_tip

Values = npt.NDArray[np.float32]

_LEFT_PX: Final = 64
_TOP_PX: Final = 52
_GAP_PX: Final = 4
_END_PX: Final = 5
"""Below, since a word is higher than a small cell."""
_CELL_PX: Final = 22
"""At most."""
_TILED_PX: Final = 5
"""From this size on there is a gap between cells."""

_ENTER: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)

Place = tuple[int, int]
"""Row and column."""


class MatrixView(Picture):
    """Hover tells a cell, also the arrow keys; `row_chosen`: by a click or Enter."""

    row_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.rows: list[str] = []
        self.columns: list[str] = []
        self.n_before = 0
        self.shares: Values = np.zeros((0, 0), np.float32)
        self.cells: npt.NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self.current: Place | None = None
        self._words: Callable[[int, int], str] = lambda row, column: ""
        self.setObjectName("inside_attention_matrix")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Attention, a row for each token that looks")
        theme.changed.connect(self._fit)

    def show_labels(self, rows: list[str], columns: list[str], n_before: int) -> None:
        """Other tokens. `n_before`: of the first columns, which are no rows."""
        self.rows, self.columns, self.n_before = rows, columns, n_before
        self.current = None
        self._fit()

    def show_cells(
        self, shares: Values, cells: npt.NDArray[np.int64], words: Callable[[int, int], str]
    ) -> None:
        """Both [n_rows, n_columns]; `words` of a row and column."""
        self.shares, self.cells, self._words = shares, cells, words
        self._describe()
        self.update()

    def _fit(self) -> None:
        self.updateGeometry()
        self.update()

    # --- places ---------------------------------------------------------------------------------

    def side(self, width: int) -> int:
        """Of a cell."""
        px = self._theme.px
        room = width - px(_LEFT_PX) - (px(_GAP_PX) if self.n_before else 0)
        return min(max(room // max(len(self.columns), 1), 2), px(_CELL_PX))

    def cell(self, row: int, column: int) -> QRectF:
        px, side = self._theme.px, self.side(self.width())
        gap = px(_GAP_PX) if self.n_before and column >= self.n_before else 0
        return QRectF(px(_LEFT_PX) + gap + column * side, px(_TOP_PX) + row * side, side, side)

    def at(self, point: QPointF) -> Place | None:
        """Under a point; the column is −1 beside the cells of a row."""
        side = self.side(self.width())
        row = int((point.y() - self._theme.px(_TOP_PX)) // side)
        if not 0 <= row < len(self.rows):
            return None
        for gap in (0, self._theme.px(_GAP_PX)):  # cells before the gap, and behind it
            column = int((point.x() - self._theme.px(_LEFT_PX) - gap) // side)
            if 0 <= column < len(self.columns) and self.cell(row, column).contains(point):
                return row, column
        return row, -1

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._theme.px(_TOP_PX + _END_PX) + self.side(width) * len(self.rows)

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(300), self.heightForWidth(max(self.width(), 1)))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.updateGeometry()

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self.is_pending or self.shares.shape != (len(self.rows), len(self.columns)):
            return
        painter, colors = QPainter(self), self._theme.colors
        painter.setFont(self._theme.font_small())
        self._paint_labels(painter)
        side = self.side(self.width())
        gap = 1 if side >= self._theme.px(_TILED_PX) else 0
        empty, full = QColor(colors.hover), QColor(colors.accent)
        stripes = QBrush(QColor(colors.dim), Qt.BrushStyle.BDiagPattern)
        for row, column in np.argwhere(self.cells != Cell.LATER).tolist():
            rect = self.cell(row, column).adjusted(0, 0, -gap, -gap)
            if self.cells[row, column] == Cell.OUTSIDE:
                painter.fillRect(rect, stripes)
            elif self.cells[row, column] == Cell.SEEN:
                painter.fillRect(rect, _between(empty, full, float(self.shares[row, column])))
        if self.current is not None and self.current[1] >= 0:
            painter.setPen(QPen(QColor(colors.ink), 1))
            painter.drawRect(self.cell(*self.current).adjusted(0.5, 0.5, -0.5 - gap, -0.5 - gap))
        if self.hasFocus():
            painter.setPen(QPen(QColor(colors.accent), 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _paint_labels(self, painter: QPainter) -> None:
        """As many as there is room for, and those of the cell under the pointer."""
        px, colors = self._theme.px, self._theme.colors
        side = self.side(self.width())
        line = QFontMetricsF(painter.font()).height()
        row, column = self.current or (-1, -1)
        for at in _shown(len(self.rows), int(-(-line // side)), row):
            rect = self.cell(at, 0)
            box = QRectF(0, rect.center().y() - line / 2, px(_LEFT_PX) - px(5), line)
            is_last = at == len(self.rows) - 1
            ink = colors.ink if at == row else colors.accent if is_last else colors.dim
            painter.setPen(QColor(ink))
            elided(painter, box, self.rows[at], RIGHT)
        for at in _shown(len(self.columns), int(-(-line // side)), column):
            painter.save()
            painter.translate(self.cell(0, at).center().x(), px(_TOP_PX) - px(4))
            painter.rotate(-90)
            painter.setPen(QColor(colors.ink if at == column else colors.dim))
            box = QRectF(0, -line / 2, px(_TOP_PX) - px(6), line)
            elided(painter, box, self.columns[at], LEFT)
            painter.restore()

    # --- pointer and keys -----------------------------------------------------------------------

    def words_at(self, point: QPointF) -> str:
        return self._words_of(self.at(point))

    def _words_of(self, at: Place | None) -> str:
        """Nothing while it is blank: what is here is another token's."""
        is_there = at is not None and at[1] >= 0 and self.shares.size and not self.is_pending
        return self._words(*at) if is_there else ""  # type: ignore[misc]

    def set_pending(self, is_pending: bool) -> None:
        super().set_pending(is_pending)
        self._describe()

    def _go(self, place: Place | None) -> None:
        if place != self.current:
            self.current = place
            self._describe()
            self.update()

    def _describe(self) -> None:
        """What is meant is told to who cannot see it."""
        self.setAccessibleDescription(self._words_of(self.current))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._go(self.at(event.position()))

    def leaveEvent(self, event: object) -> None:
        del event
        self._go(None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self.at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and at is not None and not self.is_pending:
            self.row_chosen.emit(at[0])

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, modifiers = Qt.Key(event.key()), event.modifiers()
        step = STEPS.get(key)
        if not self.rows or modifiers & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
        elif key in _ENTER and self.current is not None:
            if not self.is_pending:
                self.row_chosen.emit(self.current[0])
        elif step is None:
            super().keyPressEvent(event)
        else:
            row, column = len(self.rows) - 1, len(self.columns) - 1
            if self.current is not None:
                row = min(max(self.current[0] + step[0], 0), row)
                column = min(max(self.current[1] + step[1], 0), column)
            self._go((row, column))
            rect = self.cell(row, column)
            bring_into_view(self, rect, 2 * self.side(self.width()))
            below = self.mapToGlobal(rect.bottomRight().toPoint())
            show_tip(below, self._words_of((row, column)), self)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()


def _between(empty: QColor, full: QColor, share: float) -> QColor:
    """Colour grows with the square root of the share, as in the grid of heads."""
    part = float(np.sqrt(min(max(share, 0.0), 1.0)))
    mixed = (
        round(one + part * (other - one))
        for one, other in zip(empty.getRgb()[:3], full.getRgb()[:3], strict=True)  # type: ignore[index]
    )
    return QColor(*mixed)


def _shown(count: int, every: int, pointed: int) -> list[int]:
    """Which labels have room: the last one and each `every`-th before it; but that of `pointed` in
    place of those too near to it.

    >>> _shown(7, 3, -1), _shown(7, 3, 1)
    ([0, 3, 6], [6, 1])
    """
    found = list(range(count - 1, -1, -every))[::-1]
    if pointed < 0:
        return found
    return [at for at in found if abs(at - pointed) >= every] + [pointed]
