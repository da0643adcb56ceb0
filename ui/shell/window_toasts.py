"""What the desk says, said again in a window that lies over the main one.

An act of such a window is answered there: behind it nobody would see the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.chat.events import Noticed
from ui.look.theme import Theme
from ui.shell.notices import Act, Notice, ToastArea

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk


class WindowToasts(ToastArea):
    """Toasts at the bottom of `host`, a window or what fills it, for as long as that is shown."""

    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, host: QWidget) -> None:
        super().__init__(theme, host)
        self._desk = desk
        self.setObjectName(f"{host.window().objectName()}_toasts")
        bridge.on(Noticed, self._on_noticed)

    def _on_noticed(self, event: Noticed) -> None:
        loaded = self._desk.loader.state.loaded
        is_note = loaded is not None and event.sentence in loaded.notes
        if is_note or not self.window().isVisible():
            return  # the weights' own notes stand with them
        key = event.undo or event.sentence
        acts = (Act("Undo", lambda: self._undo(event.undo)),) if event.undo else ()
        self.show_notice(Notice(key, event.level, event.sentence, acts=acts))

    def _undo(self, key: str) -> None:
        self.dismiss(key)
        self._desk.shelf.undo(key)
