"""A value that is dragged or set by arrow keys: Qt's own, which the wheel leaves alone."""

from __future__ import annotations

from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QSlider


class Slider(QSlider):
    def wheelEvent(self, event: QWheelEvent) -> None:
        """Whoever turns the wheel scrolls the page: what is under the pointer keeps its value."""
        event.ignore()
