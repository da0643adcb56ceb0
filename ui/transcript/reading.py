"""Huge texts, read on in slices between events until they are whole.

2 MB of one-letter lines are open after 60 ms, and whole a second or two later.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from ui.transcript.body import Body

PAUSE_MS = 4


class SliceReader(QObject):
    """Goes on with the texts in view that are not whole yet."""

    def __init__(self, parent: QObject, on_read: Callable[[], None]) -> None:
        super().__init__(parent)
        self._on_read = on_read
        self._bodies: list[Body] = []
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(PAUSE_MS)
        self._timer.timeout.connect(self._on_due)

    @property
    def is_busy(self) -> bool:
        return self._timer.isActive()

    def look_at(self, bodies: list[Body]) -> None:
        """These are in view now."""
        self._bodies = [body for body in bodies if body.is_read and not body.is_whole]
        if self._bodies and not self._timer.isActive():
            self._timer.start()

    def _on_due(self) -> None:
        for body in self._bodies:
            body.read()
        self._on_read()
