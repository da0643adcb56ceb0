"""Backups: one state of a database in use, checked, in their own folder, thinned."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections import namedtuple
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from store_records import START, a_conversation

from models.store import backup, backup_thread
from models.store.backup import Backup, back_up, is_due, is_sound, list_backups, surplus, thin
from models.store.errors import StoreError
from models.store.store import Store

Usage = namedtuple("Usage", "free")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A database of 200 rows."""
    path = tmp_path / "small.sqlite3"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE t (n, text)")
        raw.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 500) for n in range(200)])
    return path


def test_a_backup_while_it_is_written_to(
    store: Store, data_dir: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case F07. A write is committed after every copied page: the copy is one state all the
    same, and it comes to an end."""
    monkeypatch.setattr(backup, "_STEP_PAGES", 1)
    conversation = a_conversation()
    store.create_conversation(conversation).result(20)
    written: list[str] = []

    def write() -> bool:
        written.append(f"n{len(written)}")
        store.set_setting(written[-1], "x" * 1000).result(20)
        return True

    for _ in range(3):
        before = len(written)
        path = back_up(database, data_dir / "backups", keep_going=write)
        assert len(written) > before + 20
        assert is_sound(path)
        with closing(sqlite3.connect(path)) as raw:
            names = {name for (name,) in raw.execute("SELECT name FROM setting")}
            assert names == set(written[:before])
            assert raw.execute("SELECT title FROM conversation").fetchall() == [("A chat",)]


def test_a_backup_lies_alone_in_another_folder(store: Store, data_dir: Path) -> None:
    path = store.back_up().result(20)
    assert path.parent == data_dir / "backups"
    assert list(path.parent.iterdir()) == [path]


def test_a_copy_that_is_not_sound_is_not_kept(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "is_sound", lambda _path: False)
    with pytest.raises(StoreError, match="couldn't be verified"):
        back_up(small, tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == []


def test_a_disk_with_little_room_is_left_alone(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(free=1000))
    with pytest.raises(StoreError, match="Not enough disk space"):
        back_up(small, tmp_path / "backups")


def test_a_backup_is_given_up_when_the_app_closes(small: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="closing"):
        back_up(small, tmp_path / "backups", keep_going=lambda: False)
    assert list((tmp_path / "backups").iterdir()) == []


def test_two_backups_in_one_second_have_two_names(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    first = back_up(small, folder, now=START)
    second = back_up(small, folder, now=START, before="0002")
    third = back_up(small, folder, now=START)
    assert first.name == "cutaway-20260503T120000Z.sqlite3"
    assert second.name == "cutaway-20260503T120000Z-before-0002.sqlite3"
    assert third.name == "cutaway-20260503T120001Z.sqlite3"
    assert [b.path for b in list_backups(folder)] == [third, first, second]
    assert [b.before for b in list_backups(folder)] == [None, None, "0002"]


def test_soundness(small: Path, tmp_path: Path) -> None:
    assert is_sound(small)
    assert not is_sound(tmp_path / "missing")
    text = tmp_path / "text"
    text.write_text("Dear diary, " * 500)
    assert not is_sound(text)
    with small.open("r+b") as file:
        file.truncate(small.stat().st_size // 2)
    assert not is_sound(small)


def test_files_of_other_names_are_never_touched(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    for day in range(40):
        back_up(small, folder, now=START + timedelta(days=day))
    foreign = ["cutaway-mine.sqlite3", "notes.txt", "cutaway-20200101T000000Z.sqlite3.old"]
    for name in foreign:
        (folder / name).write_text("mine")
    assert len(thin(folder)) > 20
    assert all((folder / name).read_text() == "mine" for name in foreign)
    assert 7 <= len(list_backups(folder)) <= 14


def backups_at(hours: list[int], before: str | None = None) -> list[Backup]:
    return [
        Backup(Path(f"{hour}-{before}"), START - timedelta(hours=hour), before)
        for hour in sorted(hours)
    ]


@given(st.lists(st.integers(0, 20_000), unique=True, max_size=60), st.integers(0, 6))
def test_thinning_keeps_the_newest_and_enough(hours: list[int], migrations: int) -> None:
    daily = backups_at(hours)
    before = backups_at(list(range(migrations)), "0002")
    everything = sorted([*daily, *before], key=lambda b: b.made_at, reverse=True)
    gone = surplus(everything)
    kept = [b for b in everything if b not in gone]
    assert [b for b in kept if b.before] == before[:3]
    kept_daily = [b for b in kept if not b.before]
    assert kept_daily[:1] == daily[:1]
    assert len(kept_daily) >= min(7, len({b.made_at.date() for b in daily}))
    assert len(kept_daily) <= 7 + 4 + 6
    assert surplus(kept) == []


def test_a_backup_is_due_once_a_day(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    assert is_due(folder, START)
    back_up(small, folder, now=START)
    assert not is_due(folder, START + timedelta(hours=23))
    assert is_due(folder, START + timedelta(hours=25))


def test_the_daily_backup_is_made_by_itself(
    open_store: Any, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = threading.Event()
    real = backup.thin

    def thin_and_tell(folder: Path) -> list[Path]:
        made.set()
        return real(folder)

    monkeypatch.setattr(backup, "thin", thin_and_tell)
    monkeypatch.setattr(backup_thread, "_CHECK_EVERY_S", 0.05)
    open_store(backup_after_s=0.0)
    assert made.wait(20)
    time.sleep(0.3)  # some more checks: it is not due again
    assert len(list_backups(data_dir / "backups")) == 1
    assert datetime.now(UTC) - list_backups(data_dir / "backups")[0].made_at < timedelta(minutes=5)
