"""A store that lives in memory alone: for chats that are never written.

It is a `models.store.store.Store` with the same tables, so that a temporary chat has its tree,
versions and attachments like any other. What must hold: nothing of it ever reaches a file.
SQLite's temporary files are kept in memory too, and there are no backups.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from models.records import StoreOpened
from models.store.store import Store
from models.store.threads import Work, WriterThread

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from models.store.opening import Database

T = TypeVar("T")


class _MemoryWriter(WriterThread):
    """Opens a database without a file. Its one connection is the database."""

    def __init__(self) -> None:
        super().__init__(
            Path("/nonexistent"),
            read_only=False,
            read_only_sentence="",
            on_problem=lambda _state, _sentence: None,
            busy_timeout_s=0.0,
        )
        self.name = "temporary-chat"

    def _open(self) -> Database:
        from models.migrations import migrating
        from models.store.connecting import connect_in_memory
        from models.store.opening import Database, StoreFiles

        def connect() -> Connection:
            connection = connect_in_memory()
            connection.exec_driver_sql("PRAGMA temp_store = MEMORY")
            connection.commit()
            with connection.begin():
                migrating.create_tables(connection)
            return connection

        return Database(
            StoreOpened("fresh"),
            StoreFiles(Path("/nonexistent")),
            connect_reader=connect,
            connect_writer=connect,
        )


class TemporaryStore(Store):
    """Questions are asked on the writing thread: the only one with the connection."""

    def __init__(self) -> None:
        super().__init__(_MemoryWriter(), backup_after_s=None)
        self._writer.start()

    def close(self, timeout: float = 5.0) -> int:
        """Everything in it is gone."""
        return self._writer.close(timeout)

    def _read(self, work: Work[T]) -> Future[T]:
        return self._write(work)
