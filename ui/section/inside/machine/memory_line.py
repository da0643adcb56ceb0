"""What the engine takes of memory now, and what is free on each device: measured while shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.section.card import small_label
from ui.section.panel import Tools

if TYPE_CHECKING:
    from app.chat.inspection.memory import MemoryNow

EVERY_MS: Final = 2000


class MemoryLine(QWidget):
    """Asks while it is on screen, and never else."""

    def __init__(self, tools: Tools, parent: QWidget) -> None:
        super().__init__(parent)
        self._desk = tools.desk
        self.text = small_label("", self, name="inside_machine_memory")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.text)
        self._timer = QTimer(self)
        self._timer.setInterval(EVERY_MS)
        self._timer.timeout.connect(self._ask)

    @property
    def is_asking(self) -> bool:
        return self._timer.isActive()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start()
        self._ask()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def _ask(self) -> None:
        if self._desk.loader.loaded is None:
            self.text.setText("")
        else:
            self._desk.memory.read(self._take)

    def _take(self, now: MemoryNow) -> None:
        self.text.setText(" · ".join(now.lines()))
