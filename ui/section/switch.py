"""A switch: on or off, in the theme's colours. Its state is also a shape, not a colour alone."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QWidget

from ui.look.theme import Theme
from ui.widgets.elided import tip_text

WIDTH_PX = 26
HEIGHT_PX = 14
_EDGE_PX = 3


class Switch(QAbstractButton):
    """`clicked(checked)` is the user alone, `toggled` everybody."""

    def __init__(self, theme: Theme, spoken: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setCheckable(True)
        self.setAccessibleName(spoken)
        self.setToolTip(tip_text(spoken))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        self.setFixedSize(self.sizeHint())
        self.update()

    def sizeHint(self) -> QSize:
        px, edge = self._theme.px, 2 * _EDGE_PX
        return QSize(px(WIDTH_PX + edge), px(HEIGHT_PX + edge))

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        px, colors = self._theme.px, self._theme.colors
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edge = px(_EDGE_PX)
        track = QRectF(self.rect()).adjusted(edge, edge, -edge, -edge)
        radius = track.height() / 2
        is_on = self.isChecked()
        painter.setPen(QPen(QColor(colors.accent if is_on else colors.dim), px(1)))
        painter.setBrush(QColor(colors.accent) if is_on else Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(track, radius, radius)
        gap = px(3)
        size = track.height() - 2 * gap
        left = track.right() - gap - size if is_on else track.left() + gap
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.on_accent if is_on else colors.dim))
        painter.drawEllipse(QRectF(left, track.top() + gap, size, size))
        if self.hasFocus():
            painter.setPen(QPen(QColor(colors.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            ring = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(ring, radius + edge, radius + edge)
