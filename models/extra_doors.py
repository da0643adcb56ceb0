"""The store's doors to folders, presets and attachments; `models.store.store` tells how doors
work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from models.records import Attachment, Folder, Preset
from models.store.at_first_use import AtFirstUse

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from models.conversations import extras
else:
    extras = AtFirstUse("models.conversations.extras")

T = TypeVar("T")
Callback = Callable[["Future[T]"], None]


class Doors(ABC):
    """What a part of `Store` is made on: the store's threads."""

    @abstractmethod
    def _write(
        self,
        work: Callable[[Connection], T],
        callback: Callback[T] | None,
        replaces: str | None = None,
    ) -> Future[T]: ...

    @abstractmethod
    def _read(self, work: Callable[[Connection], T], callback: Callback[T] | None) -> Future[T]: ...


class ExtraDoors(Doors):
    """Folders, presets and attachments."""

    def list_folders(
        self, callback: Callback[tuple[Folder, ...]] | None = None
    ) -> Future[tuple[Folder, ...]]:
        """All folders by position, then by age, whatever folder they are in."""
        return self._read(lambda c: extras.list_folders(c), callback)

    def create_folder(
        self, folder: Folder, callback: Callback[Folder] | None = None
    ) -> Future[Folder]:
        return self._write(lambda c: extras.create_folder(c, folder), callback)

    def update_folder(
        self, folder_id: str, callback: Callback[Folder] | None = None, **changes: Any
    ) -> Future[Folder]:
        """Change fields of the record by their names; NotFoundError."""
        return self._write(lambda c: extras.update_folder(c, folder_id, changes), callback)

    def delete_folder(self, folder_id: str, callback: Callback[None] | None = None) -> Future[None]:
        """Delete a folder; what is in it moves to the folder around it."""
        return self._write(lambda c: extras.delete_folder(c, folder_id), callback)

    def list_presets(
        self, callback: Callback[tuple[Preset, ...]] | None = None
    ) -> Future[tuple[Preset, ...]]:
        """All presets by position, then by age."""
        return self._read(lambda c: extras.list_presets(c), callback)

    def create_preset(
        self, preset: Preset, callback: Callback[Preset] | None = None
    ) -> Future[Preset]:
        """RefusedError where another preset has this name."""
        return self._write(lambda c: extras.create_preset(c, preset), callback)

    def update_preset(
        self, preset_id: str, callback: Callback[Preset] | None = None, **changes: Any
    ) -> Future[Preset]:
        """Change fields of the record by their names; RefusedError, NotFoundError."""
        return self._write(lambda c: extras.update_preset(c, preset_id, changes), callback)

    def delete_preset(self, preset_id: str, callback: Callback[None] | None = None) -> Future[None]:
        return self._write(lambda c: extras.delete_preset(c, preset_id), callback)

    def list_attachments(
        self,
        conversation_id: str,
        message_id: str | None = None,
        callback: Callback[tuple[Attachment, ...]] | None = None,
    ) -> Future[tuple[Attachment, ...]]:
        """Of a conversation, its draft's too; or of one message."""
        return self._read(
            lambda c: extras.list_attachments(c, conversation_id, message_id), callback
        )

    def create_attachment(
        self, attachment: Attachment, callback: Callback[Attachment] | None = None
    ) -> Future[Attachment]:
        """To a message, or to the draft (`message_id` None)."""
        return self._write(lambda c: extras.create_attachment(c, attachment), callback)

    def update_attachment(
        self, attachment_id: str, callback: Callback[Attachment] | None = None, **changes: Any
    ) -> Future[Attachment]:
        """Change fields of the record by their names; `message_id` moves it to a message."""
        return self._write(lambda c: extras.update_attachment(c, attachment_id, changes), callback)

    def delete_attachment(
        self, attachment_id: str, callback: Callback[None] | None = None
    ) -> Future[None]:
        return self._write(lambda c: extras.delete_attachment(c, attachment_id), callback)
