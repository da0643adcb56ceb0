"""The store's doors to the shape of a conversation; `models.store.store` tells how doors work."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from models.extra_doors import Callback, Doors
from models.records import Conversation, Message, PathStretch, Trashed, TrashedBranch, TreeNode
from models.store.at_first_use import AtFirstUse

if TYPE_CHECKING:
    from models.conversations import branching
else:
    branching = AtFirstUse("models.conversations.branching")


class BranchDoors(Doors):
    """Each change is one transaction: it is done whole or not at all."""

    def add_branch(
        self,
        message: Message,
        following: PathStretch | None = None,
        callback: Callback[str] | None = None,
    ) -> Future[str]:
        """Add a node and copies of a stretch below it. The last one, whose id the future has,
        is the active leaf."""
        return self._write(lambda c: branching.add_branch(c, message, following), callback)

    def copy_conversation(
        self,
        conversation: Conversation,
        path: PathStretch,
        callback: Callback[Conversation] | None = None,
    ) -> Future[Conversation]:
        """A new conversation with a copy of a path of another one."""
        return self._write(lambda c: branching.copy_conversation(c, conversation, path), callback)

    def trash_branch(
        self,
        message_id: str,
        following: PathStretch | None = None,
        callback: Callback[Trashed] | None = None,
    ) -> Future[Trashed]:
        """Delete a message with all below it; `following` is copied into its place first."""
        return self._write(lambda c: branching.trash_branch(c, message_id, following), callback)

    def restore_branch(self, message_id: str, callback: Callback[str] | None = None) -> Future[str]:
        """Bring back what was deleted with a message; the active leaf, below it, is shown."""
        return self._write(lambda c: branching.restore_branch(c, message_id), callback)

    def load_tree(
        self, conversation_id: str, callback: Callback[tuple[TreeNode, ...]] | None = None
    ) -> Future[tuple[TreeNode, ...]]:
        """Every message of a conversation, deleted ones too, parents before children."""
        return self._read(lambda c: branching.load_tree(c, conversation_id), callback)

    def list_trashed_branches(
        self, callback: Callback[tuple[TrashedBranch, ...]] | None = None
    ) -> Future[tuple[TrashedBranch, ...]]:
        """What was deleted from conversations that are there, the last first."""
        return self._read(lambda c: branching.list_trashed(c), callback)
