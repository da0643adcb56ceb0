"""What is looked at: one reply, its trace, and one token of it. All panels follow this.

Without a choice of the user's it is the newest reply of the open chat, token by token as it
grows. The trace of a stored reply comes from the database when somebody looks, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app import cores
from app.chat.events import (
    ConversationOpened,
    EngineStateChanged,
    MessageAdded,
    MessageChanged,
    PathChanged,
    TokenRecorded,
    TokensTakenBack,
    TraceRead,
    VocabularyRead,
)
from app.chat.replies.cut_versions import cuts_of
from app.chat.replies.written_by import Writer, writer_of
from app.insight.trace.message_tokens import first_chosen, most_uncertain_place
from models.records import Message, MessageState, Role
from ui.widgets.kit import rest_timer

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.engine.protocol.loading_messages import Loaded
    from app.engine.protocol.messages import TokenTrace
    from app.engine.protocol.pieces import Pieces
    from app.insight.trace.message_tokens import MessageTokens

GROWN_MS = 1000 if cores.HAS_FEW else 100
"""A growing trace is announced at most so often."""

NO_REPLY = "No reply yet. Send a message to see how the reply is made."
NOT_A_REPLY = "Only replies have recorded tokens. Choose a reply."
READING = "Loading the record…"
NO_TOKEN_YET = "No tokens yet."
NO_TOKENS_TOLD = "{engine} didn't tell the tokens of this reply."
NO_TOKENS = "This reply ended before its first token."


@dataclass(frozen=True, slots=True)
class Paint:
    """What a panel paints on the words of the chat, in the token view. `words` say what it is;
    `of(message id, its tokens)`: how strongly each is tinted, from 0 to 1."""

    words: str
    of: Callable[[str, MessageTokens], Sequence[float]]


class Looking(QObject):
    """A token can be chosen before its trace is read: it is chosen when that is here. Of a reply
    that goes another way from a chosen token on, that one is looked at.

    `message_changed`: another reply, or none. `trace_changed`: more of it is known, or less.
    `token_changed`: another token is chosen. `words_changed`: what IDs stand for is known now.
    `paint_changed`: a panel paints the words of the chat, or no longer.

    It sleeps until somebody looks (`set_awake`): then it reads what it missed.
    """

    message_changed = Signal()
    trace_changed = Signal()
    token_changed = Signal()
    words_changed = Signal()
    paint_changed = Signal()

    def __init__(self, desk: Desk, bridge: Bridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._watchers: set[str] = set()
        self._follows = True
        self._awaited: int | None = None
        self.message: Message | None = None
        self.traces: Sequence[TokenTrace] = ()
        self.index: int | None = None
        self.aside = ""
        self.sentence = NO_REPLY
        self.is_growing = False
        self.paint: Paint | None = None
        self._timer = rest_timer(self, self.trace_changed, GROWN_MS)
        bridge.on(ConversationOpened, self._on_opened)
        bridge.on(PathChanged, self._on_path)
        bridge.on(MessageAdded, self._on_added)
        bridge.on(MessageChanged, self._on_changed)
        bridge.on(TokenRecorded, self._on_token)
        bridge.on(TokensTakenBack, self._on_taken_back)
        bridge.on(TraceRead, self._on_trace)
        bridge.on(VocabularyRead, self._on_vocabulary)
        bridge.on(EngineStateChanged, self._on_engine)

    # --- what is there --------------------------------------------------------------------------

    @property
    def token(self) -> TokenTrace | None:
        """The chosen token."""
        if self.index is None or self.index >= len(self.traces):
            return None
        return self.traces[self.index]

    @property
    def words(self) -> Pieces | None:
        """What IDs of this reply stand for; None where the weights that wrote it are not loaded,
        or their vocabulary is not read yet."""
        return None if self.message is None else self._desk.words.of(self.message.weights_hash)

    @property
    def n_vocab(self) -> int | None:
        """How many tokens the weights know that wrote this reply; None where others are loaded."""
        words, loaded = self.words, self.loaded
        if words is not None:
            return len(words)
        return None if loaded is None else loaded.n_vocab

    @property
    def writer(self) -> Writer | None:
        """The server that wrote this reply; None: this machine did."""
        return None if self.message is None else writer_of(self.message.settings)

    @property
    def loaded(self) -> Loaded | None:
        """The weights that wrote this reply; None where others are loaded, or none, or a server has
        them: what stands in no memory here has no layers and no sizes."""
        loaded = self._desk.loader.state.loaded
        if self.message is None or loaded is None or not loaded.fast_hash:
            return None
        if loaded.remote is not None:
            return None
        return loaded if loaded.fast_hash == self.message.weights_hash else None

    def set_paint(self, paint: Paint | None) -> None:
        if paint is not self.paint:
            self.paint = paint
            self.paint_changed.emit()

    # --- what is chosen -------------------------------------------------------------------------

    @property
    def _is_awake(self) -> bool:
        return bool(self._watchers)

    def set_awake(self, is_awake: bool, who: str = "section") -> None:
        """Whether somebody looks: the panels, or the token view."""
        if not is_awake:
            self._watchers.discard(who)
            return
        was_awake = self._is_awake
        self._watchers.add(who)
        if not was_awake:
            self._desk.words.read()
            self._follow_newest() if self.message is None or self._follows else self._read()

    def look_at(self, message_id: str, index: int | None = None) -> None:
        """Look at a message of the open chat, and at one of its tokens."""
        found = next((each for each in self._desk.shelf.path if each.id == message_id), None)
        if found is None:
            return
        newest = self._newest()
        self._follows = newest is not None and newest.id == message_id
        if self.message is None or self.message.id != message_id:
            self._take(found)
        self.select(index)
        self._awaited = index if self.index is None else None

    def select(self, index: int | None) -> None:
        """Choose a token by its place in the trace; one that is not there means none."""
        self._awaited = None
        if index is not None and not 0 <= index < len(self.traces):
            index = None
        if index != self.index or self.aside:
            self.index, self.aside = index, ""
            self.token_changed.emit()

    def select_aside(self, words: str) -> None:
        """None of the reply's tokens: one that only some panels know, called by these words."""
        self._awaited, self.index, self.aside = None, None, words
        self.token_changed.emit()

    def step(self, by: int) -> None:
        """To the next token (1), the one before (−1), and so on; it stops at either end."""
        if len(self.traces):
            at = (-1 if by > 0 else 0) if self.index is None else self.index
            self.select(min(max(at + by, 0), len(self.traces) - 1))

    def go_to_most_uncertain(self) -> None:
        self.select(most_uncertain_place(self.traces))

    # --- following ------------------------------------------------------------------------------

    def _newest(self) -> Message | None:
        replies = (m for m in reversed(self._desk.shelf.path) if m.role is Role.ASSISTANT)
        return next(replies, None)

    def _follow_newest(self) -> None:
        self._follows = True
        newest = self._newest()
        if newest is None or self.message is None or newest.id != self.message.id:
            self._take(newest)
        elif not len(self.traces):
            self._read()

    def _take(self, message: Message | None) -> None:
        before = self.message
        self.message, self.traces, self.index, self._awaited = message, (), None, None
        self.aside = ""
        self.is_growing = message is not None and message.state is MessageState.STREAMING
        if message is not None:
            self._awaited = _parts_at(message, before)
        self.message_changed.emit()
        self.token_changed.emit()
        self._read()

    def _read(self) -> None:
        """Have the trace read, or take the growing one."""
        message = self.message
        if message is None or message.role is not Role.ASSISTANT:
            self._show((), NO_REPLY if message is None else NOT_A_REPLY)
            return
        growing = self._desk.growing.trace_of(message.id)
        if growing is not None:
            self._show(growing, "" if len(growing) else NO_TOKEN_YET)
        elif self._is_awake and not len(self.traces):
            self._show((), READING)
            self._desk.growing.read_trace(message.id)

    def _show(self, traces: Sequence[TokenTrace], sentence: str) -> None:
        self.traces, self.sentence = traces, sentence
        self.trace_changed.emit()
        if self._is_awaited_here or (len(traces) and not self.is_growing):
            self._take_awaited()

    @property
    def _is_awaited_here(self) -> bool:
        return self._awaited is not None and self._awaited < len(self.traces)

    def _take_awaited(self) -> None:
        if self._awaited is not None:
            self.select(self._awaited)

    @property
    def _untold(self) -> str:
        """Why a server's reply has no tokens."""
        writer = self.writer
        if writer is None or self.message is None or _has_no_tokens(self.message):
            return ""
        remote = self._desk.loader.remote
        if remote is not None and remote.engine_id == writer.engine_id:
            return remote.why_not("logprobs") or NO_TOKENS_TOLD.format(engine=writer.words)
        return NO_TOKENS_TOLD.format(engine=writer.words)

    def _is_looked_at(self, message_id: str) -> bool:
        return self.message is not None and self.message.id == message_id

    def _on_opened(self, _event: ConversationOpened) -> None:
        self.message = None
        self._follow_newest()

    def _on_path(self, _event: PathChanged) -> None:
        """Another version: what was looked at may be gone from the screen."""
        path = {each.id for each in self._desk.shelf.path}
        if self._follows or self.message is None or self.message.id not in path:
            self._follow_newest()

    def _on_added(self, event: MessageAdded) -> None:
        if self._follows and event.message.role is Role.ASSISTANT:
            self._take(event.message)

    def _on_changed(self, event: MessageChanged) -> None:
        if not self._is_looked_at(event.message.id):
            return
        was_growing, self.message = self.is_growing, event.message
        self.is_growing = event.message.state is MessageState.STREAMING
        if was_growing != self.is_growing:
            self._timer.stop()
            if not self.is_growing and not len(self.traces):
                self.sentence = self._untold or NO_TOKENS
            self.trace_changed.emit()

    def _on_token(self, event: TokenRecorded) -> None:
        if not self._is_looked_at(event.message_id):
            return
        if not len(self.traces):
            self.traces = self._desk.growing.trace_of(event.message_id) or ()
        self.sentence = ""
        if self._is_awake and self._is_awaited_here:
            self.trace_changed.emit()
            self._take_awaited()
        if self._is_awake and not self._timer.isActive():
            self._timer.start()

    def _on_taken_back(self, event: TokensTakenBack) -> None:
        if self._is_looked_at(event.message_id):
            if self.index is not None and self.index >= len(self.traces):
                self.select(None)
            self.trace_changed.emit()

    def _on_trace(self, event: TraceRead) -> None:
        if self._is_looked_at(event.message_id) and not self.is_growing:
            is_empty = self.message is not None and _has_no_tokens(self.message)
            sentence = NO_TOKENS if is_empty else event.sentence
            told = len(event.tokens)
            self._show(event.tokens, sentence if told else self._untold or sentence)
            if self.index is not None and self.token is None:
                self.select(None)

    def _on_vocabulary(self, _event: VocabularyRead) -> None:
        self.words_changed.emit()

    def _on_engine(self, _event: object) -> None:
        if self._is_awake:
            self._desk.words.read()


def _parts_at(message: Message, before: Message | None) -> int | None:
    """Where a reply goes another way than the one that was looked at: at a token that was chosen by
    hand, or from which on parts of the network are cut."""
    is_growing = message.state is MessageState.STREAMING
    chosen, cut = first_chosen(message), cuts_of(message.settings)
    if chosen is not None or cut is None:
        return chosen if is_growing else None
    is_version = before is not None and before.parent_id == message.parent_id
    return cut.index if is_growing or is_version else None


def _has_no_tokens(message: Message) -> bool:
    """It ended before the first one. Where the app was closed then, nobody has counted."""
    is_blank = not (message.content or message.reasoning or message.token_ids)
    return message.counts.generated == 0 or (message.counts.generated is None and is_blank)
