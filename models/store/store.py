"""The store: the one door to the database, for a thread that must not wait.

What can be asked and changed is written in `models.conversations`, `models.library`,
`models.settings` and `models.search`; the store says on which thread. Every method returns at
once with a `concurrent.futures.Future`; what is called when it is done is called ON A DATABASE
THREAD: hop to your own thread there. What it raises is a `models.store.errors.StoreError`.

What must hold:

* Importing this module imports no SQLAlchemy: that happens on the database thread.
* Writes happen one by one, in the order they were asked for, each in a transaction of its
  own, and their future is done only when the change is on disk. A database that is locked,
  full or out of reach makes them wait in memory, never be lost: `on_problem` then says
  `("unsaved", sentence)`, later `("ok", "")`.
* A question sees every write asked for before it, except while writes are waiting for a
  database in trouble: then it is answered from what is on disk.
* What is handed to the store is not changed afterwards: it is read on another thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from models.records import (
    BackupList,
    BackupLooked,
    Conversation,
    Folder,
    Imported,
    Message,
    Preset,
    SearchPage,
    StoreOpened,
    WholeConversation,
)
from models.store.backup_thread import BackupThread
from models.store.threads import ReaderThread, Work, WriterThread

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from models import settings
    from models.conversations import (
        attachments,
        branching,
        exchange,
        folders,
        importing,
        reading,
        tags,
        trash,
        writing,
    )
    from models.library import downloads, local_files, weights
    from models.search import search as searching
    from models.search.query import SearchQuery
else:

    class AtFirstCall:
        """Stands for a module that needs SQLAlchemy: it is imported when, on a database thread,
        one of its functions is called."""

        def __init__(self, name):
            self._name = name

        def __getattr__(self, name):
            return lambda *args, **options: getattr(import_module(self._name), name)(
                *args, **options
            )

    attachments = AtFirstCall("models.conversations.attachments")
    branching = AtFirstCall("models.conversations.branching")
    downloads = AtFirstCall("models.library.downloads")
    exchange = AtFirstCall("models.conversations.exchange")
    folders = AtFirstCall("models.conversations.folders")
    importing = AtFirstCall("models.conversations.importing")
    local_files = AtFirstCall("models.library.local_files")
    weights = AtFirstCall("models.library.weights")
    reading = AtFirstCall("models.conversations.reading")
    tags = AtFirstCall("models.conversations.tags")
    trash = AtFirstCall("models.conversations.trash")
    writing = AtFirstCall("models.conversations.writing")
    settings = AtFirstCall("models.settings")
    searching = AtFirstCall("models.search.search")

P = ParamSpec("P")
T = TypeVar("T")
OnProblem = Callable[[str, str], None]

_CONVERSATION_FIELDS: Final = frozenset(f.name for f in fields(Conversation)) - {"id"}
_MESSAGE_FIELDS: Final = frozenset(f.name for f in fields(Message)) - {
    "trashed_at",
    "id",
    "conversation_id",
    "parent_id",
    "sibling_index",
    "sibling_count",
    "attachments",
}


def reads(
    question: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[Store, P], Future[T]]:
    """A method that asks this on the reading thread."""

    def ask(store: Store, /, *args: P.args, **options: P.kwargs) -> Future[T]:
        return store._read(lambda c: question(c, *args, **options))

    return ask


def writes(
    change: Callable[Concatenate[Connection, P], T], only: frozenset[str] | None = None
) -> Callable[Concatenate[Store, P], Future[T]]:
    """A method that does this on the writing thread. only: the names that it takes; another one
    is a TypeError at once."""

    def submit(store: Store, /, *args: P.args, **options: P.kwargs) -> Future[T]:
        if only is not None and (unknown := set(options) - only):
            raise TypeError(f"no field to change is named {', '.join(sorted(unknown))}")
        return store._write(lambda c: change(c, *args, **options))

    return submit


class Store:
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

    # --- conversations, messages and the tree ---------------------------------------------------

    list_conversations = reads(reading.list_conversations)
    load_conversation = reads(reading.load_conversation)
    create_conversation = writes(writing.create_conversation)
    update_conversation = writes(writing.update_conversation, _CONVERSATION_FIELDS)
    change_conversations = writes(folders.change_conversations)
    copy_conversation = writes(branching.copy_conversation)

    load_message = reads(reading.load_message)
    load_path = reads(reading.load_path)
    load_above = reads(reading.load_above)
    load_tree = reads(branching.load_tree)
    siblings = reads(reading.siblings)
    leaf_below = reads(reading.leaf_below)
    leaf_through = reads(searching.leaf_through)
    append_message = writes(writing.append_message)
    update_message = writes(writing.update_message, _MESSAGE_FIELDS)
    set_active_leaf = writes(writing.set_active_leaf)
    add_branch = writes(branching.add_branch)

    def save_streaming_text(
        self,
        message_id: str,
        content: str,
        reasoning: str = "",
        token_ids: Sequence[int] | None = None,
    ) -> Future[None]:
        """Save what a growing reply has so far. One that still waits gives way to a newer one.

        It changes nothing once the message is no longer `streaming`.
        """
        ids = None if token_ids is None else tuple(token_ids)
        return self._write(
            lambda c: writing.save_streaming_text(c, message_id, content, reasoning, ids),
            replaces=message_id,
        )

    load_trace = reads(reading.load_trace)
    save_trace = writes(writing.save_trace)

    # --- folders, tags, attachments, presets, settings --------------------------------------------

    list_folders = reads(folders.list_folders)
    create_folder = writes(folders.create_folder)
    update_folder = writes(folders.update_folder)
    move_folder = writes(folders.move_folder)
    take_folder_out = writes(folders.take_out)
    put_folder_back = writes(folders.put_back)

    rename_tag = writes(tags.rename_tag)
    put_tags_back = writes(tags.put_back)

    list_attachments = reads(attachments.list_attachments)
    create_attachment = writes(attachments.create_attachment)
    update_attachment = writes(attachments.update_attachment)
    delete_attachment = writes(attachments.delete_attachment)
    load_file = reads(attachments.load_file)

    list_presets = reads(settings.list_presets)
    create_preset = writes(settings.create_preset)
    update_preset = writes(settings.update_preset)
    delete_preset = writes(settings.delete_preset)

    get_setting = reads(settings.get_setting)
    all_settings = reads(settings.all_settings)

    def set_setting(self, name: str, value: Any) -> Future[None]:
        """Keep a value that JSON can hold; TypeError or ValueError at once for another."""
        text = json.dumps(value)
        return self._write(lambda c: settings.set_setting(c, name, text))

    # --- weights: what is known of them, and downloads --------------------------------------------

    list_weights = reads(weights.list_weights)
    last_used_weights = reads(weights.last_used_weights)
    upsert_weights = writes(weights.upsert_weights)
    set_weights_settings = writes(weights.set_weights_settings)

    list_local_files = reads(local_files.list_local_files)
    save_local_files = writes(local_files.save_local_files)
    forget_local_files = writes(local_files.forget_local_files)

    list_downloads = reads(downloads.list_downloads)
    create_download = writes(downloads.create_download)
    update_download = writes(downloads.update_download)
    delete_download = writes(downloads.delete_download)

    # --- the trash, and what leaves every file ----------------------------------------------------

    list_trash = reads(reading.list_trash)
    list_trashed_branches = reads(branching.list_trashed)
    missing = reads(trash.missing)
    trash_conversation = writes(writing.trash_conversation)
    trash_conversations = writes(trash.throw_away)
    trash_branch = writes(branching.trash_branch)
    restore_conversation = writes(writing.restore_conversation)
    restore_branch = writes(branching.restore_branch)
    see_clock = writes(trash.see_clock)
    purge_some = writes(trash.purge_some)
    purge_branches = writes(trash.purge_branches)
    delete_trashed = writes(trash.delete_trashed)
    note_deletion = writes(trash.note_deletion)

    def erased(self) -> Future[None]:
        """Done when what was deleted for good until now is in no file of the database any more.

        A moment after a deletion, for a database of some 100 MB when nothing was written for
        20 s. Where the store is closed before, ClosedError; the next start goes on.
        """
        return self._writer.erased()

    def back_up(self, *, by_hand: bool = False) -> Future[Path]:
        """Make and check a backup now; where it lies."""
        return self._backup.submit(by_hand=by_hand)

    def list_backups(self) -> Future[BackupList]:
        """Newest first."""
        return self._backup.list_all()

    def look_into_backup(self, path: Path) -> Future[BackupLooked]:
        """Checked, and what is in it; nothing of it is changed."""
        return self._backup.look_into(path)

    def restore_at_start(self, path: Path | None) -> Future[None]:
        """The next start puts this backup in the place of the database, which is backed up first
        (`models.store.restoring`); None: it does not."""
        return self._backup.stage(path)

    def delete_backups(self) -> Future[int]:
        """Delete all backups and kept damaged files; how many. A new backup follows by itself
        when what was deleted for good is out of the database."""
        deleted = self._backup.delete_all()

        def back_up(erased: Future[None]) -> None:
            if erased.exception() is None:
                self.back_up()

        self.erased().add_done_callback(back_up)
        return deleted

    # --- search, export and import ----------------------------------------------------------------

    def search(
        self, query: SearchQuery | str, limit: int = 50, below: int | None = None
    ) -> Future[SearchPage]:
        """A page of titles and messages that hold all the words; `models.search.query` tells
        what can be typed. `below` is the former page's `next_below`.

        A search that still runs is given up for the new one: its future raises
        SupersededError.
        """
        return self._reader.submit_search(lambda c: searching.find(c, query, limit, below))

    read_whole = reads(exchange.read_whole)
    read_texts = reads(exchange.read_texts)
    whereabouts = reads(exchange.whereabouts)
    staged_ids = reads(importing.staged_ids)
    drop_some = writes(importing.drop_some)

    def add_all(
        self,
        chats: Iterable[WholeConversation],
        folders: Sequence[Folder] = (),
        presets: Sequence[Preset] = (),
        told: Callable[[int], None] = lambda _count: None,
        wanted: frozenset[str] = frozenset(),
        check: Callable[[], None] = lambda: None,
    ) -> Imported:
        """Import all of these chats or, if one of them or `told` raises, none; `wanted`: ids of
        presets that come also where no chat needs them.

        It waits, so it is called on a thread that may. Other writes come in between; `told` gets
        the number of messages that are done.
        """
        both = self._read, self._write
        return importing.add_all(*both, chats, folders, presets, told, wanted, check)

    # --- how it is done -------------------------------------------------------------------------

    def _write(self, work: Work[T], replaces: str | None = None) -> Future[T]:
        return self._writer.submit(work, replaces)

    def _read(self, work: Work[T]) -> Future[T]:
        return self._reader.submit(work)
