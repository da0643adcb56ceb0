"""Colours for long code blocks, computed in small steps between events."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.markdown.highlight import GroupHighlight, warm_up
from ui.transcript.body import Body

STEP_S = 0.005
PAUSE_MS = 20
WARM_UP_MS = 400


class Coloring(QObject):
    """Works through the code blocks that are handed to it, one at a time."""

    def __init__(self, parent: QObject, on_colored: Callable[[], None]) -> None:
        super().__init__(parent)
        self._on_colored = on_colored
        self._work: tuple[GroupHighlight, Body] | None = None
        self._is_warm = False
        self._timer = QTimer(self)
        self._timer.setInterval(PAUSE_MS)
        self._timer.timeout.connect(self._on_due)
        self._warm_timer = QTimer(self)
        self._warm_timer.setSingleShot(True)
        self._warm_timer.timeout.connect(warm_up)

    @property
    def is_busy(self) -> bool:
        return self._work is not None

    def warm_up(self) -> None:
        """Import Pygments soon, so that the first code block of a reply does not wait for it."""
        if not self._is_warm:
            self._is_warm = True
            self._warm_timer.start(WARM_UP_MS)

    def look_at(self, bodies: list[Body]) -> None:
        """Start on the first code block in these texts that waits for its colours."""
        if self._work is not None:
            return
        for body in bodies:
            for group in body.groups():
                self._work = (GroupHighlight(group), body)
                self._timer.start()
                return

    def _on_due(self) -> None:
        if self._work is None or not self._work[0].step(STEP_S):
            return
        highlight, body = self._work
        self._work = None
        self._timer.stop()
        body.recolor(highlight.group)
        self._on_colored()
