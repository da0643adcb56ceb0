"""Connections to SQLite, and how they are set up.

What must hold: a commit is on disk when it returns (WAL with `synchronous=FULL`); a write
takes its lock when it begins, so it waits there and not half-way; text that is no UTF-8 is
read with replacement characters instead of failing the whole query; what is deleted is blanked
(`models.store.erasing` does the rest).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from models.search.index import cut

Mode = Literal["rw", "ro", "immutable"]


def connect_for_writing(
    path: Path,
    *,
    busy_timeout_s: float,
    foreign_keys: bool = True,
    journal: Literal["WAL", "DELETE"] = "WAL",
) -> Connection:
    """A connection whose transactions lock for writing; the file must exist.

    `journal`: with DELETE all that is committed is in the file itself, whoever else reads it.
    """

    def made() -> sqlite3.Connection:
        raw = open_raw(path, "rw", busy_timeout_s)
        try:
            raw.execute(f"PRAGMA journal_mode = {journal}")
            raw.execute("PRAGMA synchronous = FULL")
            raw.execute("PRAGMA secure_delete = ON")
            raw.execute("PRAGMA journal_size_limit = 67108864")
            raw.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        except sqlite3.Error:
            raw.close()
            raise
        return raw

    return _connection(made, "BEGIN IMMEDIATE")


def connect_for_reading(path: Path, mode: Mode, *, busy_timeout_s: float) -> Connection:
    """A connection that cannot write; each transaction sees one state of the database."""

    def made() -> sqlite3.Connection:
        raw = open_raw(path, mode, busy_timeout_s)
        raw.execute("PRAGMA query_only = ON")
        return raw

    return _connection(made, "BEGIN")


def connect_in_memory() -> Connection:
    """A database of its own that is gone when the connection is closed."""
    return _connection(lambda: _prepared(sqlite3.connect(":memory:")), "BEGIN")


def open_raw(path: Path, mode: Mode, busy_timeout_s: float = 3.0) -> sqlite3.Connection:
    """The driver's connection, without transactions of its own. Never creates the file."""
    option = "immutable=1" if mode == "immutable" else f"mode={mode}"
    return _prepared(
        sqlite3.connect(f"{path.resolve().as_uri()}?{option}", uri=True, timeout=busy_timeout_s)
    )


def raw_of(connection: Connection) -> sqlite3.Connection:
    """The driver's connection below SQLAlchemy's."""
    raw: object = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def close(connection: Connection) -> None:
    """Close for good; SQLite merges its write-ahead log when it was the last one."""
    connection.close()


def _prepared(raw: sqlite3.Connection) -> sqlite3.Connection:
    raw.isolation_level = None  # BEGIN is ours to say, see _connection
    raw.text_factory = partial(str, encoding="utf-8", errors="replace")
    raw.create_function("search_text", 1, cut, deterministic=True)
    return raw


class _Making(threading.local):
    """How the connection is made that this thread asks an engine for."""

    made: Callable[[], sqlite3.Connection]


_making: Final = _Making()


def _connection(made: Callable[[], sqlite3.Connection], begin: str) -> Connection:
    _making.made = made
    return _engine(begin).connect()


@cache
def _engine(begin: str) -> Engine:
    """One for all connections whose transactions begin in this way: what it has compiled of a
    statement, the next connection need not compile. It keeps no connection."""
    # What people wrote is in the parameters: no error may carry it into a log.
    engine = create_engine(
        "sqlite://", creator=lambda: _making.made(), poolclass=NullPool, hide_parameters=True
    )

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
