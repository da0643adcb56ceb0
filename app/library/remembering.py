"""What is remembered of weights files between two starts, and when it still holds.

A hash holds while path, size, time and inode of the file are the same; what the header says
also while the code that read it is the same. A device's number is not compared: it changes when
a disk is connected again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

import app.gguf
from app.gguf.facts import Facts
from app.gguf.local.seen import LookedFile, SeenFile
from models.records import LocalFile

SEEN_AGAIN_AFTER: Final = timedelta(days=7)
FORGOTTEN_AFTER: Final = timedelta(days=365)
"""A disk may be away for long, and its hashes take long to compute."""


@cache
def reader() -> str:
    """Which version of the header's reader this is; empty where that cannot be told."""
    digest = hashlib.sha256()
    try:
        for file in sorted(Path(next(iter(app.gguf.__path__))).rglob("*.py")):
            digest.update(file.read_bytes())
    except (OSError, StopIteration):
        return ""
    return digest.hexdigest()[:16]


class Memory:
    """What is known by path. One thread learns; another may ask meanwhile."""

    def __init__(self, files: Iterable[LocalFile] = ()) -> None:
        self._files = {file.path: file for file in files}

    def of(self, seen: SeenFile) -> LocalFile | None:
        """What is known of the file, if it is still the same."""
        file = self._files.get(str(seen.path))
        stamp = seen.stamp
        if file is None or (file.size_bytes, file.mtime_ns, file.inode) != (
            stamp.size_bytes,
            stamp.mtime_ns,
            stamp.inode,
        ):
            return None
        return file

    def facts_of(self, seen: SeenFile) -> Facts | None:
        file = self.of(seen)
        if file is None or not file.facts or file.reader != reader() or not file.reader:
            return None
        return facts_from(file.facts)

    def sha256_of(self, seen: SeenFile) -> str:
        file = self.of(seen)
        return file.sha256 if file is not None else ""

    def learn(self, looked: LookedFile, at: datetime) -> LocalFile | None:
        """Remember this; the record to store, None where nothing is new."""
        seen, before = looked.seen, self.of(looked.seen)
        file = LocalFile(
            path=str(seen.path),
            size_bytes=seen.stamp.size_bytes,
            mtime_ns=seen.stamp.mtime_ns,
            inode=seen.stamp.inode,
            seen_at=at,
            sha256=looked.sha256 or (before.sha256 if before is not None else ""),
            facts=dataclasses.asdict(looked.facts) if looked.facts is not None else {},
            reader=reader(),
        )
        if not file.sha256 and not file.facts:
            return None
        is_old = before is None or at - before.seen_at > SEEN_AGAIN_AFTER
        if before is not None and not is_old and _same(before, file):
            return None
        self._files[file.path] = file
        return file


def _same(one: LocalFile, other: LocalFile) -> bool:
    return (one.sha256, one.reader, bool(one.facts)) == (
        other.sha256,
        other.reader,
        bool(other.facts),
    )


def facts_from(value: Mapping[str, Any]) -> Facts | None:
    """Stored facts; None where they make no sense."""
    try:
        return msgspec.convert(dict(value), Facts)
    except (msgspec.ValidationError, RecursionError):
        return None
