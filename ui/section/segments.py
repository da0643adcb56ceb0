"""A small switch between the rooms of one panel."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QTabBar, QWidget

from ui.look.theme import Theme


class Segments(QTabBar):
    """`currentChanged` says which; arrow keys move."""

    def __init__(
        self, theme: Theme, titles: Sequence[str], spoken: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setAccessibleName(spoken)
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setUsesScrollButtons(False)
        for title in titles:
            self.addTab(title)
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        px, colors = self._theme.px, self._theme.colors
        self.setFont(self._theme.font_small())
        self.setStyleSheet(
            f"QTabBar::tab {{ padding: {px(3)}px {px(10)}px; border-radius: {px(6)}px;"
            f" border: 1px solid transparent; color: {colors.dim}; }}"
            f"QTabBar::tab:selected {{ background: {colors.accent_tone}; color: {colors.ink}; }}"
            f"QTabBar::tab:focus:selected {{ border: 1px solid {colors.accent}; }}"
        )
