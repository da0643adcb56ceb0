"""The store's doors for export and import; `models.store` tells how doors work."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from models.at_first_use import AtFirstUse
from models.extra_doors import Callback, Doors
from models.records import Folder, Imported, Preset, Whereabouts, WholeConversation

if TYPE_CHECKING:
    from models import exchange
    from models.exchange import Chats
else:
    exchange = AtFirstUse("models.exchange")


class ExchangeDoors(Doors):
    """Whole conversations, one at a time out and all at once in."""

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
        chats: Chats,
        folders: Sequence[Folder] = (),
        presets: Sequence[Preset] = (),
        callback: Callback[Imported] | None = None,
    ) -> Future[Imported]:
        """Import all of these chats or, if one of them raises, none.

        `chats` is called on the database's thread, again if the database was in trouble. What
        it raises should be a StoreError with a sentence.
        """
        return self._write(lambda c: exchange.add_all(c, chats, folders, presets), callback)
