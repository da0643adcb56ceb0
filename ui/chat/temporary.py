"""The temporary chat in the window: clearly marked, with a warning before it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox

from app.chat.events import ConversationOpened
from ui.chat.header import TEMPORARY_KEY
from ui.shell.actions import Action, Actions
from ui.shell.notices import Act, Notice

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn

KEY = "temporary"
SENTENCE = "This chat is temporary: it is never saved and disappears when Cutaway closes."


class TemporaryChat(QObject):
    def __init__(self, desk: Desk, bridge: Bridge, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._chat = chat
        self._may_close = False
        self._warning: QMessageBox | None = None
        chat.header.temporary_requested.connect(self.toggle)
        bridge.on(ConversationOpened, self._on_conversation_opened)

    def add_actions(self, actions: Actions) -> None:
        actions.add(
            Action("temporary_chat", "Temporary chat (never saved)", TEMPORARY_KEY, self.toggle)
        )
        actions.add(
            Action(
                "end_temporary_chat",
                "Discard the temporary chat",
                "Ctrl+Shift+K",
                self.end,
                lambda: self._desk.temporary.is_open or self._desk.temporary.is_begun,
            )
        )

    # --- acts -----------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Into the temporary chat; out of it, to a new one that is kept."""
        if self._desk.temporary.is_open:
            self._desk.shelf.open_new()
        else:
            self._desk.temporary.open()
        self._chat.focus_writing()

    def end(self) -> None:
        """Ask first where it holds something: there is no way back."""
        if not self._desk.temporary.is_begun:
            self._desk.temporary.end()
            return
        self._ask("Discard this temporary chat?", "Discard", self._desk.temporary.end)

    def warn_before_close(self) -> bool:
        """Whether the window has to wait: the user is asked, and closes it again if they want."""
        is_of_request = not self._desk.temporary.is_begun and self._desk.server.opened.has_own
        if self._may_close or not (self._desk.temporary.is_begun or is_of_request):
            return False

        def close() -> None:
            self._may_close = True
            self._chat.window().close()

        what = "what you wrote in the server's request" if is_of_request else "the temporary chat"
        self._ask(f"Close Cutaway and discard {what}?", "Close", close)
        return True

    def _ask(self, question: str, word: str, act: Callable[[], object]) -> None:
        if self._warning is not None:
            self._warning.raise_()
            return
        box = QMessageBox(self._chat.window())
        box.setObjectName("temporary_dialog")
        box.setWindowTitle("Temporary chat")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(question)
        box.setInformativeText("It was never saved, so it can't be recovered.")
        do = box.addButton(word, QMessageBox.ButtonRole.AcceptRole)
        do.setObjectName("temporary_accept_button")
        keep = box.addButton("Cancel", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(keep)
        box.setEscapeButton(keep)
        do.clicked.connect(act)
        box.finished.connect(self._on_answered)
        self._warning = box
        box.open()

    def _on_answered(self) -> None:
        if self._warning is not None:
            self._warning.deleteLater()
            self._warning = None

    # --- following ------------------------------------------------------------------------------

    def _on_conversation_opened(self, _event: ConversationOpened) -> None:
        is_temporary = self._desk.temporary.is_open
        self._chat.composer.set_temporary(is_temporary)
        self._chat.header.set_temporary(is_temporary)
        if is_temporary:
            acts = (Act("Discard…", self.end),)
            self._chat.banners.show_notice(
                Notice(KEY, "info", SENTENCE, acts=acts, can_close=False)
            )
        else:
            self._chat.banners.dismiss(KEY)
