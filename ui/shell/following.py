"""Keeps sidebar and chat as the desk's events say. One slot for each event.

Events of other conversations than the one on screen change nothing in the transcript.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Signal

from app.chat.events import (
    ContextCounted,
    ConversationChanged,
    ConversationOpened,
    ConversationsChanged,
    EarlierArrived,
    EngineStateChanged,
    LoadProgressed,
    MessageAdded,
    MessageChanged,
    Noticed,
    PathChanged,
    PrefillProgressed,
    ReplyingChanged,
    SendQueued,
    StatusFigures,
    StoreStateChanged,
    SummaryChanged,
    TextArrived,
)
from app.chat.replies.replies import NO_WEIGHTS_SENTENCE
from models.records import Conversation, ConversationKind, MessageState
from ui.chat.chat_column import ChatColumn
from ui.chat.header import LOADING
from ui.shell.notices import Act, Notice
from ui.shell.status import NO_FIGURES
from ui.sidebar.sidebar import Sidebar
from ui.widgets.figures import plain_name

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.hub.downloads.progress import DownloadProgress
    from ui.transcript.cut_line import CutLines


NO_TEMPLATE = "This model has no chat template"
"""The engine's note begins so; the banner says it, with what to choose."""
NOT_RUNNING = "The engine isn't running. It restarts with your next message."
TRASHED = "trash "
"""The undo key of a chat in the trash begins so; its id follows."""


NOTHING_CUT: Final = ContextCounted(0, 0, last_cut="")


class Following(QObject):
    log_requested = Signal()
    generating_changed = Signal(bool)

    def __init__(self, desk: Desk, bridge: Bridge, sidebar: Sidebar, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._sidebar = sidebar
        self._chat = chat
        self._open_id = ""
        self._has_messages = False
        self._last_path = ""
        self._last_undo = ""
        self._is_generating = False
        self._waiting_id = ""
        self._cut_lines: CutLines | None = None
        self._summary_at = ""
        bridge.on(ConversationsChanged, self._on_conversations_changed)
        bridge.on(ConversationOpened, self._on_conversation_opened)
        bridge.on(EarlierArrived, self._on_earlier_arrived)
        bridge.on(ConversationChanged, self._on_conversation_changed)
        bridge.on(PathChanged, self._on_path_changed)
        bridge.on(MessageAdded, self._on_message_added)
        bridge.on(MessageChanged, self._on_message_changed)
        bridge.on(TextArrived, self._on_text_arrived)
        bridge.on(PrefillProgressed, self._on_prefill_progressed)
        bridge.on(EngineStateChanged, self._on_engine_state_changed)
        bridge.on(LoadProgressed, self._on_load_progressed)
        bridge.on(SendQueued, self._on_send_queued)
        bridge.on(SummaryChanged, self._on_summary)
        bridge.on(ContextCounted, self._on_context_counted)
        bridge.on(StatusFigures, self._on_status_figures)
        bridge.on(Noticed, self._on_noticed)
        bridge.on(StoreStateChanged, self._on_store_state_changed)
        bridge.on(ReplyingChanged, self._on_replying_changed)
        desk.downloads.follow(self._on_downloads)

    def read_desk(self, peeked: Conversation | None = None) -> None:
        """Take over what was there before anybody listened. Words in the field stay there.

        `peeked`: the chat that is shown already, though the desk has not opened it yet.
        """
        desk = self._desk
        if desk.shelf.conversations:  # none yet is not the same as none: the list comes later
            self._on_conversations_changed(ConversationsChanged(tuple(desk.shelf.conversations)))
        if peeked is not None:
            self._open_id, self._has_messages = peeked.id, True
            self._show_title(peeked.title)
        else:
            typed = self._chat.composer.text() or desk.shelf.open.draft
            conversation = dataclasses.replace(desk.shelf.open, draft=typed)
            self._on_conversation_opened(ConversationOpened(conversation, tuple(desk.shelf.path)))
        self._on_engine_state_changed(desk.loader.state)

    # --- conversations ------------------------------------------------------------------

    def _on_conversations_changed(self, event: ConversationsChanged) -> None:
        """A chat that is back in the list, however it came there, has nothing left to undo."""
        self._sidebar.set_conversations(event.conversations)
        listed = {f"{TRASHED}{each.id}" for each in event.conversations}
        for card in self._chat.toasts.cards():
            if card.notice.key in listed:
                self._chat.toasts.dismiss(card.notice.key)
        if self._last_undo in listed:
            self._last_undo = ""

    def _on_replying_changed(self, event: ReplyingChanged) -> None:
        self._sidebar.set_replying(event.conversation_ids)

    def _on_conversation_opened(self, event: ConversationOpened) -> None:
        conversation = event.conversation
        is_same = conversation.id == self._open_id
        self._open_id = conversation.id
        self._has_messages = bool(event.messages)
        self._sidebar.set_open(conversation.id)
        self._show_title(conversation.title)
        # What a document is made of can be read as tokens there; it is changed on its page.
        self._chat.transcript.rows.is_bare = conversation.kind is ConversationKind.TEXT
        self._chat.transcript.set_conversation(event.messages)
        self._show_cut(NOTHING_CUT)
        self._chat.composer.set_text(conversation.draft, is_same_chat=is_same)
        self._show_waiting(self._desk.replies.is_waiting)
        self._chat.status.set_reply()
        self._show_body()
        self.look_whether_generating()

    def _on_earlier_arrived(self, event: EarlierArrived) -> None:
        if event.conversation_id == self._open_id:
            self._chat.transcript.add_earlier(event.messages)

    def _on_conversation_changed(self, event: ConversationChanged) -> None:
        self._sidebar.change_conversation(event.conversation)
        if event.conversation.id == self._open_id:
            self._show_title(event.conversation.title)

    def _show_title(self, title: str) -> None:
        self._chat.header.set_title(title)
        self._chat.window().setWindowTitle(f"{title} – Cutaway" if title else "Cutaway")

    def _show_body(self) -> None:
        """The transcript, or what to do first where there is none."""
        state = self._desk.loader.state
        if not self._has_messages:
            if self._has_no_weights():
                self._chat.empty.show_no_weights(state.sentence)
            elif state.state in LOADING:
                self._chat.empty.show_loading(
                    plain_name(state.weights_name), is_remote=state.is_remote
                )
            else:
                remote = state.loaded.remote if state.loaded is not None else None
                server = remote.name if remote is not None else ""
                self._chat.empty.show_new_chat(plain_name(state.weights_name), server)
        self._chat.show_transcript(self._has_messages)

    def _has_no_weights(self) -> bool:
        state = self._desk.loader.state
        return state.state == "stopped" and not self._desk.loader.known_weights()

    # --- messages -----------------------------------------------------------------------

    def _on_path_changed(self, event: PathChanged) -> None:
        if event.conversation_id == self._open_id:
            self._has_messages = bool(event.messages)
            self._chat.transcript.set_conversation(event.messages)
            self._chat.status.set_reply()  # what it says is of a reply that may have left
            self._show_body()
            self.look_whether_generating()

    def _on_message_added(self, event: MessageAdded) -> None:
        if event.message.conversation_id == self._open_id:
            self._has_messages = True
            self._chat.transcript.add_message(event.message)
            self._show_body()
        self.look_whether_generating()

    def _on_message_changed(self, event: MessageChanged) -> None:
        message = event.message
        if message.conversation_id == self._open_id:
            self._chat.transcript.change_message(message)
            is_last = bool(self._desk.shelf.path) and self._desk.shelf.path[-1].id == message.id
            if is_last and message.state is not MessageState.STREAMING:
                self._chat.status.set_reply(message.counts if self._is_text else NO_FIGURES)
        self.look_whether_generating()

    def _on_text_arrived(self, event: TextArrived) -> None:
        if event.conversation_id == self._open_id:
            self._chat.transcript.append_text(event.message_id, event.text, event.part)

    def look_whether_generating(self) -> None:
        """Stop in the place of Send, while something is under way."""
        is_generating = self._desk.replies.is_generating
        if is_generating != self._is_generating:
            self._is_generating = is_generating
            self._chat.composer.set_generating(is_generating)
            self._chat.transcript.is_locked = is_generating
            self.generating_changed.emit(is_generating)

    # --- status -------------------------------------------------------------------------

    @property
    def _is_text(self) -> bool:
        """A document is open: it has no lines of its own below its parts."""
        return self._chat.transcript.rows.is_bare

    def _on_prefill_progressed(self, event: PrefillProgressed) -> None:
        if event.conversation_id == self._open_id:
            self._chat.status.set_reply()
            done, total = event.done_tokens, event.total_tokens
            words = f"Processing prompt, {done:,} of {total:,} tokens"
            if event.is_media:
                words = "Processing media" + (f", {done:,} of {total:,} parts" * (total > 1))
            elif done >= total:  # in step mode the first token may wait for long now
                words = "Prompt processed"
            self._chat.transcript.set_progress(event.message_id, words)

    def _on_send_queued(self, event: SendQueued) -> None:
        if event.conversation_id == self._open_id:
            self._show_waiting(event.waiting, event.place)
        self.look_whether_generating()

    def _show_waiting(self, is_waiting: bool, place: int = 0) -> None:
        """That the last message waits, and what for."""
        messages = self._desk.shelf.path if is_waiting else ()
        waiting_id = messages[-1].id if messages else ""
        if self._waiting_id and self._waiting_id != waiting_id:
            self._chat.transcript.set_progress(self._waiting_id, "")
        self._waiting_id = waiting_id
        if waiting_id:
            words = _waiting_words(self._desk.loader.state, place)
            self._chat.transcript.set_progress(waiting_id, words)
        self._chat.status.set_waiting(is_waiting and self._is_text)

    def _on_context_counted(self, event: ContextCounted) -> None:
        self._chat.status.set_context(event.used, event.size, event.n_cut, is_text=self._is_text)
        if event.last_cut is not None:
            self._show_cut(event)

    def _show_cut(self, count: ContextCounted) -> None:
        """The lines between which nothing goes along. Most chats never have any."""
        if self._cut_lines is None and (count.last_cut or count.covered):
            from ui.transcript.cut_line import CutLines

            self._cut_lines = CutLines(self._chat.transcript)
        if self._cut_lines is not None:
            self._cut_lines.show(count)

    def _on_summary(self, event: SummaryChanged) -> None:
        """What waits for a summary says so."""
        transcript = self._chat.transcript
        if self._summary_at:
            transcript.set_progress(self._summary_at, "")
            self._summary_at = ""
        if event.n_messages and event.conversation_id == self._open_id:
            messages = "message" if event.n_messages == 1 else f"{event.n_messages:,} messages"
            transcript.set_progress(event.message_id, f"Summarizing the oldest {messages}…")
            self._summary_at = event.message_id

    def _on_downloads(self, downloads: tuple[DownloadProgress, ...]) -> None:
        # Imported here: at the start nothing is downloaded.
        from ui.library.downloads.words import status_hint, status_text

        text = status_text(downloads)
        self._chat.status.set_downloads(text, status_hint(downloads) if text else "")

    def _on_status_figures(self, event: StatusFigures) -> None:
        self._chat.status.set_figures(event)

    # --- engine -------------------------------------------------------------------------

    def _on_load_progressed(self, event: LoadProgressed) -> None:
        self._chat.header.set_progress(event.fraction)

    def _on_engine_state_changed(self, event: EngineStateChanged) -> None:
        if event.loaded is not None:
            self._last_path = event.loaded.path
        else:
            self._show_cut(NOTHING_CUT)  # nobody knows how large the next window will be
        if event.state not in ("stopped", "crashed"):
            self._chat.toasts.dismiss(NO_WEIGHTS_SENTENCE)  # what it asks for is being done
        self._chat.header.set_engine_state(event)
        self._chat.status.set_engine_state(event)
        if self._waiting_id:
            self._show_waiting(True)
        notice = self._engine_notice(event)
        if notice is None:
            self._chat.banners.dismiss("engine")
        else:
            self._chat.banners.show_notice(notice)
            # The same words may have come as news a moment before.
            self._chat.toasts.dismiss(notice.sentence)
        if not self._has_messages:
            self._show_body()
        self.look_whether_generating()

    def _engine_notice(self, event: EngineStateChanged) -> Notice | None:
        """Why nothing answers, as long as that is so."""
        has_failed = event.state in ("crashed", "stopped") and bool(event.sentence)
        if not has_failed or (event.state == "stopped" and self._has_no_weights()):
            return None
        acts = [Act("Show log", self.log_requested.emit)]
        if event.state == "crashed" and self._last_path:
            acts.append(Act("Reload", lambda: self._desk.loader.load(self._last_path)))
        else:
            acts.append(Act("Choose a model…", self._chat.header.open_menu))
        level, sentence = "error", event.sentence
        if self._desk.shelf.path and self._desk.shelf.path[-1].error == sentence:
            # The whole sentence stands under the reply that it cut off.
            level, sentence = "warning", NOT_RUNNING
        return Notice("engine", level, sentence, event.evidence, tuple(acts))

    # --- notices ------------------------------------------------------------------------

    @property
    def can_undo(self) -> bool:
        return bool(self._last_undo)

    def undo_last(self) -> None:
        """Take back the last act that can be taken back, once."""
        if self._last_undo:
            self._undo(self._last_undo)

    def _undo(self, key: str) -> None:
        if key == self._last_undo:
            self._last_undo = ""
        self._chat.toasts.dismiss(key)
        self._desk.shelf.undo(key)

    def _on_noticed(self, event: Noticed) -> None:
        if self._is_said(event.sentence):
            return
        acts: tuple[Act, ...] = ()
        if event.undo:
            self._last_undo = event.undo
            acts = (Act("Undo", lambda: self._undo(event.undo)),)
        key = event.undo or event.sentence
        self._chat.toasts.show_notice(Notice(key, event.level, event.sentence, acts=acts))

    def _is_said(self, sentence: str) -> bool:
        """Whether these words stand somewhere already: no news then."""
        state = self._desk.loader.state
        if self._chat.banners.card("engine") is not None and state.sentence == sentence:
            return True
        if self._chat.banners.card("template") is not None and sentence.startswith(NO_TEMPLATE):
            return True
        if state.loaded is not None and sentence in state.loaded.notes:
            return True  # the weights' own notes stand with them, in tooltip and settings
        return state.sentence == sentence and not self._has_messages and self._has_no_weights()

    def _on_store_state_changed(self, event: StoreStateChanged) -> None:
        if event.state == "ok" or not event.sentence:
            self._chat.banners.dismiss("store")
            return
        level = "error" if event.state == "failed" else "warning"
        self._chat.banners.show_notice(Notice("store", level, event.sentence))


def _waiting_words(state: EngineStateChanged, place: int) -> str:
    """What a message waits for; `place` in the engine's queue, where it is there."""
    if state.loaded is not None and place > 1:
        return f"Queued, {place - 1:,} ahead"
    if state.loaded is not None:
        return "Queued, next in line" if place else "Queued"
    if state.state in LOADING:
        return "Waiting for the model to load"
    return "Waiting for a model: choose one at the top"
