"""The part of the desk that the transcript uses: replies, versions, the tree of messages.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.chat.conversations.paths import Paths
from app.chat.conversations.shelf import Shelf
from app.chat.conversations.tree import Tree
from app.chat.door import Door
from app.chat.replies.queue import MessageQueue
from app.chat.replies.replies import Replies
from app.chat.replies.room import RoomMaker
from models.records import Attachment, Role


def _nothing() -> None: ...


class MessageDoor(Door):
    """Mixed into `Desk`, which makes what these methods delegate to."""

    _shelf: Shelf
    _paths: Paths
    _queue: MessageQueue
    _replies: Replies
    _tree: Tree
    _room: RoomMaker

    @abstractmethod
    def _has_store(self) -> bool: ...

    # --- replies --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the reply, and hold what is queued behind it."""
        self._queue.hold(self._shelf.open.id)
        self._replies.stop(self._shelf.open.id)

    def retry(self, message_id: str) -> None:
        """Another version of a reply beside the old one, or the reply a message never got."""
        self._replies.retry(message_id)

    def show_version(self, message_id: str, step: int) -> None:
        """Flip to an earlier (-1) or later (+1) version of a message."""
        self._paths.show_version(message_id, step)

    # --- the tree -------------------------------------------------------------------------------

    def edit_message(
        self,
        message_id: str,
        text: str,
        *,
        keep_following: bool = True,
        reasoning: str | None = None,
        attachments: tuple[Attachment, ...] | None = None,
        saved: Callable[[], None] = _nothing,
    ) -> bool:
        """Save another text of a message as a new version; nothing is asked of the weights.

        keep_following: what follows is copied below the new version, so that it stays in view;
        else it stays under the old one alone. attachments: those that the new version has; None:
        all of the old one. False: it was not taken, why is said, and whoever has the text keeps
        it; else `saved` is called when it is on disk. So it is with all that saves a text.
        """
        return self._may_write() and self._tree.edit(
            message_id,
            text,
            keep_following=keep_following,
            reasoning=reasoning,
            attachments=attachments,
            saved=saved,
        )

    def edit_and_send(
        self,
        message_id: str,
        text: str,
        attachments: tuple[Attachment, ...] | None = None,
        saved: Callable[[], None] = _nothing,
    ) -> bool:
        """Save another text of a user's message as a new version, and have it answered."""
        return self._may_write() and self._tree.edit_and_send(message_id, text, attachments, saved)

    def swap_role(self, message_id: str) -> None:
        """User's becomes assistant's, or the other way round: as a new version."""
        if self._may_write():
            self._tree.swap_role(message_id)

    def insert_message(
        self, after_id: str | None, role: Role, text: str, saved: Callable[[], None] = _nothing
    ) -> bool:
        """A new message below that one (None: at the top); what follows stays in view."""
        return self._may_write() and self._tree.insert(after_id, role, text, saved)

    def continue_reply(self, message_id: str) -> None:
        """Another version of a reply that begins with all of it and goes on."""
        self._replies.go_on(message_id)

    def begin_reply(
        self,
        message_id: str,
        beginning: str,
        reasoning: str | None = None,
        saved: Callable[[], None] = _nothing,
    ) -> bool:
        """A reply to a message, or another version of a reply, that begins with these words (and
        with this reasoning, where it is another one)."""
        return self._replies.begin_with(message_id, beginning, reasoning, saved)

    def ask_several(self, message_id: str, answers: Sequence[Mapping[str, Any]]) -> None:
        """Several replies at once, each with settings of its own over those of the chat."""
        self._replies.ask_several(message_id, answers)

    def make_room(self, message_id: str, way: str) -> None:
        """Have a message answered whose prompt was too long. way: enlarge (the window) or trim
        (leave out the oldest)."""
        if self._may_write():
            (self._room.enlarge if way == "enlarge" else self._room.trim)(message_id)

    def stop_reply(self, message_id: str) -> None:
        """Stop one of several replies that grow."""
        self._replies.growing.stop_reply(message_id)

    def trash_message(self, message_id: str, *, only_this: bool = False) -> None:
        """To the trash with all that follows it, or alone; with an undo."""
        if self._may_write():
            self._tree.trash(message_id, only_this=only_this)

    def prune(self, message_id: str) -> None:
        """To the trash with all below it, on the path or not; with an undo."""
        if self._may_write():
            self._tree.prune(message_id)

    def restore_message(self, message_id: str, conversation_id: str) -> None:
        """Bring back what was deleted with a message, and show it."""
        if self._may_write():
            self._tree.restore(message_id, conversation_id)

    def list_trashed_messages(self) -> None:
        """Ask what was deleted inside of conversations; TrashedBranchesListed answers."""
        if self._has_store():
            self._tree.list_trashed()

    def branch_off(self, message_id: str) -> None:
        """A new chat with a copy of this one down to that message; it is opened."""
        if self._may_write():
            self._tree.branch_off(message_id)

    def go_to_message(self, message_id: str) -> None:
        """Show the newest path that leads through a message."""
        if self._has_store():
            self._tree.go_to(message_id)

    def read_tree(self) -> None:
        """Ask for the map of the open conversation; TreeRead answers."""
        if self._has_store():
            self._tree.read_tree()

    def read_versions(self, message_id: str) -> None:
        """Ask for all versions of a message; VersionsRead answers."""
        if self._has_store():
            self._tree.read_versions(message_id)
