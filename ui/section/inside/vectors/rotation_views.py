"""A rotation, painted: the wave of each pair of dimensions along the text, and dials of some."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QImage,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QWidget

from app.insight.inside.position import angles, pairs_of, wavelengths
from app.insight.inside.waves import some_of, waves
from ui.look.theme import Theme
from ui.section.inside.pictures import signed_image
from ui.section.inside.rows import LEFT, Picture
from ui.widgets.figures import signed

if TYPE_CHECKING:
    from app.insight.inside.position import Rope
    from app.insight.inside.waves import Values

LEAST_PX: Final = 72
MOST_PX: Final = 160
PAIR_PX: Final = 3
N_DIALS: Final = 8
MOST_COLUMN_PX: Final = 64
PAIR: Final = "pair"
TURN: Final = "turned"


def about_pair(rope: Rope, pair: int) -> str:
    """Which dimensions it is, and how fast it turns.

    >>> from app.insight.inside.position import Rope
    >>> about_pair(Rope(4, base=100.0, order="halves"), 1)
    'Pair 1 (dimensions 1 and 3) comes round every 62.8 tokens'
    """
    long = float(wavelengths(rope)[pair])
    name = f"Pair {pair}"
    if rope.order is not None:
        one, other = pairs_of(rope)[pair].tolist()
        name += f" (dimensions {one} and {other})"
    if not math.isfinite(long):
        return f"{name} stands still"
    return f"{name} comes round every {long:,.1f} tokens"


class WaveView(Picture):
    """A row for each pair, the fastest at the top; a column for each position, or for as many as
    share a pixel. The cosine of the angle: blue above zero, ochre below."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.setObjectName("inside_position_waves")
        self.rope: Rope | None = None
        self.n_positions = 0
        self.position = 0
        self._image = QImage()
        theme.changed.connect(self._draw)

    def show_rope(self, rope: Rope, n_positions: int, position: int) -> None:
        """`position`: where the token is, which is marked."""
        is_other = (rope, n_positions) != (self.rope, self.n_positions)
        self.rope, self.n_positions, self.position = rope, n_positions, position
        self.setAccessibleName(
            f"Waves of {rope.n_pairs} pairs over {n_positions:,} positions, marked at {position:,}"
        )
        if is_other:
            self._draw()
        self.update()

    def _draw(self) -> None:
        self._image = QImage()
        if self.rope is not None and self.rope.n_pairs and self.n_positions and self.width() > 0:
            found = waves(self.rope, self.n_positions, self.width()).astype(np.float32)
            self._image = signed_image(found, self._theme.colors, 1.0)
        self.updateGeometry()
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._draw()

    def sizeHint(self) -> QSize:
        px = self._theme.px
        n_pairs = 0 if self.rope is None else self.rope.n_pairs
        height = min(max(n_pairs * px(PAIR_PX), px(LEAST_PX)), px(MOST_PX))
        return QSize(px(240), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(120), self.sizeHint().height())

    def x_of(self, position: int) -> float:
        """The middle of a position's column."""
        return (position + 0.5) * self.width() / max(self.n_positions, 1)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._image.isNull() or self.is_pending:
            return
        painter, colors, px = QPainter(self), self._theme.colors, self._theme.px
        painter.drawImage(self.rect(), self._image)
        wide = max(self.width() / self.n_positions, px(3))
        mark = QRectF(self.x_of(self.position) - wide / 2, 0.5, wide, self.height() - 1)
        painter.setPen(QPen(QColor(colors.ink), px(1)))
        painter.drawRect(mark)

    def words_at(self, point: QPointF) -> str:
        rope = self.rope
        if rope is None or not rope.n_pairs or not self.n_positions:
            return ""
        pair = min(max(int(point.y() / self.height() * rope.n_pairs), 0), rope.n_pairs - 1)
        at = int(point.x() / max(self.width(), 1) * self.n_positions)
        at = min(max(at, 0), self.n_positions - 1)
        turn = math.degrees(float(angles(rope, at)[pair]))
        return f"{about_pair(rope, pair)}\nat position {at:,}: {turn:,.1f}° ({turn % 360:.0f}°)"


class Dials(Picture):
    """Some pairs of a query, and below it of a key: where each points before (dim) and after. Their
    lengths are told under the pointer; drawn are directions."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.setObjectName("inside_position_dials")
        self.rope: Rope | None = None
        self.position = 0
        self.pairs: list[int] = []
        self.rows: list[tuple[str, Values, Values]] = []
        theme.changed.connect(self.updateGeometry)

    def show_hands(self, rope: Rope, position: int, rows: list[tuple[str, Values, Values]]) -> None:
        """`rows`: name, hands before and after, each [n_pairs, 2]."""
        self.rope, self.position, self.rows = rope, position, rows
        self.pairs = some_of(rope.n_pairs, N_DIALS)
        self.setAccessibleName("Hands of some pairs, before and after the rotation")
        self.setAccessibleDescription(
            "; ".join(f"pair {pair} turned by {self._degrees(pair):.0f}°" for pair in self.pairs)
        )
        self.updateGeometry()
        self.update()

    def _degrees(self, pair: int) -> float:
        assert self.rope is not None
        return math.degrees(float(angles(self.rope, self.position)[pair]))

    # --- places ---------------------------------------------------------------------------------

    @property
    def _line(self) -> float:
        return QFontMetricsF(self._theme.font_small()).height()

    @property
    def _name_width(self) -> float:
        metrics = QFontMetricsF(self._theme.font_small())
        names = [PAIR, TURN, *(name for name, _, _ in self.rows)]
        return max(map(metrics.horizontalAdvance, names)) + 6

    @property
    def _room(self) -> float:
        """The width of a column."""
        room = (self.width() - self._name_width) / max(len(self.pairs), 1)
        return min(room, self._theme.px(MOST_COLUMN_PX))

    def sizeHint(self) -> QSize:
        px = self._theme.px
        height = 2 * self._line + max(len(self.rows), 1) * px(40)
        return QSize(px(240), round(height))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(120), self.sizeHint().height())

    def dial(self, row: int, at: int) -> QRectF:
        """The square of a row's dial, the `at`th from the left."""
        side = min(self._room, self._theme.px(40)) - 6
        left = self._name_width + at * self._room + (self._room - side) / 2
        return QRectF(left, self._line + row * self._theme.px(40) + 3, side, side)

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self.rope is None or self.is_pending or not self.rows:
            return
        painter, colors = QPainter(self), self._theme.colors
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._theme.font_small())
        below = self._line + len(self.rows) * self._theme.px(40)
        for at, pair in enumerate(self.pairs):
            column = self.dial(0, at)
            room = QRectF(column.center().x() - 40, 0, 80, self._line)
            painter.setPen(QColor(colors.dim))
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, f"{pair}")
            painter.setPen(QColor(colors.ink))
            room.moveTop(below)
            words = f"{self._degrees(pair) % 360:.0f}°"
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, words)
        painter.setPen(QColor(colors.dim))
        for top, name in ((0.0, PAIR), (below, TURN)):
            painter.drawText(QRectF(0, top, self._name_width, self._line), LEFT, name)
        for row, (name, before, after) in enumerate(self.rows):
            first = self.dial(row, 0)
            painter.setPen(QColor(colors.dim))
            painter.drawText(QRectF(0, first.top(), self._name_width, first.height()), LEFT, name)
            for at, pair in enumerate(self.pairs):
                self._paint_dial(painter, self.dial(row, at), before[pair], after[pair])

    def _paint_dial(self, painter: QPainter, rect: QRectF, before: Values, after: Values) -> None:
        colors, px = self._theme.colors, self._theme.px
        painter.setPen(QPen(QColor(colors.line), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawEllipse(rect)
        for hand, color, wide in ((before, colors.dim, 1.0), (after, colors.accent, 2.0)):
            long = float(np.linalg.norm(hand))
            if not (math.isfinite(long) and long > 0):
                continue
            x, y = (hand / long * rect.width() / 2).tolist()
            painter.setPen(QPen(QColor(color), px(1) * wide))
            painter.drawLine(rect.center(), rect.center() + QPointF(x, -y))

    def words_at(self, point: QPointF) -> str:
        at = int((point.x() - self._name_width) // max(self._room, 1))
        if self.rope is None or not 0 <= at < len(self.pairs) or point.x() < self._name_width:
            return ""
        pair = self.pairs[at]
        turn = self._degrees(pair)
        each = turn / self.position if self.position else 0.0
        lines = [about_pair(self.rope, pair)]
        lines.append(f"turned by {self.position:,} × {each:,.4g}° = {turn:,.1f}°")
        for name, before, after in self.rows:
            ends = (", ".join(signed(x, ".3f") for x in vector[pair]) for vector in (before, after))
            lines.append(f"{name}: " + " → ".join(f"({end})" for end in ends))
        return "\n".join(lines)
