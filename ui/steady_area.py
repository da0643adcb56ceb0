"""A scroll area that fits what it holds once for each change of size."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QScrollArea


class SteadyArea(QScrollArea):
    """For what is as wide as the area and as high as its words need.

    A `QScrollArea` resizes what it holds, hears of that, and fits it again. Where two heights are
    right in turn (words wrap otherwise beside a scroll bar, cards lie anew) that goes on until the
    stack is used up. Here it is fitted once; what is left to do comes with the layout's next turn.
    """

    _is_fitting = False

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is not QEvent.Type.Resize:
            return super().eventFilter(watched, event)
        if self._is_fitting:
            return False
        self._is_fitting = True
        try:
            return super().eventFilter(watched, event)
        finally:
            self._is_fitting = False
