"""Other values on the token that is looked at, live; and on the same dice over the whole reply."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.section.card_column import CardColumn
from ui.section.panel import Panel, Tools
from ui.section.sampling.live_card import LiveCard
from ui.section.sampling.what_if_card import WhatIfCard


class WhatIfRoom(Panel):
    """The cards follow by themselves, while the room is on screen."""

    title = "What if"
    ability = "draws"
    is_of_reply = True

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self.setObjectName("what_if_room")
        self.live, self.what_if = LiveCard(tools, self), WhatIfCard(tools, self)
        self.live.moved.connect(self.what_if.offer)
        self.what_if.answered.connect(self._show_answer)
        self.area = CardColumn(self)
        self.area.fill(self.live, self.what_if)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.area)
        self._theme.space(self.area.rows, 8)

    def _show_answer(self) -> None:
        """It stands below what was pressed, maybe out of view; it gets its height in a moment."""
        QTimer.singleShot(
            0, self, lambda: self.area.ensureWidgetVisible(self.what_if.caption, 0, 8)
        )

    def set_active(self, is_active: bool) -> None:
        super().set_active(is_active)
        self.live.set_active(is_active)
        self.what_if.set_active(is_active)
