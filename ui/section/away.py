"""A panel's place, and in it the reason where what it shows cannot be had.

A server tells less than the engine in this program. What it does not tell is not shown, nor is what
was measured elsewhere before: the panel leaves, and a sentence says why. It asks nothing meanwhile.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.chat.events import EngineStateChanged
from app.chat.replies.written_by import writer_of
from app.engine.protocol.remote_messages import Ability
from ui.section.low_room import LowRoom
from ui.section.panel import Panel, Tools
from ui.widgets.figures import plain_name
from ui.widgets.kit import plain_label

OF_REPLY: Final[dict[Ability, str]] = {
    "inside": "{engine} wrote this reply. What happens inside the network can only be read for "
    "replies of a model on this computer.",
    "draws": "{engine} wrote this reply. Draws can only be replayed for replies of a model on this "
    "computer.",
}


def why_away(tools: Tools, ability: Ability | None, *, is_of_reply: bool) -> str:
    """Why it is not there; empty: it is. `is_of_reply`: it is about how the reply that is looked at
    was made, too, and not only about what the loaded model's engine can."""
    if ability is None:
        return ""
    remote, message = tools.desk.loader.remote, tools.looking.message
    writer = None if message is None or not is_of_reply else writer_of(message.settings)
    if writer is None:
        why = "" if remote is None else remote.why_not(ability)
        if why and is_of_reply and message is not None and message.weights_name:
            why += f" Load “{plain_name(message.weights_name)}”, which wrote this reply."
        return why
    return OF_REPLY[ability].format(engine=writer.words)


class PanelPlace(QStackedWidget):
    """Use its `set_active` and not the panel's."""

    def __init__(self, tools: Tools, panel: Panel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tools = tools
        self._panel = panel
        self._is_on_screen = False
        self.room = LowRoom(panel, self)
        self._page = QWidget(self)
        self.reason = plain_label("", self._page, "dim", name="panel_away", wraps=True)
        self.reason.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        column = QVBoxLayout(self._page)
        column.addWidget(self.reason)
        column.addStretch(1)
        tools.theme.space(column, 8, margins=(4, 12))
        self.addWidget(self.room)
        self.addWidget(self._page)
        if panel.ability is not None:
            tools.looking.message_changed.connect(self._follow)
            tools.bridge.on(EngineStateChanged, self._follow)
        self._follow()

    def set_active(self, is_active: bool) -> None:
        """Whether it is on screen."""
        self._is_on_screen = is_active
        self._follow()

    def _follow(self, _event: object = None) -> None:
        panel = self._panel
        why = why_away(self._tools, panel.ability, is_of_reply=panel.is_of_reply)
        self.reason.setText(why)
        self.setCurrentWidget(self._page if why else self.room)
        panel.set_active(self._is_on_screen and not why)
