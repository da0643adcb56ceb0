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
        self.setAccessibleName(spoken)
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setUsesScrollButtons(False)
        for title in titles:
            self.addTab(title)
        theme.font(self, Theme.font_small)
        self.setProperty("kind", "segments")
