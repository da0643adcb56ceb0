"""A part of the window that is one colour all over, and covers what is behind it: when something in
it is painted, nothing behind it has to be."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme


class Plane(QWidget):
    """`color`: which of the theme's colours, also for the style sheet of what is in it."""

    def __init__(
        self, theme: Theme, color: Literal["chat", "side"], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._plane = (theme, color)
        self.setProperty("plane", color)
        # Qt then paints no background here, not even the sheet's; `paintEvent` does it.
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, color = self._plane
        QPainter(self).fillRect(event.rect(), QColor(getattr(theme.colors, color)))
