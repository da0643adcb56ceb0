"""What was deleted for good leaves every file. Standard library only.

Deleting a row leaves its text in four places: in free space of the file (`secure_delete` blanks
what a deletion frees, but not the copies that SQLite makes when it moves rows between pages), in
the search index (a deletion is only noted there, until the index's segments are merged), in the
log beside the database, and in backups. So a deletion leaves a note (`ERASE`), and until it is
gone:

1. the index is merged into one segment, in pieces of some 20 ms;
2. the database is written anew (VACUUM): 0.6 s for 100 MB, the last two thirds of which cannot be
   broken off; a large one waits until nothing was written for a while;
3. the log is merged and cut to nothing.

Backups keep it until they are thinned, unless the dialog's box is ticked.

FTS5 has a setting of its own for this, from SQLite 3.42 on. It is not used: an older SQLite can
write to no index that had it on, and what was deleted before stays.

What must hold: writes never wait for more than a piece; what was broken off is begun again.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from models.search.index import TABLES as INDEXES
from models.store.plain import ERASE

_MERGED_PAGES: Final = 128
_PIECE_S: Final = 0.05
_LARGE_BYTES: Final = 128 * 1024 * 1024
_QUIET_S: Final = 20.0
_AGAIN_S: Final = 1.0
_NO_ROOM_S: Final = 600.0
_STEPS_BETWEEN_ASKING: Final = 1000


class Eraser:
    """Goes on erasing whenever the writer has nothing else to do, on its connection."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = ""
        self._stages: Iterator[float] = iter(())

    def go_on(
        self, raw: sqlite3.Connection, may_go_on: Callable[[], bool], quiet_s: float
    ) -> float | None:
        """One piece; how many seconds until the next one may come. None: nothing is left.

        may_go_on: asked often, also inside of a piece. quiet_s: how long nothing was written.
        """
        note = _note_of(raw)
        if not note:
            return None
        if note != self._note:
            self._note, self._stages = note, self._all_stages(raw)
        self._may_go_on, self._quiet_s = may_go_on, quiet_s
        try:
            return next(self._stages, _AGAIN_S)
        except sqlite3.Error as error:
            self._note = ""
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_INTERRUPT:
                return _AGAIN_S
            raise

    def _all_stages(self, raw: sqlite3.Connection) -> Iterator[float]:
        for index in INDEXES:
            yield from self._merge(raw, index)
        yield from self._write_anew(raw)
        while not _cut_log(raw):
            yield _AGAIN_S
        raw.execute("DELETE FROM setting WHERE name = ? AND value = ?", (ERASE, self._note))
        self._note = ""
        yield 0.0

    def _merge(self, raw: sqlite3.Connection, index: str) -> Iterator[float]:
        pages = -_MERGED_PAGES  # negative: all segments, however few they are
        is_done = False
        while not is_done:
            ends_at = time.monotonic() + _PIECE_S
            while not is_done and time.monotonic() < ends_at and self._may_go_on():
                before = raw.total_changes
                raw.execute(f"INSERT INTO {index}({index}, rank) VALUES ('merge', ?)", (pages,))
                is_done, pages = raw.total_changes - before < 2, _MERGED_PAGES
            yield 0.0

    def _write_anew(self, raw: sqlite3.Connection) -> Iterator[float]:
        while (size := self._path.stat().st_size) > _LARGE_BYTES and self._quiet_s < _QUIET_S:
            yield _QUIET_S - self._quiet_s
        while shutil.disk_usage(self._path.parent).free < 2 * size:
            yield _NO_ROOM_S
        with _asking(raw, self._may_go_on):
            raw.execute("VACUUM")
        yield 0.0


def erase_all(raw: sqlite3.Connection) -> None:
    """At once, in a file that nobody else has open: a backup that was just copied."""
    if not _note_of(raw):
        return
    for index in INDEXES:
        raw.execute(f"INSERT INTO {index}({index}) VALUES ('optimize')")
    raw.execute("DELETE FROM setting WHERE name = ?", (ERASE,))
    raw.execute("VACUUM")


def _note_of(raw: sqlite3.Connection) -> str:
    there = raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'setting'").fetchone()
    found = there and raw.execute("SELECT value FROM setting WHERE name = ?", (ERASE,)).fetchone()
    return str(found[0]) if found else ""


def _cut_log(raw: sqlite3.Connection) -> bool:
    """Whether all of the log is merged and its file is empty; it is not while somebody reads."""
    (wait_ms,) = raw.execute("PRAGMA busy_timeout").fetchone()
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        (is_busy, _, _) = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        raw.execute(f"PRAGMA busy_timeout = {wait_ms}")
    return not is_busy


@contextmanager
def _asking(raw: sqlite3.Connection, may_go_on: Callable[[], bool]) -> Iterator[None]:
    """SQLite breaks off what it does, as an interrupt, when it may not go on."""
    raw.set_progress_handler(lambda: not may_go_on(), _STEPS_BETWEEN_ASKING)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)
