"""The best candidates after a stage as bars, and the draw as a mark on what was left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.look.theme import Theme
from ui.widgets.elided import tip_text

ROW_PX: Final = 18
FIGURE_PX: Final = 56
_NAME_SHARE: Final = 0.32
_OTHERS: Final = 0.45
"""How strong the bars of the others are."""


@dataclass(frozen=True, slots=True)
class Bar:
    """`share` None: it cannot be told."""

    name: str
    share: float | None
    is_drawn: bool


def percent(share: float | None) -> str:
    """
    >>> percent(0.7731), percent(0.0000004), percent(None)
    ('77.3%', '< 0.1%', '–')
    >>> percent(0.99996), percent(1.0)
    ('> 99.9%', '100.0%')
    """
    if share is None:
        return "–"
    if 0.9995 <= share < 1 - 5e-7:
        return "> 99.9%"
    return "< 0.1%" if 0 < share < 0.0005 else f"{100 * share:.1f}%"


class ShareBars(QWidget):
    """A bar for each, as long as its share. The drawn one has the accent's full colour."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._bars: tuple[Bar, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setObjectName("share_bars")
        theme.changed.connect(self.updateGeometry)

    @property
    def bars(self) -> tuple[Bar, ...]:
        return self._bars

    def show_bars(self, bars: Sequence[Bar]) -> None:
        if tuple(bars) != self._bars:
            n_before, self._bars = len(self._bars), tuple(bars)
            spoken = [f"{b.name} {percent(b.share)}{', drawn' if b.is_drawn else ''}" for b in bars]
            self.setAccessibleName("; ".join(spoken))
            if len(self._bars) != n_before:
                self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self._theme.px(ROW_PX) * len(self._bars))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        px, colors = self._theme.px, self._theme.colors
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        name_width = self.width() * _NAME_SHARE
        figure_width = px(FIGURE_PX)
        room = max(self.width() - name_width - figure_width - px(12), 1.0)
        mono, small = self._theme.font_mono(12), self._theme.font_small()
        for row, bar in enumerate(self._bars):
            top, height = float(row * px(ROW_PX)), float(px(ROW_PX))
            painter.setFont(mono)
            painter.setPen(QColor(colors.ink if bar.is_drawn else colors.dim))
            name = painter.fontMetrics().elidedText(
                bar.name, Qt.TextElideMode.ElideRight, int(name_width)
            )
            left = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
            painter.drawText(QRectF(0, top, name_width, height), left, name)
            painter.setFont(small)
            right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            place = QRectF(self.width() - figure_width, top, figure_width, height)
            painter.drawText(place, right, percent(bar.share))
            if bar.share:
                color = QColor(colors.accent)
                if not bar.is_drawn:
                    color.setAlphaF(_OTHERS)
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(color)
                thick = px(7)
                line = QRectF(
                    name_width + px(6),
                    top + (height - thick) / 2,
                    max(room * min(bar.share, 1.0), px(2)),
                    thick,
                )
                painter.drawRoundedRect(line, px(2), px(2))


@dataclass(frozen=True, slots=True)
class Segment:
    """A candidate from `start` to `end` of the cumulative distribution."""

    name: str
    start: float
    end: float
    is_drawn: bool


class DrawMark(QWidget):
    """What was left, side by side from 0 to 1, and where the number fell."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._segments: tuple[Segment, ...] = ()
        self._uniform = 0.0
        self.setObjectName("draw_mark")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    @property
    def uniform(self) -> float:
        return self._uniform

    def show_draw(self, segments: Sequence[Segment], uniform: float) -> None:
        self._segments, self._uniform = tuple(segments), uniform
        drawn = next((s for s in segments if s.is_drawn), None)
        if drawn is not None:
            self.setAccessibleName(
                f"The number {uniform:.4f} falls on {drawn.name}, which covers {drawn.start:.4f} "
                f"to {drawn.end:.4f}"
            )
            self.setToolTip(tip_text(self.accessibleName()))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self._theme.px(34))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        px, colors = self._theme.px, self._theme.colors
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._theme.font_mono(12))
        height, width = float(px(22)), float(self.width())
        for at, each in enumerate(self._segments):
            place = QRectF(each.start * width, 0, (each.end - each.start) * width, height)
            color = QColor(colors.accent)
            color.setAlphaF(1.0 if each.is_drawn else 0.22 if at % 2 else 0.34)
            painter.fillRect(place, color)
            if place.width() > px(20):
                painter.setPen(QColor(colors.on_accent if each.is_drawn else colors.ink))
                room = place.adjusted(px(3), 0, -px(3), 0)
                text = painter.fontMetrics().elidedText(
                    each.name, Qt.TextElideMode.ElideRight, int(room.width())
                )
                painter.drawText(room, Qt.AlignmentFlag.AlignCenter, text)
        x, size = self._uniform * width, float(px(5))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.ink))
        painter.drawRect(QRectF(x - 0.75, 0, 1.5, height + px(2)))
        painter.drawPolygon(
            QPolygonF(
                [
                    QPointF(x, height),
                    QPointF(x - size, height + px(9)),
                    QPointF(x + size, height + px(9)),
                ]
            )
        )
