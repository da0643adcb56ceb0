"""Bytes at an offset: of a file, or of whatever else can answer like one.

The header reader asks a source for large pieces, forward, so that a header over a network
costs few requests. A source is used by one thread at a time.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Protocol


class Source(Protocol):
    """`name` is for sentences; `size_bytes` is the size of the whole."""

    name: str
    size_bytes: int

    def read_at(self, offset: int, count: int) -> bytes:
        """The bytes from `offset` on; fewer than `count` only at the end. Raises OSError."""

    def close(self) -> None:
        """Let go of the file or connection. Nothing is read afterwards."""


class NotAFile(OSError):  # noqa: N818
    """There is something under this path that is no regular file: a pipe, a device."""


class FileSource:
    """A regular file. Opening a folder raises IsADirectoryError, a pipe or device NotAFile (it is
    not opened: that may block for ever), anything else that fails the system's OSError."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.name = self.path.name
        info = self.path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(f"“{self.path}” is a folder")
        if not stat.S_ISREG(info.st_mode):
            raise NotAFile(f"“{self.path}” is a device or a pipe")
        self.size_bytes = info.st_size
        self._file = self.path.open("rb", buffering=0)

    def read_at(self, offset: int, count: int) -> bytes:
        self._file.seek(offset)
        pieces: list[bytes] = []
        while count > 0 and (piece := self._file.read(count)):
            pieces.append(piece)
            count -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> FileSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
