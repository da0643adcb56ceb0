"""Sending and asking: what waits, retries, several answers. `growing.py` has what comes back.

What must hold:

* A sent message is on disk before the engine sees it, and the reply's row before its
  first token.
* The engine is given the whole path, also where only its end is on screen yet.
* Each conversation has at most one reply waiting or in the making, or the several that were asked
  for at once: versions of one another. Several are that many requests, sent together; the engine
  reads their prompt once, and the first is on the path until another is picked.
* A retry, a continuation and each of several answers is a version beside the others; none removes
  or changes anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.paths import Paths
from app.chat.conversations.shelf import Shelf, new_id, new_message
from app.chat.documents.text_document import PLACE
from app.chat.events import AnswersBegan, Noticed, SendQueued
from app.chat.replies.beam_versions import BEAMS
from app.chat.replies.cut_versions import CUTS, with_cuts
from app.chat.replies.growing import Growing
from app.chat.replies.next_reply import NextReply
from app.chat.replies.prompts import clean_message, is_encodable
from app.chat.replies.queue import MessageQueue
from app.chat.replies.recorded import at_first, at_start
from app.chat.replies.reply import NOTHING, Beginning, Branch, Reply, TextBranch, beginning_of
from app.chat.replies.reply_request import reply_request
from app.chat.replies.summaries import Summaries
from app.chat.retrieval.sending import PartsBeforeReply
from app.chat.settings.levels import resolved_for
from app.chat.settings.resolved import Resolved
from app.chat.surroundings import Surroundings, now
from app.chat.weights.loading import Loader
from app.engine.protocol.messages import Done, Failed, Stopped
from models.records import Attachment, Conversation, Message, MessageState, Role
from models.store.store import Store

MAX_ANSWERS: Final = 8
PRESET: Final = "preset_name"
"""In the changes of one of several answers, and in its settings: what its values are called."""
BUSY_SENTENCE: Final = "A reply is being generated here. Wait or stop it first."
CHANGING_SENTENCE: Final = "The last change isn't saved yet. Try again in a moment."
SURROGATES_SENTENCE: Final = (
    "Your message contained broken characters that can't be saved; each is now shown as �."
)
OTHER_WEIGHTS_SENTENCE: Final = (
    "Another model was loaded before the branch could start. Load the model that wrote the "
    "reply and choose the token again."
)
UNSENT_SENTENCE: Final = "A message couldn't be sent and is back in the message field."
NO_WEIGHTS_SENTENCE: Final = "Your message is saved and queued. Load a model to get a reply."


def _nothing() -> None: ...


@dataclass(slots=True)
class Waiting:
    """A reply that has been asked for and not begun. `path` ends with the message to answer.

    `version` is the number of replies that already stand beside it. `answers`: for each reply that
    is wanted, the settings that it has otherwise. `beginning`: what it begins with. `place`: where
    in a text document it stands (`app.chat.documents.text_document`). `leaf_id`: the end of the
    path that was on screen when it was asked for. `is_saved`: the message is on disk.
    `is_announced`: the user was told that it waits for weights. `is_prepared`: it was asked whether
    a summary is to be written first. `is_new`: the message was not answered before;
    `has_parts`: what of documents goes along with it is settled. `on_saved`: what somebody wrote
    for it is on disk, in a message or in the reply.
    """

    conversation_id: str
    path: tuple[Message, ...]
    version: int = 0
    answers: tuple[Mapping[str, Any], ...] = ({},)
    beginning: Beginning = NOTHING
    place: tuple[int, int] | None = None
    leaf_id: str | None = None
    is_saved: bool = False
    is_announced: bool = False
    is_prepared: bool = False
    is_being_prepared: bool = False
    is_new: bool = False
    has_parts: bool = False
    on_saved: Callable[[], None] = _nothing

    def tell_saved(self) -> None:
        """Once."""
        tell, self.on_saved = self.on_saved, _nothing
        tell()


class Replies:
    """All replies that wait or grow, in any conversation. `is_held`: whether one that is about to
    be asked for waits at each token."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        paths: Paths,
        loader: Loader,
        attachments: Attachments,
        growing: Growing,
        summaries: Summaries,
        parts: PartsBeforeReply,
        is_held: Callable[[Reply], bool],
        next_reply: NextReply,
        is_calling: Callable[[str], bool],
        stop_calls: Callable[[str], None],
    ) -> None:
        self._is_calling = is_calling
        self._stop_calls = stop_calls
        self._next = next_reply
        self._around = around
        self._shelf = shelf
        self._paths = paths
        self._loader = loader
        self._attachments = attachments
        self.growing = growing
        self._summaries = summaries
        self._parts = parts
        self._is_held = is_held
        self._waiting: dict[str, Waiting] = {}
        self._said: set[str] = set()
        self._sent_early: list[str] = []
        self.queue = MessageQueue(around, shelf, attachments, self._send_queued, self.is_occupied)

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def is_busy(self, conversation_id: str) -> bool:
        """Whether a reply waits or grows there, or runs a tool."""
        is_waiting = conversation_id in self._waiting or self._is_calling(conversation_id)
        return is_waiting or self.growing.is_in(conversation_id)

    def is_occupied(self, conversation_id: str) -> bool:
        """Whether nothing can be sent there now: a reply waits or grows, or messages change."""
        return self.is_busy(conversation_id) or self._paths.is_changing(conversation_id)

    def is_free(self) -> bool:
        """Whether the open conversation is not occupied; says why where it is."""
        open_id = self._shelf.open.id
        if self.is_busy(open_id):
            self._around.emit(Noticed("info", BUSY_SENTENCE))
        elif self._paths.is_changing(open_id):
            self._around.emit(Noticed("info", CHANGING_SENTENCE))
        return not self.is_occupied(open_id)

    @property
    def is_generating(self) -> bool:
        """Whether a reply grows, or waits, in the open conversation: Send is Stop then."""
        return self.is_busy(self._shelf.open.id)

    @property
    def is_any_waiting(self) -> bool:
        """Whether a message of any conversation waits for the weights."""
        return bool(self._waiting)

    @property
    def is_waiting(self) -> bool:
        """Whether a message of the open conversation was said to wait (`SendQueued`)."""
        open_id = self._shelf.open.id
        waiting = self._waiting.get(open_id)
        return bool(waiting and waiting.is_announced) or self.growing.place_in_queue(open_id) > 0

    # --- acts -----------------------------------------------------------------------------------

    def send(self, text: str) -> bool:
        """Send a message of the open conversation with what is attached, and ask for its reply.
        False: it was not taken (empty, read-only, a reply is in the making)."""
        if self._around.store is None and text.strip():
            self._sent_early.append(text)  # keys come before the first paint, the store after it
            return True
        if self._paths.is_changing(self._shelf.open.id):
            return self.queue.add(text)  # it goes below what comes on screen in a moment
        is_taken = self._send_typed(text, self._attachments.of_open)
        if is_taken:
            self._attachments.take(self._shelf.open.id)
        return is_taken

    def send_early(self) -> None:
        """What was sent before there was a store, the first at once and the others behind its
        reply. What is being written since stays the draft."""
        typed = self._shelf.draft
        for text in self._sent_early:
            if not self._send_typed(text):
                self.queue.add(text)
        if self._sent_early and typed:
            self._shelf.note_draft(typed)
        self._sent_early.clear()

    def _send_typed(self, text: str, attachments: tuple[Attachment, ...] = ()) -> bool:
        typed, text = text, clean_message(text)
        if not (text.strip() or attachments) or not self.may_ask():
            return False
        if not self._attachments.may_be_sent(attachments):
            return False
        if text is not typed and not is_encodable(typed):
            self._say_once(SURROGATES_SENTENCE)
        shelf = self._shelf
        shelf.ensure_stored()
        message = shelf.user_message(text, attachments)
        shelf.drop_draft()
        self._send(message, shelf.path)
        return True

    def _send_queued(
        self,
        conversation_id: str,
        text: str,
        attachments: tuple[Attachment, ...],
        then: Callable[[bool], None],
    ) -> None:
        """Send what waited for the reply before it, in whatever conversation; drafts stay. `then`
        learns whether it is on its way to disk: until then whoever has it keeps it."""
        if conversation_id == self._shelf.open.id:
            self._send(self._shelf.user_message(text, attachments), self._shelf.path)
            then(True)
            return
        reading = Waiting(conversation_id, ())
        self._waiting[conversation_id] = reading

        def go_on(loaded: tuple[Conversation, tuple[Message, ...]]) -> None:
            path = loaded[1]
            parent_id = path[-1].id if path else None
            self._send(new_message(conversation_id, parent_id, text, attachments), path)
            then(True)

        def give_up(sentence: str) -> None:
            self._drop(reading)
            self._around.emit(Noticed("error", sentence))
            then(False)

        self._around.when_done(
            self._store.load_conversation(conversation_id),
            go_on,
            give_up,
            still=lambda: self._waiting.get(conversation_id) is reading,
        )

    def send_version(self, message: Message, saved: Callable[[], None] = _nothing) -> bool:
        """Store another version of a message of the user and ask for its reply. False: it was not
        taken; else `saved` is called when it is on disk."""
        if not self.may_ask():
            return False
        self._send(message, self._shelf.path_to(message.parent_id), saved)
        return True

    def may_ask(self) -> bool:
        """Whether a reply can be asked for in the open conversation; says why where it cannot."""
        return self._around.may_write() and self.is_free()

    def write_on(
        self,
        path: tuple[Message, ...],
        place: tuple[int, int],
        version: int = 0,
        beginning: Beginning = NOTHING,
        answers: tuple[Mapping[str, Any], ...] = ({},),
    ) -> None:
        """Continue the text document that ends with `path`, at a place in it; the rest as in
        `answer`."""
        conversation_id = self._shelf.open.id
        self._waiting[conversation_id] = Waiting(
            conversation_id,
            path,
            version,
            answers,
            beginning,
            place,
            leaf_id=self._shelf.leaf_id,
            is_saved=True,
        )
        self.begin_waiting()

    def _send(
        self,
        message: Message,
        above: tuple[Message, ...],
        saved: Callable[[], None] = _nothing,
    ) -> None:
        shelf, conversation_id = self._shelf, message.conversation_id
        stored = self._store.append_message(message, keep_in_view=True)
        path = (*above, message)
        changes, beginning = self._next.take(conversation_id)
        waiting = Waiting(
            conversation_id,
            path,
            answers=(changes,),
            beginning=beginning,
            leaf_id=message.id,
            is_new=True,
            on_saved=saved,
        )
        self._waiting[conversation_id] = waiting  # before views are told and ask `is_busy`
        if message.parent_id == shelf.leaf_id:
            shelf.add(message)
        else:
            shelf.replace_path(conversation_id, waiting.path)
        shelf.touch(conversation_id)
        self._around.when_done(
            stored,
            partial(self._on_message_saved, waiting),
            lambda sentence: self._on_message_unsaved(waiting, message, sentence),
            still=shelf.unless_ended(conversation_id),
        )

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._around.emit(Noticed("info", sentence))

    def _on_message_saved(self, waiting: Waiting, stored: Message) -> None:
        if stored.parent_id != waiting.path[-1].parent_id:
            self._move(waiting, stored)
            return
        waiting.path = (*waiting.path[:-1], _with_stored(waiting.path[-1], stored))
        waiting.is_saved = True
        waiting.tell_saved()
        self.begin_waiting()

    def _move(self, waiting: Waiting, stored: Message) -> None:
        """What it was to hang on was deleted as it was sent: it ends another path now."""

        def take(path: tuple[Message, ...]) -> None:
            waiting.path, waiting.is_saved = path, True
            waiting.tell_saved()
            if self._is_wanted(waiting):
                self._shelf.replace_path(stored.conversation_id, path)
            self.begin_waiting()

        self._around.when_done(
            self._store.load_path(stored.conversation_id, stored.id),
            take,
            lambda sentence: self._on_message_unsaved(waiting, stored, sentence),
            still=self._shelf.unless_ended(stored.conversation_id),
        )

    def _on_message_unsaved(self, waiting: Waiting, message: Message, sentence: str) -> None:
        """It stays on screen as one that failed; where it is not on screen, it is a draft again."""
        self._drop(waiting)
        failed = dataclasses.replace(message, state=MessageState.FAILED, error=sentence)
        if not self._shelf.update(failed) and message.content:
            self._shelf.take_into_draft(message.conversation_id, message.content)
            self._around.emit(Noticed("error", f"{UNSENT_SENTENCE} {sentence}"))

    def go_on(self, message_id: str) -> None:
        """Continue a reply: as another version, which begins with all that it says."""
        message = self._shelf.message(message_id)
        if message is None or message.role is not Role.ASSISTANT:
            return
        beginning = beginning_of(message, self._loader.weights_hash)
        self.answer(message_id, beginning=beginning if beginning else NOTHING)

    def begin_with(
        self,
        message_id: str,
        text: str,
        thoughts: str | None = None,
        saved: Callable[[], None] = _nothing,
    ) -> bool:
        """Ask for a reply that begins with these words: another version, or to a message.
        `thoughts`: another reasoning than the one that it has. False: it was not taken; else
        `saved` is called when the words are on disk."""
        text = clean_message(text)
        message = self._shelf.message(message_id)
        if message is None:
            return False
        if not (text + (thoughts or "")).strip():
            return self.answer(message_id, saved=saved)
        is_reply = message.role is Role.ASSISTANT
        reasoning = message.reasoning if thoughts is None else clean_message(thoughts)
        source_id = message_id if is_reply else None
        beginning = Beginning(text, reasoning, None, source_id)
        return self.answer(message_id, beginning=beginning, saved=saved)

    def ask_several(self, message_id: str, answers: Sequence[Mapping[str, Any]]) -> None:
        """Ask for several versions at once, each with settings of its own over the chat's, and over
        those for the next reply, which are used up by all of them."""
        message = self._shelf.message(message_id)
        if message is None or not 1 <= len(answers) <= MAX_ANSWERS or not self.may_ask():
            return
        changes, beginning = self._next.take(message.conversation_id)
        each = tuple({**changes, **own} for own in answers)
        self.answer(message_id, answers=each, beginning=beginning)

    def answer(
        self,
        message_id: str,
        answers: tuple[Mapping[str, Any], ...] = ({},),
        beginning: Beginning = NOTHING,
        place: tuple[int, int] | None = None,
        saved: Callable[[], None] = _nothing,
    ) -> bool:
        """Ask for another version of a reply, or for the reply of a message that has none.

        `answers`: for each that is wanted, the settings of its own over the chat's. `beginning`:
        what it begins with. `place`: of a continuation, where in the document it stands. False: it
        was not taken, and why is said.
        """
        message = self._shelf.message(message_id)
        if message is None or not self.may_ask():
            return False
        if message.role is Role.ASSISTANT:
            path, version = self._shelf.path_to(message.parent_id), message.sibling_count
        else:
            path, version = self._shelf.path_to(message_id), self._n_below(message_id)
        if path:
            if answers == ({},) and place is None:
                changes, begun = self._next.take(message.conversation_id)
                answers, beginning = (changes,), beginning or begun
            self._waiting[message.conversation_id] = Waiting(
                message.conversation_id,
                path,
                version,
                answers,
                beginning,
                place,
                self._shelf.leaf_id,
                is_saved=True,
                on_saved=saved,
            )
            self.begin_waiting()
        return bool(path)

    def answer_calls(self, path: tuple[Message, ...]) -> None:
        """Ask for the reply to the results of tools that `path` ends with, in whatever
        conversation."""
        conversation_id = path[-1].conversation_id
        if not self.is_occupied(conversation_id):
            self._waiting[conversation_id] = Waiting(
                conversation_id, path, leaf_id=path[-1].id, is_saved=True
            )
            self.begin_waiting()

    def _n_below(self, message_id: str) -> int:
        """How many versions of what follows a message of the path there are already."""
        below = (m for m in self._shelf.path if m.parent_id == message_id)
        return next((message.sibling_count for message in below), 0)

    def begin_waiting(self) -> None:
        """Begin what waits, if weights are there; else see to it that they come."""
        ready = [w for w in self._waiting.values() if w.is_saved and not w.is_being_prepared]
        for waiting in ready:
            if self._loader.is_ready and self._is_foreign(waiting.beginning):
                self._drop(waiting)
                self._around.emit(Noticed("warning", OTHER_WEIGHTS_SENTENCE))
            elif not self._loader.is_ready:
                self._announce(waiting)
            elif self._wants_parts(waiting):
                self._settle_parts(waiting)
            elif self._needs_no_summary(waiting):
                self._begin(waiting)
            else:
                self._prepare(waiting)

    def _wants_parts(self, waiting: Waiting) -> bool:
        if waiting.has_parts or waiting.place is not None or not waiting.path:
            return False
        if waiting.is_new and waiting.path[0].parent_id is not None:
            return True  # what stands above may hold documents
        return self._parts.wanted(waiting.path, is_new=waiting.is_new)

    def _settle_parts(self, waiting: Waiting) -> None:
        """Have the documents of the chat searched for what is asked; then begin."""
        waiting.has_parts = waiting.is_being_prepared = True

        def is_wanted() -> bool:
            return self._waiting.get(waiting.conversation_id) is waiting

        def go_on(path: tuple[Message, ...]) -> None:
            waiting.path = path
            waiting.is_being_prepared = False
            self.begin_waiting()

        def settle(path: tuple[Message, ...]) -> None:
            if self._parts.wanted(path, is_new=waiting.is_new):
                self._parts.prepare(path, go_on, is_new=waiting.is_new, still=is_wanted)
            else:
                go_on(waiting.path)

        self._shelf.with_whole(waiting.path, settle, lambda _: go_on(waiting.path), still=is_wanted)

    def _needs_no_summary(self, waiting: Waiting) -> bool:
        conversation = self._shelf.conversation(waiting.conversation_id)
        goes_on = bool(waiting.beginning) or waiting.place is not None
        if conversation is None or goes_on or not self._around.can_write:
            return True
        return waiting.is_prepared or not self._summaries.wanted_in(conversation)

    def _prepare(self, waiting: Waiting) -> None:
        """Have a summary written of what will be left out, if something is; then begin."""
        waiting.is_prepared = waiting.is_being_prepared = True
        conversation_id = waiting.conversation_id

        def is_wanted() -> bool:
            return self._waiting.get(conversation_id) is waiting

        def begin(node: Message | None) -> None:
            if not is_wanted():
                return
            if node is not None:
                if self._is_wanted(waiting):
                    self._shelf.replace_path(conversation_id, (*waiting.path, node))
                    waiting.leaf_id = node.id
                waiting.path, waiting.version = (*waiting.path, node), 0
            waiting.is_being_prepared = False
            self.begin_waiting()

        def ask(path: tuple[Message, ...]) -> None:
            conversation = self._shelf.conversation(conversation_id)
            if conversation is None:
                begin(None)
            elif is_wanted():
                self._summaries.prepare(conversation, path, begin)

        self._shelf.with_whole(waiting.path, ask, lambda _: begin(None), still=is_wanted)

    def _is_foreign(self, beginning: Beginning) -> bool:
        """Whether its IDs are those of other weights than came meanwhile."""
        if isinstance(beginning, TextBranch):
            return beginning.path != self._loader.path
        if not isinstance(beginning, Branch):
            return False
        return beginning.weights_hash != self._loader.weights_hash

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
        replies = [self._new_reply(waiting, place) for place in range(len(waiting.answers))]
        first = replies[0].message
        self.growing.add(replies)
        self._drop(waiting)
        is_wanted = self._is_wanted(waiting)
        if waiting.version == 0 and self._shelf.leaf_id == parent.id:
            self._shelf.add(first)
        elif is_wanted:
            self._shelf.replace_path(first.conversation_id, (*waiting.path, first))
        if len(replies) > 1 and is_wanted:
            messages = tuple(reply.message for reply in replies)
            self._around.emit(AnswersBegan(first.conversation_id, parent.id, messages))
        for reply in replies:
            self._around.when_done(
                self._store.append_message(reply.message),
                partial(self._on_placed, reply, waiting),
                partial(self._on_reply_unsaved, reply),
                still=partial(self._is_growing, reply),
            )
        if len(replies) > 1:
            self._around.saved(self._store.set_active_leaf(first.conversation_id, first.id))

    def _is_wanted(self, waiting: Waiting) -> bool:
        """Whether it comes on screen as it begins: loading takes a while, and who flips to another
        version meanwhile stays there."""
        is_open = waiting.conversation_id == self._shelf.open.id
        return not is_open or self._shelf.leaf_id == waiting.leaf_id

    def _new_reply(self, waiting: Waiting, place: int) -> Reply:
        conversation = self._shelf.conversation(waiting.conversation_id) or self._shelf.open
        beginning = waiting.beginning
        # Whoever looks while it grows learns now what was not drawn here, and what was cut.
        given = {"given": beginning.as_recorded()} if beginning else {}
        answer = waiting.answers[place]
        given |= {name: answer[name] for name in (CUTS, BEAMS, PRESET) if name in answer}
        message = Message(
            id=new_id(),
            conversation_id=waiting.conversation_id,
            parent_id=waiting.path[-1].id,
            role=Role.ASSISTANT,
            content=beginning.content,
            reasoning=beginning.reasoning,
            created_at=now(),
            state=MessageState.STREAMING,
            settings=at_first(self._resolved(conversation, answer))
            | ({PLACE: list(waiting.place)} if waiting.place else {})
            | given,
            weights_name=self._loader.weights_name,
            weights_hash=self._loader.weights_hash or None,
            sibling_index=waiting.version + place,
            sibling_count=waiting.version + len(waiting.answers),
        )
        return Reply(
            message,
            beginning,
            is_beside=len(waiting.answers) > 1,
            changes=waiting.answers[place],
            asked_at=self._around.clock(),
        )

    def _on_reply_unsaved(self, reply: Reply, sentence: str) -> None:
        self.growing.end(reply, Failed(0, "internal", sentence))

    def _on_placed(self, reply: Reply, waiting: Waiting, placed: Message) -> None:
        """The rows are on disk: now the engine may see the message, and all that stands above."""
        if placed.sibling_index == reply.message.sibling_index and reply.is_beside:
            # The others come behind it, and are counted already.
            placed = dataclasses.replace(placed, sibling_count=reply.message.sibling_count)
        self._shelf.place(placed)
        waiting.tell_saved()
        self._shelf.with_whole(
            waiting.path,
            partial(self._ask, reply),
            partial(self._on_reply_unsaved, reply),
            still=partial(self._is_growing, reply),
        )

    def _is_growing(self, reply: Reply) -> bool:
        """Not so any more where its temporary chat has ended."""
        return reply.message.id in self.growing

    def _ask(self, reply: Reply, path: tuple[Message, ...]) -> None:
        if reply.is_stop_wanted:
            self.growing.end(reply, Stopped(0, Done()))
            return
        conversation = self._shelf.conversation(reply.conversation_id)
        if conversation is None:  # it went to the trash meanwhile
            self.growing.end(reply, Stopped(0, Done()))
            return
        reply.asked_at = self._around.clock()
        resolved = self._resolved(conversation, reply.changes)
        place = reply.message.settings.get(PLACE)
        self._attachments.say_unseen(path[-1])
        request = reply_request(
            conversation,
            path,
            resolved.settings,
            self._loader.weights_hash,
            reply.beginning,
            place,
            self._loader.loaded,
            self._shelf.files,
        )
        recorded = at_start(resolved, request, self._loader.loaded)
        if place is not None:
            recorded[PLACE] = place
        if PRESET in reply.changes:
            recorded[PRESET] = reply.changes[PRESET]
        if (cuts := reply.changes.get(CUTS)) is not None:
            recorded[CUTS] = cuts
            request = with_cuts(request, cuts)
        if BEAMS in reply.changes:
            recorded[BEAMS] = reply.changes[BEAMS]
        if reply.beginning:
            recorded["given"] = reply.beginning.as_recorded()
        if isinstance(reply.beginning, Branch):
            request = reply.beginning.begun(request)
        request = msgspec.structs.replace(
            request,
            reply_id=reply.message.id,
            hold=request.hold or self._is_held(reply),
            is_stored=not self._shelf.is_temporary(conversation.id),
        )
        reply.message = dataclasses.replace(reply.message, settings=recorded)
        # As it grows, views show the stages that it is drawn with.
        self.growing.tell(reply, reply.message)
        self.growing.set_request(reply, self._loader.engine.generate(request))

    def _resolved(self, conversation: Conversation, changes: Mapping[str, Any]) -> Resolved:
        """The settings of a reply there; `changes` are its own."""
        return resolved_for(self._around, self._loader, conversation, changes)

    def stop(self) -> None:
        """Stop the reply of the open conversation, and hold what is queued behind it."""
        self.queue.hold(self._shelf.open.id)
        self._stop_in(self._shelf.open.id)

    def give_up(self, conversation_id: str) -> None:
        """A conversation goes to the trash: its reply is stopped, and what is queued is its
        draft's."""
        self.queue.leave_in_draft(conversation_id)
        self._stop_in(conversation_id)

    def _stop_in(self, conversation_id: str) -> None:
        """Stop what grows there, or forget what waits there. The message itself stays."""
        waiting = self._waiting.get(conversation_id)
        if waiting is not None:
            self._summaries.stop(conversation_id)
            self._parts.stop(conversation_id)
            waiting.is_announced = True  # whoever shows Stop learns that it is Send again
            self._drop(waiting)
        self._stop_calls(conversation_id)
        self.growing.stop(conversation_id)

    def forget(self, conversation_id: str) -> None:
        """A temporary conversation is gone: what is still written of it is dropped."""
        self.give_up(conversation_id)
        self.growing.forget(conversation_id)

    def close(self) -> None:
        """The app closes: what has arrived is saved, marked as interrupted."""
        self.growing.close()
        self._waiting.clear()


def _with_stored(message: Message, stored: Message) -> Message:
    """What of another version was attached has ids of its own now."""
    if len(message.attachments) != len(stored.attachments):
        return message
    attached = tuple(
        dataclasses.replace(each, id=own.id, message_id=message.id)
        for each, own in zip(message.attachments, stored.attachments, strict=True)
    )
    return dataclasses.replace(message, attachments=attached)
