"""A line around what is talked about. It takes no clicks and hides nothing."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QObject, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QRegion
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme
from ui.widgets.kit import rest_timer

LINE_PX: Final = 2
RADIUS_PX: Final = 6
GAP_PX: Final = 3
SHOWN_MS: Final = 3000


class Line(QWidget):
    """Drawn along its own edge."""

    def __init__(self, theme: Theme, parent: QWidget, name: str) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def paintEvent(self, _event: QPaintEvent) -> None:
        width = self._theme.px(LINE_PX)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme.colors.accent), width))
        edge = (width + 1) // 2
        radius = self._theme.px(RADIUS_PX)
        painter.drawRoundedRect(self.rect().adjusted(edge, edge, -edge, -edge), radius, radius)


class Outline(Line):
    """For a moment: here it is. It lies in the widget that it shows, so it goes where that goes,
    and ends with it."""

    def __init__(self, theme: Theme, target: QWidget) -> None:
        super().__init__(theme, target, "shown_outline")
        self._target = target
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


class Ring(Line):
    """Around what the tour's card talks about, as long as it does."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(theme, parent, "tour_outline")
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
