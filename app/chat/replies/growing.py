"""Replies that grow: what the engine says of each becomes text, figures and rows.

`Replies` begins them; here they get their tokens, are saved as they grow, and end. What must hold:

* A growing reply is saved every `SAVE_INTERVAL_S`, so that an end by force of either process
  loses less than a second of it.
* Nothing that arrived is dropped: whatever ends a reply, its text stays, with a sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from app import cores
from app.chat.conversations.shelf import Shelf
from app.chat.events import (
    CallArrived,
    ContextCounted,
    MessageChanged,
    Noticed,
    PrefillProgressed,
    ReplyingChanged,
    ReplyQueued,
    SendQueued,
    TextArrived,
    TokenRecorded,
    TokensTakenBack,
    TraceRead,
)
from app.chat.replies.reply import Reply, fields_at_end, in_the_apps_words
from app.chat.replies.traces import Traces
from app.chat.replies.window_size import room_of
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import (
    Failed,
    Finished,
    Note,
    Progress,
    Queued,
    Stopped,
    TextFlushed,
    TextTakenBack,
    ThreadsChanged,
    TokenArrived,
)
from app.engine.protocol.tool_messages import ToolCalled
from app.insight.trace.table import TraceTable
from app.memory import give_back
from models.records import Message, Role
from models.store.store import Store

SAVE_INTERVAL_S: Final = 0.5
FIGURES_INTERVAL_S: Final = 0.5 if cores.HAS_FEW else 0.25
GIVE_BACK_AFTER_S: Final = 0.6
"""By then the reply's trace and text are stored, and what it took as it grew is free."""
CUT_NOTE: Final = "turns_left_out"
SHIFT_NOTE: Final = "context_shifted"
BAD_CHOICE: Final = "bad_choice"


class Growing:
    """All replies in the making, in any conversation. `finish` has the last word on the message of
    one that ends; then `on_ended` is told. `on_begun`: some more are growing."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        loader: Loader,
        finish: Callable[[Reply, Message], Message],
        on_begun: Callable[[], None],
        on_ended: Callable[[Message], None],
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._loader = loader
        self._finish = finish
        self._on_begun = on_begun
        self._on_ended = on_ended
        self._replies: dict[str, Reply] = {}
        self._requests: dict[int, Reply] = {}
        self._replying: frozenset[str] = frozenset()
        self._steered: tuple[Loaded | None, int] | None = None
        self._traces = Traces(around)
        self._noted: set[tuple[str, str]] = set()
        self._after_end: dict[str, Callable[[], None]] = {}

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._replies

    def add(self, replies: Iterable[Reply]) -> None:
        self._replies |= {reply.message.id: reply for reply in replies}
        self._tell_replying()
        self._on_begun()

    def set_request(self, reply: Reply, request_id: int) -> None:
        """The engine has been asked for it."""
        reply.request_id = request_id
        self._requests[request_id] = reply

    def adopt(self, reply: Reply, request_id: int) -> None:
        """One that somebody else has asked for grows here from now on, with what it has."""
        self.set_request(reply, request_id)
        self.add((reply,))

    def let_go(self, message_id: str) -> None:
        """It goes on, and nobody here is told."""
        reply = self._replies.pop(message_id, None)
        if reply is not None:
            self._around.alarms.cancel(f"save {message_id}")
            self._leave_queue(reply)
            if reply.request_id is not None:
                self._requests.pop(reply.request_id, None)
            self._tell_replying()

    @property
    def is_any(self) -> bool:
        """Whether a reply grows anywhere."""
        return bool(self._replies)

    def is_in(self, conversation_id: str) -> bool:
        return any(True for _ in self._replies_in(conversation_id))

    def place_in_queue(self, conversation_id: str) -> int:
        """Where its reply stands in the engine's queue; 0 once one of them is written."""
        places = [reply.queue_place for reply in self._replies_in(conversation_id)]
        return min(places, default=0)

    def live_path(self, conversation_id: str, messages: Iterable[Message]) -> tuple[Message, ...]:
        """The messages with replies in the making as they are now, a just begun one added."""
        path = [self._live(message) for message in messages]
        for reply in self._replies_in(conversation_id):
            if path and path[-1].id == reply.message.parent_id:
                path.append(reply.snapshot())
        return tuple(path)

    def _live(self, message: Message) -> Message:
        reply = self._replies.get(message.id)
        if reply is None:
            return message
        return reply.snapshot(message)

    def _replies_in(self, conversation_id: str) -> Iterator[Reply]:
        return (r for r in self._replies.values() if r.conversation_id == conversation_id)

    def stop(self, conversation_id: str) -> None:
        for reply in self._replies_in(conversation_id):
            self._stop(reply)

    def stop_reply(self, message_id: str) -> None:
        """Stop one of several answers."""
        if message_id in self._replies:
            self._stop(self._replies[message_id])

    def stop_then(self, message_id: str, act: Callable[[], None]) -> None:
        """Stop a reply; `act` follows when it has ended and is on its way to disk."""
        self._after_end[message_id] = act
        self.stop_reply(message_id)

    def reply_of(self, request_id: int) -> Reply | None:
        """The reply that the engine writes as this request."""
        return self._requests.get(request_id)

    def requests_in(self, conversation_id: str) -> list[int]:
        """What the engine writes there."""
        return [i for i, r in self._requests.items() if r.conversation_id == conversation_id]

    def _stop(self, reply: Reply) -> None:
        reply.is_stop_wanted = True
        if reply.request_id is not None:
            self._loader.engine.stop(reply.request_id)

    def forget(self, conversation_id: str) -> None:
        """What is still written there is dropped."""
        for reply in tuple(self._replies_in(conversation_id)):
            self._around.alarms.cancel(f"save {reply.message.id}")
            del self._replies[reply.message.id]
            if reply.request_id is not None:
                self._requests.pop(reply.request_id, None)
        self._tell_replying()

    def _tell_replying(self) -> None:
        replying = frozenset(reply.conversation_id for reply in self._replies.values())
        if replying != self._replying:
            self._replying = replying
            self._around.emit(ReplyingChanged(replying))

    def close(self) -> None:
        """What has arrived is saved, marked as interrupted."""
        for reply in self._replies.values():
            self._store.update_message(reply.message.id, **fields_at_end(reply.closed()))
            self._traces.keep(reply.message.id, reply.traces)
        self._replies.clear()
        self._requests.clear()

    def read_trace(self, message_id: str) -> None:
        """What was recorded about a reply's tokens; TraceRead answers."""
        reply = self._replies.get(message_id)
        if reply is not None:
            self._around.emit(TraceRead(message_id, tuple(reply.traces)))
        else:
            self._traces.read(message_id)

    def trace_of(self, message_id: str) -> TraceTable | None:
        """The trace of a reply that grows, which grows too; None if it does not."""
        reply = self._replies.get(message_id)
        return None if reply is None else reply.traces

    # --- events ---------------------------------------------------------------------------------

    def take_token(self, event: TokenArrived) -> None:
        reply = self._requests.get(event.id)
        if reply is None:
            return
        token = reply.placed(event.token)
        if token is not event.token:
            event = msgspec.structs.replace(event, token=token)
        self._leave_queue(reply)
        reply.take_token(event, self._around.clock())
        self._save_soon(reply)
        self._around.emit(
            TokenRecorded(reply.conversation_id, reply.message.id, token, event.context_used)
        )

    def take_flushed(self, event: TextFlushed) -> None:
        reply = self._requests.get(event.id)
        if reply is not None:
            reply.take_flushed(event)
            self._save_soon(reply)

    def take_call(self, event: ToolCalled) -> None:
        reply = self._requests.get(event.id)
        if reply is not None:
            reply.take_call(event.call)
            self._around.emit(
                CallArrived(reply.conversation_id, reply.message.id, event.index, event.call)
            )

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
            self._leave_queue(reply)
            self._around.emit(
                PrefillProgressed(
                    reply.conversation_id,
                    reply.message.id,
                    event.done,
                    event.total,
                    is_media=event.phase == "seeing",
                )
            )

    def take_queued(self, event: Queued) -> None:
        reply = self._requests.get(event.id)
        if reply is not None:
            reply.queue_place = event.position
            self._tell_place(reply)

    def _leave_queue(self, reply: Reply) -> None:
        """It is its turn, or it ended without one: the engine tells places, and not that."""
        if reply.queue_place:
            reply.queue_place = 0
            self._tell_place(reply)

    def _tell_place(self, reply: Reply) -> None:
        conversation_id = reply.conversation_id
        self._around.emit(ReplyQueued(conversation_id, reply.message.id, reply.queue_place))
        place = self.place_in_queue(conversation_id)
        self._around.emit(SendQueued(conversation_id, waiting=place > 0, place=place))

    def take_note(self, event: Note) -> None:
        """Say a note once per conversation and kind: it would come back with each reply. What is
        left out is said again when it is more."""
        reply = self._requests.get(event.id)
        kind = event.sentence if event.kind in (CUT_NOTE, SHIFT_NOTE) else event.kind
        if reply is None:
            return
        if (reply.conversation_id, kind) in self._noted and kind != BAD_CHOICE:
            return
        self._noted.add((reply.conversation_id, kind))
        self._around.emit(Noticed("info", event.sentence))

    def take_ending(self, event: Finished | Stopped | Failed) -> None:
        reply = self._requests.pop(event.id, None)
        if reply is not None:
            self.end(reply, event)

    def show_arrived(self) -> None:
        """Tell the views what has come since the last time, one event per reply."""
        for reply in self._replies.values():
            self._show_text(reply)
            moment = self._around.clock()
            is_due = moment - reply.figures_at >= FIGURES_INTERVAL_S
            if reply.n_generated and is_due and self._shelf.is_on_path(reply.message.id):
                reply.figures_at = moment
                self._show_figures(reply)

    def _show_text(self, reply: Reply) -> None:
        unshown, reply.unshown = reply.unshown, []
        is_open = reply.conversation_id == self._shelf.open.id
        if self._shelf.is_on_path(reply.message.id) or (reply.is_beside and is_open):
            for text, part in unshown:
                self._around.emit(TextArrived(reply.conversation_id, reply.message.id, text, part))

    def _show_figures(self, reply: Reply) -> None:
        loaded = self._loader.last_loaded
        size, threads = (loaded.n_ctx, loaded.n_threads) if loaded else (0, 0)
        if self._steered is not None and self._steered[0] is loaded:
            threads = self._steered[1]
        figures = reply.figures(size, threads)
        is_shown = self._shelf.is_on_path(reply.message.id)
        self._around.emit(dataclasses.replace(figures, is_shown=is_shown))

    def _save_soon(self, reply: Reply) -> None:
        self._around.alarms.set_once(
            f"save {reply.message.id}", SAVE_INTERVAL_S, lambda: self._save(reply)
        )

    def _save(self, reply: Reply) -> None:
        if reply.message.id in self._replies:
            content, reasoning = reply.texts()
            self._around.saved(
                self._store.save_streaming_text(
                    reply.message.id, content, reasoning, reply.known_ids
                )
            )

    def tell(self, reply: Reply, message: Message) -> None:
        """The message of a reply is this one now, to whoever shows it."""
        if not self._shelf.update(message) and reply.is_beside:
            self._around.emit(MessageChanged(message))

    def _longest_result(self, reply: Message) -> str:
        """Of the tools' results right above a reply on screen; "" without any."""
        longest, above = None, self._shelf.message(reply.parent_id or "")
        while above is not None and above.role is Role.TOOL:
            if longest is None or len(above.content) > len(longest.content):
                longest = above
            above = self._shelf.message(above.parent_id or "")
        return longest.id if longest is not None else ""

    def end(self, reply: Reply, ending: Finished | Stopped | Failed) -> None:
        self._around.alarms.cancel(f"save {reply.message.id}")
        self._show_text(reply)
        if isinstance(ending, Failed) and ending.kind == "prompt_too_long":
            loaded = self._loader.loaded
            policy = reply.message.settings.get("context_policy", self._around.settings.policy)
            result_id = self._longest_result(reply.message)
            room = {"room": room_of(ending, loaded, policy, result_id)}
            reply.message = dataclasses.replace(
                reply.message, settings=reply.message.settings | room
            )
            ending = in_the_apps_words(ending, loaded, policy, has_result=bool(result_id))
        message = self._finish(reply, reply.ended(ending))
        self._replies.pop(reply.message.id, None)
        self._leave_queue(reply)
        self._tell_replying()
        self._around.saved(self._store.update_message(message.id, **fields_at_end(message)))
        self._traces.keep(message.id, reply.traces)
        is_on_path = self._shelf.is_on_path(message.id)
        if reply.n_generated and is_on_path:
            self._show_figures(reply)
        self.tell(reply, message)
        counts = message.counts
        if is_on_path and counts.context_used and counts.context_size:
            self._around.emit(ContextCounted(counts.context_used, counts.context_size))
        elif is_on_path and message.content and self._loader.remote is not None:
            self._around.emit(ContextCounted(0, 0))  # it doesn't say, and the last one is no more
        self._around.alarms.set("memory", GIVE_BACK_AFTER_S, give_back)
        self._on_ended(message)
        self._after_end.pop(message.id, _nothing)()


def _nothing() -> None: ...
