"""The store's doors for export and import; `models.store.store` tells how doors work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from models.extra_doors import Callback, Doors, T
from models.records import Folder, Imported, Preset, Whereabouts, WholeConversation
from models.store.at_first_use import AtFirstUse

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from models.conversations import exchange, importing
else:
    exchange = AtFirstUse("models.conversations.exchange")
    importing = AtFirstUse("models.conversations.importing")


class ExchangeDoors(Doors):
    """Whole conversations, one at a time out and all or none in."""

    def read_whole(
        self, conversation_id: str, callback: Callback[WholeConversation] | None = None
    ) -> Future[WholeConversation]:
        """A conversation with its whole tree; NotFoundError."""
        return self._read(lambda c: exchange.read_whole(c, conversation_id), callback)

    def whereabouts(
        self, chat: WholeConversation, callback: Callback[Whereabouts] | None = None
    ) -> Future[Whereabouts]:
        """What would become of a chat if it were imported now."""
        return self._read(lambda c: exchange.whereabouts(c, chat), callback)

    def add_all(
        self,
        chats: Iterable[WholeConversation],
        folders: Sequence[Folder] = (),
        presets: Sequence[Preset] = (),
        told: Callable[[int], None] = lambda _count: None,
    ) -> Imported:
        """Import all of these chats or, if one of them or `told` raises, none.

        It waits, so it is called on a thread that may. Other writes come in between; `told` gets
        the number of messages that are done.
        """
        return importing.add_all(self._now_read, self._now_write, chats, folders, presets, told)

    def staged_ids(
        self, callback: Callback[tuple[str, ...]] | None = None
    ) -> Future[tuple[str, ...]]:
        """Chats of an import that came to no end."""
        return self._read(lambda c: importing.staged_ids(c), callback)

    def drop_some(self, ids: Sequence[str], callback: Callback[int] | None = None) -> Future[int]:
        """Delete a part of these; how much. 0: all of them are gone."""
        return self._write(lambda c: importing.drop_some(c, ids), callback)

    def _now_read(self, work: Callable[[Connection], T], /) -> T:
        return self._read(work, None).result()

    def _now_write(self, work: Callable[[Connection], T], /) -> T:
        return self._write(work, None).result()
