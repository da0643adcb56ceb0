"""The banner over the chat while weights without a chat template are used, with what to choose.

What must hold: no format is taken silently for another; the plain one is used until somebody
chooses, and what was chosen is remembered for these weights.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtWidgets import QMenu

from app.chat.formats import FORMATS, OWN, PLAIN
from ui.notices import Act, Notice

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat_column import ChatColumn

KEY = "template"
SENTENCE = (
    "These weights have no chat template, so a plain format is used and replies may run on. "
    "Choose the format that they were made with."
)


class TemplateBanner(QObject):
    """`own_requested`: a template shall be written for these weights."""

    own_requested = Signal()

    def __init__(self, desk: Desk, bridge: Bridge, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._chat = chat
        bridge.engine_state_changed.connect(self._follow)
        bridge.levels_changed.connect(self._follow)
        self._follow()

    def choose(self) -> QMenu:
        """The formats, as a menu at the banner."""
        banners = self._chat.banners
        menu = QMenu(banners)
        menu.setObjectName("format_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for each in FORMATS:
            entry = menu.addAction(f"{each.title}\t{each.words}")
            entry.setObjectName(each.name)
            entry.triggered.connect(partial(self._take, each.name))
        menu.popup(banners.mapToGlobal(QPoint(0, banners.height())))
        return menu

    def _choose(self) -> None:
        self.choose()

    def _take(self, name: str, _is_checked: bool = False) -> None:
        if name == OWN and not self._desk.resolved_settings().settings.chat_template.strip():
            self.own_requested.emit()
            return
        self._desk.set_at_level("weights", "chat_format", name)

    def _has_chosen(self) -> bool:
        settings = self._desk.resolved_settings().settings
        return settings.template is not None or settings.chat_format == PLAIN

    def _follow(self) -> None:
        loaded = self._desk.engine_state.loaded
        if loaded is not None and not loaded.has_template and not self._has_chosen():
            act = Act("Choose a format…", self._choose)
            self._chat.banners.show_notice(Notice(KEY, "warning", SENTENCE, acts=(act,)))
        else:
            self._chat.banners.dismiss(KEY)
