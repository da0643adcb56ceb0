"""A corrected copy of a GGUF: other metadata, the same tensors.

The original is only read. The copy is written under a temporary name beside its place, brought
to the disk and read again before it gets its name; a file that is there already is never
replaced. Entries that are not changed are copied byte for byte, and so are the tensor table
(its offsets count from where the data begins) and the data, which begins aligned.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from app.amounts import bytes_words
from app.gguf.header import MAGIC, Header, opened, padded, read_header, read_header_of
from app.gguf.source import FileSource
from app.gguf.values import NewValue
from app.refusal import Refusal

Changes = Mapping[str, NewValue | None]
"""Key → its new value; None takes the key out. What is not named stays."""

PIECE_BYTES: Final = 4 << 20
SPACE_LEFT_BYTES: Final = 64 << 20
"""What a copy leaves free on the disk."""

_PREFIX: Final = ".copy-"
_SUFFIX: Final = ".unfinished"
_KEY: Final = re.compile(r"[!-~]{1,200}")
_FIXED: Final = {
    "general.alignment": "The alignment can't be changed: the tensors depend on it.",
    "split.count": "Split information can't be changed here.",
    "split.no": "Split information can't be changed here.",
    "split.tensors.count": "Split information can't be changed here.",
}


def _refused(sentence: str, evidence: str = "") -> Refusal:
    return Refusal("not_copied", sentence, evidence)


def refusal_of_key(key: str) -> str:
    """Why this key cannot be written or changed, in a sentence; "" if it can."""
    if key in _FIXED:
        return _FIXED[key]
    if not _KEY.fullmatch(key):
        return "A key must have 1 to 200 letters, digits or symbols, without spaces."
    return ""


def write_copy(
    original: Path,
    target: Path,
    changes: Changes,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Header:
    """Write the copy and return its header. Raises Refusal ("cancelled": it was asked to stop),
    and nothing of the copy is left.

    `on_progress` is called with bytes written and bytes in all. Takes as long as the disk does:
    not for a thread that paints.
    """
    for key in changes:
        if why := refusal_of_key(key):
            raise _refused(f"{why} (“{key[:80]}”)")
    try:
        _check_target(original, target)
        with opened(original) as source:
            header = read_header_of(source)
            if header.metadata.get("split.count", 1) not in (0, 1):
                raise _refused(
                    f"“{original.name}” is one of several parts. Join them into one file first "
                    "(llama.cpp's llama-gguf-split does that)."
                )
            copy = _Copy(source, header, changes, on_progress, is_cancelled)
            return copy.write(target)
    except OSError as error:
        raise _refusal_of_error(error, target) from error


def _check_target(original: Path, target: Path) -> None:
    if target.suffix.lower() != ".gguf":
        raise _refused("The name of the copy must end in .gguf. Choose another name.")
    if not target.parent.is_dir():
        raise _refused(f"The folder “{target.parent}” doesn't exist. Choose another one.")
    if target.exists() or target.is_symlink():
        words = (
            "That is the original file"
            if _is_same(original, target)
            else "That file already exists"
        )
        raise _refused(f"{words}: “{target.name}”. Choose another name for the copy.")


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


class _Copy:
    def __init__(
        self,
        source: FileSource,
        header: Header,
        changes: Changes,
        on_progress: Callable[[int, int], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._source = source
        self._header = header
        self._changes = changes
        self._on_progress = on_progress
        self._is_cancelled = is_cancelled
        self._as_it_was = self._state()
        self._done = 0
        self._total = 0

    def write(self, target: Path) -> Header:
        head = list(self._head())
        self._total = self._size(head)
        free = shutil.disk_usage(target.parent).free
        if free < self._total + SPACE_LEFT_BYTES:
            raise _refused(
                f"The copy needs {bytes_words(self._total + SPACE_LEFT_BYTES)}, but only "
                f"{bytes_words(free)} are free in “{target.parent}”. Free some space or choose "
                "another disk."
            )
        number, name = tempfile.mkstemp(_SUFFIX, _PREFIX, target.parent)
        unfinished = Path(name)
        try:
            with os.fdopen(number, "wb", buffering=0) as file:
                self._write_all(file, head)
                os.fsync(file.fileno())
            header = self._checked(unfinished)
            unfinished.chmod(0o600 | (self._source.path.stat().st_mode & 0o666))
            _give_name(unfinished, target)
        finally:
            with suppress(OSError):
                unfinished.unlink()
        _sync_folder(target.parent)
        return replace(header, path=target)

    def _head(self) -> Iterator[bytes | tuple[int, int]]:
        """Everything before the data: bytes, or a span (begin, end) of the original."""
        entries = self._header.entries
        kept = {key for key in entries if self._changes.get(key, ...) is not None}
        added = [
            key for key, new in self._changes.items() if new is not None and key not in entries
        ]
        counts = (len(self._header.tensors), len(kept) + len(added))
        yield MAGIC + struct.pack("<IQQ", self._header.version, *counts)
        for key, entry in entries.items():
            new = self._changes.get(key)
            if new is not None:
                yield _entry(key, new)
            elif key in kept:
                yield entry.start, entry.end
        for key in added:
            new = self._changes[key]
            assert new is not None
            yield _entry(key, new)
        table = max((entry.end for entry in entries.values()), default=24)
        yield table, self._header.table_end

    def _size(self, head: list[bytes | tuple[int, int]]) -> int:
        size = sum(len(part) if isinstance(part, bytes) else part[1] - part[0] for part in head)
        if not self._header.tensors:
            return size
        data = self._header.size_bytes - self._header.data_offset
        return padded(size, self._header.alignment) + data

    def _write_all(self, file: BinaryIO, head: list[bytes | tuple[int, int]]) -> None:
        for part in head:
            if isinstance(part, bytes):
                self._put(file, part)
            else:
                self._copy_span(file, *part)
        if self._header.tensors:
            self._put(file, bytes(padded(self._done, self._header.alignment) - self._done))
            self._copy_span(file, self._header.data_offset, self._header.size_bytes)

    def _copy_span(self, file: BinaryIO, begin: int, end: int) -> None:
        while begin < end:
            try:
                data = self._source.read_at(begin, min(PIECE_BYTES, end - begin))
            except OSError as error:
                raise _refused(
                    f"“{self._source.name}” couldn't be read completely, so no copy was saved. "
                    "Check its disk.",
                    str(error),
                ) from error
            if not data:
                raise self._changed_meanwhile()
            self._put(file, data)
            begin += len(data)

    def _put(self, file: BinaryIO, data: bytes) -> None:
        if self._is_cancelled():
            raise Refusal("cancelled", "Copying was cancelled. No copy was saved.")
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        self._done += len(data)
        self._on_progress(self._done, self._total)

    def _checked(self, unfinished: Path) -> Header:
        """The copy's header, read again: its tensors are where they must be."""
        if self._state() != self._as_it_was:
            raise self._changed_meanwhile()
        header = read_header(unfinished)
        if header.tensors != self._header.tensors or header.size_bytes != self._total:
            raise _refused(
                "The copy came out wrong and was deleted. Try again, or use another disk."
            )
        return header

    def _state(self) -> tuple[int, int]:
        info = self._source.path.stat()
        return info.st_size, info.st_mtime_ns

    def _changed_meanwhile(self) -> Refusal:
        return _refused(
            f"“{self._source.name}” changed while it was being copied, so no copy was saved. Try "
            "again."
        )


def _entry(key: str, new: NewValue) -> bytes:
    name = key.encode()
    return struct.pack("<Q", len(name)) + name + new.encoded()


def _give_name(unfinished: Path, target: Path) -> None:
    """Rename; a file that has got the name meanwhile stays. Raises FileExistsError."""
    try:
        os.link(unfinished, target)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):  # a disk without hard links
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        unfinished.replace(target)


def _sync_folder(folder: Path) -> None:
    """So that the name outlives a power cut; not every system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _refusal_of_error(error: OSError, target: Path) -> Refusal:
    if isinstance(error, FileExistsError):
        sentence = f"That file already exists: “{target.name}”. Choose another name for the copy."
    elif error.errno in (errno.ENOSPC, errno.EDQUOT):
        sentence = (
            f"The disk with “{target.parent}” is full. Free some space or choose another disk."
        )
    elif error.errno == errno.EFBIG:
        sentence = (
            f"The copy is too large for the file system of “{target.parent}”. Choose another disk."
        )
    elif error.errno == errno.ENAMETOOLONG:
        sentence = "That name is too long. Choose a shorter one."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        sentence = f"Can't save in “{target.parent}”. Choose another folder."
    else:
        sentence = f"The copy couldn't be saved in “{target.parent}”. Choose another folder."
    return _refused(f"{sentence} No copy was saved.", str(error))
