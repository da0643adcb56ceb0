"""A quiet line around what the tour's card talks about. It takes no clicks and hides nothing."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QRegion
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme

LINE_PX: Final = 2
GAP_PX: Final = 3
RADIUS_PX: Final = 6


class Ring(QWidget):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("tour_outline")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()

    def show_around(self, aim: QRect, window: QRect) -> None:
        """Around a part of the window, and inside of it; an empty one: none."""
        gap, inset = self._theme.px(GAP_PX), self._theme.px(LINE_PX + RADIUS_PX)
        if aim.isEmpty():
            self.hide()
            return
        self.setGeometry(aim.adjusted(-gap, -gap, gap, gap).intersected(window))
        # What lies inside is painted without it.
        inside = self.rect().adjusted(inset, inset, -inset, -inset)
        self.setMask(QRegion(self.rect()) - QRegion(inside))
        self.show()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        width = self._theme.px(LINE_PX)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme.colors.accent), width))
        edge = (width + 1) // 2
        radius = self._theme.px(RADIUS_PX)
        painter.drawRoundedRect(self.rect().adjusted(edge, edge, -edge, -edge), radius, radius)
