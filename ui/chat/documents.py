"""Keeps what is sent of documents between the composer, the transcript and the desk: choices, parts
that went in, the window that shows them at their places."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.chat.attachments.document_parts import (
    PARTS,
    mode_of,
    sent_of,
    source_of,
)
from app.chat.events import AttachmentsChanged, ConversationOpened, PartsFound, PartsSought
from models.records import Attachment, Message, Role
from ui.shell.actions import Action, Actions
from ui.shell.keys import with_key
from ui.shell.notices import Notice

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.chat.composer_documents import ComposerDocuments
    from ui.chat.document_window import DocumentWindow
    from ui.look.theme import Theme

BY_WORDS_KEY = "Ctrl+Alt+5"
GONE = "The document that these parts are from is no longer in this chat."


class Documents(QObject):
    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk, self._theme, self._chat = desk, theme, chat
        self._rows: ComposerDocuments | None = None
        self._windows: dict[str, DocumentWindow] = {}
        self._sought_at = ""
        chat.transcript.part_opened.connect(self.open_part)
        bridge.on(AttachmentsChanged, self._on_attachments_changed)
        bridge.on(PartsFound, self._on_found)
        bridge.on(ConversationOpened, self._on_conversation_opened)
        bridge.on(PartsSought, self._on_sought)

    def add_actions(self, actions: Actions) -> None:
        desk = self._desk
        actions.add(
            Action(
                "search_documents_again",
                "Search the documents again",
                "Ctrl+Alt+4",
                self._search_last_again,
                lambda: self._last_with_parts() is not None and not desk.replies.is_generating,
                "Chat",
            )
        )
        actions.add(
            Action(
                "documents_by_words",
                "Search documents by words, without waiting",
                BY_WORDS_KEY,
                lambda: desk.parts.hurry(desk.shelf.open.id),
                lambda: bool(self._sought_at),
                "Chat",
            )
        )

    # --- windows ----------------------------------------------------------------------------------

    def open(self, attachment_id: str) -> bool:
        """Show a document, or the one that parts are of. False: it is none."""
        return self.open_part(attachment_id, -1)

    def open_part(self, attachment_id: str, number: int) -> bool:
        attachment, message = self._find(attachment_id)
        if attachment is None or not self._is_shown_here(attachment):
            return False
        document = source_of(attachment, self._desk.shelf.path)
        parts = sent_of(attachment) or []
        if document is None:
            self._chat.toasts.show_notice(Notice("document", "info", GONE))
            document, parts, number = attachment, [], -1
        window = self._windows.get(attachment_id)
        if window is not None and window.shows(document, parts):
            window.show_part(number)
            window.raise_()
            window.activateWindow()
            return True
        if window is not None:  # other parts would go in by now
            window.close()
        from ui.chat.document_window import DocumentWindow

        again = None
        if message is not None and mode_of(attachment) == PARTS:
            again = partial(self._desk.tree.search_again, message.id)
        window = DocumentWindow(
            self._theme,
            document,
            parts,
            number,
            str(attachment.details.get("by", "")),
            self._chat.window(),
            search_again=again,
        )
        self._windows[attachment_id] = window
        window.destroyed.connect(lambda: self._forget(attachment_id, window))
        window.show()
        return True

    def _forget(self, attachment_id: str, window: DocumentWindow) -> None:
        if self._windows.get(attachment_id) is window:
            del self._windows[attachment_id]

    def _is_shown_here(self, attachment: Attachment) -> bool:
        return attachment.kind == "document" or sent_of(attachment) is not None

    def _find(self, attachment_id: str) -> tuple[Attachment | None, Message | None]:
        for each in self._desk.attachments.of_open:
            if each.id == attachment_id:
                return each, None
        for message in self._desk.shelf.path:
            for each in message.attachments:
                if each.id == attachment_id:
                    return each, message
        return None, None

    # --- searching again --------------------------------------------------------------------------

    def _last_with_parts(self) -> Message | None:
        asked = (
            m
            for m in reversed(self._desk.shelf.path)
            if m.role is Role.USER and any(mode_of(each) == PARTS for each in m.attachments)
        )
        return next(asked, None)

    def _search_last_again(self) -> None:
        if (message := self._last_with_parts()) is not None:
            self._desk.tree.search_again(message.id)

    # --- following --------------------------------------------------------------------------------

    @property
    def rows(self) -> ComposerDocuments:
        if self._rows is None:
            # Imported here: most drafts have no document.
            from ui.chat.composer_documents import ComposerDocuments

            self._rows = ComposerDocuments(self._theme, self._desk.draft_parts.choose)
            self._rows.left.connect(self._desk.draft_parts.leave)
            self._chat.composer.add_above(self._rows)
        return self._rows

    def _on_attachments_changed(self, event: AttachmentsChanged) -> None:
        has_any = any(each.kind in ("document", "text") for each in event.attachments)
        if has_any or self._rows is not None:
            self.rows.set_documents(event.attachments)
            self._chat.composer.put_in_order()

    def _on_found(self, event: PartsFound) -> None:
        if event.conversation_id == self._desk.shelf.open.id:
            self._show_earlier()

    def _on_conversation_opened(self, _event: ConversationOpened) -> None:
        self._show_earlier()

    def _show_earlier(self) -> None:
        parts = self._desk.draft_parts.of_earlier()
        if self._rows is not None or parts:
            self.rows.set_earlier(parts)
            self._chat.composer.put_in_order()

    def _on_sought(self, event: PartsSought) -> None:
        """What a message waits for."""
        if event.conversation_id != self._desk.shelf.open.id:
            return
        hint = with_key("By words instead", BY_WORDS_KEY) if event.is_slow else ""
        sentence = " · ".join(filter(None, (event.sentence, hint)))
        self._chat.transcript.set_progress(event.message_id, sentence)
        self._sought_at = event.message_id if event.sentence else ""
