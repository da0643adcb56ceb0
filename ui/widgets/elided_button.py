"""A button whose words are painted with “…” where they have no room.

Apart from `elided.py`, since Qt's styles take PySide a twentieth of the way to the first paint.
"""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import (
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStylePainter,
    QWidget,
)

from ui.widgets.elided import RIGHT


class ElidedButton(QPushButton):
    """A button that may be narrower than its words."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def shown_text(self) -> str:
        # Text widths are fractions; a hint is rounded.
        room = self.width() - self._around() + 1
        return self.fontMetrics().elidedText(self.text(), RIGHT, room)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._around() + self.fontMetrics().horizontalAdvance("…"), 0)

    def _around(self) -> int:
        """What padding and border take. (A style sheet's padding is in no sub-element.)"""
        return self.sizeHint().width() - self.fontMetrics().horizontalAdvance(self.text())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = self.shown_text()
        painter.drawControl(QStyle.ControlElement.CE_PushButton, option)
