"""The conversations: the list, the open one with its active path, drafts, trash, versions.

What must hold:

* What is on screen is never replaced by something older: an answer of the store that
  belongs to a conversation which is no longer wanted is dropped (`_wanted_id`).
* A new conversation costs nothing: it is stored when it first holds something.
* A draft is saved at most `DRAFT_DELAY_S` after the last key, and whenever the screen
  changes or the app closes.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final

from app.chat.events import (
    ConversationChanged,
    ConversationOpened,
    ConversationsChanged,
    MessageAdded,
    MessageChanged,
    Noticed,
    PathChanged,
    TrashListed,
)
from app.chat.prompts import clean_message
from app.chat.surroundings import Surroundings, now
from app.chat.titles import UNTITLED, title_from
from models.records import Conversation, Message, Role
from models.store import Store

DRAFT_DELAY_S: Final = 0.4
MAX_TITLE_LENGTH: Final = 200


class Shelf:
    """All conversations, and the one that is open.

    `live_path` puts the present state of replies in the making into the messages of a
    conversation; `on_opened` is told when another path comes on screen.
    """

    def __init__(
        self,
        around: Surroundings,
        live_path: Callable[[str, Iterable[Message]], tuple[Message, ...]],
        on_opened: Callable[[], None],
    ) -> None:
        self._around = around
        self._live_path = live_path
        self._on_opened = on_opened
        self._listed: dict[str, Conversation] = {}
        self._path: dict[str, Message] = {}
        self._wanted_id = ""
        self._undo: dict[str, Callable[[], None]] = {}
        self._draft: str | None = None
        self.open = _fresh()

    # --- what is there --------------------------------------------------------------------------

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """Pinned first, then the newest activity."""
        return tuple(
            sorted(self._listed.values(), key=lambda c: (c.is_pinned, c.updated_at), reverse=True)
        )

    @property
    def path(self) -> tuple[Message, ...]:
        """The active path of the open conversation, replies in the making included."""
        return self._live_path(self.open.id, self._path.values())

    @property
    def leaf_id(self) -> str | None:
        """The last message of the active path."""
        return next(reversed(self._path), None)

    @property
    def draft(self) -> str:
        """The text in the composer, as far as the desk was told."""
        return self.open.draft if self._draft is None else self._draft

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

    def show_list(self, conversations: Iterable[Conversation]) -> None:
        """Take over what the store lists; what was made here meanwhile stays."""
        self._listed = {c.id: c for c in conversations} | self._listed
        self._emit_list()

    # --- opening --------------------------------------------------------------------------------

    def open_new(self) -> None:
        """Show an empty conversation; the one on screen keeps its draft."""
        self.flush_draft()
        self._show(_fresh(), ())
        self._remember("")

    def open_stored(self, conversation_id: str, *, with_typed_text: bool = False) -> None:
        """Load and show a conversation.

        `with_typed_text` (at the start): what was typed before it came is added to its draft.
        """
        self._wanted_id = conversation_id

        def show(loaded: tuple[Conversation, tuple[Message, ...]]) -> None:
            conversation, messages = loaded
            if self._wanted_id != conversation.id:
                return
            typed = (self._draft or "") if with_typed_text else ""
            if typed:
                self._draft = None
                joined = "\n".join(text for text in (conversation.draft, typed) if text)
                self._show(dataclasses.replace(conversation, draft=joined), messages)
                self._save_draft_of_open(joined)
            else:
                self.flush_draft()
                self._show(conversation, messages)
            self._remember(conversation.id)

        self._around.when_done(self._store.load_conversation(conversation_id), show)

    def _show(self, conversation: Conversation, messages: Iterable[Message]) -> None:
        self.open = conversation
        self._wanted_id = conversation.id
        self._draft = None
        self._take_path(messages)
        self._around.emit(ConversationOpened(conversation, self.path))
        self._on_opened()

    def _take_path(self, messages: Iterable[Message]) -> None:
        self._path = {m.id: m for m in self._live_path(self.open.id, messages)}

    def _remember(self, conversation_id: str) -> None:
        """Which conversation is shown at the next start."""
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

    def rename(self, conversation_id: str, title: str) -> None:
        """Give a title by hand; an empty one is no title."""
        title = " ".join(clean_message(title).split())[:MAX_TITLE_LENGTH]
        if title:
            self.change(conversation_id, title=title, is_titled_by_user=True)

    def set_system_prompt(self, text: str) -> None:
        self.ensure_stored()
        self.change(self.open.id, system_prompt=clean_message(text))

    def touch(self, conversation_id: str) -> None:
        """Its last activity is now."""
        self.change(conversation_id, updated_at=now())

    def save_draft(self, text: str) -> None:
        """Note the composer's text; the store gets it after a short rest."""
        self._draft = clean_message(text)
        self._around.alarms.set("draft", DRAFT_DELAY_S, self.flush_draft)

    def flush_draft(self) -> None:
        """Save the draft now, if it changed."""
        self._around.alarms.cancel("draft")
        text = self._draft
        if text is None or text == self.open.draft or self._around.store is None:
            return
        if self._around.can_write:
            self.ensure_stored()
        self._draft = None
        self.change(self.open.id, draft=text)

    def _save_draft_of_open(self, text: str) -> None:
        if self._around.can_write:
            self._around.saved(self._store.update_conversation(self.open.id, draft=text))

    def drop_draft(self) -> None:
        """The text was sent: the composer is empty."""
        self._draft = ""
        self.flush_draft()
        self._draft = None

    # --- messages -------------------------------------------------------------------------------

    def user_message(self, text: str) -> Message:
        """The next message of the open conversation; its first one names it."""
        if not self._path and not self.open.is_titled_by_user:
            self.open = dataclasses.replace(self.open, title=title_from(text))
            self.change(self.open.id, title=self.open.title)
        return Message(
            id=new_id(),
            conversation_id=self.open.id,
            parent_id=self.leaf_id,
            role=Role.USER,
            content=text,
            created_at=now(),
        )

    def add(self, message: Message) -> None:
        """A message now ends the active path (if its conversation is open)."""
        if message.conversation_id == self.open.id:
            self._path[message.id] = message
            self._around.emit(MessageAdded(message))

    def replace_path(self, conversation_id: str, messages: Iterable[Message]) -> None:
        """The open conversation shows another path."""
        if conversation_id != self.open.id:
            return
        self._take_path(messages)
        self._around.emit(PathChanged(conversation_id, self.path))
        self._on_opened()

    def update(self, message: Message) -> None:
        """A message on screen changed. Its place among its versions is kept as it is here."""
        shown = self._path.get(message.id)
        if shown is None:
            return
        message = dataclasses.replace(
            message, sibling_index=shown.sibling_index, sibling_count=shown.sibling_count
        )
        self._path[message.id] = message
        self._around.emit(MessageChanged(message))

    def place(self, stored: Message) -> None:
        """The store counted the versions of a message that was just added."""
        shown = self._path.get(stored.id)
        counted = (stored.sibling_index, stored.sibling_count)
        if shown is not None and (shown.sibling_index, shown.sibling_count) != counted:
            self._path[stored.id] = dataclasses.replace(
                shown, sibling_index=counted[0], sibling_count=counted[1]
            )
            self._around.emit(MessageChanged(self._path[stored.id]))

    def path_before(self, message_id: str) -> tuple[Message, ...]:
        """The messages above this one on the active path."""
        path = self.path
        place = next((i for i, message in enumerate(path) if message.id == message_id), 0)
        return path[:place]

    def message(self, message_id: str) -> Message | None:
        return self._path.get(message_id)

    def show_version(self, message_id: str, step: int) -> None:
        """Flip to the version `step` away from this one, with the newest leaf below it."""
        shown, store = self._path.get(message_id), self._store
        if shown is None:
            return
        conversation_id = shown.conversation_id

        def choose(versions: tuple[Message, ...]) -> None:
            place = next((i for i, v in enumerate(versions) if v.id == message_id), 0) + step
            if 0 <= place < len(versions):
                self._around.when_done(store.leaf_below(versions[place].id), take)

        def take(leaf_id: str) -> None:
            if self._around.can_write:
                self._around.saved(store.set_active_leaf(conversation_id, leaf_id))
            self._around.when_done(
                store.load_path(conversation_id, leaf_id),
                lambda messages: self.replace_path(conversation_id, messages),
            )

        self._around.when_done(store.siblings(message_id), choose)

    # --- trash ----------------------------------------------------------------------------------

    def trash(self, conversation_id: str) -> None:
        """Move a conversation to the trash, with a way back."""
        self.flush_draft()
        trashed = self._listed.get(conversation_id)
        if trashed is None:
            return
        before = self.conversations
        self._tell_trash_after(self._store.trash_conversation(conversation_id))
        del self._listed[conversation_id]
        self._emit_list()
        if self.open.id == conversation_id:
            self._open_neighbour(before, conversation_id)
        key = f"trash {conversation_id}"
        self._undo[key] = lambda: self._restore(trashed)
        self._around.emit(Noticed("info", f"“{trashed.title}” is in the trash.", undo=key))

    def _open_neighbour(self, before: tuple[Conversation, ...], conversation_id: str) -> None:
        ids = [c.id for c in before]
        place = ids.index(conversation_id)
        others = ids[place + 1 :] + ids[:place][::-1]
        if others:
            self.open_stored(others[0])
        else:
            self.open_new()

    def list_trash(self) -> None:
        """Ask the store what is in the trash and say it."""

        def tell(trashed: tuple[Conversation, ...]) -> None:
            self._around.emit(TrashListed(trashed))

        self._around.when_done(self._store.list_trash(), tell)

    def restore(self, conversation_id: str) -> None:
        """Out of the trash, whenever it was thrown away."""

        def find(trashed: tuple[Conversation, ...]) -> None:
            found = next((each for each in trashed if each.id == conversation_id), None)
            if found is not None:
                self._restore(found)

        self._around.when_done(self._store.list_trash(), find)

    def _restore(self, trashed: Conversation) -> None:
        self._undo.pop(f"trash {trashed.id}", None)
        self._tell_trash_after(self._store.restore_conversation(trashed.id))
        self._listed[trashed.id] = dataclasses.replace(trashed, trashed_at=None)
        self._emit_list()
        self.open_stored(trashed.id)

    def _tell_trash_after(self, written: Future[Any]) -> None:
        """Reads run beside writes, so the trash is asked for when the write is done."""
        self._around.when_done(written, lambda _: self.list_trash())

    def undo(self, key: str) -> None:
        """Take back what was announced with this key; a second time does nothing."""
        action = self._undo.pop(key, None)
        if action is not None:
            action()

    def _emit_list(self) -> None:
        self._around.emit(ConversationsChanged(self.conversations))


def new_id() -> str:
    return str(uuid.uuid4())


def _fresh() -> Conversation:
    created = now()
    return Conversation(id=new_id(), title=UNTITLED, created_at=created, updated_at=created)
