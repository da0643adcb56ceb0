"""The choice of a chat format: in a banner over the chat while weights without a chat template are
used, and in a reply that failed at its template.

What must hold: no format is taken silently for another; the plain one is used until somebody
chooses, and what was chosen is remembered for these weights (for the chat, where the chat itself
says otherwise than they do).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtWidgets import QMenu

from app.chat.events import EngineStateChanged, LevelsChanged
from app.chat.settings.formats import FILE, FORMATS, OWN, PLAIN
from ui.shell.notices import Act, Notice
from ui.transcript.offers import CHOOSE_FORMAT

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn

KEY = "template"
SENTENCE = (
    "This model has no chat template, so a plain format is used and replies may run on. Choose "
    "the format it was trained with."
)


class TemplateBanner(QObject):
    """`own_requested`: a template shall be written for these weights."""

    own_requested = Signal()

    def __init__(self, desk: Desk, bridge: Bridge, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._chat = chat
        bridge.on(EngineStateChanged, self._follow)
        bridge.on(LevelsChanged, self._follow)
        chat.transcript.act_requested.connect(self._on_act)
        self._follow()

    def choose(self, message_id: str = "") -> QMenu:
        """The formats, as a menu at the banner, or at the failed reply with this id, which is then
        tried again."""
        banners = self._chat.banners
        menu = QMenu(banners)
        menu.setObjectName("format_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        now = self._desk.levels.resolved().settings.chat_format
        loaded = self._desk.loader.state.loaded
        if now != FILE and loaded is not None and loaded.has_template:
            self._add(menu, FILE, "From the file", message_id)
        for each in FORMATS:
            self._add(menu, each.name, f"{each.title}\t{each.words}", message_id)
        menu.popup(self._place(message_id))
        return menu

    def _add(self, menu: QMenu, name: str, text: str, message_id: str) -> None:
        entry = menu.addAction(text)
        entry.setObjectName(name or "file")
        entry.triggered.connect(partial(self._take, name, message_id))

    def _place(self, message_id: str) -> QPoint:
        """Below the button that was pressed."""
        transcript, banners = self._chat.transcript, self._chat.banners
        index = transcript.rows.index_of(message_id) if message_id else None
        if index is not None:
            item = transcript.rows.item(index)
            for action in item.actions(0, item.height):
                if action.name == CHOOSE_FORMAT.name:
                    corner = action.rect.bottomLeft() + transcript.item_origin(index)
                    return transcript.viewport().mapToGlobal(corner.toPoint())
        return banners.mapToGlobal(QPoint(0, banners.height()))

    def _choose(self) -> None:
        self.choose()

    def _on_act(self, name: str, message_id: str) -> None:
        if name == CHOOSE_FORMAT.name:
            self.choose(message_id)

    def _take(self, name: str, message_id: str, _is_checked: bool = False) -> None:
        resolved = self._desk.levels.resolved()
        settings = resolved.settings
        is_broken = bool(message_id) and settings.chat_format == OWN
        if name == OWN and (is_broken or not settings.chat_template.strip()):
            self.own_requested.emit()
            return
        level = "chat" if resolved.level_of("chat_format") == "chat" else "weights"
        self._desk.levels.change(level, "chat_format", name)
        if message_id:
            self._desk.replies.answer(message_id)

    def _has_chosen(self) -> bool:
        settings = self._desk.levels.resolved().settings
        return settings.template is not None or settings.chat_format == PLAIN

    def _follow(self) -> None:
        loaded = self._desk.loader.state.loaded
        if loaded is not None and not loaded.has_template and not self._has_chosen():
            act = Act("Choose a format…", self._choose)
            self._chat.banners.show_notice(Notice(KEY, "warning", SENTENCE, acts=(act,)))
        else:
            self._chat.banners.dismiss(KEY)
