"""The thread that makes backups: once a day by itself, and when one is asked for.

It only reads the database, with a connection of its own, so it holds up nobody.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path

from models.errors import ClosedError, ReadOnlyError, StoreError
from models.threads import WriterThread

_CHECK_EVERY_S = 3600.0


class BackupThread(threading.Thread):
    """Makes a backup when one is asked for, and once a day by itself."""

    def __init__(self, writer: WriterThread, *, first_after_s: float | None) -> None:
        super().__init__(name="database-backup", daemon=True)
        self._writer = writer
        self._first_after_s = first_after_s
        self._asked: deque[Future[Path]] = deque()
        self._changed = threading.Condition()
        self._is_closing = False

    def submit(self, callback: Callable[[Future[Path]], None] | None = None) -> Future[Path]:
        future: Future[Path] = Future()
        if callback is not None:
            future.add_done_callback(callback)
        with self._changed:
            is_open = not self._is_closing
            if is_open:
                self._asked.append(future)
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
                future = self._asked.popleft() if self._asked else None
            if future is not None:
                self._answer(future)
            elif not self._is_closing:
                self._back_up_if_due()
                wait_s = _CHECK_EVERY_S
        for future in self._asked:
            future.set_exception(ClosedError("The store was closed before the backup."))

    def _answer(self, future: Future[Path]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._back_up())
        except StoreError as error:
            future.set_exception(error)

    def _back_up_if_due(self) -> None:
        from models.backup import is_due

        database = self._writer.database
        if database is None or database.connect_writer is None:
            return
        if is_due(database.backups, datetime.now(UTC)):
            future: Future[Path] = Future()
            self._answer(future)

    def _back_up(self) -> Path:
        from models import backup

        self._writer.opened.result()
        database = self._writer.database
        if database is None or database.connect_writer is None:
            raise ReadOnlyError("The data folder cannot be written to, so no backup was made.")
        try:
            path = backup.back_up(
                database.path, database.backups, keep_going=lambda: not self._is_closing
            )
            backup.thin(database.backups)
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"The backup could not be made: {error}") from error
        return path
