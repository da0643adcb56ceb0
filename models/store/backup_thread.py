"""The thread that makes backups: once a day by itself, and when one is asked for. It deletes them
all, too.

It only reads the database, with a connection of its own, so it holds up nobody.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from models.records import BackupFile, BackupList, BackupLooked
from models.store.errors import ClosedError, ReadOnlyError, StoreError
from models.store.threads import WriterThread

if TYPE_CHECKING:
    from models.store.opening import Database

T = TypeVar("T")

_CHECK_EVERY_S = 3600.0


class BackupThread(threading.Thread):
    """Makes a backup when one is asked for, and once a day by itself."""

    def __init__(self, writer: WriterThread, *, first_after_s: float | None) -> None:
        super().__init__(name="database-backup", daemon=True)
        self._writer = writer
        self._first_after_s = first_after_s
        self._asked: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._is_closing = False

    def submit(self, *, by_hand: bool = False) -> Future[Path]:
        """Make a backup; where it lies."""
        return self._submit(lambda: self._back_up(by_hand=by_hand))

    def list_all(self) -> Future[BackupList]:
        return self._submit(self._list)

    def look_into(self, path: Path) -> Future[BackupLooked]:
        """What is in a backup, which is checked meanwhile."""
        return self._submit(lambda: self._look_into(path))

    def stage(self, path: Path | None) -> Future[None]:
        """Have the next start restore this one; None: none."""
        return self._submit(lambda: self._stage(path))

    def delete_all(self) -> Future[int]:
        """Delete all backups, one that was to be restored too, and whatever repairs have left; how
        many files that were."""
        return self._submit(self._delete_all)

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            is_open = not self._is_closing
            if is_open:
                self._asked.append((work, future))
                self._changed.notify_all()
        if not is_open:
            future.set_exception(ClosedError("The store is closed."))
        return future

    def close(self, timeout: float) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self.join(timeout)

    def run(self) -> None:
        wait_s = self._first_after_s
        while not self._is_closing:
            with self._changed:
                self._changed.wait_for(lambda: self._asked or self._is_closing, wait_s)
                asked = self._asked.popleft() if self._asked else None
            if asked is not None:
                self._answer(*asked)
            elif not self._is_closing:
                self._back_up_if_due()
                wait_s = _CHECK_EVERY_S
        for _, future in self._asked:
            future.set_exception(ClosedError("The store was closed before the backup."))

    def _answer(self, work: Callable[[], Any], future: Future[Any]) -> None:
        from models.store.trouble import as_store_error

        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and the thread goes on
            future.set_exception(as_store_error(error))

    def _back_up_if_due(self) -> None:
        from models.store.backup import is_due

        database = self._writer.database
        if database is None or database.connect_writer is None:
            return
        if is_due(database.backups, datetime.now(UTC)):
            self._answer(self._back_up, Future())

    def _list(self) -> BackupList:
        from models.store import backup, restoring

        self._writer.opened.result()
        database = self._writer.database
        assert database is not None
        found = []
        for each in backup.list_backups(database.backups):
            why = "by_hand" if each.by_hand else "daily"
            if each.before is not None:
                why = "restore" if each.before == restoring.BEFORE else "migration"
            with suppress(OSError):  # thinned meanwhile
                size = each.path.stat().st_size
                found.append(BackupFile(str(each.path), each.made_at, size, why))
        staged_at = restoring.staged_at(database.place)
        return BackupList(str(database.backups), tuple(found), staged_at)

    def _look_into(self, path: Path) -> BackupLooked:
        from models.store import backup_reading

        return backup_reading.look_into(path)

    def _stage(self, path: Path | None) -> None:
        from models.store import restoring

        database = self._writable("The data folder is read-only, so nothing can be restored.")
        if path is None:
            restoring.unstage(database.place)
        else:
            restoring.stage(path, database.place)

    def _back_up(self, *, by_hand: bool = False) -> Path:
        from models.store import backup
        from models.store.trouble import words_of

        database = self._writable("The data folder is read-only, so no backup was made.")
        try:
            path = backup.back_up(
                database.path,
                database.backups,
                by_hand=by_hand,
                keep_going=lambda: not self._is_closing,
            )
            backup.thin(database.backups)
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"The backup failed: {words_of(error)}") from error
        return path

    def _delete_all(self) -> int:
        from models.store import backup, restoring

        database = self._writable("The data folder is read-only, so nothing was deleted.")
        try:
            restoring.unstage(database.place)  # or what is deleted would come back
            return backup.delete_all(database.backups) + database.place.delete_kept()
        except OSError as error:
            raise StoreError(f"Some backups couldn't be deleted: {error}") from error

    def _writable(self, sentence: str) -> Database:
        self._writer.opened.result()
        database = self._writer.database
        if database is None or database.connect_writer is None:
            raise ReadOnlyError(sentence)
        return database
