"""Sending and what comes back: the queue, replies in the making, stop, retry, saving.

What must hold:

* A sent message is on disk before the engine sees it, and the reply's row before its
  first token. A growing reply is saved every `SAVE_INTERVAL_S`, so that an end by force
  of either process loses less than a second of it.
* Each conversation has at most one reply waiting or in the making.
* Nothing that arrived is dropped: whatever ends a reply, its text stays, with a sentence.
* A retry adds a version beside the old one; it removes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.chat.events import (
    ContextCounted,
    Noticed,
    PrefillProgressed,
    SendQueued,
    TextArrived,
    TokenRecorded,
    TokensTakenBack,
    TraceRead,
)
from app.chat.loading import Loader
from app.chat.prompts import clean_message, generate_request, is_encodable
from app.chat.recorded import at_start
from app.chat.reply import Reply, fields_at_end, in_the_apps_words
from app.chat.shelf import Shelf, new_id
from app.chat.surroundings import Surroundings, now
from app.chat.traces import Traces
from app.engine.protocol import (
    Done,
    Failed,
    Finished,
    Loaded,
    Note,
    Progress,
    Queued,
    Stopped,
    TextFlushed,
    TextTakenBack,
    ThreadsChanged,
    TokenArrived,
)
from models.records import Message, MessageState, Role
from models.store import Store

SAVE_INTERVAL_S: Final = 0.5
FIGURES_INTERVAL_S: Final = 0.1
SURROGATES_SENTENCE: Final = (
    "Your message held halves of characters that cannot be kept; each is now shown as �."
)
CUT_NOTE: Final = "turns_left_out"
NO_WEIGHTS_SENTENCE: Final = "Your message is kept and waits. Load weights to have it answered."


@dataclass(slots=True)
class Waiting:
    """A reply that has been asked for and not begun. `path` ends with the message to answer.

    `version` is the number of replies that already stand beside it. `is_saved`: the message
    is on disk. `is_announced`: the user was told that it waits for weights.
    """

    conversation_id: str
    path: tuple[Message, ...]
    version: int = 0
    is_saved: bool = False
    is_announced: bool = False


class Replies:
    """All replies that wait or grow, in any conversation."""

    def __init__(self, around: Surroundings, shelf: Shelf, loader: Loader) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._waiting: dict[str, Waiting] = {}
        self._growing: dict[str, Reply] = {}
        self._requests: dict[int, Reply] = {}
        self._steered: tuple[Loaded | None, int] | None = None
        self._traces = Traces(around)
        self._noted: set[tuple[str, str]] = set()

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def is_busy(self, conversation_id: str) -> bool:
        """Whether a reply waits or grows there."""
        return conversation_id in self._waiting or self._reply_in(conversation_id) is not None

    def is_waiting(self, conversation_id: str) -> bool:
        """Whether the user was told that a message there waits."""
        waiting = self._waiting.get(conversation_id)
        reply = self._reply_in(conversation_id)
        return bool(waiting and waiting.is_announced) or bool(reply and reply.is_queued)

    def is_growing(self, conversation_id: str) -> bool:
        return self._reply_in(conversation_id) is not None

    def live_path(self, conversation_id: str, messages: Iterable[Message]) -> tuple[Message, ...]:
        """The messages with replies in the making as they are now, a just begun one added."""
        path = [self._live(message) for message in messages]
        reply = self._reply_in(conversation_id)
        if reply is not None and path and path[-1].id == reply.message.parent_id:
            path.append(reply.snapshot())
        return tuple(path)

    def _live(self, message: Message) -> Message:
        reply = self._growing.get(message.id)
        if reply is None:
            return message
        return dataclasses.replace(
            reply.snapshot(),
            sibling_index=message.sibling_index,
            sibling_count=message.sibling_count,
        )

    def _reply_in(self, conversation_id: str) -> Reply | None:
        for reply in self._growing.values():
            if reply.conversation_id == conversation_id:
                return reply
        return None

    # --- acts -----------------------------------------------------------------------------------

    def send(self, text: str) -> bool:
        """Store a message of the open conversation and ask for its reply. False: not taken."""
        typed, text = text, clean_message(text)
        if not text or text.isspace() or not self._may_ask():
            return False
        if text is not typed and not is_encodable(typed):
            self._say_once(SURROGATES_SENTENCE)
        shelf, conversation_id = self._shelf, self._shelf.open.id
        shelf.ensure_stored()
        message = shelf.user_message(text)
        shelf.drop_draft()
        stored = self._store.append_message(message)
        waiting = Waiting(conversation_id, (*shelf.path, message))
        self._waiting[conversation_id] = waiting  # before views are told and ask `is_busy`
        shelf.add(message)
        shelf.touch(conversation_id)
        self._around.when_done(
            stored,
            lambda _: self._on_message_saved(waiting),
            lambda sentence: self._on_message_unsaved(waiting, message, sentence),
        )
        return True

    def _say_once(self, sentence: str) -> None:
        if ("", sentence) not in self._noted:
            self._noted.add(("", sentence))
            self._around.emit(Noticed("info", sentence))

    def _may_ask(self) -> bool:
        if not self._around.can_write:
            sentence = self._around.store_state.sentence or "This window cannot save anything."
            self._around.emit(Noticed("warning", sentence))
            return False
        return self._around.store is not None and not self.is_busy(self._shelf.open.id)

    def _on_message_saved(self, waiting: Waiting) -> None:
        waiting.is_saved = True
        self.begin_waiting()

    def _on_message_unsaved(self, waiting: Waiting, message: Message, sentence: str) -> None:
        self._drop(waiting)
        self._shelf.update(dataclasses.replace(message, state=MessageState.FAILED, error=sentence))

    def retry(self, message_id: str) -> None:
        """Ask for another version of a reply, or for the reply of a message that has none."""
        message = self._shelf.message(message_id)
        if message is None or not self._may_ask():
            return
        path, version = self._shelf.path_before(message_id), message.sibling_count
        if message.role is Role.USER:
            path, version = (*path, message), 0
        if path:
            self._waiting[message.conversation_id] = Waiting(
                message.conversation_id, path, version, is_saved=True
            )
            self.begin_waiting()

    def begin_waiting(self) -> None:
        """Begin what waits, if weights are there; else see to it that they come."""
        for waiting in [w for w in self._waiting.values() if w.is_saved]:
            if self._loader.is_ready:
                self._begin(waiting)
            else:
                self._announce(waiting)

    def _announce(self, waiting: Waiting) -> None:
        if not waiting.is_announced:
            waiting.is_announced = True
            self._around.emit(SendQueued(waiting.conversation_id, waiting=True))
        is_coming = self._loader.state.state in ("starting", "loading") or self._loader.is_loading
        if not is_coming and not self._loader.load_again():
            self._around.emit(
                Noticed("warning", self._loader.state.sentence or NO_WEIGHTS_SENTENCE)
            )

    def _drop(self, waiting: Waiting) -> None:
        if self._waiting.get(waiting.conversation_id) is waiting:
            del self._waiting[waiting.conversation_id]
        if waiting.is_announced:
            self._around.emit(SendQueued(waiting.conversation_id, waiting=False))

    def _begin(self, waiting: Waiting) -> None:
        parent = waiting.path[-1]
        message = Message(
            id=new_id(),
            conversation_id=waiting.conversation_id,
            parent_id=parent.id,
            role=Role.ASSISTANT,
            content="",
            created_at=now(),
            state=MessageState.STREAMING,
            settings=self._around.settings.as_recorded(),
            weights_name=self._loader.weights_name,
            weights_hash=self._loader.weights_hash or None,
            sibling_index=waiting.version,
            sibling_count=waiting.version + 1,
        )
        reply = Reply(message, asked_at=self._around.clock())
        self._growing[message.id] = reply
        self._drop(waiting)
        if waiting.version == 0 and self._shelf.leaf_id == parent.id:
            self._shelf.add(message)
        else:
            self._shelf.replace_path(message.conversation_id, (*waiting.path, message))
        self._around.when_done(
            self._store.append_message(message),
            lambda placed: self._ask(reply, waiting, placed),
            lambda sentence: self._end(reply, Failed(0, "internal", sentence)),
        )

    def _ask(self, reply: Reply, waiting: Waiting, placed: Message) -> None:
        """The rows are on disk: now the engine may see the message."""
        self._shelf.place(placed)
        if reply.is_stop_wanted:
            self._end(reply, Stopped(0, Done()))
            return
        conversation = self._shelf.conversation(reply.conversation_id)
        if conversation is None:  # it went to the trash meanwhile
            self._end(reply, Stopped(0, Done()))
            return
        reply.asked_at = self._around.clock()
        request = generate_request(
            conversation, waiting.path, self._around.settings, self._loader.weights_hash
        )
        recorded = at_start(self._around.settings, request, self._loader.loaded)
        reply.message = dataclasses.replace(reply.message, settings=recorded)
        reply.request_id = self._loader.engine.generate(request)
        self._requests[reply.request_id] = reply

    def stop(self, conversation_id: str) -> None:
        """Stop what grows there, or forget what waits there. The message itself stays."""
        waiting, reply = self._waiting.get(conversation_id), self._reply_in(conversation_id)
        if waiting is not None:
            waiting.is_announced = True  # whoever shows Stop learns that it is Send again
            self._drop(waiting)
        if reply is not None:
            reply.is_stop_wanted = True
            if reply.request_id is not None:
                self._loader.engine.stop(reply.request_id)

    def close(self) -> None:
        """The app closes: what has arrived is saved, marked as interrupted."""
        for reply in self._growing.values():
            self._store.update_message(reply.message.id, **fields_at_end(reply.closed()))
            self._traces.keep(reply.message.id, reply.traces)
        self._growing.clear()
        self._requests.clear()
        self._waiting.clear()

    def read_trace(self, message_id: str) -> None:
        """What was recorded about a reply's tokens; TraceRead answers."""
        reply = self._growing.get(message_id)
        if reply is not None:
            self._around.emit(TraceRead(message_id, tuple(reply.traces)))
        else:
            self._traces.read(message_id)

    # --- events ---------------------------------------------------------------------------------

    def take_token(self, event: TokenArrived) -> None:
        reply = self._requests.get(event.id)
        if reply is None:
            return
        reply.take_token(event, self._around.clock())
        self._save_soon(reply)
        self._around.emit(
            TokenRecorded(reply.conversation_id, reply.message.id, event.token, event.context_used)
        )

    def take_flushed(self, event: TextFlushed) -> None:
        reply = self._requests.get(event.id)
        if reply is not None:
            reply.take_flushed(event)
            self._save_soon(reply)

    def take_back(self, event: TextTakenBack) -> None:
        reply = self._requests.get(event.id)
        if reply is not None:
            reply.take_back(event)
            self._around.emit(
                TokensTakenBack(reply.conversation_id, reply.message.id, event.n_tokens)
            )

    def take_threads(self, event: ThreadsChanged) -> None:
        """The engine steers its threads; it stays so for the replies to come."""
        self._steered = (self._loader.last_loaded, event.n_threads)
        reply = self._requests.get(event.id)
        if reply is not None:
            self._show_figures(reply)

    def take_progress(self, event: Progress) -> None:
        reply = self._requests.get(event.id)
        if reply is not None:
            self._around.emit(
                PrefillProgressed(reply.conversation_id, reply.message.id, event.done, event.total)
            )

    def take_queued(self, event: Queued) -> None:
        reply = self._requests.get(event.id)
        if reply is not None:
            reply.is_queued = event.position > 0
            self._around.emit(SendQueued(reply.conversation_id, waiting=reply.is_queued))

    def take_note(self, event: Note) -> None:
        """Say a note once per conversation and kind: it would come back with each reply. What is
        left out is said again when it is more."""
        reply = self._requests.get(event.id)
        kind = event.sentence if event.kind == CUT_NOTE else event.kind
        if reply is None or (reply.conversation_id, kind) in self._noted:
            return
        self._noted.add((reply.conversation_id, kind))
        self._around.emit(Noticed("info", event.sentence))

    def take_ending(self, event: Finished | Stopped | Failed) -> None:
        reply = self._requests.pop(event.id, None)
        if reply is not None:
            self._end(reply, event)

    def show_arrived(self) -> None:
        """Tell the views what has come since the last time, one event per reply."""
        for reply in self._growing.values():
            self._show_text(reply)
            moment = self._around.clock()
            is_due = moment - reply.figures_at >= FIGURES_INTERVAL_S
            if reply.token_ids and is_due and reply.conversation_id == self._shelf.open.id:
                reply.figures_at = moment
                self._show_figures(reply)

    def _show_text(self, reply: Reply) -> None:
        unshown, reply.unshown = reply.unshown, []
        if self._shelf.is_on_path(reply.message.id):
            for text, part in unshown:
                self._around.emit(TextArrived(reply.conversation_id, reply.message.id, text, part))

    def _show_figures(self, reply: Reply) -> None:
        loaded = self._loader.last_loaded
        size, threads = (loaded.n_ctx, loaded.n_threads) if loaded else (0, 0)
        if self._steered is not None and self._steered[0] is loaded:
            threads = self._steered[1]
        self._around.emit(reply.figures(size, threads))

    def _save_soon(self, reply: Reply) -> None:
        self._around.alarms.set_once(
            f"save {reply.message.id}", SAVE_INTERVAL_S, lambda: self._save(reply)
        )

    def _save(self, reply: Reply) -> None:
        if reply.message.id in self._growing:
            content, reasoning = reply.texts()
            self._around.saved(
                self._store.save_streaming_text(
                    reply.message.id, content, reasoning, list(reply.token_ids)
                )
            )

    def _end(self, reply: Reply, ending: Finished | Stopped | Failed) -> None:
        self._around.alarms.cancel(f"save {reply.message.id}")
        self._show_text(reply)
        if isinstance(ending, Failed) and ending.kind == "prompt_too_long":
            ending = in_the_apps_words(ending, self._loader.loaded, self._around.settings.policy)
        message = reply.ended(ending)
        self._growing.pop(reply.message.id, None)
        self._around.saved(self._store.update_message(message.id, **fields_at_end(message)))
        self._traces.keep(message.id, reply.traces)
        if reply.token_ids and reply.conversation_id == self._shelf.open.id:
            self._show_figures(reply)
        self._shelf.update(message)
        counts = message.counts
        if counts.context_used and counts.context_size:
            self._around.emit(ContextCounted(counts.context_used, counts.context_size))
