"""The store's doors to what is done with folders and with many conversations at once;
`models.store.store` tells how doors work."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from models.extra_doors import Callback, Doors
from models.records import Conversation, Folder
from models.store.at_first_use import AtFirstUse

if TYPE_CHECKING:
    from models.conversations import folders
    from models.conversations.folders import Contents
else:
    folders = AtFirstUse("models.conversations.folders")


class FolderDoors(Doors):
    """Each is one transaction: it is done whole or not at all."""

    def move_folder(
        self, folder_id: str, parent_id: str | None, callback: Callback[Folder] | None = None
    ) -> Future[Folder]:
        """Into another folder or, None, to the top; RefusedError where it would hold itself."""
        return self._write(lambda c: folders.move_folder(c, folder_id, parent_id), callback)

    def take_folder_out(
        self, folder_id: str, callback: Callback[Contents] | None = None
    ) -> Future[Contents]:
        """Delete a folder, not what is in it: that goes up. Its contents, for `put_folder_back`."""
        return self._write(lambda c: folders.take_out(c, folder_id), callback)

    def put_folder_back(
        self, folder: Folder, contents: Contents, callback: Callback[None] | None = None
    ) -> Future[None]:
        return self._write(lambda c: folders.put_back(c, folder, contents), callback)

    def change_conversations(
        self,
        changes: Mapping[str, Mapping[str, Any]],
        callback: Callback[tuple[Conversation, ...]] | None = None,
    ) -> Future[tuple[Conversation, ...]]:
        """Fields by their names, for each id; the conversations as they are then."""
        kept = {key: dict(fields) for key, fields in changes.items()}
        return self._write(lambda c: folders.change_conversations(c, kept), callback)
