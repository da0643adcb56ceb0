"""Summaries of what falls out of a chat's prompt, where the context policy asks for them.

Before a message is sent, or when a reply has ended and nobody else is served, the engine is asked
what would be left out. Of that the loaded weights write a summary, in a slot of its own
(`summarizing.py`). It becomes a message below the newest one (`summary_nodes.py`). What must hold:

* Nothing is changed: the messages that it stands for stay where they are.
* Whatever goes wrong, or is skipped, the message is sent all the same: then the oldest messages are
  dropped, and that is said.
* Stop ends the summary and what waits for it. What is written when nobody waits rests while others
  are answered, and ends when another chat is opened.
* One at a time in a chat. Who sends while it is written waits for that one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from app.chat.attachments.attached_text import with_attachments
from app.chat.attachments.media_files import media_of
from app.chat.conversations.shelf import Shelf, new_id
from app.chat.events import Noticed, SummaryChanged
from app.chat.inspection.questions import NO_WEIGHTS, Questions
from app.chat.replies.prompts import chat_prompt, clean_message
from app.chat.replies.summary_nodes import (
    SUMMARY,
    Stands,
    covered_by,
    newest_summary,
    stands_for,
    without_summaries,
)
from app.chat.settings.levels import resolved_for
from app.chat.settings.settings import Settings
from app.chat.surroundings import Surroundings, now
from app.chat.weights.loading import Loader
from app.engine.prompts.summarizing import portions, room_for, summary_request
from app.engine.protocol.messages import Summary
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt, PromptShown, ReadPrompt
from models.records import Conversation, ConversationKind, Message, Role

SMALLEST: Final = 8
"""Portions of less than one eighth of the window are not tried."""

IDLE_S: Final = 1.0
"""After a reply, before a summary is begun that nobody waits for yet."""

SKIPPED: Final = "No summary was written, so the oldest messages are dropped from this prompt."
FAILED: Final = "The summary failed, so the oldest messages are dropped from this prompt. {why}"
UNWRITTEN: Final = "The summary failed. {why}"
EMPTY: Final = "The model wrote nothing."
NOTHING_TO_SUMMARIZE: Final = "Everything fits in the context window, so nothing was summarized."
BUSY: Final = "A summary is being written here. Wait or skip it first."
NOT_THERE: Final = "What this summary stands for has changed, so it can't be written again."
OFF: Final = (
    "Summaries are off in this chat. Choose “Summarize oldest messages” for a full context window "
    "first (Cache panel or Settings → Chat)."
)
NO_MODEL: Final = "Load a model to write a summary."

Then = Callable[[Message | None], None]


@dataclass(slots=True)
class _Writing:
    """A summary on its way. `path` is whole. `covered`: what it will stand for; `rest`: portions
    that are still to be read, of the prompt `prompt`; `text`: what was written so far. `then`: who
    waits for it. `is_before_reply`: a message does. `again`: begins anew, with portions of other
    than `room` tokens."""

    conversation_id: str
    path: tuple[Message, ...]
    then: Callable[[str, _Writing], None]
    failed: Callable[[str], None]
    prompt: ChatPrompt
    is_background: bool = False
    is_before_reply: bool = False
    covered: set[str] = field(default_factory=set)
    first: int = 0
    rest: list[list[ChatMessage]] = field(default_factory=list)
    again: Callable[[int], None] | None = None
    room: int = 0
    text: str = ""
    request_id: int | None = None
    is_over: bool = False

    @property
    def leaf_id(self) -> str:
        return self.path[-1].id


class Summaries:
    def __init__(
        self, around: Surroundings, shelf: Shelf, loader: Loader, questions: Questions
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._questions = questions
        self._writing: dict[str, _Writing] = {}

    def is_writing(self, conversation_id: str) -> bool:
        return conversation_id in self._writing

    # --- before a message is sent -------------------------------------------------------------

    def wanted_in(self, conversation: Conversation) -> bool:
        """Whether the policy of this chat asks for summaries."""
        is_chat = conversation.kind is ConversationKind.CHAT
        if self._loader.remote is not None and self._loader.remote.why_not("context_policy"):
            return False  # what would be left out is known where a prompt is counted
        return is_chat and self._settings(conversation).policy == "summarize"

    def prepare(self, conversation: Conversation, path: tuple[Message, ...], then: Then) -> None:
        """See to it that what falls out of the prompt for `path` has a summary. `then` gets the new
        message, which is on disk below the path; None: none is needed, or to be had."""

        def give(text: str, writing: _Writing) -> None:
            self._store_node(text, writing, path[-1].id, then)

        def give_up(sentence: str) -> None:
            if sentence:
                self._around.emit(Noticed("warning", sentence))
            then(None)

        running = self._writing.get(conversation.id)
        ids = [message.id for message in path]
        if running is not None and ids[: len(running.path)] == [m.id for m in running.path]:
            running.then, running.failed, running.is_background = give, give_up, False
            running.is_before_reply = True
            self._tell(running, path[-1].id)
            return
        self.stop(conversation.id)
        self._begin(conversation, path, give, give_up, is_before_reply=True)

    def stop(self, conversation_id: str) -> None:
        """Nobody waits for it any more: nobody is called."""
        writing = self._writing.get(conversation_id)
        if writing is not None:
            self._end(writing)
            if writing.request_id is not None:
                self._questions.stop(writing.request_id)

    def skip(self) -> None:
        """Send without one: the oldest messages are dropped."""
        writing = self._writing.get(self._shelf.open.id)
        if writing is not None:
            self.stop(writing.conversation_id)
            if writing.is_before_reply:
                writing.failed(SKIPPED)

    # --- when nobody waits ----------------------------------------------------------------------

    def after_reply(self, is_busy: Callable[[str], bool]) -> None:
        """A reply of the open chat has ended; `is_busy`: whether another one waits there."""

        def begin() -> None:
            chat, path = self._shelf.open, self._shelf.path
            stands_against = is_busy(chat.id) or self.is_writing(chat.id) or not path
            if stands_against or not self._shelf.is_whole or not self.wanted_in(chat):
                return
            if not self._around.can_write or self._around.is_closing:
                return
            self._begin(
                chat,
                path,
                lambda text, writing: self._show(text, writing, is_busy),
                lambda _sentence: None,
                is_background=True,
            )

        self._around.alarms.set("summarize", IDLE_S, begin)

    def on_opened(self) -> None:
        """Another chat is on screen: what nobody waits for is not written any more."""
        open_id = self._shelf.open.id
        for writing in list(self._writing.values()):
            if writing.is_background and writing.conversation_id != open_id:
                self.stop(writing.conversation_id)

    def now(self, is_busy: Callable[[str], bool]) -> None:
        """Summarise what would be left out of the next prompt, because somebody says so."""
        chat, path = self._shelf.open, self._shelf.path
        if not self._around.may_write() or not path or is_busy(chat.id):
            return
        if self.is_writing(chat.id):
            self._around.emit(Noticed("info", BUSY))
        elif self._loader.remote is not None:
            why = self._loader.remote.why_not("context_policy")
            self._around.emit(Noticed("info", why or OFF))
        elif not self.wanted_in(chat):
            self._around.emit(Noticed("info", OFF))
        elif self._loader.loaded is None:
            self._around.emit(Noticed("info", NO_MODEL))
        else:
            self._begin(
                chat,
                path,
                lambda text, writing: self._show(text, writing, is_busy),
                lambda why: self._around.emit(Noticed("info", why or NOTHING_TO_SUMMARIZE)),
            )

    def again(self, message_id: str, take: Callable[[str], object]) -> None:
        """Write a summary of the open chat once more; `take` gets its text."""
        chat, path, message = self._shelf.open, self._shelf.path, self._shelf.message(message_id)
        covered = covered_by(message, path) if message is not None else []
        if not covered:
            self._around.emit(Noticed("warning", NOT_THERE))
        elif self._loader.loaded is None:
            self._around.emit(Noticed("info", NO_MODEL))
        elif self.is_writing(chat.id):
            self._around.emit(Noticed("info", BUSY))
        else:
            writing = self._new(
                chat,
                path,
                lambda text, _writing: _given(take, text),
                lambda why: self._around.emit(Noticed("warning", why)),
            )
            sizes = [len(_said(m)) // 3 + 8 for m in covered]
            self._write(writing, covered, sizes, "", message_id)

    def _show(self, text: str, writing: _Writing, is_busy: Callable[[str], bool]) -> None:
        if is_busy(writing.conversation_id) or self._shelf.leaf_id != writing.leaf_id:
            return  # something else was said meanwhile: it will be asked for again
        self._store_node(text, writing, writing.leaf_id, self._add)

    def _add(self, node: Message | None) -> None:
        if node is not None and self._shelf.leaf_id == node.parent_id:
            self._shelf.add(node)

    # --- inside ---------------------------------------------------------------------------------

    def _settings(self, conversation: Conversation) -> Settings:
        return resolved_for(self._around, self._loader, conversation).settings

    def _new(
        self,
        conversation: Conversation,
        path: tuple[Message, ...],
        then: Callable[[str, _Writing], None],
        failed: Callable[[str], None],
        *,
        is_background: bool = False,
    ) -> _Writing:
        settings = self._settings(conversation)
        bare = dataclasses.replace(conversation, system_prompt="")  # resolved with the rest
        media = self._shelf.files.for_prompt(media_of(path), self._loader.loaded)
        prompt = chat_prompt(bare, path, settings, self._loader.weights_hash, media=media)
        writing = _Writing(conversation.id, path, then, failed, prompt, is_background)
        self._writing[conversation.id] = writing
        return writing

    def _begin(
        self,
        conversation: Conversation,
        path: tuple[Message, ...],
        then: Callable[[str, _Writing], None],
        failed: Callable[[str], None],
        *,
        is_background: bool = False,
        is_before_reply: bool = False,
    ) -> None:
        """Ask what falls out. `failed` gets an empty sentence where that is nothing."""
        writing = self._new(conversation, path, then, failed, is_background=is_background)
        writing.is_before_reply = is_before_reply
        writing.request_id = self._questions.ask(
            ReadPrompt(0, writing.prompt, "summarize"),
            PromptShown,
            lambda shown: self._take_cut(writing, shown),
            lambda _sentence: self._fail(writing, ""),  # sending says in words what is wrong
            still=lambda: not writing.is_over,
        )

    def _take_cut(self, writing: _Writing, shown: PromptShown) -> None:
        sizes = {cut.message_id: cut.n_tokens for cut in shown.cut if cut.message_id}
        if not sizes:
            self._fail(writing, "")
            return
        before = newest_summary(writing.path)
        known = covered_by(before, writing.path) if before is not None else []
        fresh = [message for message in writing.path if message.id in sizes]
        writing.covered = {message.id for message in known}
        self._write(
            writing,
            fresh,
            [sizes[message.id] for message in fresh],
            before.content if before is not None else "",
            writing.leaf_id,
        )

    def _write(
        self,
        writing: _Writing,
        messages: Sequence[Message],
        sizes: Sequence[int],
        before: str,
        shown_at: str,
    ) -> None:
        writing.covered |= {message.id for message in messages}
        plain = [message.id for message in without_summaries(writing.path)]
        quoted = [ChatMessage(m.role.value, _said(m)) for m in messages]

        def begin(room: int) -> None:
            writing.room, writing.text = room, before
            writing.rest = portions(quoted, sizes, room)
            n_read = sum(map(len, writing.rest))
            if not before:
                writing.first = plain.index(messages[len(messages) - n_read].id)
            self._write_next(writing)

        writing.again = begin
        self._tell(writing, shown_at)
        loaded = self._loader.loaded
        begin(room_for(loaded.n_ctx) if loaded is not None else 1)

    def _write_next(self, writing: _Writing) -> None:
        loaded = self._loader.loaded
        if not writing.rest:
            self._finish(writing)
            return
        if loaded is None:
            self._fail_because(writing, NO_WEIGHTS)
            return
        request = summary_request(writing.rest.pop(0), writing.text, writing.prompt, loaded.n_ctx)
        request = msgspec.structs.replace(request, is_background=writing.is_background)
        writing.request_id = self._questions.ask(
            request,
            Summary,
            lambda summary: self._take(writing, summary),
            lambda sentence: self._fail_because(writing, sentence),
            still=lambda: not writing.is_over,
            too_long=lambda sentence: self._on_too_long(writing, sentence),
        )

    def _on_too_long(self, writing: _Writing, sentence: str) -> None:
        """How long a text is as the weights read it is an estimate: smaller portions may fit."""
        loaded = self._loader.loaded
        is_small = loaded is None or writing.room < loaded.n_ctx // SMALLEST
        if writing.again is None or is_small:
            self._fail_because(writing, sentence)
        else:
            writing.again(writing.room // 2)

    def _take(self, writing: _Writing, summary: Summary) -> None:
        text = clean_message(summary.text).strip()
        if not text:
            self._fail_because(writing, EMPTY)
            return
        writing.text = text
        self._write_next(writing)

    def _finish(self, writing: _Writing) -> None:
        self._end(writing)
        writing.then(writing.text, writing)

    def _fail_because(self, writing: _Writing, why: str) -> None:
        words = FAILED if writing.is_before_reply else UNWRITTEN
        self._fail(writing, words.format(why=why))

    def _fail(self, writing: _Writing, sentence: str) -> None:
        self._end(writing)
        writing.failed(sentence)

    def _end(self, writing: _Writing) -> None:
        writing.is_over = True
        if self._writing.get(writing.conversation_id) is writing:
            del self._writing[writing.conversation_id]
        self._around.emit(SummaryChanged(writing.conversation_id))

    def _tell(self, writing: _Writing, message_id: str) -> None:
        if not writing.is_background:
            self._around.emit(
                SummaryChanged(writing.conversation_id, message_id, len(writing.covered))
            )

    def _store_node(self, text: str, writing: _Writing, parent_id: str, then: Then) -> None:
        """On disk first: the prompt that it goes into is never without it."""
        stands = stands_for(writing.path, writing.covered, writing.first)
        node = summary_node(writing.conversation_id, parent_id, text, stands)
        node = dataclasses.replace(
            node,
            weights_name=self._loader.weights_name,
            weights_hash=self._loader.weights_hash or None,
        )
        assert self._around.store is not None
        self._around.when_done(
            self._around.store.append_message(node, keep_in_view=True),
            then,
            lambda why: then(None) if self._say(FAILED.format(why=why)) else None,
            still=self._shelf.unless_ended(writing.conversation_id),
        )

    def _say(self, sentence: str) -> bool:
        self._around.emit(Noticed("warning", sentence))
        return True


def _said(message: Message) -> str:
    return with_attachments(message.content, message.attachments) or message.reasoning


def _given(take: Callable[[str], object], text: str) -> None:
    take(text)


def summary_node(conversation_id: str, parent_id: str, text: str, stands: Stands) -> Message:
    return Message(
        new_id(),
        conversation_id,
        parent_id,
        Role.SYSTEM,
        text,
        now(),
        settings={SUMMARY: stands.as_recorded()},
    )
