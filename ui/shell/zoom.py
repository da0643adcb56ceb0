"""Zoom by keys and wheel, the same everywhere in the program."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut, QWheelEvent
from PySide6.QtWidgets import QWidget

from ui.look.theme import ZOOM_MAX, ZOOM_MIN

STEPS = (80, 90, 100, 110, 125, 150, 175, 200, 250, 300)
WHEEL_NOTCH = 120
# On some layouts + needs Shift, on others = does, and the number block has its own.
IN_KEYS = ("Ctrl++", "Ctrl+=", "Ctrl+Shift++", "Ctrl+Shift+=")
OUT_KEYS = ("Ctrl+-", "Ctrl+_", "Ctrl+Shift+-", "Ctrl+Shift+_")
RESET_KEYS = ("Ctrl+0", "Ctrl+Shift+0")


def stepped(percent: int, direction: int) -> int:
    """The next step above or below.

    >>> stepped(100, 1), stepped(120, -1), stepped(300, 1)
    (110, 110, 300)
    """
    if direction > 0:
        return next((step for step in STEPS if step > percent), ZOOM_MAX)
    return next((step for step in reversed(STEPS) if step < percent), ZOOM_MIN)


class ZoomControl(QObject):
    """`requested`: +1, −1, or 0 for 100 %."""

    requested = Signal(int)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._turned = 0
        for keys, direction in ((IN_KEYS, 1), (OUT_KEYS, -1), (RESET_KEYS, 0)):
            shortcut = QShortcut(window)
            shortcut.setKeys([QKeySequence(key) for key in keys])
            shortcut.setContext(Qt.ShortcutContext.ApplicationShortcut)
            for signal in (shortcut.activated, shortcut.activatedAmbiguously):
                signal.connect(lambda direction=direction: self.requested.emit(direction))

    def watch_wheel(self, widget: QWidget) -> None:
        """Ctrl and the wheel over this widget zoom, too. For a scroll area: its viewport."""
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.Wheel or not isinstance(event, QWheelEvent):
            return False
        if not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            return False
        # Fine wheels and touchpads send many small turns; a step is a notch's worth.
        self._turned += event.angleDelta().y()
        if abs(self._turned) >= WHEEL_NOTCH:
            self.requested.emit(1 if self._turned > 0 else -1)
            self._turned = 0
        return True
