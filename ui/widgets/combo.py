"""A choice from a list that opens: Qt's own, with an arrow in the theme's colours."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QComboBox, QWidget

from ui.look.icons import paint_icon
from ui.look.theme import Theme

ARROW_PX = 14


class Combo(QComboBox):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Whoever turns the wheel scrolls the page: what is under the pointer stays chosen."""
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        px = self._theme.px(ARROW_PX)
        left = self.width() - px - self._theme.px(8)
        if self.isRightToLeft():
            left = self._theme.px(8)
        rect = QRectF(left, (self.height() - px) / 2, px, px)
        paint_icon(QPainter(self), rect, "caret-down", QColor(self._theme.colors.dim))
