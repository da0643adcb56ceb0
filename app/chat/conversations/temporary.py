"""Temporary chats: kept in memory, never written, gone when they are ended or the app closes.

`Stores` stands where the store would stand and sends each question to the database or to the
memory, by the ids that it is about. What must hold: whatever belongs to a temporary chat goes to
the memory. A mistake here cannot write one: the database refuses messages of a conversation that it
does not have. There is one at a time, in no list; when it ends, after a warning, its tokens leave
the KV cache and host memory, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

from app.chat.attachments.attachments import Attachments
from app.chat.conversations.edits import Edits
from app.chat.conversations.shelf import Shelf
from app.chat.inspection.cache import CacheLook
from app.chat.replies.beams import Beams
from app.chat.replies.replies import Replies
from app.chat.surroundings import Surroundings
from models.records import Attachment, Conversation, Message

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
        self._shelf.drop_temporary()
        self._stores.end_temporary()
        self._cache.forget(ended)
        self._beams.forget(ended)


class Stores:
    """The database, and the memory for what is temporary, as one store."""

    def __init__(self, disk: Store) -> None:
        self._disk = disk
        self._memory: TemporaryStore | None = None
        self._ids: set[str] = set()

    def as_store(self) -> Store:
        """For those who know one store. Every method of it is answered by `__getattr__`."""
        return cast("Store", self)

    def begin_temporary(self, conversation_id: str) -> None:
        """From now on what is about this conversation stays in memory."""
        if self._memory is None:
            from models.store.temporary import TemporaryStore

            self._memory = TemporaryStore()
        self._ids.add(conversation_id)

    def end_temporary(self) -> None:
        """Forget all that is temporary."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def close(self, timeout: float) -> int:
        """Of the database; the memory has nothing to lose."""
        self.end_temporary()
        return self._disk.close(timeout)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk, name)
        if not self._ids or not callable(method):
            return method

        def ask(*args: Any, **options: Any) -> Any:
            if not self._is_about_temporary((*args, *options.values())):
                return method(*args, **options)
            memory = self._memory
            if memory is None:  # asked for by somebody who does not know yet that it has ended
                return _never()
            answer = getattr(memory, name)(*args, **options)
            if isinstance(answer, Future):
                answer.add_done_callback(self._learn)
            return answer

        return ask

    def _is_about_temporary(self, values: Iterable[Any]) -> bool:
        found = [self._is_temporary(value) for value in values]  # all of them: ids are learnt
        return any(found)

    def _is_temporary(self, value: Any) -> bool:
        """Whether a record or an id is of a temporary chat; new ids of its records are learnt."""
        match value:
            case str():
                return value in self._ids
            case Conversation():
                return value.id in self._ids
            case Message() | Attachment():
                is_ours = value.conversation_id in self._ids
                if is_ours:
                    self._ids.add(value.id)
                return is_ours
            case Mapping():
                return self._is_about_temporary(value.keys())
            case list() | tuple() | set() | frozenset():
                return self._is_about_temporary(value)
        return False

    def _learn(self, answered: Future[Any]) -> None:
        """Messages that the memory made itself (copies) are known by its answers."""
        if not answered.cancelled() and answered.exception() is None:
            self._is_temporary(answered.result())


def _never() -> Future[Any]:
    """An answer that does not come, and that nobody is told of."""
    future: Future[Any] = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future
