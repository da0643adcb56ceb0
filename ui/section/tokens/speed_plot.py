"""Tokens per second over the time of a reply, as a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme
from ui.widgets.kit import rest_timer

HEIGHT_PX = 96
UNITS: Final = ("seconds after the first token", "tokens/s")
"""Of the two axes, across and up."""
MOST_TICKS: Final = (6, 3)
HEADROOM: Final = 1.08
"""The line stays below the upper edge."""
DRAWN_MS = 1000
"""A line that grows is drawn at most so often."""


class SpeedPlot(QWidget):
    """`show_speeds` takes (seconds after the first token, tokens/s)."""

    drawn = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._speeds: Sequence[tuple[float, float]] = ()
        self._timer = rest_timer(self, self._draw, DRAWN_MS)
        self.setObjectName("speed_plot")
        self.setAccessibleName("Tokens per second over time")
        theme.changed.connect(self._fit)
        self._fit()

    def show_speeds(self, speeds: Sequence[tuple[float, float]]) -> None:
        if speeds == self._speeds:
            return
        is_longer = bool(self._speeds) and bool(speeds)
        self._speeds = speeds
        if not is_longer:
            self._draw()
        elif not self._timer.isActive():
            self._timer.start()

    @property
    def ends(self) -> tuple[float, float]:
        """Seconds and tokens/s at the far ends of the axes, which begin at 0."""
        if not self._speeds:
            return 1.0, 1.0
        top = max(rate for _, rate in self._speeds) * HEADROOM
        return self._speeds[-1][0] or 1.0, top or 1.0

    @property
    def box(self) -> QRectF:
        """Where the line is, in pixels; left of it and below are figures and units."""
        px, line = self._theme.px, QFontMetrics(self._font()).height()
        # Half of the top tick's figure stands above the box, half of the last one beside it.
        box = QRectF(px(50), px(6), self.width() - px(50) - px(14), 0)
        box.setBottom(self.height() - 2 * line - px(3))
        return box

    @property
    def points(self) -> list[QPointF]:
        """The corners of the line, in pixels."""
        box, (last_s, top) = self.box, self.ends
        return [
            QPointF(
                box.left() + box.width() * at / last_s, box.bottom() - box.height() * rate / top
            )
            for at, rate in self._speeds
        ]

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._speeds:
            return
        theme, box, (last_s, top) = self._theme, self.box, self.ends
        painter = QPainter(self)
        painter.setFont(self._font())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.colors.line), theme.px(1)))
        painter.drawLine(box.topLeft(), box.bottomLeft())
        painter.drawLine(box.bottomLeft(), box.bottomRight())
        painter.setPen(QColor(theme.colors.dim))
        metrics = painter.fontMetrics()
        gap, line = theme.px(3), metrics.height()
        for rate in ticks(top, MOST_TICKS[1]):
            y = box.bottom() - box.height() * rate / top
            left_of = QRectF(0, y - line / 2, box.left() - 2 * gap, line)
            painter.drawText(left_of, Qt.AlignmentFlag.AlignRight, f"{rate:g}")
        for at in ticks(last_s, MOST_TICKS[0]):
            x, width = box.left() + box.width() * at / last_s, metrics.horizontalAdvance(f"{at:g}")
            painter.drawText(QPointF(x - width / 2, box.bottom() + metrics.ascent()), f"{at:g}")
        beneath = QRectF(box.left(), box.bottom() + line, box.width(), line)
        painter.drawText(beneath, Qt.AlignmentFlag.AlignCenter, UNITS[0])
        painter.save()
        painter.translate(0, box.bottom())
        painter.rotate(-90)
        beside = QRectF(-gap, 0, box.height() + 2 * gap, line)
        painter.drawText(beside, Qt.AlignmentFlag.AlignCenter, UNITS[1])
        painter.restore()
        painter.setPen(QPen(QColor(theme.colors.accent), theme.px(1.5)))
        painter.drawPolyline(QPolygonF(self.points))

    def _font(self) -> QFont:
        font = self._theme.font_small()
        font.setPixelSize(max(8, self._theme.px(11)))
        return font

    def _draw(self) -> None:
        self._timer.stop()
        self.setAccessibleDescription(described(self._speeds))
        self.update()
        self.drawn.emit()

    def _fit(self) -> None:
        self.setFixedHeight(self._theme.px(HEIGHT_PX))
        self.update()


def ticks(end: float, most: int) -> list[float]:
    """Round values from 0 to `end` at even steps: at most `most` of them besides 0.

    >>> ticks(59.4, 3), ticks(0.14, 6)
    ([0.0, 20.0, 40.0], [0.0, 0.05, 0.1])
    """
    power = 10.0 ** math.floor(math.log10(end / most))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * (most + 1) > end)
    # Rounded: 3 × 0.1 would be told as 0.30000000000000004.
    return [round(step * number, 12) for number in range(math.floor(end / step * (1 + 1e-9)) + 1)]


def described(speeds: Sequence[tuple[float, float]]) -> str:
    """The line in words.

    >>> described([(0.5, 40.0), (1.0, 50.0)])
    'From 40.0 to 50.0 tokens/s in 1.0 s'
    """
    if not speeds:
        return ""
    rates = [rate for _, rate in speeds]
    return f"From {min(rates):.1f} to {max(rates):.1f} tokens/s in {speeds[-1][0]:.1f} s"
