"""The conversations: the list, the open one with its active path, drafts, trash, versions.

What must hold:

* What is on screen is never replaced by something older. An answer of the store is dropped where
  another conversation is wanted by now (`want`); one whose path was changed since it was asked for
  (`n_moves`) is asked for again; and it is shown with the draft that is known here. So what
  somebody types or sends counts, however late an answer comes. `app.chat.conversations.paths` has
  the other paths of the open one.
* A chat in the trash is on screen no longer: what is typed from then on is not its.
* A long conversation is shown from its end: `FIRST_PART` messages at once, the rest joins in the
  background. `path` may lack its beginning until `is_whole`; what must have all of it (a prompt)
  goes through `with_whole`. With 10,000 messages the last ones are painted after 69 ms of processor
  time, 31 of them on the window's thread.
* A new conversation costs nothing: it is stored when it first holds something.
* A draft is saved at most `DRAFT_DELAY_S` after the last key, and whenever the screen changes or
  the app closes.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from app.chat.attachments.media_files import MediaFiles, media_of
from app.chat.conversations.draft_text import with_queued, without_queued
from app.chat.conversations.titles import UNTITLED, title_from
from app.chat.events import (
    ConversationChanged,
    ConversationOpened,
    ConversationsChanged,
    EarlierArrived,
    LastChatStays,
    MessageAdded,
    MessageChanged,
    Noticed,
    PathChanged,
    TrashListed,
)
from app.chat.replies.prompts import clean_message
from app.chat.surroundings import ALWAYS, Still, Surroundings, now
from models.records import Attachment, Conversation, ConversationKind, Message, Role
from models.store.store import Store

DRAFT_DELAY_S: Final = 0.4
MAX_TITLE_LENGTH: Final = 200
TEMPORARY_TITLE: Final = "Temporary chat"
NEW_TEXT: Final = "New text"
FIRST_PART: Final = 200
"""So many messages of a path are read before it is shown."""
PART: Final = 500
"""So many more with each of the reads that follow."""


class Shelf:
    """All conversations, and the one that is open.

    `live_path` puts the present state of replies in the making into the messages of a
    conversation; `queued_text` is what waits in one to be sent. `on_opened` is told when another
    path comes on screen, and when all of a long one is here; `on_changed`, when the next prompt
    is another one.
    """

    def __init__(
        self,
        around: Surroundings,
        live_path: Callable[[str, Iterable[Message]], tuple[Message, ...]],
        queued_text: Callable[[str], str],
        on_opened: Callable[[], None],
        on_changed: Callable[[], None],
    ) -> None:
        self._around = around
        self._live_path = live_path
        self._queued_text = queued_text
        self._on_opened = on_opened
        self._on_changed = on_changed
        self._listed: dict[str, Conversation] = {}
        self._path: dict[str, Message] = {}
        self._trashed: set[str] = set()
        self._wanted_id = ""
        self._moves = Counter[str]()
        self._read_above = ""
        self._is_endless = False
        self._undo: dict[str, Callable[[], None]] = {}
        self._draft: str | None = None
        self._typed = ""
        self.files: Final = MediaFiles(around)
        self.temporary_id = ""
        self.served_id = ""
        """Of what the server was asked, and is looked at as a chat; kept in memory, too."""
        self.awaits_last = True
        """The chat of the former run may still come: a draft waits to join it."""
        self.before_flush: Callable[[], None] = lambda: None
        self.open = _fresh()
        """The conversation on screen."""

    # --- what is there --------------------------------------------------------------------------

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Pinned first, then the newest activity. A temporary one is in no list."""
        listed = (c for c in self._listed.values() if not self.is_temporary(c.id))
        return tuple(sorted(listed, key=lambda c: (c.is_pinned, c.updated_at), reverse=True))

    @property
    def path(self) -> tuple[Message, ...]:
        """The active path of the open conversation, replies in the making included.

        Its beginning may still be missing: see `is_whole`.
        """
        return self._live_path(self.open.id, self._path.values())

    @property
    def is_whole(self) -> bool:
        """Whether the path is here from its root."""
        return self._is_endless or is_whole(self._path.values())

    @property
    def leaf_id(self) -> str | None:
        """The last message of the active path."""
        return next(reversed(self._path), None)

    @property
    def draft(self) -> str:
        """The text in the composer, as far as the desk was told."""
        return self._typed

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    def is_on_path(self, message_id: str) -> bool:
        return message_id in self._path

    def conversation(self, conversation_id: str) -> Conversation | None:
        """The open conversation or a listed one."""
        if conversation_id == self.open.id:
            return self.open
        return self._listed.get(conversation_id)

    def is_stored(self, conversation_id: str) -> bool:
        return conversation_id in self._listed

    def is_temporary(self, conversation_id: str) -> bool:
        """Whether it is kept in memory alone."""
        return conversation_id in (self.temporary_id, self.served_id) and bool(conversation_id)

    def show_list(self, conversations: Iterable[Conversation]) -> None:
        """Take over what the store lists; what was made here meanwhile stays, and what was thrown
        away here does not come back."""
        found = {c.id: c for c in conversations if c.id not in self._trashed}
        self._listed = found | self._listed
        self._emit_list()

    def take_grown(self, conversations: Iterable[Conversation]) -> None:
        """An import has added messages to these: they are as the store lists them."""
        for stored in conversations:
            if (listed := self._listed.get(stored.id)) is not None:
                self._listed[stored.id] = dataclasses.replace(
                    listed, updated_at=stored.updated_at, active_leaf_id=stored.active_leaf_id
                )

    def expect(self, ids: Iterable[str]) -> None:
        """These have been added to the store: the next list has them, whatever they were here."""
        self._trashed.difference_update(ids)

    # --- opening --------------------------------------------------------------------------------

    def open_new(self) -> None:
        """Show an empty conversation; the one on screen keeps its draft."""
        self.flush_draft()
        self._show(_fresh(), ())
        self._remember("")

    def open_new_text(self) -> None:
        """Show an empty text document."""
        self.flush_draft()
        self._show(dataclasses.replace(_fresh(), kind=ConversationKind.TEXT, title=NEW_TEXT), ())
        self._remember("")

    def open_temporary(self) -> str:
        """Show an empty conversation that is never written; its id. There is one at a time."""
        self.flush_draft()
        fresh = dataclasses.replace(_fresh(), title=TEMPORARY_TITLE, is_titled_by_user=True)
        self.temporary_id = fresh.id
        self._show(fresh, ())
        self._remember("")
        return fresh.id

    def drop_temporary(self) -> None:
        """The temporary conversation is gone, also from the screen."""
        dropped, self.temporary_id = self.temporary_id, ""
        self._drop(dropped)

    def open_served(self, conversation: Conversation, messages: Iterable[Message]) -> None:
        """Show what the server was asked, which is in the memory already."""
        self.flush_draft()
        self.served_id = conversation.id
        self._listed[conversation.id] = conversation
        self._show(conversation, messages)
        self._remember("")

    def drop_served(self) -> None:
        dropped, self.served_id = self.served_id, ""
        self._drop(dropped)

    def _drop(self, conversation_id: str) -> None:
        self._listed.pop(conversation_id, None)
        if self.open.id == conversation_id:
            self._draft = None
            self._show(_fresh(), ())
            self._remember("")

    def want(self, conversation_id: str) -> Still:
        """It shall come on screen, once something has been asked of the store: whether that is
        still so, nothing else having been opened meanwhile."""
        self._wanted_id = conversation_id
        return lambda: self._wanted_id == conversation_id

    def while_open(self) -> Still:
        """Whether the conversation that is open now is open still."""
        conversation_id = self.open.id
        return lambda: self.open.id == conversation_id

    def unless_ended(self, conversation_id: str) -> Still:
        """Not so any more where it was a temporary one, which has ended."""
        was_temporary = self.is_temporary(conversation_id)
        return lambda: not was_temporary or self.is_temporary(conversation_id)

    def open_stored(
        self,
        conversation_id: str,
        *,
        with_typed_text: bool = False,
        unless_begun: bool = False,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Load and show a conversation, then call `then`. The open one is shown as it stands.

        `with_typed_text` (at the start): what was typed before it came is added to its draft;
        who has begun a chat meanwhile stays there. `unless_begun`: so does who has typed.
        """
        is_wanted = self.want(conversation_id)
        if conversation_id == self.open.id:
            self._show_again()
            then()
            return
        self.awaits_last = with_typed_text
        n_moves = 0

        def ask() -> None:
            nonlocal n_moves
            n_moves = self.n_moves(conversation_id)
            loaded = self._store.load_conversation(conversation_id, newest=FIRST_PART)
            self._around.when_done(loaded, show, stay, still=is_due)

        def is_due() -> bool:
            return is_wanted() and not (unless_begun and self._is_begun())

        def show(loaded: tuple[Conversation, tuple[Message, ...]]) -> None:
            if conversation_id == self.open.id:  # an earlier answer has brought it
                then()
                return
            if self.n_moves(conversation_id) != n_moves:  # something was sent there meanwhile
                ask()
                return
            conversation, messages = self._listed.get(conversation_id, loaded[0]), loaded[1]
            typed = (self._draft or "") if with_typed_text else ""
            if with_typed_text and not self._can_join(typed, conversation):
                stay()
                return
            if typed:
                self._draft = None
                joined = "\n".join(text for text in (conversation.draft, typed) if text)
                self._show(dataclasses.replace(conversation, draft=joined), messages)
                self.change(conversation_id, draft=joined)
            else:
                self.flush_draft()
                self._show(conversation, messages)
            self._remember(conversation.id)
            then()

        def stay(sentence: str = "") -> None:
            self.awaits_last = False
            if sentence:
                self._around.emit(Noticed("error", sentence))
            if with_typed_text:
                self._around.emit(LastChatStays())

        ask()

    def _is_begun(self) -> bool:
        """Whether the new chat on screen holds anything."""
        return bool(self._path or self._typed) or self.is_stored(self.open.id)

    def _can_join(self, typed: str, last: Conversation) -> bool:
        """Whether the last chat may come under what was written since the start."""
        return not self._path and not (typed and last.kind is ConversationKind.TEXT)

    def _show(self, conversation: Conversation, messages: Iterable[Message]) -> None:
        self.awaits_last = False
        self.open = conversation
        self._wanted_id = conversation.id
        self._draft = None
        self._typed = without_queued(conversation.draft, self._queued_text(conversation.id))
        self._take_path(messages)
        self._tell_opened()

    def _show_again(self) -> None:
        """The open conversation as it is here, which nobody knows better."""
        self.before_flush()
        self._tell_opened()

    def _tell_opened(self) -> None:
        shown = dataclasses.replace(self.open, draft=self._typed)
        self._around.emit(ConversationOpened(shown, self.path))
        self._on_opened()

    def _take_path(self, messages: Iterable[Message]) -> None:
        self.note_move(self.open.id)
        self._path = {m.id: m for m in self._live_path(self.open.id, messages)}
        self._is_endless = False
        self._read_above = ""
        self._read_on()

    def _read_on(self) -> None:
        """Ask for the part above what is here, one part at a time."""
        first_id = next(iter(self._path), "")
        if self.is_whole or self._read_above == first_id:
            return
        self._read_above = first_id

        def fail(sentence: str) -> None:
            self._read_above = ""
            self._around.emit(Noticed("error", sentence))

        above = self._store.load_above(self.open.id, first_id, PART)
        self._around.when_done(
            above,
            self._take_above,
            fail,
            still=lambda: next(iter(self._path), "") == first_id,  # no other path is on screen
        )

    def _take_above(self, part: tuple[Message, ...]) -> None:
        self._read_above = ""
        if not part or any(message.id in self._path for message in part):
            # A damaged tree: a message that is its own ancestor.
            self._is_endless = True
        else:
            self._path = {m.id: m for m in part} | self._path
            self._around.emit(EarlierArrived(self.open.id, part))
        if self.is_whole:
            self._on_opened()
        else:
            self._read_on()

    def with_whole(
        self,
        path: tuple[Message, ...],
        then: Callable[[tuple[Message, ...]], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        """Call `then` with the path from its root, when its pictures and sounds are in `files`: at
        once if all is there, else when read."""

        def with_files(whole: tuple[Message, ...]) -> None:
            self.files.hold(media_of(whole), lambda: then(whole), failed, still=still)

        parent_id = path[0].parent_id if path else None
        if parent_id is None:
            with_files(path)
            return
        above = self._store.load_path(path[0].conversation_id, parent_id)
        self._around.when_done(above, lambda part: with_files(part + path), failed, still=still)

    def _remember(self, conversation_id: str) -> None:
        """Which conversation is shown at the next start."""
        if self.is_temporary(conversation_id):
            conversation_id = ""
        if self._around.can_write and self._around.store is not None:
            self._around.saved(self._store.set_setting("last_conversation_id", conversation_id))

    # --- changing -------------------------------------------------------------------------------

    def ensure_stored(self) -> None:
        """Give the open conversation its row, before anything refers to it."""
        if self.is_stored(self.open.id):
            return
        self._listed[self.open.id] = self.open
        self._around.saved(self._store.create_conversation(self.open))
        self._remember(self.open.id)
        self._emit_list()

    def change(self, conversation_id: str, **fields: Any) -> None:
        """Change a conversation here and in the store, and say so."""
        if self.open.id == conversation_id:
            self.open = dataclasses.replace(self.open, **fields)
            if not self.is_stored(conversation_id):
                self._around.emit(ConversationChanged(self.open))
                return
        listed = self._listed.get(conversation_id)
        if listed is None:
            return
        self._listed[conversation_id] = dataclasses.replace(listed, **fields)
        if self._around.can_write:
            self._around.saved(self._store.update_conversation(conversation_id, **fields))
        self._around.emit(ConversationChanged(self._listed[conversation_id]))
        if fields.keys() - {"draft"}:
            self._emit_list()

    def change_listed(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Fields of many conversations, here; the store gets them from the caller."""
        for conversation_id, fields in changes.items():
            listed = self._listed.get(conversation_id)
            if listed is not None:
                self._listed[conversation_id] = dataclasses.replace(listed, **fields)
            if conversation_id == self.open.id:
                self.open = dataclasses.replace(self.open, **fields)
                self._around.emit(ConversationChanged(self.open))
        self._emit_list()

    def take_away(self, ids: Iterable[str]) -> None:
        """These are in the trash now. Where the open one is, the next one is opened."""
        gone, before = frozenset(ids), self.conversations
        self._trashed |= gone
        for conversation_id in gone:
            self._listed.pop(conversation_id, None)
        self._emit_list()
        if self._wanted_id in gone:
            self._wanted_id = self.open.id
        if self.open.id in gone:
            self._leave(before, gone)

    def put_back(self, conversations: Iterable[Conversation]) -> None:
        """These are no longer in the trash."""
        back = {c.id: c for c in conversations}
        self._trashed -= back.keys()
        self._listed |= back
        self._emit_list()

    def rename(self, conversation_id: str, title: str) -> None:
        """Give a title by hand; an empty one is no title."""
        title = " ".join(clean_message(title).split())[:MAX_TITLE_LENGTH]
        if title:
            self.change(conversation_id, title=title, is_titled_by_user=True)

    def touch(self, conversation_id: str) -> None:
        """Its last activity is now."""
        self.change(conversation_id, updated_at=now())

    def save_draft(self, text: str) -> None:
        """This stands in the composer; the store gets it after a short rest."""
        self.note_draft(text)
        self._on_changed()

    def note_draft(self, text: str) -> None:
        """As `save_draft`, of what is no news for the next prompt, or said elsewhere."""
        self._draft = self._typed = clean_message(text)
        # Not put off by each key: whoever types without a pause is saved, too.
        self._around.alarms.set_once("draft", DRAFT_DELAY_S, self._on_rested)

    def _on_rested(self) -> None:
        if self.awaits_last and self._draft is not None:
            self.note_draft(self._draft)
        else:
            self.flush_draft()

    def flush_draft(self) -> None:
        """Save the draft now, if it changed."""
        self.before_flush()
        self._around.alarms.cancel("draft")
        if self._draft is None or self._around.store is None:
            return
        text = with_queued(self._draft, self._queued_text(self.open.id))
        if text == self.open.draft:
            return
        if self._around.can_write:
            self.ensure_stored()
        self._draft = None
        self.change(self.open.id, draft=text)

    def drop_draft(self) -> None:
        """The text was sent: the composer is empty."""
        self._draft = self._typed = ""
        self.flush_draft()
        self._draft = None

    def keep_queued(
        self, conversation_id: str, before: str, after: str, draft: str | None = None
    ) -> None:
        """What waits in a conversation's queue is kept with its draft: it was `before`, it is
        `after`. `draft`: what stands in the composer now, if that changed too."""
        conversation = self.conversation(conversation_id)
        if conversation is None:
            return
        if conversation_id == self.open.id:
            self._draft = self._typed if draft is None else draft
            self._typed = self._draft
            self.flush_draft()
            return
        typed = without_queued(conversation.draft, before) if draft is None else draft
        self.change(conversation_id, draft=with_queued(typed, after))

    def take_into_draft(self, conversation_id: str, text: str) -> None:
        """What waited in a queue, or could not be sent, is a part of the draft now."""
        conversation = self.conversation(conversation_id)
        if conversation is None:
            return
        if conversation_id == self.open.id:
            self.note_draft(with_queued(self._typed, text))
            self.flush_draft()
        elif not conversation.draft.startswith(text):
            self.change(conversation_id, draft=with_queued(conversation.draft, text))

    # --- messages -------------------------------------------------------------------------------

    def user_message(self, text: str, attachments: tuple[Attachment, ...] = ()) -> Message:
        """The next message of the open conversation; its first one names it."""
        if not self._path and not self.open.is_titled_by_user:
            named_after = text if text.strip() or not attachments else attachments[0].name
            self.open = dataclasses.replace(self.open, title=title_from(named_after))
            self.change(self.open.id, title=self.open.title)
        return new_message(self.open.id, self.leaf_id, text, attachments)

    def add(self, message: Message) -> None:
        """A message now ends the active path (if its conversation is open)."""
        self.note_move(message.conversation_id)
        if message.conversation_id == self.open.id:
            self._path[message.id] = message
            self._around.emit(MessageAdded(message))

    def replace_path(self, conversation_id: str, messages: Iterable[Message]) -> None:
        """The open conversation shows another path."""
        if conversation_id != self.open.id:
            self.note_move(conversation_id)
            return
        self._take_path(messages)
        self._around.emit(PathChanged(conversation_id, self.path))
        self._on_opened()

    def update(self, message: Message) -> bool:
        """A message changed. Its place among its versions is kept as it is here. False: it is
        not on screen."""
        shown = self._path.get(message.id)
        if shown is None:
            return False
        message = dataclasses.replace(
            message, sibling_index=shown.sibling_index, sibling_count=shown.sibling_count
        )
        self._path[message.id] = message
        self._around.emit(MessageChanged(message))
        return True

    def place(self, stored: Message) -> None:
        """The store counted the versions of a message that was just added."""
        shown = self._path.get(stored.id)
        counted = (stored.sibling_index, stored.sibling_count)
        if shown is not None and (shown.sibling_index, shown.sibling_count) != counted:
            self._path[stored.id] = dataclasses.replace(
                shown, sibling_index=counted[0], sibling_count=counted[1]
            )
            self._around.emit(MessageChanged(self._path[stored.id]))

    def n_moves(self, conversation_id: str) -> int:
        """How often its path has become another one, or another one was asked for."""
        return self._moves[conversation_id]

    def note_move(self, conversation_id: str) -> None:
        """Its path becomes another one: what was asked for before is older."""
        self._moves[conversation_id] += 1

    def path_to(self, message_id: str | None) -> tuple[Message, ...]:
        """The active path down to this message; nothing for None or one that is not on it."""
        path = self.path
        place = next((i for i, message in enumerate(path) if message.id == message_id), -1)
        return path[: place + 1]

    def message(self, message_id: str) -> Message | None:
        return self._path.get(message_id)

    # --- trash ----------------------------------------------------------------------------------

    def trash(self, conversation_id: str) -> None:
        """Move a conversation to the trash, with a way back."""
        self.flush_draft()
        trashed = self._listed.get(conversation_id)
        if trashed is None:
            return
        self._tell_trash_after(self._store.trash_conversation(conversation_id))
        self.take_away((conversation_id,))
        self.offer_undo(
            f"trash {conversation_id}",
            f"“{trashed.title}” is in the trash.",
            lambda: self._restore(trashed),
        )

    def _leave(self, before: tuple[Conversation, ...], gone: frozenset[str]) -> None:
        """The open one is in the trash. What is typed before its neighbour has been read begins a
        new chat, which then stays."""
        left_id = self.open.id
        ids = [c.id for c in before if not c.is_archived or c.id == left_id]
        place = ids.index(left_id) if left_id in ids else 0
        others = [each for each in ids[place + 1 :] + ids[:place][::-1] if each not in gone]
        self._show(_fresh(), ())
        if others:
            self.open_stored(others[0], unless_begun=True)
        else:
            self._remember("")

    def list_trash(self) -> None:
        """Ask what is in the trash; TrashListed answers."""
        if self._around.store is None:
            return
        listed = self._store.list_trash()
        self._around.when_done(
            listed,
            lambda trashed: self._around.emit(TrashListed(trashed)),
            still=ALWAYS,  # of all chats
        )

    def restore(self, conversation_id: str) -> None:
        """Out of the trash as it was, whenever it was thrown away; it is opened."""
        if not self._around.may_write():
            return

        def find(trashed: tuple[Conversation, ...]) -> None:
            found = next((each for each in trashed if each.id == conversation_id), None)
            if found is not None:
                self._restore(found, is_wanted)

        is_wanted = self.want(conversation_id)
        # It comes back whatever is on screen, unless it is back already.
        self._around.when_done(
            self._store.list_trash(), find, still=lambda: not self.is_stored(conversation_id)
        )

    def _restore(self, trashed: Conversation, is_wanted: Still | None = None) -> None:
        is_wanted = is_wanted or self.want(trashed.id)
        self._undo.pop(f"trash {trashed.id}", None)
        self.put_back((dataclasses.replace(trashed, trashed_at=None),))

        def show(_: Conversation) -> None:
            self.list_trash()
            if is_wanted():
                self.open_stored(trashed.id)

        def lose(sentence: str) -> None:
            self.take_away([trashed.id])
            self._around.emit(Noticed("error", sentence))
            self.list_trash()

        restored = self._store.restore_conversation(trashed.id)
        self._around.when_done(restored, show, lose, still=ALWAYS)  # done

    def _tell_trash_after(self, written: Future[Any]) -> None:
        """Reads run beside writes, so the trash is asked for when the write is done."""
        self._around.when_done(written, lambda _: self.list_trash(), still=ALWAYS)  # done

    def offer_undo(self, key: str, sentence: str, act: Callable[[], None]) -> None:
        """Say what was done, with a way back."""
        self._undo[key] = act
        self._around.emit(Noticed("info", sentence, undo=key))

    def take_in(self, conversation: Conversation, is_wanted: Still) -> None:
        """A conversation was made beside this one: it is listed, and opened if it shall be."""
        self._listed[conversation.id] = conversation
        self._emit_list()
        if is_wanted():
            self.open_stored(conversation.id)

    def undo(self, key: str) -> None:
        """Take back what was announced with this key; a second time does nothing."""
        action = self._undo.pop(key, None)
        if action is not None:
            action()

    def _emit_list(self) -> None:
        self._around.emit(ConversationsChanged(self.conversations))


def is_whole(path: Iterable[Message]) -> bool:
    """Whether a path begins at its root (or is empty)."""
    first = next(iter(path), None)
    return first is None or first.parent_id is None


def new_message(
    conversation_id: str,
    parent_id: str | None,
    text: str,
    attachments: tuple[Attachment, ...] = (),
) -> Message:
    """A message of the user that is written now."""
    return Message(
        id=new_id(),
        conversation_id=conversation_id,
        parent_id=parent_id,
        role=Role.USER,
        content=text,
        created_at=now(),
        attachments=attachments,
    )


def new_id() -> str:
    return str(uuid.uuid4())


def _fresh() -> Conversation:
    created = now()
    return Conversation(id=new_id(), title=UNTITLED, created_at=created, updated_at=created)
