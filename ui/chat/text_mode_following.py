"""Keeps the text page and the desk together, and the page on screen where a document is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.chat.documents.text_document import document, place_of
from app.chat.events import (
    ConversationOpened,
    EarlierArrived,
    MessageAdded,
    MessageChanged,
    PathChanged,
    TextArrived,
)
from models.records import ConversationKind, MessageState, Role
from ui.chat.header import NEW_TEXT_KEY
from ui.shell.actions import Action, Actions
from ui.transcript.summary import continuation_trouble

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.chat.text_mode import TextPage
    from ui.look.theme import Theme


class TextFollowing(QObject):
    """The page is built when the first document is opened."""

    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self._open_id = ""
        self._is_shown = False
        self._page: TextPage | None = None
        chat.header.new_text_requested.connect(desk.shelf.open_new_text)
        bridge.on(ConversationOpened, self._on_conversation_opened)
        bridge.on(EarlierArrived, self._on_earlier_arrived)
        bridge.on(PathChanged, self._on_path_changed)
        bridge.on(MessageAdded, self._on_message_added)
        bridge.on(MessageChanged, self._on_message_changed)
        bridge.on(TextArrived, self._on_text_arrived)

    def add_actions(self, actions: Actions) -> None:
        actions.add(
            Action(
                "new_text", "New text (no template)", NEW_TEXT_KEY, self._desk.shelf.open_new_text
            )
        )
        for name, title, key, act in (
            ("continue_text", "Continue the text from the cursor", "Ctrl+Enter", self._continue),
            ("retry_text", "Regenerate the continuation", "Alt+R", self._retry),
            ("text_version_previous", "Previous version", "Alt+PgUp", self._previous),
            ("text_version_next", "Next version", "Alt+PgDown", self._next),
        ):
            is_heard_there = name == "continue_text"  # by the page itself
            actions.add(
                Action(name, title, key, act, self._is_text, group="Text", binds=not is_heard_there)
            )

    @property
    def page(self) -> TextPage:
        if self._page is None:
            from ui.chat.text_mode import TextPage

            page = self._page = TextPage(self._theme)
            page.changed.connect(self._on_changed)
            page.continue_requested.connect(self._on_continue_requested)
            page.stop_requested.connect(self._desk.replies.stop)
            page.retry_requested.connect(self._desk.text.retry)
            page.version_step_requested.connect(self._desk.text.show_version)
            self._desk.text.when_asked(page.flush)
        return self._page

    def begin_with(self, text: str, max_tokens: int) -> None:
        """Another document that begins so; the weights go on with so many tokens."""
        self._desk.shelf.open_new_text()
        self._desk.levels.change("chat", "max_tokens", max_tokens)
        self.page.open_document(text)
        self.page.go_on()

    def set_generating(self, is_generating: bool) -> None:
        if self._is_shown:
            self.page.set_generating(is_generating)

    def _is_text(self) -> bool:
        return self._is_shown

    def _continue(self) -> None:
        self.page.go_on()

    def _retry(self) -> None:
        self.page.retry()

    def _previous(self) -> None:
        self.page.step(-1)

    def _next(self) -> None:
        self.page.step(1)

    # --- asking -----------------------------------------------------------------------------

    def _on_changed(self, text: str, caret: int) -> None:
        self._desk.text.save(text, caret)
        self._show_marks()
        if self.page.trouble.text() and text != document(self._desk.shelf.path):  # it was read
            self.page.set_trouble("")

    def _on_continue_requested(self, text: str, caret: int) -> None:
        self._desk.text.go_on(text, caret)

    # --- following --------------------------------------------------------------------------

    def _on_conversation_opened(self, event: ConversationOpened) -> None:
        if self._page is not None:
            self._page.end_growth()
        self._open_id = event.conversation.id
        self._is_shown = event.conversation.kind is ConversationKind.TEXT
        if not self._is_shown:
            self._chat.show_text_page(None)
            return
        self._chat.show_text_page(self.page)
        self._open_document()

    def _open_document(self) -> None:
        mode, page = self._desk.text, self.page
        page.setEnabled(mode.is_whole)
        if not mode.is_whole:
            return
        page.open_document(mode.text)
        page.set_generating(self._desk.replies.is_generating)
        self._after_change()
        page.report()
        page.focus()

    def _on_earlier_arrived(self, event: EarlierArrived) -> None:
        is_ours = self._is_shown and event.conversation_id == self._open_id
        if is_ours and not self.page.isEnabled():
            self._open_document()

    def _on_path_changed(self, event: PathChanged) -> None:
        if self._is_shown and event.conversation_id == self._open_id:
            self.page.show_document(self._desk.text.text)
            self._after_change()

    def _on_message_added(self, event: MessageAdded) -> None:
        if self._is_shown and event.message.conversation_id == self._open_id:
            self._after_change()

    def _after_change(self) -> None:
        """Marks and versions as they are now; a continuation that grows goes on growing."""
        path = self._desk.shelf.path
        last = path[-1] if path else None
        if last is not None and last.state is MessageState.STREAMING:
            start, _end = place_of(last, len(document(path[:-1])))
            self.page.begin_growth(start + len(last.content))
        self._show_marks()
        self._show_trouble()

    def _on_text_arrived(self, event: TextArrived) -> None:
        if self._is_shown and event.conversation_id == self._open_id and event.part == "content":
            self.page.append(event.text)

    def _on_message_changed(self, event: MessageChanged) -> None:
        message = event.message
        if not self._is_shown or message.conversation_id != self._open_id:
            return
        if message.role is Role.ASSISTANT and message.state is not MessageState.STREAMING:
            self.page.end_growth()
            if not self._desk.replies.is_generating:
                self.page.set_generating(False)
                self.page.show_document(self._desk.text.text)
                self.page.report()
        self._show_marks()
        self._show_trouble()

    def _show_trouble(self) -> None:
        """What is to be said of the last continuation, where nothing was written behind it."""
        path = self._desk.shelf.path
        last = path[-1] if path else None
        is_asked = last is not None and last.role is Role.ASSISTANT
        self.page.set_trouble(continuation_trouble(last) if is_asked and last is not None else "")

    def _show_marks(self) -> None:
        mode = self._desk.text
        continuation = mode.continuation
        self.page.set_generated(mode.generated)
        if continuation is None:
            self.page.set_versions(0, 0)
        else:
            self.page.set_versions(continuation.sibling_index, continuation.sibling_count)
