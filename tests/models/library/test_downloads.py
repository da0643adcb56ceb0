"""The download queue in the store."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schema_file
from store_records import next_time

from models.library import downloads
from models.migrations.migrating import create_tables
from models.records import Download, DownloadFile, DownloadState
from models.store.connecting import close, connect_in_memory
from models.store.errors import NotFoundError, ReadOnlyError
from models.store.salvage import salvage
from models.store.store import Store


def a_download(download_id: str, **fields: Any) -> Download:
    files = (
        DownloadFile("q/x-00001-of-00002.gguf", 2**33, "ab" * 32, "x-00001-of-00002.gguf"),
        DownloadFile("q/x-00002-of-00002.gguf", 0, etag='"e"', done_bytes=3, mtime_ns=2**60),
    )
    return Download(
        id=download_id,
        endpoint="https://hub.example",
        repo_id="owner/name",
        revision="c0ffee",
        folder="/weights/\udcff",
        files=files,
        added_at=next_time(),
        **fields,
    )


def test_downloads_come_back_as_they_were_given_in_the_queues_order(store: Store) -> None:
    first = a_download("first", position=2, error="Wait.", retry_at=next_time(), attempts=3)
    second = a_download("second", position=1, state=DownloadState.DONE, finished_at=next_time())
    assert store.create_download(first).result() == first
    assert store.create_download(second).result() == second
    store.create_download(a_download("first", position=9))
    assert store.list_downloads().result() == (second, first)
    files = tuple(replace(file, done_bytes=7) for file in first.files)
    changed = store.update_download(
        "first", state=DownloadState.PAUSED, files=files, retry_at=None
    ).result()
    assert changed == replace(first, state=DownloadState.PAUSED, files=files, retry_at=None)
    store.delete_download("second")
    assert store.list_downloads().result() == (changed,)
    with pytest.raises(NotFoundError):
        store.update_download("second", attempts=1).result()


def test_what_cannot_be_read_in_a_download_becomes_its_default(
    store: Store, database: Path
) -> None:
    store.create_download(a_download("odd")).result()
    with closing(sqlite3.connect(database)) as raw:
        raw.execute(
            "UPDATE download SET state = 'x', attempts = 'y', added_us = 'z', files = '[{}]'"
        )
        raw.commit()
    (odd,) = store.list_downloads().result()
    assert (odd.state, odd.attempts, odd.files) == (DownloadState.FAILED, 0, ())


def test_downloads_are_read_out_of_a_damaged_database_too(open_store: Any, database: Path) -> None:
    store = open_store()
    store.create_download(a_download("one")).result()
    store.close()
    target = connect_in_memory()
    with target.begin():
        create_tables(target)
    salvage(database, target, None)
    with target.begin():
        assert [d.repo_id for d in downloads.list_downloads(target)] == ["owner/name"]
    close(target)


def test_a_store_that_is_read_only_lists_downloads_and_takes_none(open_store: Any) -> None:
    open_store().create_download(a_download("one")).result()
    second = open_store(read_only=True)
    assert [d.id for d in second.list_downloads().result()] == ["one"]
    with pytest.raises(ReadOnlyError):
        second.update_download("one", attempts=1).result()


def test_the_queue_of_an_older_version_comes_along(open_store: Any, database: Path) -> None:
    """Case E07, as far as the database goes: a later schema has the downloads of this one."""
    database.parent.mkdir(parents=True)
    shutil.copyfile(schema_file.path_for("0003"), database)
    (download,) = open_store().list_downloads().result()
    assert (download.state, download.files[0].done_bytes) == (DownloadState.QUEUED, 7)
