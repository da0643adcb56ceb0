"""A backup takes the place of the database: chosen in one run, done at the beginning of the next.

While the window runs the backup is only copied beside the database (`stage`), under a name that
says which one it is. The next start, before anything is opened, backs up what is there, puts it
aside and renames the copy (`finish`). What must hold:

* Each step is one rename, and it can be cut short after any of them: as long as the copy is there
  under its name, the next start goes on. Before that name nothing has happened.
* What was there is in the backups before it leaves its place, with all that was written until the
  end of the run; a database that cannot be backed up stays as a damaged file does.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from models.store import backup
from models.store.errors import StoreError
from models.store.trouble import is_lock, words_of

BEFORE: Final = "restore"
"""What the backup of what was there is made `before`."""

_NAME: Final = re.compile(r"cutaway\.restoring-(\d{8}T\d{6})Z\.sqlite3")
_PART: Final = "cutaway.restoring.part"


class Place(Protocol):
    """Where the database and its backups lie."""

    path: Path
    backups: Path


@dataclass(frozen=True, slots=True)
class Restored:
    """What `finish` did: nothing where `made_at` is None. `kept`: where what was there is now."""

    made_at: datetime | None = None
    kept: Path | None = None
    sentence: str = ""


def stage(chosen: Path, place: Place) -> None:
    """Have the next start restore this backup. StoreError where it can't be used."""
    from models.store.backup_reading import GONE, look_into

    found = next((b for b in backup.list_backups(place.backups) if b.path == chosen), None)
    if found is None:
        raise StoreError(GONE)
    if why_not := look_into(chosen).why_not:
        raise StoreError(why_not)
    folder = place.path.parent
    part = folder / _PART
    try:
        # For the copy, and for the backup of what is there now.
        there = place.path.stat().st_size if place.path.exists() else 0
        if shutil.disk_usage(folder).free < chosen.stat().st_size + 2 * there:
            raise StoreError("Not enough disk space to restore this backup.")
        unstage(place)
        part.touch(mode=0o600)
        shutil.copyfile(chosen, part)
        _sync(part)
        part.replace(folder / f"cutaway.restoring-{found.made_at:{backup.TIME_FORMAT}}Z.sqlite3")
        sync_folder(folder)
    except OSError as error:
        raise StoreError(f"The backup couldn't be restored: {error}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def unstage(place: Place) -> None:
    """What was chosen is not restored."""
    for path in (*_staged(place), place.path.parent / _PART):
        path.unlink(missing_ok=True)


def staged_at(place: Place) -> datetime | None:
    """Which backup the next start restores, by its time."""
    return next((made_at for path in _staged(place) if (made_at := _time_of(path))), None)


def finish(
    place: Place,
    *,
    is_damaged: Callable[[], bool],
    swap: Callable[[Path], Path | None],
    replace: Callable[[Path], None],
) -> Restored:
    """At a start, before the database is opened: restore what was chosen, if anything was.

    `replace` puts it in the place of what has been backed up; `swap` puts what is damaged aside
    and tells where. Where there is no room for a backup nothing is restored, and that is said. What
    cannot be put in its place now stays chosen.
    """
    (place.path.parent / _PART).unlink(missing_ok=True)
    staged = _staged(place)
    if not staged:
        return Restored()
    chosen, *others = staged
    for path in others:
        path.unlink(missing_ok=True)
    made_at = _time_of(chosen)
    assert made_at is not None
    words = f"{made_at.astimezone():%d %B %Y, %H:%M}"
    kept, why = _back_up(place)
    try:
        if not why:
            replace(chosen)
        elif is_damaged():
            kept = swap(chosen)
        else:
            chosen.unlink(missing_ok=True)
            return Restored(sentence=f"The backup of {words} wasn't restored. {why}")
    except OSError as error:  # another program has the file open, say
        why = error.strerror or str(error)
        sentence = (
            f"The backup of {words} couldn't be restored ({why}). The next start tries again."
        )
        return Restored(sentence=sentence)
    sentence = f"Restored the backup of {words}."
    if kept is not None:
        sentence += f" What was there before is in {kept.name}."
    return Restored(made_at, kept, sentence)


def _back_up(place: Place) -> tuple[Path | None, str]:
    """Where it lies, and why there is none though there is something to back up."""
    if not place.path.exists() or place.path.stat().st_size == 0:
        return None, ""
    try:
        return backup.back_up(place.path, place.backups, before=BEFORE), ""
    except StoreError as error:
        return None, str(error)
    except Exception as error:
        if is_lock(error):
            raise  # it passes: the start is tried again
        return None, f"What is there now couldn't be backed up: {words_of(error)}"


def _staged(place: Place) -> list[Path]:
    """The newest choice first."""
    found = [p for p in place.path.parent.glob("cutaway.restoring-*.sqlite3") if _time_of(p)]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def _time_of(path: Path) -> datetime | None:
    match = _NAME.fullmatch(path.name)
    return backup.time_in(match[1]) if match is not None else None


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames last through a power failure, where the system has a way to."""
    with suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
