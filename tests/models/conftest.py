"""Stores in temporary folders. Every one that a test opens is closed again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from models.store.store import Store

OpenStore = Callable[..., Store]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def open_store(data_dir: Path) -> Iterator[OpenStore]:
    """open_store(**options) opens a store in `data_dir` and waits until it is there."""
    stores: list[Store] = []

    def opened(folder: Path = data_dir, **options: Any) -> Store:
        store = Store.open(folder, **({"backup_after_s": None} | options))
        stores.append(store)
        store.opened.result(20)
        return store

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


@pytest.fixture
def database(data_dir: Path) -> Path:
    return data_dir / "db" / "cutaway.sqlite3"


@pytest.fixture
def execute(database: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """execute(sql, *values) on the file, behind the store's back."""

    def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(database, isolation_level=None)) as raw:
            raw.create_function("search_text", 1, lambda text: text)
            return raw.execute(sql, values).fetchall()

    return run
