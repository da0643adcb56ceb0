"""“New text”: the way back to the end, offered while something grows below what is read."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QPushButton, QWidget

from ui.look.icons import icon
from ui.look.theme import Theme
from ui.widgets.icon_button import ICON_PX

HEIGHT_PX = 30


class NewsButton(QPushButton):
    """Hidden until `offer`."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__("New text", parent)
        self._theme = theme
        self._is_dressed = False
        self.setObjectName("new_text_button")
        self.setAccessibleName("Jump to the new text")
        self.setProperty("kind", "chip")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        theme.changed.connect(self._on_theme_changed)
        self.hide()

    def offer(self, is_offered: bool) -> None:
        if is_offered != self.isHidden():
            return
        if is_offered:
            self._dress()
            self.raise_()
        self.setVisible(is_offered)

    def place(self, area: QRect, middle: float) -> None:
        """At the foot of the area, in the middle of the column."""
        if not self.isHidden():
            x = round(middle) - self.width() // 2
            self.move(x, area.bottom() - self.height() - self._theme.px(12))

    def _dress(self) -> None:
        if self._is_dressed:
            return
        self._is_dressed = True
        px = self._theme.px
        self.setIcon(icon("arrow-down", self._theme.colors.accent))
        self.setIconSize(QSize(px(ICON_PX), px(ICON_PX)))
        # A radius of more than half the height would be no radius to Qt.
        radius = px(HEIGHT_PX) // 2 - 1
        self.setStyleSheet(f"QPushButton {{ border-radius: {radius}px; padding: 0 {px(12)}px; }}")
        self.setFixedHeight(px(HEIGHT_PX))
        self.adjustSize()

    def _on_theme_changed(self) -> None:
        self._is_dressed = False
        if not self.isHidden():
            self._dress()
