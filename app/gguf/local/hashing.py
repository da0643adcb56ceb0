"""The SHA-256 of whole files, computed while nothing else has to be.

A hash takes a second for each two or three GB on a quick disk and minutes on a slow one, so it
is computed on a thread of its own with low priority, and rests while `rest` was told (a reply
is written, weights are loaded). It goes on where it stopped: what was read is not read again
unless the file has changed meanwhile. Reading and hashing leave the interpreter to others.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from app.gguf.local.seen import Stamp, stamp_of
from app.low_priority import lower_priority

BLOCK_BYTES: Final = 1 << 20
STUCK_AFTER_S: Final = 60.0
"""A disk that wakes up takes seconds; a network that is gone may take for ever."""
CLOSE_TIMEOUT_S: Final = 2.0
"""A disk that sleeps may hold the thread longer: then it ends with the program."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file whose hash is wanted, as it was when it was seen."""

    path: Path
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Hashed:
    """`sha256` is empty where the file changed or could not be read: `trouble` says why."""

    wanted: Wanted
    sha256: str = ""
    trouble: str = ""


class Hashing:
    """One thread that hashes what is wanted, first come first served.

    `on_hashed` is called on that thread with each result. `on_progress`, if given, with the
    file, the bytes that are done and all its bytes, at most once per 64 MiB.
    """

    def __init__(
        self,
        on_hashed: Callable[[Hashed], None],
        on_progress: Callable[[Wanted, int], None] = lambda _wanted, _done: None,
    ) -> None:
        self._on_hashed = on_hashed
        self._on_progress = on_progress
        self._condition = threading.Condition()
        self._wanted: dict[Path, Wanted] = {}
        self._done: set[Wanted] = set()
        self._is_resting = False
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._reads: Wanted | None = None
        self._read_at = 0.0

    def want(self, wanted: Iterable[Wanted]) -> None:
        """These are wanted now, in this order, and no others; the one at work is finished if it
        is among them, and none is hashed twice. Callable from any thread."""
        with self._condition:
            self._wanted = {each.path: each for each in wanted if each not in self._done}
            self._begin()
            self._condition.notify_all()

    def look_after(self) -> None:
        """Leave a file that its disk or network does not give, and go on with the others."""
        with self._condition:
            reads = self._reads
            if reads is None or time.monotonic() - self._read_at < STUCK_AFTER_S:
                return
            self._done.add(reads)
            self._wanted.pop(reads.path, None)
            self._reads = self._thread = None
            self._begin()

    def _begin(self) -> None:
        if self._wanted and self._thread is None and not self._is_closing:
            self._thread = threading.Thread(target=self._run, name="hashing", daemon=True)
            self._thread.start()

    def rest(self, is_resting: bool) -> None:
        """Stop reading until told otherwise: within one block. Callable from any thread."""
        with self._condition:
            self._is_resting = is_resting
            self._condition.notify_all()

    def close(self) -> None:
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_TIMEOUT_S)

    # --- on the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        lower_priority()
        while (wanted := self._next()) is not None:
            hashed = self._hash(wanted)
            with self._condition:
                if self._thread is not threading.current_thread():
                    return  # it was left with its disk; another one goes on
                self._reads = None
                if hashed is None:
                    continue
                self._done.add(wanted)
                if self._wanted.get(wanted.path) == wanted:
                    del self._wanted[wanted.path]
            self._on_hashed(hashed)

    def _next(self) -> Wanted | None:
        with self._condition:
            self._condition.wait_for(
                lambda: self._is_closing or (self._wanted and not self._is_resting)
            )
            if self._is_closing or self._thread is not threading.current_thread():
                return None
            self._read_at, self._reads = time.monotonic(), next(iter(self._wanted.values()))
            return self._reads

    def _may_go_on(self, wanted: Wanted) -> bool:
        """Waits while it has to rest. False: the file is not wanted any more."""
        with self._condition:
            self._condition.wait_for(
                lambda: (
                    self._is_closing
                    or not self._is_resting
                    or self._wanted.get(wanted.path) != wanted
                )
            )
            self._read_at = time.monotonic()
            return not self._is_closing and self._wanted.get(wanted.path) == wanted

    def _hash(self, wanted: Wanted) -> Hashed | None:
        """The result; None: not wanted any more."""
        try:
            with wanted.path.open("rb", buffering=0) as file:
                if stamp_of(os.fstat(file.fileno())) != wanted.stamp:
                    return Hashed(wanted, trouble="The file has changed.")
                digest = self._digest(file, wanted)
                if digest is None:
                    return None
                if stamp_of(os.fstat(file.fileno())) != wanted.stamp:
                    return Hashed(wanted, trouble="The file has changed.")
        except OSError as error:
            return Hashed(wanted, trouble=error.strerror or type(error).__name__)
        return Hashed(wanted, digest)

    def _digest(self, file: BinaryIO, wanted: Wanted) -> str | None:
        digest = hashlib.sha256()
        block = memoryview(bytearray(BLOCK_BYTES))
        done = 0
        while self._may_go_on(wanted):
            count = file.readinto(block)  # type: ignore[attr-defined]
            if not count:
                return digest.hexdigest()
            digest.update(block[:count])
            done += count
            if done % (64 * BLOCK_BYTES) < count:
                self._on_progress(wanted, done)
        return None
