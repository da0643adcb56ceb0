"""The store's doors to what is known of weights files; `models.store.store` tells how doors
work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from models.extra_doors import Doors
from models.records import LocalFile
from models.store.at_first_use import AtFirstUse

if TYPE_CHECKING:
    from models.conversations import local_files
else:
    local_files = AtFirstUse("models.conversations.local_files")

T = TypeVar("T")
Callback = Callable[["Future[T]"], None]


class LocalFileDoors(Doors):
    """Weights files on this machine."""

    def list_local_files(
        self, callback: Callback[tuple[LocalFile, ...]] | None = None
    ) -> Future[tuple[LocalFile, ...]]:
        return self._read(lambda c: local_files.list_local_files(c), callback)

    def save_local_files(
        self, files: tuple[LocalFile, ...], callback: Callback[None] | None = None
    ) -> Future[None]:
        """Each in the place of what was known of its path."""
        return self._write(lambda c: local_files.save_local_files(c, files), callback)

    def forget_local_files(
        self, before: datetime, callback: Callback[int] | None = None
    ) -> Future[int]:
        """Forget what was not seen since; of how many files."""
        return self._write(lambda c: local_files.forget_local_files(c, before), callback)
