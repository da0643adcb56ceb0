"""The part of the desk that the sidebar and the trash use: folders, many chats at once, search.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.chat.conversations.folders import Folders
from app.chat.conversations.searching import Searching
from app.chat.door import Door
from models.records import Folder


class SidebarDoor(Door):
    """Mixed into `Desk`, which makes `_folders` and `_searching`."""

    _folders: Folders
    _searching: Searching

    @property
    def folders(self) -> tuple[Folder, ...]:
        return self._folders.folders

    # --- folders --------------------------------------------------------------------------------

    def create_folder(self, name: str, parent_id: str | None = None) -> str:
        """The new folder's id; empty where nothing can be written."""
        return self._folders.create(name, parent_id) if self._may_write() else ""

    def rename_folder(self, folder_id: str, name: str) -> None:
        if self._may_write():
            self._folders.rename(folder_id, name)

    def move_folder(self, folder_id: str, parent_id: str | None) -> None:
        """Into another folder, or to the top (None); with an undo."""
        if self._may_write():
            self._folders.move(folder_id, parent_id)

    def delete_folder(self, folder_id: str) -> None:
        """What is in it goes to the folder around it; with an undo."""
        if self._may_write():
            self._folders.delete(folder_id)

    # --- many conversations, each act with one undo ---------------------------------------------

    def move_conversations(self, ids: Iterable[str], folder_id: str | None) -> None:
        if self._may_write():
            self._folders.move_chats(ids, folder_id)

    def pin_conversations(self, ids: Iterable[str], is_pinned: bool) -> None:
        if self._may_write():
            self._folders.pin(ids, is_pinned)

    def archive_conversations(self, ids: Iterable[str], is_archived: bool) -> None:
        if self._may_write():
            self._folders.archive(ids, is_archived)

    def trash_conversations(self, ids: Iterable[str]) -> None:
        """To the trash; replies in the making there are stopped."""
        if self._may_write():
            self._folders.trash(ids)

    def restore_conversations(self, ids: Iterable[str]) -> None:
        if self._may_write():
            self._folders.restore(ids)

    def delete_for_good(self, ids: Iterable[str]) -> None:
        """Conversations of the trash; there is no way back."""
        if self._may_write():
            self._folders.delete_for_good(ids)

    def delete_backups(self) -> None:
        """All backups and what repairs have kept: they hold what was deleted for good."""
        if self._may_write():
            self._folders.delete_backups()

    # --- search ---------------------------------------------------------------------------------

    def search(self, typed: str) -> None:
        """SearchAnswered answers, for the newest text alone."""
        self._searching.search(typed)

    def search_more(self) -> None:
        """The next page; SearchAnswered answers, if there is one."""
        self._searching.more()

    def open_message(self, conversation_id: str, message_id: str) -> None:
        """Open a conversation at a message, on whatever branch it is; MessageSought follows."""
        self._searching.open_at(conversation_id, message_id)
