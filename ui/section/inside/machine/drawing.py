"""The rows of the machine, painted by hand in one widget; see `rows`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.amounts import bytes_words, count_words, ms_words
from ui.look.theme import Theme
from ui.section.inside.machine.rows import BlockRow, FoldRow, HeadRow, MachineRow, PartRow, words_of
from ui.section.inside.rows import LEFT, RIGHT, Picture, bring_into_view, elided

_LINE_PX: Final = 20
_GAP_PX: Final = 4
_PART_PX: Final = 16
_TIME_PX: Final = 14
_SQUARE_PX: Final = 7
_BRACKET_PX: Final = 4
_MOST_SQUARES: Final = 1024
"""A header may claim any number; more are not drawn, and the words say it still."""
_STREAM_PX: Final = 6
"""Where the stream runs."""
_INDENT_PX: Final = 18
_COLUMNS: Final = (0.3, 0.24, 0.18, 0.18, 0.1)
"""Of a tensor: name, shape, type, bytes, bits."""


class MachineDrawing(Picture):
    """`opened`: the key of a block or of folded layers that is clicked, or chosen by Enter."""

    opened = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.rows: list[MachineRow] = []
        self.chosen = ""
        self._hovered = ""
        self._longest_ms = 0.0
        self.setObjectName("inside_machine_drawing")
        self.setAccessibleName("The blocks of this model")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        policy = self.sizePolicy()
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        theme.changed.connect(self._fit)

    def show_rows(self, rows: Sequence[MachineRow]) -> None:
        self.rows = list(rows)
        times = [row.ms for row in rows if isinstance(row, BlockRow) and row.ms is not None]
        self._longest_ms = max(times, default=0.0)
        if self.chosen and self.chosen not in self._keys():
            self.chosen = ""
        self._fit()
        self._describe()

    # --- where things are -----------------------------------------------------------------------

    def _keys(self) -> list[str]:
        return [key for row in self.rows if (key := _key_of(row))]

    def row_heights(self, width: int) -> list[float]:
        return [self._height(row, width) for row in self.rows]

    def _height(self, row: MachineRow, width: int) -> float:
        px = self._theme.px
        if isinstance(row, PartRow | HeadRow):
            return px(_PART_PX)
        height: float = px(_LINE_PX + _GAP_PX)
        if isinstance(row, BlockRow):
            height += self._squares_height(row, width)
            height += px(_TIME_PX) if row.ms is not None else 0
        return height

    def _squares_height(self, row: BlockRow, width: int) -> float:
        px = self._theme.px
        if not 0 < _n_squares(row) <= _MOST_SQUARES:
            return 0
        if row.heads is not None:
            return px(_SQUARE_PX + _BRACKET_PX + 2)
        lines = math.ceil(_n_squares(row) / self._per_line(width))
        return lines * px(_SQUARE_PX + 1) + px(2)

    def _per_line(self, width: int) -> int:
        px = self._theme.px
        return max(int((width - px(_INDENT_PX)) / px(_SQUARE_PX + 1)), 1)

    def rect_of(self, key: str) -> QRectF:
        """Where a row with this key is; empty where there is none."""
        top = 0.0
        for row, height in zip(self.rows, self.row_heights(self.width()), strict=True):
            if _key_of(row) == key:
                return QRectF(0, top, self.width(), height)
            top += height
        return QRectF()

    def row_at(self, y: float) -> MachineRow | None:
        for row, height in zip(self.rows, self.row_heights(self.width()), strict=True):
            if y < height:
                return row
            y -= height
        return None

    def _fit(self) -> None:
        self.updateGeometry()
        self.update()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return math.ceil(sum(self.row_heights(width)))

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(240), self.heightForWidth(max(self.width(), 1)))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self.sizeHint().height())

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        colors, px = self._theme.colors, self._theme.px
        painter = QPainter(self)
        painter.setFont(self._theme.font_small())
        heights = self.row_heights(self.width())
        painter.setPen(QPen(QColor(colors.line), px(2)))
        if self.rows:
            x = px(_STREAM_PX)
            painter.drawLine(QPointF(x, px(6)), QPointF(x, sum(heights) - px(10)))
        top = 0.0
        for row, height in zip(self.rows, heights, strict=True):
            rect = QRectF(0, top, self.width(), height)
            top += height
            if not rect.toAlignedRect().intersects(event.rect()):
                continue
            key = _key_of(row)
            if key and key == self._hovered:
                painter.fillRect(rect.adjusted(px(_INDENT_PX), 0, 0, 0), QColor(colors.hover))
            if isinstance(row, FoldRow):
                self._paint_fold(painter, row, rect)
            elif isinstance(row, BlockRow):
                self._paint_block(painter, row, rect)
            elif isinstance(row, PartRow):
                self._paint_part(painter, row, rect)
            else:
                self._paint_head(painter, row, rect)
            if self.hasFocus() and key and key == self.chosen:
                painter.setPen(QPen(QColor(colors.accent), 1))
                painter.drawRect(rect.adjusted(px(_INDENT_PX) - 2, 0.5, -0.5, -0.5))

    def _paint_fold(self, painter: QPainter, row: FoldRow, rect: QRectF) -> None:
        colors, px = self._theme.colors, self._theme.px
        line = rect.adjusted(px(_INDENT_PX), 0, 0, 0)
        painter.setPen(QColor(colors.dim))
        painter.drawText(line, RIGHT, row.figure)
        painter.setPen(QColor(colors.accent if row.key else colors.ink))
        left = line.adjusted(0, 0, -self._room(painter, row.figure), 0)
        font = self._theme.font_small()
        font.setBold(not row.key)
        painter.setFont(font)
        elided(painter, left, row.words)
        painter.setFont(self._theme.font_small())

    def _room(self, painter: QPainter, figure: str) -> float:
        return painter.fontMetrics().horizontalAdvance(figure) + self._theme.px(8)

    def _paint_block(self, painter: QPainter, row: BlockRow, rect: QRectF) -> None:
        colors, px = self._theme.colors, self._theme.px
        line = QRectF(px(_INDENT_PX), rect.top() + px(1), 0, px(_LINE_PX))
        line.setRight(rect.right())
        painter.setPen(QPen(QColor(colors.line), px(2)))
        middle = line.center().y()
        painter.drawLine(QPointF(px(_STREAM_PX), middle), QPointF(line.left(), middle))
        box = QRectF(line.left(), line.top(), max(line.width() * row.share, px(2)), line.height())
        painter.fillRect(box, self._fill(row.kind))
        painter.fillRect(QRectF(box.left(), box.top(), px(2), box.height()), self._strong(row.kind))
        figure = self._figure(row)
        painter.setPen(QColor(colors.dim))
        painter.drawText(line.adjusted(0, 0, -px(2), 0), RIGHT, figure)
        painter.setPen(QColor(colors.ink))
        words = line.adjusted(px(8), 0, -self._room(painter, figure), 0)
        painter.drawText(words, LEFT, row.words)
        taken = painter.fontMetrics().horizontalAdvance(row.words) + px(8)
        if row.detail and words.width() > taken + px(30):
            painter.setPen(QColor(colors.dim))
            elided(painter, words.adjusted(taken, 0, 0, 0), row.detail)
        top = line.bottom() + px(2)
        if self._squares_height(row, self.width()) and row.heads is not None:
            self._paint_heads(painter, row, QRectF(line.left(), top, line.width(), 0))
        elif self._squares_height(row, self.width()):
            self._paint_experts(painter, row, QPointF(line.left(), top))
        if row.ms is not None:
            self._paint_times(painter, row, rect, line)

    def _figure(self, row: BlockRow) -> str:
        if not row.n_params:
            return ""
        if self.width() < self._theme.px(520):
            return f"{count_words(row.n_params)} · {row.bits:.1f} bits"
        return (
            f"{count_words(row.n_params)} · {row.share:.0%} · {bytes_words(row.size_bytes)} · "
            f"{row.bits:.2f} bits"
        )

    def _strong(self, kind: str) -> QColor:
        colors = self._theme.colors
        return QColor({"attention": colors.accent, "ffn": colors.second}.get(kind, colors.dim))

    def _fill(self, kind: str) -> QColor:
        color = self._strong(kind)
        color.setAlphaF(0.22)
        return color

    def _paint_heads(self, painter: QPainter, row: BlockRow, area: QRectF) -> None:
        """A square for each head, a bracket below those that share a KV head."""
        assert row.heads is not None
        px = self._theme.px
        n_head, n_kv = row.heads.n_head, row.heads.n_kv
        per_group = max(n_head // max(n_kv, 1), 1)
        n_groups = math.ceil(n_head / per_group)
        gap = px(4) if n_groups > 1 else 0
        pitch = min(px(_SQUARE_PX + 1), (area.width() - gap * n_groups) / n_head)
        side = max(pitch - 1, 1.0)
        painter.setPen(QPen(self._strong(row.kind), 1))
        for group in range(n_groups):
            heads = range(group * per_group, min((group + 1) * per_group, n_head))
            left = area.left() + gap * group + pitch * heads[0]
            for at in range(len(heads)):
                square = QRectF(left + at * pitch, area.top(), side, px(_SQUARE_PX))
                painter.fillRect(square, self._strong(row.kind))
            if n_kv < n_head:
                low = area.top() + px(_SQUARE_PX) + 2
                right = left + pitch * len(heads) - 1
                foot = low + px(_BRACKET_PX) - 2
                painter.drawPolyline(
                    [
                        QPointF(left, low),
                        QPointF(left, foot),
                        QPointF(right, foot),
                        QPointF(right, low),
                    ]
                )

    def _paint_experts(self, painter: QPainter, row: BlockRow, at: QPointF) -> None:
        """Those that all tokens pass are filled."""
        assert row.hidden is not None
        px = self._theme.px
        side, per_line = px(_SQUARE_PX), self._per_line(self.width())
        painter.setPen(QPen(self._strong(row.kind), 1))
        for number in range(row.hidden.n_expert + row.hidden.n_shared):
            x = at.x() + number % per_line * (side + px(1))
            y = at.y() + number // per_line * (side + px(1))
            square = QRectF(x, y, side, side)
            if number < row.hidden.n_shared:
                painter.fillRect(square, self._strong(row.kind))
            else:
                painter.drawRect(square.adjusted(0.5, 0.5, -1.5, -1.5))

    def _paint_times(self, painter: QPainter, row: BlockRow, rect: QRectF, line: QRectF) -> None:
        """Below everything else of the block: a stretch for each layer."""
        colors, px = self._theme.colors, self._theme.px
        area = QRectF(line.left(), rect.bottom() - px(_TIME_PX + 2), line.width(), px(_TIME_PX))
        painter.setPen(QColor(colors.ink))
        painter.drawText(area.adjusted(0, 0, -px(2), 0), RIGHT, ms_words(row.ms or 0.0))
        scale = (area.width() - px(64)) / (self._longest_ms or 1.0)
        top, left = area.center().y() - px(1.5), area.left()
        for ms in row.times:
            # The gap between two layers is left out where it would hide them.
            width = max(ms * scale - (1 if ms * scale > px(2) else 0), 0.5)
            painter.fillRect(QRectF(left, top, width, px(3)), QColor(colors.ink))
            left += ms * scale

    def _paint_head(self, painter: QPainter, row: HeadRow, rect: QRectF) -> None:
        painter.setPen(QColor(self._theme.colors.dim))
        words = row.note or "tensor"
        if row.note.startswith("Uses"):
            elided(painter, rect.adjusted(self._theme.px(_INDENT_PX + 8), 0, 0, 0), words)
        else:
            self._paint_cells(painter, rect, (words, "shape", "type", "size", "bits"))

    def _paint_part(self, painter: QPainter, row: PartRow, rect: QRectF) -> None:
        painter.setPen(QColor(self._theme.colors.ink))
        size, types = bytes_words(row.size_bytes), row.types.split(", ")
        # Layers may store the same tensor in other types: all of them where there is room.
        room = (rect.width() - self._theme.px(_INDENT_PX + 8)) * _COLUMNS[2] - self._theme.px(6)
        is_wide = painter.fontMetrics().horizontalAdvance(row.types) <= room
        shown = row.types if is_wide or len(types) == 1 else f"{types[0]} +{len(types) - 1}"
        self._paint_cells(painter, rect, (row.name, row.shape, shown, size, f"{row.bits:.1f}"))

    def _paint_cells(self, painter: QPainter, rect: QRectF, cells: Sequence[str]) -> None:
        px = self._theme.px
        left: float = px(_INDENT_PX + 8)
        room = rect.width() - left - px(2)
        for number, (words, share) in enumerate(zip(cells, _COLUMNS, strict=True)):
            cell = QRectF(left, rect.top(), room * share - px(4), rect.height())
            left += room * share
            flags = LEFT if number < 3 else RIGHT
            elided(painter, cell, words, flags)

    # --- pointer and keys -----------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().y())
        self._hover("" if row is None else _key_of(row))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover("")

    def _hover(self, key: str) -> None:
        if key != self._hovered:
            self._hovered = key
            self.setCursor(Qt.CursorShape.PointingHandCursor if key else Qt.CursorShape.ArrowCursor)
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().y())
        key = "" if row is None else _key_of(row)
        if event.button() == Qt.MouseButton.LeftButton and key:
            self._choose(key)
            self.opened.emit(key)
        else:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = self._keys()
        pressed = Qt.Key(event.key())
        is_plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if is_plain and keys and pressed in _STEPS:
            start = keys.index(self.chosen) if self.chosen in keys else -1
            if start < 0 and _STEPS[pressed] < 0:
                start = len(keys)
            self._choose(keys[min(max(start + _STEPS[pressed], 0), len(keys) - 1)])
        elif is_plain and self.chosen and pressed in _OPENS:
            self.opened.emit(self.chosen)
        else:
            super().keyPressEvent(event)

    def _choose(self, key: str) -> None:
        self.chosen = key
        self._describe()
        self.update()
        bring_into_view(self, self.rect_of(key), self._theme.px(3 * _LINE_PX))

    def _describe(self) -> None:
        rows = [row for row in self.rows if _key_of(row) == self.chosen] if self.chosen else []
        self.setAccessibleDescription(words_of(rows[0]) if rows else "")

    def words_at(self, point: QPointF) -> str:
        row = self.row_at(point.y())
        return "" if row is None else words_of(row)


_STEPS: Final = {
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Home: -(10**6),
    Qt.Key.Key_End: 10**6,
}
_OPENS: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


def _n_squares(row: BlockRow) -> int:
    """Heads, or experts."""
    if row.heads is not None:
        return row.heads.n_head
    hidden = row.hidden
    return 0 if hidden is None or not hidden.n_expert else hidden.n_expert + hidden.n_shared


def _key_of(row: MachineRow) -> str:
    return row.key if isinstance(row, FoldRow | BlockRow) else ""
