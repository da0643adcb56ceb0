"""What the window shows first: the two planes, and the composer, which takes keys at once.

What must hold: nothing is imported for it but Qt's widgets, the theme and the composer; and
the composer stands where the whole window will have it, so that nothing jumps when the rest
is built around it (`ui.shell.window`, `ui.chat.chat_column`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QEvent, QRect, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ui.chat.composer import Composer
from ui.look.theme import Theme
from ui.shell.sizes import (
    BOTH_FROM_PX,
    CHAT_PX,
    COLUMN_PX,
    SIDE_PX,
    SIDEBAR_PX,
    STATUS_FROM_PX,
    beside_chat,
    beside_column,
)


class FirstFrame(QWidget):
    """`look`: what is remembered of the sidebar (`app.chat.settings.first_look`), untrusted."""

    def __init__(self, theme: Theme, look: Mapping[str, Any], parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        width = look.get("sidebar_width")
        self._sidebar_px = width if isinstance(width, int) and 0 < width < 4000 else SIDEBAR_PX
        self._has_sidebar = look.get("sidebar_visible") is not False
        self.composer = Composer(theme, self)
        self._chat: QWidget | None = None

    def hold(self, chat: QWidget) -> None:
        """Show the chat's column, which has taken the composer in, where the window will."""
        self._chat = chat
        chat.setParent(self)
        self._arrange()
        chat.show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self._arrange()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colors, left = self._theme.colors, self._left()
        # `fillRect` would have PySide make the 169 members of QGradient.Preset first, for 3 ms.
        painter.setPen(Qt.PenStyle.NoPen)
        for place, color in (
            (self.rect(), colors.chat),
            (QRect(0, 0, left, self.height()), colors.side),
        ):
            painter.setBrush(QColor(color))
            painter.drawRect(place)

    def _left(self) -> int:
        """Where the chat's plane begins: behind the sidebar and the handle."""
        px = self._theme.px
        if not self._has_sidebar or self.width() < px(BOTH_FROM_PX):
            return 0
        return beside_chat(self.width(), px(self._sidebar_px), px(SIDEBAR_PX), px(CHAT_PX)) + 1

    def _arrange(self) -> None:
        px, left = self._theme.px, self._left()
        width = self.width() - left
        if self._chat is not None:
            self._chat.setGeometry(left, 0, width, self.height())
            return
        side, right = beside_column(width, px(COLUMN_PX), px(SIDE_PX))
        self.composer.setContentsMargins(side, px(8), right, px(4))
        height = self.composer.sizeHint().height()
        line = QFontMetrics(self._theme.font_small()).height()
        status = line + px(4) + px(12) if self.height() >= px(STATUS_FROM_PX) else 0
        self.composer.setGeometry(left, self.height() - status - height, width, height)
