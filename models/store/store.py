"""The store: the one door to the database, for a thread that must not wait.

Every method returns at once with a `concurrent.futures.Future`; `callback`, where given, is
called with that future when it is done, ON A DATABASE THREAD: hop to your own thread there.
What a future raises is a `models.store.errors.StoreError`.

What must hold:

* Importing this module imports no SQLAlchemy: that happens on the database thread.
* Writes happen one by one, in the order they were asked for, each in a transaction of its
  own, and their future is done only when the change is on disk. A database that is locked,
  full or out of reach makes them wait in memory, never be lost: `on_problem` then says
  `("unsaved", sentence)`, later `("ok", "")`.
* A question sees every write asked for before it, except while writes are waiting for a
  database in trouble: then it is answered from what is on disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from models.branch_doors import BranchDoors
from models.download_doors import DownloadDoors
from models.exchange_doors import ExchangeDoors
from models.extra_doors import ExtraDoors
from models.folder_doors import FolderDoors
from models.local_file_doors import LocalFileDoors
from models.records import Conversation, Message, SearchPage, StoreOpened, Weights
from models.store.at_first_use import AtFirstUse
from models.store.backup_thread import BackupThread
from models.store.threads import ReaderThread, WriterThread
from models.trash_doors import TrashDoors

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from models.conversations import reading, writing
    from models.search import search
    from models.search.query import SearchQuery
else:
    reading = AtFirstUse("models.conversations.reading")
    writing = AtFirstUse("models.conversations.writing")
    search = AtFirstUse("models.search.search")

T = TypeVar("T")
Callback = Callable[["Future[T]"], None]
OnProblem = Callable[[str, str], None]

_CONVERSATION_FIELDS = frozenset(f.name for f in fields(Conversation)) - {"id"}
_MESSAGE_FIELDS = frozenset(f.name for f in fields(Message)) - {
    "trashed_at",
    "id",
    "conversation_id",
    "parent_id",
    "sibling_index",
    "sibling_count",
    "attachments",
}


class Store(
    BranchDoors, DownloadDoors, ExtraDoors, FolderDoors, LocalFileDoors, ExchangeDoors, TrashDoors
):
    """The database of one data folder. Made by `Store.open`; `close` it."""

    def __init__(self, writer: WriterThread, *, backup_after_s: float | None) -> None:
        self._writer = writer
        self._reader = ReaderThread(writer)
        self._backup = BackupThread(writer, first_after_s=backup_after_s)
        self.opened: Future[StoreOpened] = writer.opened

    @classmethod
    def open(
        cls,
        data_dir: Path,
        *,
        read_only: bool = False,
        read_only_sentence: str = "",
        on_problem: OnProblem | None = None,
        busy_timeout_s: float = 3.0,
        backup_after_s: float | None = 60.0,
    ) -> Store:
        """Start the database threads and return at once; `opened` tells what they found.

        read_only: another instance holds the data folder's lock (the caller's business);
        `read_only_sentence` is then what `opened` says. on_problem(state, sentence) is called
        on a database thread with `unsaved`, `ok` or `failed`. A daily backup is made when
        `backup_after_s` have passed (None: never by itself).
        """
        writer = WriterThread(
            data_dir,
            read_only=read_only,
            read_only_sentence=read_only_sentence,
            on_problem=on_problem or (lambda _state, _sentence: None),
            busy_timeout_s=busy_timeout_s,
        )
        store = cls(writer, backup_after_s=backup_after_s)
        for thread in (store._writer, store._reader, store._backup):
            thread.start()
        return store

    def close(self, timeout: float = 5.0) -> int:
        """Finish what was asked, end the threads; the number of writes that could not be saved.

        It is 0 unless the database stays locked, full or out of reach until the timeout.
        """
        self._writer.begin_close(timeout)
        self._reader.close(timeout)
        self._backup.close(timeout)
        return self._writer.close(timeout)

    # --- conversations ------------------------------------------------------------------------

    def list_conversations(
        self, callback: Callback[tuple[Conversation, ...]] | None = None
    ) -> Future[tuple[Conversation, ...]]:
        """All that are not in the trash: pinned first, then the newest activity."""
        return self._read(lambda c: reading.list_conversations(c), callback)

    def list_trash(
        self, callback: Callback[tuple[Conversation, ...]] | None = None
    ) -> Future[tuple[Conversation, ...]]:
        """What is in the trash, the last thrown away first."""
        return self._read(lambda c: reading.list_trash(c), callback)

    def load_conversation(
        self,
        conversation_id: str,
        callback: Callback[tuple[Conversation, tuple[Message, ...]]] | None = None,
        newest: int | None = None,
    ) -> Future[tuple[Conversation, tuple[Message, ...]]]:
        """The conversation and its active path, root first; NotFoundError.

        newest: only so many of its last messages; `load_above` has those before. The path is
        whole if its first message has no parent. `rendered_prompt` is None in these messages
        (it may be large): `load_message` has it.
        """
        return self._read(lambda c: reading.load_conversation(c, conversation_id, newest), callback)

    def create_conversation(
        self, conversation: Conversation, callback: Callback[Conversation] | None = None
    ) -> Future[Conversation]:
        return self._write(lambda c: writing.create_conversation(c, conversation), callback)

    def update_conversation(
        self,
        conversation_id: str,
        callback: Callback[Conversation] | None = None,
        **changes: Any,
    ) -> Future[Conversation]:
        """Change fields of the record by their names. `updated_at` stays unless it is given."""
        _check_names(changes, _CONVERSATION_FIELDS, "conversation")
        return self._write(
            lambda c: writing.update_conversation(c, conversation_id, changes), callback
        )

    def trash_conversation(
        self, conversation_id: str, callback: Callback[Conversation] | None = None
    ) -> Future[Conversation]:
        return self._write(lambda c: writing.trash_conversation(c, conversation_id), callback)

    def restore_conversation(
        self, conversation_id: str, callback: Callback[Conversation] | None = None
    ) -> Future[Conversation]:
        return self._write(lambda c: writing.restore_conversation(c, conversation_id), callback)

    # --- messages and the tree ----------------------------------------------------------------

    def append_message(
        self,
        message: Message,
        callback: Callback[Message] | None = None,
        *,
        keep_in_view: bool = False,
    ) -> Future[Message]:
        """Add a node below `parent_id` (None: a root) and make it the active leaf.

        keep_in_view: where the parent was deleted meanwhile, it ends the path that is shown
        instead of joining what is deleted; the future's message tells where it stands.

        The future's message has its `sibling_index` and `sibling_count`. Asked twice with
        the same id, it is added once.
        """
        return self._write(
            lambda c: writing.append_message(c, message, keep_in_view=keep_in_view), callback
        )

    def update_message(
        self, message_id: str, callback: Callback[Message] | None = None, **changes: Any
    ) -> Future[Message]:
        """Change fields of the record by their names; place in the tree and id are fixed."""
        _check_names(changes, _MESSAGE_FIELDS, "message")
        return self._write(lambda c: writing.update_message(c, message_id, changes), callback)

    def save_streaming_text(
        self,
        message_id: str,
        content: str,
        reasoning: str = "",
        token_ids: tuple[int, ...] | list[int] | None = None,
        callback: Callback[None] | None = None,
    ) -> Future[None]:
        """Save what a growing reply has so far. One that still waits gives way to a newer one.

        It changes nothing once the message is no longer `streaming`.
        """
        ids = None if token_ids is None else tuple(token_ids)
        return self._write(
            lambda c: writing.save_streaming_text(c, message_id, content, reasoning, ids),
            callback,
            replaces=message_id,
        )

    def load_message(
        self, message_id: str, callback: Callback[Message] | None = None
    ) -> Future[Message]:
        """One message with everything, `rendered_prompt` too; NotFoundError."""
        return self._read(lambda c: reading.load_message(c, message_id), callback)

    def load_path(
        self,
        conversation_id: str,
        leaf_id: str,
        callback: Callback[tuple[Message, ...]] | None = None,
    ) -> Future[tuple[Message, ...]]:
        """From the root to that message, both included."""
        return self._read(lambda c: reading.load_path(c, conversation_id, leaf_id), callback)

    def load_above(
        self,
        conversation_id: str,
        message_id: str,
        newest: int,
        callback: Callback[tuple[Message, ...]] | None = None,
    ) -> Future[tuple[Message, ...]]:
        """The last `newest` messages of the path that ends above that one, root first."""
        return self._read(
            lambda c: reading.load_above(c, conversation_id, message_id, newest), callback
        )

    def siblings(
        self, message_id: str, callback: Callback[tuple[Message, ...]] | None = None
    ) -> Future[tuple[Message, ...]]:
        """All versions under the same parent, that one included, oldest first."""
        return self._read(lambda c: reading.siblings(c, message_id), callback)

    def leaf_below(self, message_id: str, callback: Callback[str] | None = None) -> Future[str]:
        """The newest message under that one that has no children (or itself)."""
        return self._read(lambda c: reading.leaf_below(c, message_id), callback)

    def set_active_leaf(
        self, conversation_id: str, leaf_id: str | None, callback: Callback[None] | None = None
    ) -> Future[None]:
        """The path to that message is the one to show; it must be of that conversation."""
        return self._write(lambda c: writing.set_active_leaf(c, conversation_id, leaf_id), callback)

    # --- settings, weights, traces --------------------------------------------------------------

    def get_setting(
        self, name: str, default: Any = None, callback: Callback[Any] | None = None
    ) -> Future[Any]:
        return self._read(lambda c: reading.get_setting(c, name, default), callback)

    def all_settings(
        self, callback: Callback[dict[str, Any]] | None = None
    ) -> Future[dict[str, Any]]:
        """Every setting that can be read."""
        return self._read(lambda c: reading.all_settings(c), callback)

    def set_setting(
        self, name: str, value: Any, callback: Callback[None] | None = None
    ) -> Future[None]:
        """Keep a value that JSON can hold; TypeError or ValueError at once for another."""
        text = json.dumps(value)
        return self._write(lambda c: writing.set_setting(c, name, text), callback)

    def upsert_weights(
        self, weights: Weights, callback: Callback[Weights] | None = None
    ) -> Future[Weights]:
        """Add or update by path. A None keeps what is known, unless the size has changed.

        Settings stay where none are given; `set_weights_settings` takes them away.
        """
        return self._write(lambda c: writing.upsert_weights(c, weights), callback)

    def list_weights(
        self, callback: Callback[tuple[Weights, ...]] | None = None
    ) -> Future[tuple[Weights, ...]]:
        """All known weights, the last used first, then by name."""
        return self._read(lambda c: reading.list_weights(c), callback)

    def last_used_weights(
        self, callback: Callback[Weights | None] | None = None
    ) -> Future[Weights | None]:
        return self._read(lambda c: reading.last_used_weights(c), callback)

    def set_weights_settings(
        self, path: str, settings: Mapping[str, Any], callback: Callback[None] | None = None
    ) -> Future[None]:
        """What is set otherwise for these weights, in place of what was."""
        kept = dict(settings)
        return self._write(lambda c: writing.set_weights_settings(c, path, kept), callback)

    def save_trace(
        self,
        message_id: str,
        blob: bytes | Callable[[], bytes],
        callback: Callback[None] | None = None,
    ) -> Future[None]:
        """Keep the compressed trace of a reply, in place of an earlier one.

        A function is called on the writing thread: compressing takes its time.
        """
        return self._write(
            lambda c: writing.save_trace(c, message_id, blob() if callable(blob) else blob),
            callback,
        )

    def load_trace(
        self, message_id: str, callback: Callback[bytes | None] | None = None
    ) -> Future[bytes | None]:
        return self._read(lambda c: reading.load_trace(c, message_id), callback)

    # --- search and backup ----------------------------------------------------------------------

    def search(
        self,
        query: SearchQuery | str,
        limit: int = 50,
        below: int | None = None,
        callback: Callback[SearchPage] | None = None,
    ) -> Future[SearchPage]:
        """A page of titles and messages that hold all the words; `models.search.query` tells
        what can be typed. `below` is the former page's `next_below`.

        A search that still runs is given up for the new one: its future raises
        SupersededError.
        """
        return self._reader.submit_search(lambda c: search.find(c, query, limit, below), callback)

    def leaf_through(self, message_id: str, callback: Callback[str] | None = None) -> Future[str]:
        """The leaf to open so that this message is on the path: the active one if it can be."""
        return self._read(lambda c: search.leaf_through(c, message_id), callback)

    def back_up(self, callback: Callback[Path] | None = None) -> Future[Path]:
        """Make and check a backup now; where it lies."""
        return self._backup.submit(callback)

    def delete_backups(self, callback: Callback[int] | None = None) -> Future[int]:
        """Delete all backups and kept damaged files; how many. A new backup follows by itself
        when what was deleted for good is out of the database."""
        deleted = self._backup.delete_all(callback)

        def back_up(erased: Future[None]) -> None:
            if erased.exception() is None:
                self._backup.submit()

        self.erased(back_up)
        return deleted

    def erased(self, callback: Callback[None] | None = None) -> Future[None]:
        """Done when what was deleted for good until now is in no file of the database any more.

        A moment after a deletion, for a database of some 100 MB when nothing was written for
        20 s. Where the store is closed before, ClosedError; the next start goes on.
        """
        return self._writer.erased(callback)

    # --- how it is done -------------------------------------------------------------------------

    def _write(
        self,
        work: Callable[[Connection], T],
        callback: Callback[T] | None,
        replaces: str | None = None,
    ) -> Future[T]:
        return self._writer.submit(work, callback, replaces)

    def _read(self, work: Callable[[Connection], T], callback: Callback[T] | None) -> Future[T]:
        return self._reader.submit(work, callback)


def _check_names(changes: Mapping[str, Any], allowed: frozenset[str], what: str) -> None:
    unknown = set(changes) - allowed
    if unknown:
        raise TypeError(f"a {what} has no field to change named {', '.join(sorted(unknown))}")
