"""What is known of weights files, in the store."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import schema_file

from models.records import LocalFile
from models.store.store import Store

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def a_file(path: str, **fields: Any) -> LocalFile:
    return LocalFile(path, 2**40, 2**60, 2**64 - 1, NOW, **fields)


def test_files_come_back_as_they_were_given(store: Store) -> None:
    first = a_file("/a.gguf", sha256="ab" * 32, facts={"name": "É", "types": []}, reader="1")
    second = a_file("/\udcff.gguf")
    store.save_local_files((second, first)).result()
    assert store.list_local_files().result() == (first, second)
    changed = replace(first, mtime_ns=3, inode=4, sha256="", facts={}, reader="2")
    store.save_local_files((changed,)).result()
    assert store.list_local_files().result() == (changed, second)


def test_what_was_not_seen_for_long_is_forgotten(store: Store) -> None:
    old = replace(a_file("/old.gguf"), seen_at=NOW - timedelta(days=2))
    store.save_local_files((a_file("/new.gguf"), old)).result()
    assert store.forget_local_files(NOW - timedelta(days=1)).result() == 1
    assert [file.path for file in store.list_local_files().result()] == ["/new.gguf"]


def test_what_cannot_be_read_becomes_its_default(open_store: Any, database: Path) -> None:
    store = open_store()
    store.save_local_files((a_file("/a.gguf", facts={"name": "x"}),)).result()
    store.close()
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE local_file SET facts = '[', inode = 'x', mtime_ns = 'y'")
    (file,) = open_store().list_local_files().result()
    assert file == LocalFile("/a.gguf", 2**40, 0, -1, NOW)


def test_a_database_of_before_gets_the_table(open_store: Any, database: Path) -> None:
    database.parent.mkdir(parents=True)
    shutil.copyfile(schema_file.path_for("0003"), database)
    store = open_store()
    assert store.list_local_files().result() == ()
    assert len(store.list_downloads().result()) == 1
    store.save_local_files((a_file("/a.gguf"),)).result()
    assert store.list_local_files().result() == (a_file("/a.gguf"),)
