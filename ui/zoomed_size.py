"""The size of a window beside the main one: as designed, larger with the zoom, never larger than
the screen allows. What the user made of it is kept, in proportion."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSize
from PySide6.QtWidgets import QWidget

from ui.theme import Theme

SCREEN_SHARE = 0.9


class ZoomedSize(QObject):
    """Lives with its window. `size_px`: width and height at 100 %."""

    def __init__(self, window: QWidget, theme: Theme, size_px: tuple[int, int]) -> None:
        super().__init__(window)
        self._window = window
        self._theme = theme
        self._scale = theme.scale
        # What would be right were the screen large enough, and what was set instead.
        self._wanted = QSize(*size_px) * theme.scale
        self._set = QSize()
        self._take()
        theme.changed.connect(self._on_changed)

    def _on_changed(self) -> None:
        if self._theme.scale == self._scale:
            return
        if self._window.size() != self._set:
            self._wanted = self._window.size()
        self._wanted = self._wanted * (self._theme.scale / self._scale)
        self._scale = self._theme.scale
        self._take()

    def _take(self) -> None:
        screen = self._window.screen().availableSize() * SCREEN_SHARE
        self._window.resize(self._wanted.boundedTo(screen))
        self._set = self._window.size()
