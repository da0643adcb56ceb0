"""Headers of files that need not be loaded: read, looked into, and written anew into copies.

Each question has a thread of its own, so that a disk that sleeps keeps nobody else waiting;
answers come on the desk's thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from app.chat.surroundings import ALWAYS, Still, Surroundings
from app.chat.weights.file_work import answer, begin
from app.refusal import Refusal

if TYPE_CHECKING:
    from app.gguf.header import Entry, Scalar
    from app.gguf.items import ShownText
    from app.gguf.rewrite import Changes
    from app.insight.inside.position import Position
    from app.library.header_shown import HeaderShown

_log = logging.getLogger(__name__)

T = TypeVar("T")
Say = Callable[[str], None]

THREAD: Final = "header-file"
CLOSE_DEADLINE_S: Final = 2.0
TELL_EVERY_S: Final = 0.1


class CopyJob:
    """A copy on its way. `cancel` may be called at any time; the copy's end is told then, too."""

    def __init__(self) -> None:
        self._is_cancelled = threading.Event()
        self.thread: threading.Thread | None = None

    def cancel(self) -> None:
        self._is_cancelled.set()

    def is_cancelled(self) -> bool:
        return self._is_cancelled.is_set()

    def is_on_its_way(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class HeaderFiles:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._copies: set[CopyJob] = set()

    def read(
        self, path: Path, then: Callable[[HeaderShown], None], failed: Say, *, still: Still
    ) -> None:
        """All that the file says of itself. `failed` gets a sentence."""

        def work() -> HeaderShown:
            from app.library.header_shown import read_shown

            return read_shown(path)

        self._ask(work, then, failed, still)

    def position(
        self, path: Path, then: Callable[[Position], None], failed: Say, *, still: Still
    ) -> None:
        """How the file tells the order of words, as far as its header says it."""

        def work() -> Position:
            from app.gguf.header import read_header
            from app.insight.inside.position import position_of

            return position_of(read_header(path))

        self._ask(work, then, failed, still)

    def fingerprint(
        self, path: Path, then: Callable[[str], None], failed: Say, *, still: Still
    ) -> None:
        """Which weights are in the file, as it lies there now."""

        def work() -> str:
            from app.gguf.fingerprint import fast_hash
            from app.gguf.header import read_header

            return fast_hash(read_header(path))

        self._ask(work, then, failed, still)

    def read_items(
        self,
        path: Path,
        entry: Entry,
        first: int,
        count: int,
        then: Callable[[list[Scalar | ShownText]], None],
        failed: Say,
        *,
        still: Still,
    ) -> None:
        """Items [first, first + count) of an array that was passed over."""

        def work() -> list[Scalar | ShownText]:
            from app.gguf.header import opened
            from app.gguf.items import read_items

            with opened(path) as source:
                return read_items(source, entry, first, count)

        self._ask(work, then, failed, still)

    def read_text(
        self,
        path: Path,
        entry: Entry,
        then: Callable[[ShownText], None],
        failed: Say,
        *,
        still: Still,
    ) -> None:
        """A text that was passed over, or its beginning."""

        def work() -> ShownText:
            from app.gguf.header import opened
            from app.gguf.items import read_text

            with opened(path) as source:
                return read_text(source, entry)

        self._ask(work, then, failed, still)

    def write_copy(
        self,
        original: Path,
        target: Path,
        changes: Changes,
        *,
        on_progress: Callable[[int, int], None],
        then: Callable[[Path], None],
        failed: Say,
    ) -> CopyJob:
        """The same tensors with other metadata, in a new file. `on_progress` gets bytes written and
        in all, some ten times a second. One of `then` and `failed` ends it, also after `cancel`."""
        job = CopyJob()
        told_at = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= TELL_EVERY_S or done == total:
                told_at = time.monotonic()
                self._around.hand_over(lambda: on_progress(done, total), ALWAYS)  # ends first

        def work() -> Path:
            from app.gguf.rewrite import write_copy

            return write_copy(
                original, target, changes, on_progress=tell, is_cancelled=job.is_cancelled
            ).path

        future, job.thread = begin(work, THREAD)
        self._copies = {each for each in self._copies if each.is_on_its_way()} | {job}
        answer(self._around, future, then, failed, _sentence, ALWAYS)  # the copy is there, or not
        return job

    def close(self) -> None:
        """Copies give up and take away what they have written."""
        for job in self._copies:
            job.cancel()
        ends_at = time.monotonic() + CLOSE_DEADLINE_S
        for job in self._copies:
            if job.thread is not None:
                job.thread.join(max(0.0, ends_at - time.monotonic()))

    def _ask(
        self, work: Callable[[], T], then: Callable[[T], None], failed: Say, still: Still
    ) -> None:
        answer(self._around, begin(work, THREAD)[0], then, failed, _sentence, still)


def _sentence(error: BaseException) -> str:
    if isinstance(error, Refusal):
        return error.sentence
    _log.error("a header: %s", error, exc_info=error)
    return f"The header of this file couldn't be read ({type(error).__name__})."
