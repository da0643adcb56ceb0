"""The store's doors to the download queue; `models.store.store` tells how doors work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from models.extra_doors import Doors
from models.records import Download
from models.store.at_first_use import AtFirstUse

if TYPE_CHECKING:
    from models.conversations import downloads
else:
    downloads = AtFirstUse("models.conversations.downloads")

T = TypeVar("T")
Callback = Callable[["Future[T]"], None]


class DownloadDoors(Doors):
    """The download queue."""

    def list_downloads(
        self, callback: Callback[tuple[Download, ...]] | None = None
    ) -> Future[tuple[Download, ...]]:
        """All of them in the queue's order, whatever their state."""
        return self._read(lambda c: downloads.list_downloads(c), callback)

    def create_download(
        self, download: Download, callback: Callback[Download] | None = None
    ) -> Future[Download]:
        """Add one; asked twice with the same id, it is added once."""
        return self._write(lambda c: downloads.create_download(c, download), callback)

    def update_download(
        self, download_id: str, callback: Callback[Download] | None = None, **changes: Any
    ) -> Future[Download]:
        """Change fields of the record by their names; NotFoundError."""
        return self._write(lambda c: downloads.update_download(c, download_id, changes), callback)

    def delete_download(
        self, download_id: str, callback: Callback[None] | None = None
    ) -> Future[None]:
        """Take it off the list; its files are not touched."""
        return self._write(lambda c: downloads.delete_download(c, download_id), callback)
