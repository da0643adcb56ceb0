"""A line around a widget for a moment: here it is. It blocks nothing."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme
from ui.widgets.kit import rest_timer

SHOWN_MS: Final = 3000


class Outline(QWidget):
    """It lies in the widget that it shows, so it goes where that goes, and ends with it."""

    def __init__(self, theme: Theme, target: QWidget) -> None:
        super().__init__(target)
        self._theme = theme
        self._target = target
        self.setObjectName("shown_outline")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        target.installEventFilter(self)
        self.setGeometry(target.rect())
        self.raise_()
        self.show()
        rest_timer(self, self.close_, SHOWN_MS).start()

    def close_(self) -> None:
        self.hide()
        self.deleteLater()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._target and event.type() == QEvent.Type.Resize:
            self.setGeometry(self._target.rect())
        return False

    def paintEvent(self, _event: QPaintEvent) -> None:
        px = self._theme.px
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme.colors.accent), px(2)))
        inset = px(2) / 2
        room = QRectF(self.rect()).adjusted(inset, inset, -inset, -inset)
        painter.drawRoundedRect(room, px(6), px(6))
