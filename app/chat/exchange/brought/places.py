"""What was given to be imported, as names and bytes: a file, all that lies in a folder, a ZIP.

What must hold: only plain files are opened and no link is followed; an archive's names are names
and nothing else, and nothing of it is written anywhere; how many names there are, how long a
member is and how far it expands are bounded.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Final

from app.chat.exchange.brought.looks import LOOKED_AT, Look, look_at
from app.chat.exchange.refusals import FileRefused
from app.reading.files import shown_name

MAX_ENTRIES: Final = 200_000
MAX_DEPTH: Final = 12
MAX_LOOKS: Final = 20_000
"""So many files are looked into, to find those that hold chats."""
MAX_DIRECTORY_BYTES: Final = 64 * 1024 * 1024
MAX_MEMBER_BYTES: Final = 64 * 1024**3
MOST_EXPANDED: Final = 200
"""A member may be so many times as long as it is in the archive (text: 3 to 20 times), beyond
`FREELY_EXPANDED`. A bomb costs time and no memory, and not much time."""
FREELY_EXPANDED: Final = 256 * 1024 * 1024

Stamp = tuple[int, int, int]

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_END: Final = b"PK\x05\x06"
_END_64: Final = b"PK\x06\x06"
_LONGEST_COMMENT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Entry:
    """`name`: with the folders above it, by slashes. Never a path to open."""

    name: str
    size_bytes: int

    @property
    def base(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        stem, dot, suffix = self.base.rpartition(".")
        return dot + suffix.lower() if stem else ""


@dataclass(slots=True)
class Place:
    """`kind`: file, folder or archive. `path`: as it was given."""

    path: Path
    name: str
    kind: str
    entries: tuple[Entry, ...]
    stamp: Stamp
    is_cut: bool = False
    """There was more in it than `MAX_ENTRIES`, or deeper."""
    unread: tuple[str, ...] = ()
    """Folders that could not be listed to their end, and files that went meanwhile."""
    check: Callable[[], None] = lambda: None
    """Called before an entry is opened; may raise, where nobody waits any more."""
    _files: dict[str, Any] = field(default_factory=dict)
    _archive: zipfile.ZipFile | None = None
    _looks: dict[str, Look] = field(default_factory=dict)

    def named(self, *suffixes: str) -> Iterator[str]:
        """The entries that are called so; a file that was given alone, whatever it is called."""
        return (
            entry.name for entry in self.entries if entry.suffix in suffixes or self.kind == "file"
        )

    def open(self, name: str) -> IO[bytes]:
        """The bytes of an entry, from its beginning. FileRefused, also while they are read."""
        self.check()
        known = self._files[name]
        with in_words(f"{self.name}: {shown_name(name)}" if self.kind != "file" else self.name):
            if self._archive is None:
                return io.BufferedReader(_Reading(_opened_plainly(known), self.name), 1 << 16)
            if known.flag_bits & 1:
                raise FileRefused(f"{self.name} is protected by a password. Unpack it first.")
            most = max(FREELY_EXPANDED, known.compress_size * MOST_EXPANDED)
            raw = self._archive.open(known)
            return io.BufferedReader(_Reading(raw, self.name, min(most, MAX_MEMBER_BYTES)), 1 << 16)

    def head(self, name: str, size: int = LOOKED_AT) -> bytes:
        """Its first bytes; none where it cannot be read."""
        try:
            with self.open(name) as file:
                return file.read(size)
        except FileRefused:
            return b""

    def changed_at(self, name: str) -> datetime | None:
        """When an entry was last written, for apps that tell no time."""
        known = self._files[name]
        with contextlib.suppress(OSError, ValueError, OverflowError):
            if isinstance(known, Path):
                return datetime.fromtimestamp(known.lstat().st_mtime, UTC)
            return datetime(*known.date_time).astimezone(UTC)  # an archive's times are local
        return None

    def path_of(self, name: str) -> Path:
        """Where an entry lies, for readers that need a file. None does in an archive."""
        known = self._files[name]
        assert isinstance(known, Path)
        return known

    def beside(self, name: str) -> Iterator[Entry]:
        """What lies in an entry's folder; of a file that was given, what lies beside it."""
        if self.kind == "file":
            with contextlib.suppress(OSError):
                for each in sorted(self.path.parent.glob(f"{self.path.name}-*")):
                    yield Entry(each.name, each.stat().st_size)
        else:
            yield from self.entries

    def look(self, name: str) -> Look:
        """What it begins with, as JSON. Asked once."""
        if name not in self._looks and len(self._looks) >= MAX_LOOKS:
            self.is_cut = True
            return Look()
        if name not in self._looks:
            self._looks[name] = look_at(self.head(name))
        return self._looks[name]


@contextlib.contextmanager
def opened_place(path: Path) -> Iterator[Place]:
    """The place, or FileRefused."""
    name = shown_name(str(path))
    with in_words(name):
        try:
            about = path.stat()
        except ValueError as error:  # a NUL in it
            raise FileRefused(f"{name} has a name that can't be opened. Rename it.") from error
        if stat.S_ISDIR(about.st_mode):
            yield _folder(path, name)
            return
        if not stat.S_ISREG(about.st_mode):
            raise FileRefused(f"{name} isn't a file. Choose an exported file.")
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            stamp = (about.st_ino, about.st_size, about.st_mtime_ns)
            if file.read(4) in _ZIP:
                yield from _archived(path, name, file, stamp)
                return
        entry = Entry(name, about.st_size)
        yield Place(path, name, "file", (entry,), stamp, _files={name: path})


# --- folders ------------------------------------------------------------------------------------


def _folder(path: Path, name: str) -> Place:
    """Its files in the order of their names; links are passed over."""
    files: dict[str, Path] = {}
    entries: list[Entry] = []
    digest = blake2b(digest_size=8)
    newest = total = 0
    waiting = [(path, "", 0)]
    is_cut = False
    unread: list[str] = []
    while waiting:
        folder, above, depth = waiting.pop()
        for each in _listed(folder, above, unread):
            if len(entries) >= MAX_ENTRIES:
                is_cut = True
                break
            own = above + each.name
            try:
                if each.is_dir(follow_symlinks=False):
                    if depth < MAX_DEPTH:
                        waiting.append((Path(each.path), f"{own}/", depth + 1))
                    else:
                        is_cut = True
                elif each.is_file(follow_symlinks=False):
                    about = each.stat(follow_symlinks=False)
                    files[own] = Path(each.path)
                    entries.append(Entry(own, about.st_size))
                    digest.update(
                        f"{own}\0{about.st_size}\0{about.st_mtime_ns}\0".encode("utf-8", "replace")
                    )
                    newest, total = max(newest, about.st_mtime_ns), total + about.st_size
            except OSError:  # it has gone since
                unread.append(own)
    entries.sort(key=lambda entry: entry.name)
    stamp = (int.from_bytes(digest.digest()), total, newest)
    return Place(
        path, name, "folder", tuple(entries), stamp, is_cut, tuple(unread), _files=dict(files)
    )


def _listed(folder: Path, above: str, unread: list[str]) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    try:
        found.extend(os.scandir(folder))
    except OSError:  # it may not be read, or is on a disk that has gone
        unread.append(above or "/")
    return sorted(found, key=lambda each: each.name)


def _opened_plainly(path: Path) -> IO[bytes]:
    """Not through a link, nor a pipe, that took the file's place meanwhile."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(2, "no longer a file", str(path))
    return os.fdopen(descriptor, "rb", buffering=0)


# --- archives -----------------------------------------------------------------------------------


def _archived(path: Path, name: str, file: IO[bytes], stamp: Stamp) -> Iterator[Place]:
    _check_directory(file, stamp[1], name)
    file.seek(0)
    with _archive_words(name), zipfile.ZipFile(file) as archive:
        files = {
            each.filename.replace("\\", "/"): each
            for each in archive.infolist()
            if not each.is_dir()
        }
        if len(files) > MAX_ENTRIES:
            raise _too_many(name)
        entries = tuple(Entry(own, about.file_size) for own, about in files.items())
        yield Place(path, name, "archive", entries, stamp, _files=dict(files), _archive=archive)


def _check_directory(file: IO[bytes], size: int, name: str) -> None:
    """How much the archive's list of names is, before anybody reads it into memory."""
    start = max(0, size - _LONGEST_COMMENT - 22 - 20 - 56)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) < at + 22:
        raise FileRefused(f"{name} is cut off or damaged. Download it again.")
    count, length = struct.unpack_from("<HL", tail, at + 10)
    at_64 = tail.rfind(_END_64, 0, at)
    if at_64 >= 0 and len(tail) >= at_64 + 56:
        count, length = struct.unpack_from("<QQ", tail, at_64 + 32)
    if count > MAX_ENTRIES or length > MAX_DIRECTORY_BYTES:
        raise _too_many(name)


def _too_many(name: str) -> FileRefused:
    return FileRefused(
        f"{name} lists more than {MAX_ENTRIES:,} files, too many for an archive of chats. Unpack "
        "it and import only the chats."
    )


@contextlib.contextmanager
def _archive_words(name: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError) as error:
        raise FileRefused(f"{name} is cut off or damaged. Download it again.") from error


@contextlib.contextmanager
def in_words(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise FileRefused(f"{name} couldn't be read ({why}). Check that it exists.") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, RecursionError):
            raise
        raise FileRefused(f"{name} is cut off or damaged. Download it again.") from error


class _Reading(io.RawIOBase):
    """Bytes of somebody else's file: at most `most`, and faults in words."""

    def __init__(self, raw: IO[bytes], name: str, most: int = MAX_MEMBER_BYTES) -> None:
        super().__init__()
        self._raw = raw
        self._name = name
        self._left = most

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        """A member of an archive would be unpacked on the way, without a bound."""
        return isinstance(self._raw, io.FileIO)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with in_words(self._name):
            return self._raw.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        with in_words(self._name):
            some = self._raw.read(len(buffer))
        self._left -= len(some)
        if self._left < 0:
            raise FileRefused(
                f"{self._name} expands to far more than its size. It isn't an archive of chats."
            )
        buffer[: len(some)] = some
        return len(some)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
