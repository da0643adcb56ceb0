"""Backups of the database: made, checked, listed and thinned. Standard library only.

They lie in a folder of their own and are named by their time:
`cutaway-20261127T233223Z.sqlite3`, `…Z-before-0002.sqlite3` for one made before a migration (or a
restore), `…Z-by-hand.sqlite3` where somebody asked for it. Files with other names are never
touched.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from models.store import erasing
from models.store.errors import StoreError

_NAME = re.compile(r"cutaway-(\d{8}T\d{6})Z(?:-before-(\w+)|-(by-hand))?\.sqlite3")
TIME_FORMAT: Final = "%Y%m%dT%H%M%S"
_STEP_PAGES = 2000
_KEPT_BEFORE_MIGRATIONS = 3
_KEPT_BY_HAND = 5
_KEPT_DAYS, _KEPT_WEEKS, _KEPT_MONTHS = 7, 4, 6

DUE_AFTER = timedelta(days=1)
UNFINISHED = "unfinished.sqlite3"


@dataclass(frozen=True, slots=True)
class Backup:
    """A file in the backups folder. `before` is the revision it was made for (or "restore"), or
    None."""

    path: Path
    made_at: datetime
    before: str | None = None
    by_hand: bool = False


def back_up(
    database: Path,
    folder: Path,
    *,
    before: str | None = None,
    by_hand: bool = False,
    now: datetime | None = None,
    keep_going: Callable[[], bool] = lambda: True,
) -> Path:
    """Copy a database that may be in use, check the copy, give it its name.

    All of it is one state of the database, however much is written meanwhile. Raises
    StoreError where the disk is too full or the copy is not sound, and leaves nothing then.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < 2 * database.stat().st_size:
        raise StoreError("Not enough disk space for a backup of the database.")
    unfinished = folder / UNFINISHED
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    try:
        _copy(database, unfinished, keep_going)
        if not is_sound(unfinished):
            raise StoreError("A backup of the database couldn't be verified.")
        return unfinished.rename(_free_name(folder, now or datetime.now(UTC), before, by_hand))
    finally:
        unfinished.unlink(missing_ok=True)


def is_sound(path: Path) -> bool:
    """Whether SQLite's quick check finds nothing wrong with a file that nobody uses."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as raw:
            return bool(raw.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.Error:
        return False


def list_backups(folder: Path) -> list[Backup]:
    """Newest first."""
    found = []
    for path in folder.glob("cutaway-*.sqlite3"):
        match = _NAME.fullmatch(path.name)
        if match is not None and (made_at := time_in(match[1])) is not None:
            found.append(Backup(path, made_at, match[2], bool(match[3])))
    return sorted(found, key=lambda backup: (backup.made_at, backup.path.name), reverse=True)


def time_in(name: str) -> datetime | None:
    """None for digits that are no time."""
    with suppress(ValueError):
        return datetime.strptime(name, TIME_FORMAT).replace(tzinfo=UTC)
    return None


def newest_sound(folder: Path) -> Backup | None:
    return next((backup for backup in list_backups(folder) if is_sound(backup.path)), None)


def is_due(folder: Path, now: datetime) -> bool:
    backups = list_backups(folder)
    return not backups or now - backups[0].made_at >= DUE_AFTER


def thin(folder: Path) -> list[Path]:
    """Delete what is too many: kept is the newest of each of the last days, weeks, months."""
    too_many = surplus(list_backups(folder))
    for backup in too_many:
        backup.path.unlink(missing_ok=True)
    return [backup.path for backup in too_many]


def delete_all(folder: Path) -> int:
    """Delete every backup, also one that was broken off; how many backups."""
    backups = list_backups(folder)
    for path in (*(backup.path for backup in backups), folder / UNFINISHED):
        path.unlink(missing_ok=True)
    return len(backups)


def surplus(backups: Iterable[Backup]) -> list[Backup]:
    """Of backups, newest first, those that thinning deletes.

    Kept are the last three before migrations and restores, the last five that were asked for, and
    of the others the newest one of each of the last 7 days, 4 weeks and 6 months that have one. The
    newest of all is always kept.
    """
    backups = list(backups)
    before = [backup for backup in backups if backup.before]
    by_hand = [backup for backup in backups if backup.by_hand]
    daily = [backup for backup in backups if not (backup.before or backup.by_hand)]
    kept = {*before[:_KEPT_BEFORE_MIGRATIONS], *by_hand[:_KEPT_BY_HAND]}
    for period, count in (
        ("%Y-%m-%d", _KEPT_DAYS),
        ("%G-%V", _KEPT_WEEKS),
        ("%Y-%m", _KEPT_MONTHS),
    ):
        newest: dict[str, Backup] = {}
        for backup in daily:
            newest.setdefault(backup.made_at.strftime(period), backup)
        kept.update(list(newest.values())[:count])
    return [backup for backup in backups if backup not in kept]


def _copy(database: Path, target: Path, keep_going: Callable[[], bool]) -> None:
    def progress(_status: int, _remaining: int, _total: int) -> None:
        if not keep_going():
            raise StoreError("The backup was cancelled because Cutaway is closing.")

    source_uri = f"{database.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source_uri, uri=True, isolation_level=None)) as source,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        # An open read transaction: without it, every write to the database would make
        # the copying start again, and under steady writing it would never end.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()
        source.backup(copy, pages=_STEP_PAGES, progress=progress, sleep=0)
        # The copy is one file: no write-ahead log beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        erasing.erase_all(copy)


def _free_name(folder: Path, now: datetime, before: str | None, by_hand: bool) -> Path:
    suffix = f"-before-{before}" if before else "-by-hand" if by_hand else ""
    while True:
        path = folder / f"cutaway-{now.strftime(TIME_FORMAT)}Z{suffix}.sqlite3"
        if not path.exists():
            return path
        now += timedelta(seconds=1)
