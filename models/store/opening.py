"""From a data folder to a usable database, whatever state it is in.

    data_dir/db/cutaway.sqlite3      the database
    data_dir/backups/                copies of it (`models.store.backup`)

The ladder, top to bottom; the original is kept at every step:

1. of this version and sound: opened;
2. of an older version: backed up, then migrated;
3. of a newer version, locked by another instance, or in a folder that cannot be written to:
   opened read-only and left as it is;
4. damaged: what can be read of it goes into a new database, and what is missing comes from
   the newest sound backup; the damaged file stays as `cutaway.damaged-<time>.sqlite3`. The search
   index, and tables without which the chats are whole, are made anew where they are;
5. unreadable or missing: the newest sound backup is restored;
6. nothing to restore: a fresh one.

A backup that a person chose in the run before takes the place of whatever is there, which is backed
up first (`models.store.restoring`).

A database that cannot be migrated is shown all the same, read-only: its rows are salvaged into a
temporary copy of the present form.

Every step below the second has a sentence for the user; a first start has none.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from models.conversations import trash, writing
from models.migrations import migrating
from models.records import StoreOpened
from models.search import index as search_index
from models.store import backup, restoring, salvage
from models.store.connecting import (
    Mode,
    close,
    connect_for_reading,
    connect_for_writing,
    connect_in_memory,
    open_raw,
    raw_of,
)
from models.store.errors import StoreError
from models.store.plain import HEAD_REVISION
from models.store.trouble import is_damage, passing_trouble, words_of
from models.tables import Base

_CHECK_ALWAYS_BELOW_BYTES = 32 * 1024 * 1024
_LOGS = ("-wal", "-shm", "-journal")
"""What SQLite may leave beside a database."""

SECOND_INSTANCE_SENTENCE = (
    "Cutaway is already running with this data folder, so this window is read-only. Close one "
    "of the two windows."
)
_NEWER_SENTENCE = (
    "Your chats were saved by a newer version of Cutaway. You can read them, but nothing is "
    "saved. Install that version or choose another data folder."
)
_FOLDER_SENTENCE = (
    "Can't save in the data folder {folder}. You can read your chats, but nothing is saved. "
    "Make the folder writable or choose another one."
)


_LOST_SENTENCE = "Parts of the database were missing and are empty now: {lost}."
_LOST_NAMES = {
    "setting": "settings",
    "folder": "folders",
    "preset": "presets",
    "attachment": "attachments",
    "attachment_data": "pictures and sounds",
    "conversation_tag": "tags",
    "token_trace": "token details",
    "weights": "model settings",
    "download": "downloads",
    "local_file": "the list of model files",
}


class Finding(Enum):
    """What a database file is."""

    MISSING = auto()
    CURRENT = auto()
    OLDER = auto()
    NEWER = auto()
    DAMAGED = auto()


@dataclass(slots=True)
class StoreFiles:
    """Where the files of one data folder lie."""

    data_dir: Path
    path: Path = field(init=False)
    backups: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.data_dir / "db" / "cutaway.sqlite3"
        self.backups = self.data_dir / "backups"

    @property
    def repaired(self) -> Path:
        """A finished new database that is about to take the place of a damaged one."""
        return self.path.with_name("cutaway.repaired.sqlite3")

    @property
    def building(self) -> Path:
        return self.path.with_name("cutaway.building.sqlite3")

    @property
    def suspect(self) -> Path:
        """A note that SQLite reported damage: the next start checks everything."""
        return self.path.with_name("suspect")

    def delete_kept(self) -> int:
        """Delete the damaged files that repairs have kept; how many databases."""
        kept = list(self.path.parent.glob(f"{self.path.stem}.damaged-*"))
        for path in kept:
            path.unlink(missing_ok=True)
        return sum(path.suffix == self.path.suffix for path in kept)

    def prepare(self) -> None:
        """Make the folders, for their owner alone; OSError where nothing can be written."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.path.parent, self.backups):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
        with tempfile.TemporaryFile(dir=self.path.parent):
            pass
        if self.path.exists() and not os.access(self.path, os.R_OK | os.W_OK):
            raise PermissionError(f"{self.path} cannot be written to")


@dataclass(slots=True)
class Database:
    """An opened database, for the database threads. `path` is None where it is in memory."""

    outcome: StoreOpened
    place: StoreFiles
    connect_reader: Callable[[], Connection]
    connect_writer: Callable[[], Connection] | None = None
    temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        return self.place.path

    @property
    def backups(self) -> Path:
        return self.place.backups

    def mark_suspect(self) -> None:
        with suppress(OSError):
            self.place.suspect.touch(mode=0o600)

    def clean_up(self) -> None:
        if self.temporary is not None:
            self.temporary.cleanup()


def open_database(
    data_dir: Path,
    *,
    read_only: bool = False,
    read_only_sentence: str = "",
    busy_timeout_s: float = 3.0,
) -> Database:
    """Walk the ladder. Passing trouble (a lock) is raised as it is: try again then."""
    place = StoreFiles(data_dir)
    opener = _Opener(place, busy_timeout_s)
    if read_only:
        return opener.read_only(read_only_sentence or SECOND_INSTANCE_SENTENCE)
    try:
        place.prepare()
    except OSError:
        return opener.read_only(_FOLDER_SENTENCE.format(folder=data_dir))
    finish_swap(place)
    restored = restoring.finish(
        place,
        is_damaged=lambda: _is_damaged(place),
        swap=lambda chosen: _swap(place, chosen),
        replace=lambda chosen: _replace(place, chosen),
    )
    _remove(place.building)
    with suppress(OSError):  # no room for a copy
        set_misfit_journal_aside(place)
    database = opener.writable()
    if restored.sentence:
        database.outcome = _told(database.outcome, restored)
    return database


def examine(place: StoreFiles) -> Finding:
    """Look at the file without changing it. Raises what may pass, as sqlite3.Error."""
    path = place.path
    if not path.exists() or path.stat().st_size == 0:
        return Finding.MISSING
    try:
        with closing(_open_readable(path)) as raw:
            return _finding(raw, check_all=_must_check(place))
    except sqlite3.Error as error:
        if is_damage(error):
            return Finding.DAMAGED
        raise


def _finding(raw: sqlite3.Connection, *, check_all: bool) -> Finding:
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return Finding.MISSING
    if not {"conversation", "message"} <= tables:
        return Finding.DAMAGED
    if check_all and raw.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        return Finding.DAMAGED
    if "alembic_version" not in tables:
        return Finding.NEWER
    row = raw.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        return Finding.DAMAGED
    if row == (HEAD_REVISION,):
        return Finding.CURRENT if _has_all_columns(raw, tables) else Finding.DAMAGED
    is_older = row is not None and migrating.is_known(str(row[0]))
    return Finding.OLDER if is_older else Finding.NEWER


def _has_all_columns(raw: sqlite3.Connection, tables: set[str]) -> bool:
    """Of the tables that are there."""
    for table in Base.metadata.tables.values():
        columns = {row[1] for row in raw.execute(f'PRAGMA table_info("{table.name}")')}
        if table.name in tables and not columns.issuperset(table.columns.keys()):
            return False
    return True


def _must_check(place: StoreFiles) -> bool:
    """A full check reads the whole file. It is made where that is quick or there is a reason.

    A write-ahead log that is left over tells that the last run did not end in order.
    """
    return (
        place.path.stat().st_size < _CHECK_ALWAYS_BELOW_BYTES
        or _has_log(place.path)
        or place.suspect.exists()
    )


class _Opener:
    """One walk down the ladder."""

    def __init__(self, place: StoreFiles, busy_timeout_s: float) -> None:
        self._place = place
        self._busy_timeout_s = busy_timeout_s

    # --- for writing ----------------------------------------------------------------------------

    def writable(self) -> Database:
        match examine(self._place):
            case Finding.CURRENT:
                return self._mended()
            case Finding.OLDER:
                return self._migrated()
            case Finding.NEWER:
                return self.read_only(_NEWER_SENTENCE)
            case Finding.DAMAGED:
                return self._repaired()
            case Finding.MISSING:
                return self._restored_or_fresh()

    def _mended(self) -> Database:
        """What can be made anew in its place, is: tables that are missing, and the index."""
        path, check_all = self._place.path, _must_check(self._place)
        connection = connect_for_writing(path, busy_timeout_s=self._busy_timeout_s)
        try:
            with connection.begin():
                lost = _make_missing_tables(connection)
            if not search_index.is_sound(raw_of(connection), check_all=check_all):
                with connection.begin():
                    search_index.rebuild_search_index(connection)
        except (sqlite3.Error, DBAPIError) as error:
            if passing_trouble(error) is not None:
                raise
            return self._repaired()
        finally:
            close(connection)
        return self._ready("ok", _LOST_SENTENCE.format(lost=", ".join(lost)) if lost else "")

    def _ready(self, state: str, sentence: str) -> Database:
        """The file is sound and of this version: settle what the last run left."""
        path, timeout_s = self._place.path, self._busy_timeout_s
        connection = connect_for_writing(path, busy_timeout_s=timeout_s)
        try:
            with connection.begin():
                interrupted = writing.interrupt_streaming(connection)
                trash.lift(connection)
        finally:
            close(connection)
        with suppress(OSError):
            self._place.suspect.unlink(missing_ok=True)
        return Database(
            StoreOpened(state, sentence, interrupted),
            self._place,
            connect_reader=lambda: connect_for_reading(path, "ro", busy_timeout_s=timeout_s),
            connect_writer=lambda: connect_for_writing(path, busy_timeout_s=timeout_s),
        )

    def _migrated(self) -> Database:
        try:
            kept = backup.back_up(self._place.path, self._place.backups, before=HEAD_REVISION)
            migrating.upgrade(self._place.path, busy_timeout_s=self._busy_timeout_s)
        except Exception as error:
            if passing_trouble(error) is not None:
                raise
            return self.read_only(
                "Your chats are from an older version of Cutaway and couldn't be upgraded "
                f"({words_of(error)}). You can read them, but nothing is saved. Install the "
                "older version or choose another data folder."
            )
        backup.thin(self._place.backups)
        return self._ready("ok", "" if kept.exists() else "The backup has disappeared.")

    def _repaired(self) -> Database:
        place = self._place
        newest = backup.newest_sound(place.backups)
        try:
            with self._building() as target:
                counted = salvage.salvage(place.path, target, newest.path if newest else None)
            if not counted.own:
                return self._restored_or_fresh()
            place.building.replace(place.repaired)
            kept = finish_swap(place)
        except (OSError, sqlite3.Error, DBAPIError, StoreError) as error:
            return self.read_only(
                f"The database is damaged and couldn't be repaired ({words_of(error)}). You can "
                "read what is left, but nothing is saved. Free some disk space and restart "
                "Cutaway."
            )
        return self._ready("salvaged", f"{counted.sentence} {_kept_sentence(kept)}")

    def _restored_or_fresh(self) -> Database:
        place = self._place
        had_one = place.path.exists()
        newest = backup.newest_sound(place.backups)
        place.building.unlink(missing_ok=True)
        if newest is None:
            with self._building():
                pass
        else:
            place.building.touch(mode=0o600)
            shutil.copyfile(newest.path, place.building)
        place.building.replace(place.repaired)
        kept = finish_swap(place)
        return self._after_restoring(newest, kept if had_one else None)

    def _after_restoring(self, newest: backup.Backup | None, kept: Path | None) -> Database:
        what = "couldn't be read" if kept else "was missing"
        if newest is None:
            sentence = f"The database {what}, and there is no backup. Cutaway starts empty."
            return self._ready("fresh", f"{sentence} {_kept_sentence(kept)}" if kept else "")
        if examine(self._place) is Finding.OLDER:
            migrating.upgrade(self._place.path, busy_timeout_s=self._busy_timeout_s)
        sentence = f"The database {what}. Using the backup of {newest.made_at:%d %B %Y, %H:%M} UTC."
        return self._ready("restored", f"{sentence} {_kept_sentence(kept)}".rstrip())

    def _building(self) -> _Building:
        return _Building(self._place.building, self._busy_timeout_s)

    # --- read-only ------------------------------------------------------------------------------

    def read_only(self, sentence: str) -> Database:
        """Open whatever can be read, change nothing; an empty one in memory as the last resort."""
        for attempt in (
            self._as_it_is,
            self._as_a_copy,
            self._as_salvaged,
            self._whatever_it_is,
        ):
            try:
                return attempt(sentence)
            except Exception:  # noqa: BLE001 -- whatever it was, there is a next step
                continue
        return self._in_memory(f"{sentence} Your chats can't be read right now.")

    def _as_it_is(self, sentence: str) -> Database:
        match examine(self._place):
            case Finding.MISSING:
                return self._in_memory(sentence)
            case Finding.OLDER:
                raise StoreError("It has to be migrated before it can be read.")
            case Finding.DAMAGED:
                sentence += " The database is damaged, so some of it may be missing."
        return self._whatever_it_is(sentence)

    def _whatever_it_is(self, sentence: str) -> Database:
        path, mode = self._place.path, _readable_mode(self._place.path)
        return Database(
            StoreOpened("read_only", sentence),
            self._place,
            connect_reader=lambda: connect_for_reading(
                path, mode, busy_timeout_s=self._busy_timeout_s
            ),
        )

    def _as_a_copy(self, sentence: str) -> Database:
        """For a database that would have to be changed before it can be read: migrated, or
        merged with a log that was left over."""
        folder = tempfile.TemporaryDirectory(prefix="cutaway-")
        try:
            copy = StoreFiles(Path(folder.name))
            copy.prepare()
            _copy_files(self._place.path, copy.path)
            if examine(copy) is Finding.OLDER:
                migrating.upgrade(copy.path)
        except Exception:
            folder.cleanup()
            raise
        return Database(
            StoreOpened("read_only", sentence),
            self._place,
            connect_reader=lambda: connect_for_reading(
                copy.path, "ro", busy_timeout_s=self._busy_timeout_s
            ),
            temporary=folder,
        )

    def _as_salvaged(self, sentence: str) -> Database:
        """For an older database that cannot be migrated: its rows in tables of this version."""
        if examine(self._place) is not Finding.OLDER:
            raise StoreError("It can be read as it is.")
        folder = tempfile.TemporaryDirectory(prefix="cutaway-")
        try:
            path = Path(folder.name) / "copy.sqlite3"
            with _Building(path, self._busy_timeout_s) as target:
                salvage.salvage(self._place.path, target, None)
        except Exception:
            folder.cleanup()
            raise
        return Database(
            StoreOpened("read_only", sentence),
            self._place,
            connect_reader=lambda: connect_for_reading(
                path, "ro", busy_timeout_s=self._busy_timeout_s
            ),
            temporary=folder,
        )

    def _in_memory(self, sentence: str) -> Database:
        def connected() -> Connection:
            connection = connect_in_memory()
            with connection.begin():
                migrating.create_tables(connection)
            return connection

        return Database(StoreOpened("read_only", sentence), self._place, connect_reader=connected)


class _Building:
    """A context: a new database with its tables, complete on disk when the context ends.

    It gets its place by a rename, which a log beside it would not follow. SQLite merges a log
    only where nobody else has the file open, as an indexer or a backup program may; so there is
    none while it is built.
    """

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s

    def __enter__(self) -> Connection:
        _remove(self._path)
        self._path.touch(mode=0o600)
        self._connection = connect_for_writing(
            self._path,
            busy_timeout_s=self._busy_timeout_s,
            foreign_keys=False,
            journal="DELETE",
        )
        with self._connection.begin():
            migrating.create_tables(self._connection)
        return self._connection

    def __exit__(self, *_: object) -> None:
        close(self._connection)


def _make_missing_tables(connection: Connection) -> list[str]:
    """And their indexes; the tables' names in words."""
    names = {name for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master")}
    lost = []
    for table in Base.metadata.sorted_tables:
        if table.name not in names:
            table.create(connection)
            lost.append(_LOST_NAMES.get(table.name, table.name))
        else:
            for index in table.indexes:
                if index.name not in names:
                    index.create(connection)
    return lost


def set_misfit_journal_aside(place: StoreFiles) -> None:
    """SQLite undoes what a journal beside the database says, also where it is another one's.

    So it is tried in a copy; one that does no good there gets the name of a damaged file.
    """
    journal = _with_suffix(place.path, "-journal")
    if not place.path.exists() or not journal.exists() or journal.stat().st_size == 0:
        return
    with tempfile.TemporaryDirectory(prefix="cutaway-", dir=place.path.parent) as folder:
        copy = Path(folder) / place.path.name
        for suffix in ("", *_LOGS):
            if _with_suffix(place.path, suffix).exists():
                shutil.copyfile(_with_suffix(place.path, suffix), _with_suffix(copy, suffix))
        if _is_whole(copy):
            return
    journal.replace(_with_suffix(_free_name(place.path), "-journal"))


def _is_whole(path: Path) -> bool:
    try:
        with closing(open_raw(path, "rw")) as raw:
            return _finding(raw, check_all=True) is not Finding.DAMAGED
    except sqlite3.Error:
        return False


def _remove(path: Path) -> None:
    for suffix in ("", *_LOGS):
        _with_suffix(path, suffix).unlink(missing_ok=True)


def finish_swap(place: StoreFiles) -> Path | None:
    """Put a repaired database in its place and the old files aside; where those are now.

    Each step is one rename, and it can be cut short after any of them: as long as the
    repaired file is there, the next start goes on. A log is never left beside a database
    that it does not belong to: SQLite would write it into that one.
    """
    if not place.repaired.exists():
        return None
    kept = _free_name(place.path)
    moved = False
    for suffix in (*_LOGS, ""):
        old = _with_suffix(place.path, suffix)
        if old.exists():
            old.replace(_with_suffix(kept, suffix))
            moved = True
    place.repaired.replace(place.path)
    restoring.sync_folder(place.path.parent)
    return kept if moved else None


def _swap(place: StoreFiles, chosen: Path) -> Path | None:
    chosen.replace(place.repaired)
    return finish_swap(place)


def _replace(place: StoreFiles, chosen: Path) -> None:
    """Put a file in the place of a database that is backed up. Its log is merged into it first, so
    that whatever cuts this short leaves one that is whole."""
    if place.path.exists():
        with suppress(sqlite3.Error), closing(open_raw(place.path, "rw")) as raw:
            raw.execute("PRAGMA journal_mode = DELETE")
    for suffix in _LOGS:
        _with_suffix(place.path, suffix).unlink(missing_ok=True)
    chosen.replace(place.path)
    restoring.sync_folder(place.path.parent)


def _is_damaged(place: StoreFiles) -> bool:
    try:
        return examine(place) is Finding.DAMAGED
    except sqlite3.Error as error:
        return passing_trouble(error) is None


def _told(outcome: StoreOpened, restored: restoring.Restored) -> StoreOpened:
    state = outcome.state if restored.made_at is None else "restored"
    sentence = f"{restored.sentence} {outcome.sentence}".rstrip()
    return replace(outcome, state=state, sentence=sentence)


def _copy_files(source: Path, target: Path) -> None:
    """Copy a database by SQLite's means, or with its log where SQLite cannot open it."""
    try:
        with closing(open_raw(source, "ro")) as raw, closing(sqlite3.connect(target)) as copy:
            raw.backup(copy)
    except sqlite3.OperationalError:
        for suffix in ("", "-wal"):
            if _with_suffix(source, suffix).exists():
                shutil.copyfile(_with_suffix(source, suffix), _with_suffix(target, suffix))


def _free_name(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    count = 0
    while True:
        extra = f"-{count}" if count else ""
        name = path.with_name(f"{path.stem}.damaged-{stamp}{extra}{path.suffix}")
        if not name.exists():
            return name
        count += 1


def _kept_sentence(kept: Path | None) -> str:
    return f"The old file was saved as {kept.name}." if kept is not None else ""


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _has_log(path: Path) -> bool:
    """Whether there are changes beside the database that are not merged into it."""
    log = _with_suffix(path, "-wal")
    return log.exists() and log.stat().st_size > 0


def _open_readable(path: Path) -> sqlite3.Connection:
    return open_raw(path, _readable_mode(path))


def _readable_mode(path: Path) -> Mode:
    """`ro`, or `immutable` for a folder where SQLite cannot put the files that it shares.

    Immutable ignores the write-ahead log, so it is only for a database that has none.
    """
    try:
        with closing(open_raw(path, "ro")) as raw:
            raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if is_damage(error) or _has_log(path):
            raise
        return "immutable"
    except sqlite3.DatabaseError:
        return "ro"  # damaged: whoever reads it finds out
    return "ro"
