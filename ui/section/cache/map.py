"""The cells of the KV cache as squares, in the order in which they were written.

Painted once for each answer of the engine, into a picture that is as wide as the panel; what
moves over it (the pointer's square, the keyboard's, what is looked at) is painted on top. So 32,768
cells cost a few milliseconds twice a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.insight.cache.cells import CellMap, CellStretch, Grid, grid_for, squares
from ui.look.theme import Theme

LEAST_PX: Final = 4
MOST_PX: Final = 11
HEIGHT_PX: Final = 208
ROUND_FROM_PX: Final = 8
"""Squares that are smaller than this have no round corners."""

FREE: Final = 1
"""In a byte per square: nothing is there; 0: no cell is. From 2 on: the colours."""

HINT: Final = (
    "Each square is a cell of the KV cache: K and V of one token in every layer. Arrow keys "
    "move by square, Ctrl+arrow keys by message; Enter shows the token."
)


class CacheMapView(QWidget):
    """`pointed`: another square is under the pointer or the keyboard (its first cell; -1: none).
    `chosen`: a cell was clicked, or Enter pressed on it."""

    pointed = Signal(int)
    chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._cells: CellMap | None = None
        self._key: Callable[[CellStretch], int] = lambda _stretch: 0
        self._colors: Callable[[], Sequence[QColor]] = lambda: ()
        self._marked: tuple[int, int] | None = None
        self._picture: QPixmap | None = None
        self._hovered = self._current = -1
        self.grid = Grid(1, 1, 1, 1)
        self.setObjectName("cache_map")
        self.setAccessibleName("Cells of the KV cache")
        self.setToolTip(HINT)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._arrange)

    # --- what is shown --------------------------------------------------------------------------

    def show_cells(
        self,
        cells: CellMap | None,
        key: Callable[[CellStretch], int],
        colors: Callable[[], Sequence[QColor]],
    ) -> None:
        """`key`: which of `colors` a stretch has (asked again when the theme changes)."""
        self._cells, self._key, self._colors = cells, key, colors
        self._arrange()

    def mark(self, cells: tuple[int, int] | None) -> None:
        """What is looked at: from the first to the last cell."""
        if cells != self._marked:
            self._marked = cells
            self.update()

    @property
    def cell(self) -> int:
        """The first cell of the square that is pointed at; -1 for none."""
        square = self._hovered if self._hovered >= 0 else self._current if self.hasFocus() else -1
        return -1 if square < 0 else square * self.grid.per_square

    def _arrange(self) -> None:
        """As large as the squares are, at the present width."""
        px = self._theme.px
        if self._cells is None:
            self.grid = Grid(1, 1, 1, px(MOST_PX))
        else:
            self.grid = grid_for(
                self._cells.n_used,
                self._cells.told.n_ctx,
                max(self.width(), 1),
                px(HEIGHT_PX),
                px(LEAST_PX),
                px(MOST_PX),
            )
        self._picture = None
        self._current = min(self._current, self.grid.n_squares - 1)
        self._hovered = min(self._hovered, self.grid.n_squares - 1)
        self.setFixedHeight(self.grid.rows * self.grid.pitch)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(260), self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(120), self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._arrange()

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._cells is None:
            return
        if self._picture is None or self._picture.devicePixelRatio() != self.devicePixelRatioF():
            self._picture = self._paint_all()
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        colors = self._theme.colors
        is_small = self.grid.pitch < self._theme.px(ROUND_FROM_PX)
        width = self._theme.px(1 if is_small else 1.5)
        # A line around squares at the rim stays inside, or half of it would be cut off.
        inside = self.rect().toRectF().adjusted(width / 2, width / 2, -width / 2, -width / 2)
        if self._marked is not None:
            painter.setPen(QPen(QColor(colors.ink), width))
            painter.drawPath(self._outline(*self._marked, inside))
        for square, is_shown in (
            (self._hovered, self._hovered >= 0),
            (self._current, self.hasFocus() and self._current >= 0),
        ):
            if is_shown:  # on a ground of its own: it may stand on any colour
                ring = self._rect(square).adjusted(-width, -width, width, width) & inside
                for color, thick in ((colors.card, 2 * width), (colors.ink, width)):
                    painter.setPen(QPen(QColor(color), thick))
                    painter.drawRect(ring)
        painter.end()

    def _rect(self, square: int) -> QRectF:
        pitch, gap = self.grid.pitch, self._gap
        row, column = divmod(square, self.grid.columns)
        return QRectF(column * pitch, row * pitch, pitch - gap, pitch - gap)

    @property
    def _gap(self) -> int:
        return max(1, self.grid.pitch // 6)

    def _outline(self, first: int, last: int, inside: QRectF) -> QPainterPath:
        """Around all squares from one to the other, row by row."""
        columns, path = self.grid.columns, QPainterPath()
        first, last = first // self.grid.per_square, last // self.grid.per_square
        for row in {first // columns, last // columns}:
            left = first % columns if row == first // columns else 0
            right = last % columns if row == last // columns else columns - 1
            path = path.united(self._block(left, right, row, row, inside))
        if last // columns - first // columns > 1:
            rows = first // columns + 1, last // columns - 1
            middle = self._block(0, columns - 1, *rows, inside)
            path = path.united(middle)
        return path.simplified()

    def _block(self, left: int, right: int, top: int, bottom: int, inside: QRectF) -> QPainterPath:
        pitch = self.grid.pitch
        path = QPainterPath()
        path.addRect(
            QRectF(
                left * pitch,
                top * pitch,
                (right - left + 1) * pitch - self._gap,
                (bottom - top + 1) * pitch,
            )
            & inside
        )
        return path

    def _paint_all(self) -> QPixmap:
        ratio = self.devicePixelRatioF()
        size = QSize(self.grid.columns * self.grid.pitch, self.grid.rows * self.grid.pitch)
        picture = QPixmap(size * ratio)
        picture.setDevicePixelRatio(ratio)
        picture.fill(QColor(self._theme.colors.card))
        assert self._cells is not None
        drawn = squares(self._cells, self.grid, lambda one: self._key(one) + FREE + 1, FREE)
        painter = QPainter(picture)
        if self.grid.pitch >= self._theme.px(ROUND_FROM_PX):
            self._paint_round(painter, drawn)
        else:
            self._paint_square(painter, drawn, size)
        painter.end()
        return picture

    def _paint_round(self, painter: QPainter, drawn: bytearray) -> None:
        """Each kind of square is painted once and then copied."""
        columns, pitch, colors = self.grid.columns, self.grid.pitch, self._colors()
        stamps = {FREE: self._stamp(None)}
        for number, color in enumerate(colors):
            stamps[number + FREE + 1] = self._stamp(color)
        for square, what in enumerate(drawn):
            if what:
                row, column = divmod(square, columns)
                painter.drawPixmap(column * pitch, row * pitch, stamps[what])

    def _stamp(self, color: QColor | None) -> QPixmap:
        """A square with round corners; a free one is an outline."""
        ratio, radius = self.devicePixelRatioF(), self._theme.px(2)
        stamp = QPixmap(QSize(self.grid.pitch, self.grid.pitch) * ratio)
        stamp.setDevicePixelRatio(ratio)
        stamp.fill(QColor(self._theme.colors.card))
        painter = QPainter(stamp)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if color is None:
            painter.setPen(QPen(QColor(self._theme.colors.line), 1))
            painter.drawRoundedRect(self._rect(0).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawRoundedRect(self._rect(0), radius, radius)
        painter.end()
        return stamp

    def _paint_square(self, painter: QPainter, drawn: bytearray, size: QSize) -> None:
        """A picture of one dot per square, made larger; then the gaps between."""
        columns, rows, pitch = self.grid.columns, self.grid.rows, self.grid.pitch
        card, line = QColor(self._theme.colors.card), QColor(self._theme.colors.line)
        dots = bytes(drawn)  # the image reads them where they are
        image = QImage(dots, columns, rows, columns, QImage.Format.Format_Indexed8)
        image.setColorTable([each.rgb() for each in (card, line, *self._colors())])
        painter.drawImage(QRectF(QPointF(), size.toSizeF()), image)
        for column in range(1, columns + 1):
            x = column * pitch - self._gap
            painter.fillRect(x, 0, self._gap, size.height(), card)
        for row in range(1, rows + 1):
            y = row * pitch - self._gap
            painter.fillRect(0, y, size.width(), self._gap, card)

    # --- pointer and keyboard -------------------------------------------------------------------

    def square_at(self, point: QPointF) -> int:
        """-1 where there is none."""
        column, row = int(point.x() // self.grid.pitch), int(point.y() // self.grid.pitch)
        square = row * self.grid.columns + column
        is_there = 0 <= column < self.grid.columns and 0 <= square < self.grid.n_squares
        return square if is_there and self._cells is not None else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self.square_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(-1)

    def _hover(self, square: int) -> None:
        if square != self._hovered:
            self._hovered = square
            self._say()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        square = self.square_at(event.position())
        if event.button() is Qt.MouseButton.LeftButton and square >= 0:
            self._current = square
            self._say()
            self.chosen.emit(square * self.grid.per_square)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        to = self._step_of(event)
        if to is not None:
            self._current = min(max(to, 0), self.grid.n_squares - 1)
            self._hovered = -1
            self._say()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            if self._current >= 0:
                self.chosen.emit(self._current * self.grid.per_square)
        else:
            super().keyPressEvent(event)

    def _step_of(self, event: QKeyEvent) -> int | None:
        """The square that a key leads to."""
        at, key = max(self._current, 0), event.key()
        is_far = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if is_far and key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            return self._next_part(at, 1 if key == Qt.Key.Key_Right else -1)
        steps = {
            Qt.Key.Key_Left: at - 1,
            Qt.Key.Key_Right: at + 1,
            Qt.Key.Key_Up: at - self.grid.columns,
            Qt.Key.Key_Down: at + self.grid.columns,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: self._last_used(),
        }
        return steps.get(Qt.Key(key))

    def _last_used(self) -> int:
        used = 0 if self._cells is None else self._cells.n_used
        return max(used - 1, 0) // self.grid.per_square

    def _next_part(self, square: int, way: int) -> int:
        """The first square of the next stretch, or of the one before."""
        firsts = [] if self._cells is None else [s.first for s in self._cells.stretches]
        at = square * self.grid.per_square
        found = [f for f in firsts if (f > at if way > 0 else f < at)]
        if not found:
            return self._last_used() if way > 0 else 0
        return (min(found) if way > 0 else max(found)) // self.grid.per_square

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._current = max(self._current, 0)
        self._say()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._say()

    def _say(self) -> None:
        self.update()
        self.pointed.emit(self.cell)
