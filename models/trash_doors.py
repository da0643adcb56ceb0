"""The store's doors to the trash; `models.store.store` tells how doors work."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from models.extra_doors import Callback, Doors
from models.store.at_first_use import AtFirstUse

if TYPE_CHECKING:
    from models.conversations import trash
else:
    trash = AtFirstUse("models.conversations.trash")


class TrashDoors(Doors):
    """What is deleted for good here is soon in no file any more: see `Store.erased`."""

    def trash_conversations(
        self, ids: Iterable[str], callback: Callback[None] | None = None
    ) -> Future[None]:
        """Many to the trash, in one transaction."""
        kept = tuple(ids)
        return self._write(lambda c: trash.throw_away(c, kept), callback)

    def see_clock(
        self, now: datetime, at_most: timedelta, callback: Callback[None] | None = None
    ) -> Future[None]:
        """Before a purge, and at the end: a clock that has jumped makes nothing in the trash
        older. So much of the time since the last look counts, at most."""
        return self._write(lambda c: trash.see_clock(c, now, at_most), callback)

    def purge_trash(
        self, older_than: datetime, callback: Callback[int] | None = None
    ) -> Future[int]:
        """Delete for good what was thrown away before that time; how many conversations."""
        return self._write(lambda c: trash.purge_some(c, older_than), callback)

    def purge_some(
        self, older_than: datetime, at_most: int, callback: Callback[int] | None = None
    ) -> Future[int]:
        """As `purge_trash`, a part of it, so that other writes come in between."""
        return self._write(lambda c: trash.purge_some(c, older_than, at_most), callback)

    def purge_branches(
        self, older_than: datetime, callback: Callback[int] | None = None
    ) -> Future[int]:
        """Delete for good the messages that were deleted before that time; how many."""
        return self._write(lambda c: trash.purge_branches(c, older_than), callback)

    def note_deletion(self, callback: Callback[None] | None = None) -> Future[None]:
        """Something other than a chat is to be found in no file any more."""
        return self._write(lambda c: trash.note_deletion(c), callback)

    def missing(
        self, ids: Iterable[str], callback: Callback[frozenset[str]] | None = None
    ) -> Future[frozenset[str]]:
        """Those that neither a conversation nor a message has; what is in the trash is there."""
        kept = tuple(ids)
        return self._read(lambda c: trash.missing(c, kept), callback)

    def delete_trashed(
        self, ids: Iterable[str], callback: Callback[int] | None = None
    ) -> Future[int]:
        """Delete these for good, as far as they are in the trash; how many."""
        kept = tuple(ids)
        return self._write(lambda c: trash.delete_trashed(c, kept), callback)
