"""A quiet button that shows an icon, with or without words, in the theme's colours."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QPushButton, QWidget

from ui.look.icons import icon
from ui.look.theme import Theme

ICON_PX = 16
SIDE_PX = 32


class IconButton(QPushButton):
    """`spoken` is its accessible name and, without another `hint`, its tooltip."""

    def __init__(
        self,
        theme: Theme,
        icon_name: str,
        spoken: str,
        *,
        text: str = "",
        hint: str = "",
        parent: QWidget | None = None,
    ) -> None:
        # Qt leaves too little room between icon and words.
        super().__init__(f" {text}" if text else "", parent)
        self._theme = theme
        self._icon_name = icon_name
        self._is_lit = False
        self.setAccessibleName(spoken)
        self.setToolTip(hint or spoken)
        self.setProperty("kind", "quiet")
        self.setAutoDefault(False)
        if not text:
            theme.size(self, SIDE_PX, SIDE_PX)
        theme.changed.connect(self._dress)
        self._dress()

    def set_lit(self, is_lit: bool) -> None:
        """Whether what it stands for is on: it then has the accent's colour and tone."""
        self._is_lit = is_lit
        self._dress()

    def show_icon(self, icon_name: str) -> None:
        """Another icon."""
        self._icon_name = icon_name
        self._dress()

    def _dress(self) -> None:
        px, colors = self._theme.px, self._theme.colors
        self.setIcon(icon(self._icon_name, colors.accent if self._is_lit else colors.dim))
        self.setIconSize(QSize(px(ICON_PX), px(ICON_PX)))
        if self.text():
            self.setStyleSheet(
                f"QPushButton {{ padding: {px(6)}px {px(8)}px; color: {colors.dim}; }}"
            )
        else:
            tone = f"background: {colors.accent_tone};" if self._is_lit else ""
            self.setStyleSheet(f"QPushButton {{ padding: 0; {tone} }}")
