"""A button in the header that is on or off: its word in a pill; its icon where room is short."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QPushButton, QWidget

from ui.look.icons import icon
from ui.look.theme import Theme
from ui.widgets.icon_button import ICON_PX, SIDE_PX

HEIGHT_PX = 30


class ToggleChip(QPushButton):
    """`set_on` shows a state; a click asks for the other one and changes nothing by itself."""

    def __init__(
        self, theme: Theme, icon_name: str, word: str, hint: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._icon_name = icon_name
        self._word = word
        self._is_compact = False
        self.setAccessibleName(word)
        self.setToolTip(hint)
        self.setProperty("kind", "chip")
        self.setAutoDefault(False)
        self.setCheckable(True)
        theme.changed.connect(self._dress)
        self._dress()

    def set_on(self, is_on: bool) -> None:
        self.setChecked(is_on)
        self._dress()

    def set_compact(self, is_compact: bool) -> None:
        if is_compact != self._is_compact:
            self._is_compact = is_compact
            self._dress()

    def wide_width(self) -> int:
        """How wide it is with its word."""
        return self.fontMetrics().horizontalAdvance(self._word) + self._theme.px(26)

    def nextCheckState(self) -> None:
        """What it stands for is switched by whoever listens."""

    def _dress(self) -> None:
        px, colors = self._theme.px, self._theme.colors
        ink = colors.accent if self.isChecked() else colors.ink
        # A radius of more than half the height would be no radius to Qt.
        radius = px(HEIGHT_PX) // 2 - 1
        self.setStyleSheet(
            f"QPushButton {{ border-radius: {radius}px; padding: 0; color: {ink}; }}"
        )
        if self._is_compact:
            self.setText("")
            self.setIcon(icon(self._icon_name, colors.accent if self.isChecked() else colors.dim))
            self.setIconSize(QSize(px(ICON_PX), px(ICON_PX)))
            self.setFixedSize(px(SIDE_PX), px(HEIGHT_PX))
        else:
            self.setText(self._word)
            self.setIcon(QIcon())
            self.setFixedSize(self.wide_width(), px(HEIGHT_PX))
