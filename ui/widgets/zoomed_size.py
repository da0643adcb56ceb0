"""The size of a window beside the main one: as designed, larger with the zoom, never larger than
the screen allows. What the user made of it is kept, in proportion."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, QTimer
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme

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
        window.installEventFilter(self)
        theme.changed.connect(self._on_changed)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A size that is neither ours nor the least that the window can have is the user's."""
        if event.type() == QEvent.Type.Resize:
            size, window = self._window.size(), self._window
            least = window.minimumSize().expandedTo(window.minimumSizeHint())
            if size not in (self._set, self._set.expandedTo(least)):
                self._wanted = size
        return super().eventFilter(watched, event)

    def _on_changed(self) -> None:
        if self._theme.scale != self._scale:
            self._wanted = self._wanted * (self._theme.scale / self._scale)
            self._scale = self._theme.scale
            self._take()
            if self._window.size() != self._set:
                # What holds it wide may be of the former zoom: layouts follow a moment later.
                QTimer.singleShot(0, self, self._take)

    def _take(self) -> None:
        screen = self._window.screen().availableSize() * SCREEN_SHARE
        self._set = self._wanted.boundedTo(screen)
        self._window.resize(self._set)
