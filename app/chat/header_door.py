"""The part of the desk for whoever looks into the headers of files.

It only delegates; `app.chat.desk` tells what holds for every method.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from app.chat.weights.header_files import CopyJob
from app.chat.weights.local_weights import LocalWeights

if TYPE_CHECKING:
    from app.gguf.header import Entry, Scalar
    from app.gguf.items import ShownText
    from app.gguf.rewrite import Changes
    from app.library.header_shown import HeaderShown


class HeaderDoor:
    """Part of `LibraryDoor`."""

    _local: LocalWeights

    def read_header_file(
        self, path: Path, then: Callable[[HeaderShown], None], failed: Callable[[str], None]
    ) -> None:
        """All that a file says of itself."""
        self._local.headers.read(path, then, failed)

    def read_header_items(
        self,
        path: Path,
        entry: Entry,
        first: int,
        count: int,
        then: Callable[[list[Scalar | ShownText]], None],
        failed: Callable[[str], None],
    ) -> None:
        """Items [first, first + count) of an array in a file's header."""
        self._local.headers.read_items(path, entry, first, count, then, failed)

    def read_header_text(
        self,
        path: Path,
        entry: Entry,
        then: Callable[[ShownText], None],
        failed: Callable[[str], None],
    ) -> None:
        """A text of a file's header that is too long to have been read with it."""
        self._local.headers.read_text(path, entry, then, failed)

    def folder_for_copy(self, original: Path) -> Path:
        """Where a copy of this file is found again by itself."""
        return self._local.folder_for_copy(original)

    def write_corrected_copy(
        self,
        original: Path,
        target: Path,
        changes: Changes,
        *,
        on_progress: Callable[[int, int], None],
        then: Callable[[Path], None],
        failed: Callable[[str], None],
    ) -> CopyJob:
        """The same tensors with other metadata, in a new file."""
        return self._local.headers.write_copy(
            original, target, changes, on_progress=on_progress, then=then, failed=failed
        )
