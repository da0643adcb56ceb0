"""Rows that are painted by hand, in one widget whatever their number: a layer each, or a token."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QWidget

from ui.look.theme import Theme
from ui.widgets.kit import show_tip

ROW_PX: Final = 18
BAR_PX: Final = 7

_KEYS: Final = {
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_PageUp: -10,
    Qt.Key.Key_PageDown: 10,
    Qt.Key.Key_Home: -(10**6),
    Qt.Key.Key_End: 10**6,
}
LEFT: Final = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
RIGHT: Final = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
STEPS: Final = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
"""Rows down and columns to the right, by the arrow keys of a grid."""


class Picture(QWidget):
    """Something that is painted from arrays, as wide as there is room. While those of the token are
    on their way it is blank: what was there belongs to another one. It keeps its size, and the
    keyboard. Override `words_at`."""

    is_pending = False

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def words_at(self, point: QPointF) -> str:
        """What the pointer is told there; nothing where it is empty."""
        return ""

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            words = "" if self.is_pending else self.words_at(QPointF(event.pos()))
            show_tip(event.globalPos(), words, self)
            return True
        return super().event(event)

    def set_pending(self, is_pending: bool) -> None:
        if is_pending != self.is_pending:
            self.is_pending = is_pending
            self.update()


class PaintedRows(Picture):
    """Override `paint_row` and `words_of` (what hover tells). `row_chosen`: by a click or key; −1
    where the chosen one is clicked again. Rows that cannot be chosen take no keyboard."""

    row_chosen = Signal(int)

    def __init__(
        self, theme: Theme, name: str, parent: QWidget | None = None, *, can_choose: bool = False
    ) -> None:
        super().__init__(theme, parent)
        self._can_choose = can_choose
        self.n_rows = 0
        self.chosen: int | None = None
        self.hovered: int | None = None
        self.setObjectName(name)
        self.setMouseTracking(True)
        if can_choose:
            self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        theme.changed.connect(self._fit)

    # --- what a kind of rows is -----------------------------------------------------------------

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None: ...

    def words_of(self, row: int, x: float) -> str:
        """Lines for the hover card. `x`: where the pointer is."""
        return ""

    def words_at(self, point: QPointF) -> str:
        row = self.row_at(point.y())
        return "" if row is None else self.words_of(row, point.x())

    # --- rows -----------------------------------------------------------------------------------

    def set_rows(self, n_rows: int) -> None:
        """So many from now on; they are painted anew."""
        if n_rows != self.n_rows:
            self.n_rows = n_rows
            self.updateGeometry()
        self.describe()
        self.update()

    def choose(self, row: int | None) -> None:
        self.chosen = row
        self.describe()
        self.update()

    def describe(self) -> None:
        """What is chosen is told to who cannot see it."""
        is_there = self.chosen is not None and self.chosen < self.n_rows
        self.setAccessibleDescription(self.words_of(self.chosen, 0) if is_there else "")  # type: ignore[arg-type]

    def rect_of(self, row: int) -> QRectF:
        height = self._theme.px(ROW_PX)
        return QRectF(0, row * height, self.width(), height)

    def row_at(self, y: float) -> int | None:
        row = int(y // self._theme.px(ROW_PX))
        return row if 0 <= row < self.n_rows else None

    def paint_bar(self, painter: QPainter, room: QRectF, share: float, color: QColor) -> None:
        """From the left of `room` as far as `share` (0 to 1) goes; always to be seen."""
        height = self._theme.px(BAR_PX)
        width = max(room.width() * min(max(share, 0.0), 1.0), 1.0)
        painter.fillRect(QRectF(room.left(), room.center().y() - height / 2, width, height), color)

    def _fit(self) -> None:
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(240), self._theme.px(ROW_PX) * self.n_rows)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(120), self.sizeHint().height())

    # --- events ---------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = self._theme.colors
        painter = QPainter(self)
        painter.setFont(self._theme.font_small())
        for row in range(self.n_rows):
            rect = self.rect_of(row)
            if not rect.toAlignedRect().intersects(event.rect()):
                continue
            if row == self.chosen:
                painter.fillRect(rect, QColor(colors.accent_tone))
            elif row == self.hovered:
                painter.fillRect(rect, QColor(colors.hover))
            if not self.is_pending:
                self.paint_row(painter, row, rect)
        if self.hasFocus():
            painter.setPen(QPen(QColor(colors.accent), 1))
            at = self.rect_of(self.chosen) if self.chosen is not None else QRectF(self.rect())
            painter.drawRect(at.adjusted(0.5, 0.5, -0.5, -0.5))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self.row_at(event.position().y()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(None)

    def _hover(self, row: int | None) -> None:
        if row != self.hovered:
            self.hovered = row
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().y())
        if self._can_choose and event.button() == Qt.MouseButton.LeftButton and row is not None:
            self.row_chosen.emit(-1 if row == self.chosen else row)
        else:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        by = _KEYS.get(Qt.Key(event.key())) if self._can_choose and self.n_rows else None
        if by is None or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
            return
        start = self.chosen if self.chosen is not None else -1 if by > 0 else self.n_rows
        row = min(max(start + by, 0), self.n_rows - 1)
        self.row_chosen.emit(row)
        bring_into_view(self, self.rect_of(row), 2 * self._theme.px(ROW_PX))


def elided(painter: QPainter, rect: QRectF, words: str, flags: Qt.AlignmentFlag = LEFT) -> None:
    """Words in one line, cut where they have no room."""
    room = int(rect.width())
    shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room)
    painter.drawText(rect, flags, shown)


def bring_into_view(widget: QWidget, rect: QRectF, margin: int) -> None:
    """Scroll the column that a widget is in, so that this part of it is seen."""
    area = widget.parentWidget()
    while area is not None and not isinstance(area, QScrollArea):
        area = area.parentWidget()
    inside = area.widget() if isinstance(area, QScrollArea) else None
    if isinstance(area, QScrollArea) and inside is not None:
        place = widget.mapTo(inside, rect.center().toPoint())
        area.ensureVisible(place.x(), place.y(), 0, margin)
