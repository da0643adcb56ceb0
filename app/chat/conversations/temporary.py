"""Temporary chats: kept in memory, never written, gone when they are ended or the app closes.

`Stores` stands where the store would stand and sends each question to the database or to the
memory, by the ids that it is about. What must hold: whatever belongs to a temporary chat goes to
the memory. A mistake here cannot write one: the database refuses messages of a conversation that it
does not have. There is one at a time, in no list; when it ends, after a warning, its tokens leave
the KV cache and host memory, too. Beside it there may be one of what the server was asked
(`app.chat.server.opened`): each has a memory of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.edits import Edits
from app.chat.conversations.shelf import Shelf
from app.chat.inspection.cache import CacheLook
from app.chat.replies.beams import Beams
from app.chat.replies.replies import Replies
from app.chat.surroundings import Surroundings
from models.records import Attachment, Conversation, Message, WholeConversation

if TYPE_CHECKING:
    from models.store.store import Store
    from models.store.temporary import TemporaryStore


class TemporaryChat:
    """The one temporary chat, if there is one."""

    def __init__(
        self,
        around: Surroundings,
        shelf: Shelf,
        replies: Replies,
        attachments: Attachments,
        edits: Edits,
        cache: CacheLook,
        beams: Beams,
    ) -> None:
        self._around = around
        self._shelf = shelf
        self._replies = replies
        self._attachments = attachments
        self._edits = edits
        self._cache = cache
        self._beams = beams
        self._stores: Stores | None = None

    @property
    def stores(self) -> Stores:
        """Where temporary chats are kept. After `over`."""
        assert self._stores is not None
        return self._stores

    def over(self, disk: Store) -> Store:
        """The store for everybody: the database, and the memory for what is temporary."""
        self._stores = Stores(disk)
        return self._stores.as_store()

    @property
    def is_open(self) -> bool:
        """Whether the open conversation is the one that is never written."""
        return self._shelf.open.id == self._shelf.temporary_id

    @property
    def is_begun(self) -> bool:
        """Whether there is a temporary chat that holds something."""
        return self._shelf.is_stored(self._shelf.temporary_id)

    def open(self) -> None:
        """Show the temporary chat: the one that there is, or a new one."""
        if not self._around.may_write() or self.is_open or self._stores is None:
            return
        if self.is_begun:
            self._shelf.open_stored(self._shelf.temporary_id)
        else:
            self._stores.begin_temporary(self._shelf.open_temporary())

    def end(self) -> None:
        """The temporary chat is gone, and a reply that is written in it."""
        ended = self._shelf.temporary_id
        if not ended or self._stores is None:
            return
        self._replies.forget(ended)
        self._attachments.forget(ended)
        self._edits.forget(ended)
        self._shelf.files.forget(self._stores.ids_of(ended))
        self._shelf.drop_temporary()
        self._stores.end_temporary(ended)
        self._cache.forget(ended)
        self._beams.forget(ended)


class Stores:
    """The database, and the memory for what is temporary, as one store."""

    def __init__(self, disk: Store) -> None:
        self._disk = disk
        self._memories: dict[str, TemporaryStore] = {}
        self._chats: dict[str, str] = {}
        """Of each id the temporary chat that it belongs to, or did."""

    def as_store(self) -> Store:
        """For those who know one store. Every method of it is answered by `__getattr__`."""
        return cast("Store", self)

    def begin_temporary(self, conversation_id: str) -> None:
        """From now on what is about this conversation stays in memory."""
        from models.store.temporary import TemporaryStore

        self._memories[conversation_id] = TemporaryStore()
        self._chats[conversation_id] = conversation_id

    def end_temporary(self, conversation_id: str) -> None:
        """Forget all of it."""
        memory = self._memories.pop(conversation_id, None)
        if memory is not None:
            memory.close()

    def read_temporary(self, conversation_id: str) -> Future[WholeConversation]:
        """All of a temporary chat, to be stored."""
        return self._memories[conversation_id].read_whole(conversation_id)

    def ids_of(self, conversation_id: str) -> list[str]:
        """Of all that a temporary chat has or had."""
        return [own for own, chat in list(self._chats.items()) if chat == conversation_id]

    def close(self, timeout: float) -> int:
        """Of the database; the memory has nothing to lose."""
        for conversation_id in tuple(self._memories):
            self.end_temporary(conversation_id)
        return self._disk.close(timeout)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk, name)
        if not self._chats or not callable(method):
            return method

        def ask(*args: Any, **options: Any) -> Any:
            chat = self._chat_of((*args, *options.values()))
            if not chat:
                return method(*args, **options)
            memory = self._memories.get(chat)
            if memory is None:  # asked for by somebody who does not know yet that it has ended
                return _never()
            answer = getattr(memory, name)(*args, **options)
            if isinstance(answer, Future):
                answer.add_done_callback(self._learn)
            return answer

        return ask

    def _chat_of(self, value: Any) -> str:
        """The temporary chat that a record, an id or any of these is of; empty: of none. New ids
        of its records are learnt."""
        match value:
            case str():
                return self._chats.get(value, "")
            case Conversation():
                return self._chats.get(value.id, "")
            case Message() | Attachment():
                chat = self._chats.get(value.conversation_id, "")
                if chat:
                    self._chats[value.id] = chat
                    if isinstance(value, Message):
                        self._chat_of(value.attachments)
                return chat
            case Mapping():
                return self._chat_of(tuple(value))
            case list() | tuple() | set() | frozenset():
                found = [self._chat_of(each) for each in value]  # all of them: ids are learnt
                return next(filter(None, found), "")
        return ""

    def _learn(self, answered: Future[Any]) -> None:
        """Messages that the memory made itself (copies) are known by its answers."""
        if not answered.cancelled() and answered.exception() is None:
            self._chat_of(answered.result())


def _never() -> Future[Any]:
    """An answer that does not come, and that nobody is told of."""
    future: Future[Any] = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future
