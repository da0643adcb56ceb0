"""A box to tick: Qt's own, with the tick in the theme's colours. A style sheet alone cannot draw
one without a file of a picture."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton, QWidget

from ui.look.icons import paint_icon
from ui.look.theme import Theme


class CheckBox(QCheckBox):
    def __init__(self, theme: Theme, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._theme = theme

    def box_rect(self) -> QRectF:
        """Where the box itself stands."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        element = QStyle.SubElement.SE_CheckBoxIndicator
        return QRectF(self.style().subElementRect(element, option, self))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        state, colors = self.checkState(), self._theme.colors
        if state is Qt.CheckState.Unchecked:
            return
        is_on = state is Qt.CheckState.Checked
        name, color = ("check-bold", colors.on_accent) if is_on else ("minus-bold", colors.accent)
        edge = self._theme.px(2)
        box = self.box_rect().adjusted(edge, edge, -edge, -edge)
        paint_icon(QPainter(self), box, name, QColor(color))
