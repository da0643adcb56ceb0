"""The tree under a conversation: other versions of any message, inserting, deleting, branches.

What must hold:

* Nothing is overwritten. An edit, another role and an inserted message are new nodes; what
  followed the old ones stays under them, and is copied below the new ones where the user wants
  to keep it in view.
* Deleting marks; it can be undone at once, and restored from the trash later.
* The path on screen changes when the store has done its part, never before, and one change at a
  time (`app.chat.conversations.paths`).
* Whoever holds a text gives it away only when it is taken: what saves one tells whether it is
  (`False`: it was refused, and why is said), and calls `saved` when it is on disk.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from app.chat.attachments.document_parts import PARTS, mode_of, unsent
from app.chat.conversations.paths import Paths
from app.chat.conversations.shelf import MAX_TITLE_LENGTH, Shelf, new_id
from app.chat.documents.text_mode import TextMode
from app.chat.events import Noticed, TrashedBranchesListed, TreeRead, VersionsRead
from app.chat.replies.calls import kept_calls
from app.chat.replies.prompts import clean_message
from app.chat.replies.replies import Replies
from app.chat.replies.summary_nodes import kept_marks
from app.chat.surroundings import ALWAYS, Surroundings, now
from models.records import (
    Attachment,
    Message,
    MessageCounts,
    MessageState,
    PathStretch,
    Role,
    Trashed,
    TrashedBranch,
    TreeNode,
)
from models.store.store import Store

EMPTY_SENTENCE: Final = "A message can't be empty. Delete the message instead."
PRUNED_SENTENCE: Final = "Branch moved to the trash."
TEMPORARY_SENTENCE: Final = (
    "A temporary chat is never saved, so it can't be branched into a new chat. Edit the message "
    "instead: both versions stay."
)
BRANCH_MARK: Final = " (branch)"
OTHER_ROLE: Final = {Role.USER: Role.ASSISTANT, Role.ASSISTANT: Role.USER}


def _nothing() -> None: ...


class Tree:
    """What can be done with the messages of the open conversation, one by one."""

    def __init__(
        self, around: Surroundings, shelf: Shelf, paths: Paths, replies: Replies, text: TextMode
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._paths = paths
        self._replies = replies
        self._text = text

    @property
    def _store(self) -> Store:
        assert self._around.store is not None
        return self._around.store

    # --- new versions ---------------------------------------------------------------------------

    def edit(
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
        all of the old one.
        """
        if not self._around.may_write():
            return False
        old, text = self._shelf.message(message_id), clean_message(text)
        if old is None:
            return False
        kept = old.attachments if attachments is None else attachments
        thoughts = old.reasoning if reasoning is None else clean_message(reasoning)
        if not self._has_text(text + thoughts, kept) or not self._may_change():
            return False
        edited = self._version_of(old, content=text, reasoning=thoughts, attachments=kept)
        self._add(edited, self._following(message_id, keep=keep_following), saved)
        if not keep_following and self._shelf.leaf_id != message_id:
            self._say_where_the_rest_is(old)
        return True

    def edit_and_send(
        self,
        message_id: str,
        text: str,
        attachments: tuple[Attachment, ...] | None = None,
        saved: Callable[[], None] = _nothing,
    ) -> bool:
        """Save another text of a message of the user as a new version, and have it answered."""
        if not self._around.may_write():
            return False
        old, text = self._shelf.message(message_id), clean_message(text)
        if old is None:
            return False
        # Another question fits other parts of a document.
        kept = unsent(old.attachments if attachments is None else attachments)
        if not self._has_text(text, kept) or not self._may_change():
            return False
        version = self._version_of(old, content=text, attachments=kept)
        return self._replies.send_version(version, saved)

    def search_again(self, message_id: str) -> bool:
        """Search the documents again for a message of the user: another version, with its own
        reply; the parts that went in before stay with the old one."""
        message = self._shelf.message(message_id)
        if message is None or not any(mode_of(each) == PARTS for each in message.attachments):
            return False
        return self.edit_and_send(message_id, message.content)

    def swap_role(self, message_id: str) -> None:
        """What the user said becomes the assistant's, or the other way round; a new version."""
        if not self._around.may_write():
            return
        old = self._shelf.message(message_id)
        if old is None or old.role not in OTHER_ROLE or not self._may_change():
            return
        swapped = self._version_of(old, role=OTHER_ROLE[old.role], reasoning="")
        self._add(swapped, self._following(message_id))

    def insert(
        self, after_id: str | None, role: Role, text: str, saved: Callable[[], None] = _nothing
    ) -> bool:
        """A new message below that one (None: at the very top); what follows is kept in view."""
        if not self._around.may_write():
            return False
        text = clean_message(text)
        if not self._has_text(text) or not self._may_change():
            return False
        self._shelf.ensure_stored()
        message = Message(new_id(), self._shelf.open.id, after_id, role, text, now())
        self._add(message, self._following(after_id), saved)
        return True

    def _version_of(self, old: Message, **changes: object) -> Message:
        """Another version of a message; whatever was measured of the old one is not its own."""
        version = dataclasses.replace(
            old,
            id=new_id(),
            created_at=now(),
            state=MessageState.COMPLETE,
            token_ids=None,
            stop_reason=None,
            error=None,
            seed=None,
            settings=kept_marks(old) | kept_calls(old),
            weights_name=None,
            weights_hash=None,
            rendered_prompt=None,
            counts=MessageCounts(),
            sibling_index=old.sibling_count,
            sibling_count=old.sibling_count + 1,
        )
        return dataclasses.replace(version, **changes)  # type: ignore[arg-type]

    def _say_where_the_rest_is(self, old: Message) -> None:
        sentence = (
            f"Saved as version {old.sibling_count + 1}. The messages that followed are under "
            f"version {old.sibling_index + 1}."
        )
        self._around.emit(Noticed("info", sentence))

    def _following(self, message_id: str | None, *, keep: bool = True) -> PathStretch | None:
        """What stands below a message on the active path."""
        leaf_id = self._shelf.leaf_id
        if not keep or leaf_id is None or leaf_id == message_id:
            return None
        return PathStretch(leaf_id, message_id, str(uuid.uuid4()))

    def _add(
        self, message: Message, following: PathStretch | None, saved: Callable[[], None] = _nothing
    ) -> None:
        written = self._store.add_branch(message, following)
        self._paths.show_changed(written, lambda leaf_id: leaf_id, lambda _leaf_id: saved())
        self._shelf.touch(message.conversation_id)

    # --- deleting -------------------------------------------------------------------------------

    def trash(self, message_id: str, *, only_this: bool = False) -> None:
        """Delete a message with all that follows it, or alone; with a way back."""
        if not self._around.may_write():
            return
        shelf, message = self._shelf, self._shelf.message(message_id)
        if message is None or not self._may_change():
            return
        following = self._following(message_id) if only_this else None
        n_below = len(shelf.path) - 1 - len(shelf.path_to(message.parent_id))
        sentence = "Message moved to the trash."
        if n_below and following is None:
            sentence = f"Moved the message and the {n_below:,} below it to the trash."
        conversation_id, leaf_id = message.conversation_id, shelf.leaf_id
        assert leaf_id is not None
        trashed = self._store.trash_branch(message_id, following)

        def offer(instead_id: str | None) -> None:
            shelf.offer_undo(
                f"trash message {message_id}",
                sentence,
                lambda: self._bring_back(conversation_id, message_id, leaf_id, instead_id),
            )

        self._paths.show_changed(
            trashed, lambda done: done.leaf_id, lambda done: offer(done.instead_id)
        )
        self._list_trashed_after(trashed)

    def prune(self, message_id: str) -> None:
        """Delete a branch that need not be on screen, with a way back."""
        if self._shelf.is_on_path(message_id):
            self.trash(message_id)
            return
        if not self._around.may_write() or not self._may_change():
            return
        shelf, conversation_id = self._shelf, self._shelf.open.id
        leaf_id = shelf.leaf_id
        trashed = self._store.trash_branch(message_id)

        def bring_back() -> None:
            if leaf_id is not None:
                self._bring_back(conversation_id, message_id, leaf_id, None)

        def offer(_done: Trashed) -> None:
            shelf.offer_undo(f"trash message {message_id}", PRUNED_SENTENCE, bring_back)

        # Shown anew: the versions of what is on the path are fewer now.
        self._paths.show_changed(trashed, lambda done: done.leaf_id, offer)
        self._list_trashed_after(trashed)

    def restore(self, message_id: str, conversation_id: str) -> None:
        """Bring back what was deleted with a message, whenever that was, and show it."""
        if not self._around.may_write():
            return
        restored = self._store.restore_branch(message_id)
        self._list_trashed_after(restored)
        if conversation_id == self._shelf.open.id:
            self._paths.show_changed(restored, lambda leaf_id: leaf_id)
            return
        self._around.saved(restored)
        self._around.when_done(
            restored,
            lambda _: self._shelf.open_stored(conversation_id),
            lambda _: None,  # said by `saved`
            still=self._shelf.want(conversation_id),
        )

    def _bring_back(
        self, conversation_id: str, message_id: str, leaf_id: str, instead_id: str | None
    ) -> None:
        """As it was before: what came in its place goes."""
        if instead_id is not None:
            self._around.saved(self._store.trash_branch(instead_id))
        restored = self._store.restore_branch(message_id)
        self._around.saved(self._store.set_active_leaf(conversation_id, leaf_id))
        if conversation_id == self._shelf.open.id:
            self._paths.show_changed(restored, lambda _: leaf_id)
        else:
            self._around.saved(restored)
        self._list_trashed_after(restored)

    def list_trashed(self) -> None:
        """Ask for what was deleted inside of conversations; TrashedBranchesListed answers."""
        if self._around.store is None:
            return

        def tell(branches: tuple[TrashedBranch, ...]) -> None:
            self._around.emit(TrashedBranchesListed(branches))

        self._around.when_done(
            self._store.list_trashed_branches(),
            tell,
            still=ALWAYS,  # of all chats
        )

    def _list_trashed_after(self, written: Future[Any]) -> None:
        self._around.when_done(
            written, lambda _: self.list_trashed(), lambda _: None, still=ALWAYS
        )  # done

    # --- going somewhere else -------------------------------------------------------------------

    def branch_off(self, message_id: str) -> None:
        """A new conversation with a copy of the path down to this message; it is opened."""
        if not self._around.may_write():
            return
        old = self._shelf.open
        if self._shelf.message(message_id) is None or not self._may_change():
            return
        if self._shelf.is_temporary(old.id):
            self._around.emit(Noticed("info", TEMPORARY_SENTENCE))
            return
        title = f"{old.title[: MAX_TITLE_LENGTH - len(BRANCH_MARK)]}{BRANCH_MARK}"
        branch = dataclasses.replace(
            old,
            id=new_id(),
            title=title,
            created_at=now(),
            updated_at=now(),
            draft="",
            is_pinned=False,
            is_archived=False,
            active_leaf_id=None,
            copied_from=message_id,
        )
        path = PathStretch(message_id, None, str(uuid.uuid4()))
        copied = self._store.copy_conversation(branch, path)
        is_wanted = self._shelf.want(branch.id)
        # It is made and listed, whatever is on screen; it is opened only if it is wanted still.
        self._around.when_done(
            copied, lambda made: self._shelf.take_in(made, is_wanted), still=ALWAYS
        )

    def go_to(self, message_id: str) -> None:
        """Show the newest path that leads through a message."""
        if self._around.store is None or self._shelf.is_on_path(message_id):
            return
        self._text.settle()
        self._paths.go_to_leaf(self._store.leaf_below(message_id), self._paths.want())

    def read_tree(self) -> None:
        """Ask for the map of the open conversation; TreeRead answers."""
        if self._around.store is None:
            return
        conversation_id = self._shelf.open.id
        if not self._shelf.is_stored(conversation_id):
            self._around.emit(TreeRead(conversation_id, (), ()))
            return

        def tell(nodes: tuple[TreeNode, ...]) -> None:
            path_ids = tuple(message.id for message in self._shelf.path)
            self._around.emit(TreeRead(conversation_id, nodes, path_ids))

        self._around.when_done(
            self._store.load_tree(conversation_id), tell, still=self._shelf.while_open()
        )

    def read_versions(self, message_id: str) -> None:
        """Ask for all versions of a message; VersionsRead answers."""
        if self._around.store is None:
            return
        conversation_id = self._shelf.open.id

        def tell(messages: tuple[Message, ...]) -> None:
            live = self._replies.growing.live_path(conversation_id, messages)
            self._around.emit(VersionsRead(conversation_id, live))

        self._around.when_done(
            self._store.siblings(message_id), tell, still=self._shelf.while_open()
        )

    # --- how it is done -------------------------------------------------------------------------

    def _may_change(self) -> bool:
        """Whether the path may change now; if not, why is said."""
        return self._replies.is_free()

    def _has_text(self, text: str, attachments: tuple[Attachment, ...] = ()) -> bool:
        if text.strip() or attachments:
            return True
        self._around.emit(Noticed("info", EMPTY_SENTENCE))
        return False
