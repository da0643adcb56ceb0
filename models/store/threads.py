"""The database threads: one that writes and one that reads.

The writer opens the database, does what it is given in order, and never gives a write up:
trouble that may pass (`models.store.trouble`) makes it wait and try again. When it has nothing to
do, it takes what was deleted for good out of the files (`models.store.erasing`). The reader has a
connection of its own that cannot write. Before a question it waits for the writes that were
asked for earlier, but not for a writer in trouble.

This module imports no SQLAlchemy; the threads do when they run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from models.records import StoreOpened
from models.store.errors import ClosedError, ReadOnlyError, StoreError, SupersededError

if TYPE_CHECKING:
    import sqlite3

    from sqlalchemy import Connection

    from models.store.erasing import Eraser
    from models.store.opening import Database

T = TypeVar("T")
Work = Callable[["Connection"], T]

_RETRY_FIRST_S, _RETRY_LONGEST_S = 0.1, 2.0
_READ_ATTEMPTS = 4
_STEPS_BETWEEN_ASKING = 100_000  # of SQLite's virtual machine: a few milliseconds
_ERASE_AGAIN_S = 60.0
_LOST = "Cutaway closed before this could be saved."

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Job:
    """Work to do, and who waits for it. `replaces`: a newer job of that name takes its place."""

    work: Work[Any]
    futures: list[Future[Any]]
    replaces: str | None = None
    ticket: int = 0
    is_search: bool = False
    is_given_up: bool = False

    def begin(self) -> bool:
        """Whether anybody still wants it."""
        wanted = [future.set_running_or_notify_cancel() for future in self.futures]
        return any(wanted)

    def succeed(self, result: object) -> None:
        for future in self.futures:
            if not future.cancelled():
                future.set_result(result)

    def fail(self, error: StoreError) -> None:
        for future in self.futures:
            if not future.cancelled():
                future.set_exception(error)


class WriterThread(threading.Thread):
    """Opens the database, then writes. `opened` is done when questions can be asked."""

    def __init__(
        self,
        data_dir: Path,
        *,
        read_only: bool,
        read_only_sentence: str,
        on_problem: Callable[[str, str], None],
        busy_timeout_s: float,
    ) -> None:
        super().__init__(name="database-writer", daemon=True)
        self.opened: Future[StoreOpened] = Future()
        self.opened.set_running_or_notify_cancel()
        self.database: Database | None = None
        self._data_dir = data_dir
        self._read_only = read_only
        self._read_only_sentence = read_only_sentence
        self._on_problem = on_problem
        self._busy_timeout_s = busy_timeout_s
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._submitted = self._finished = self._unsaved = 0
        self._trouble = ""
        self._deadline: float | None = None
        self._readers_ended = threading.Event()
        self._connection: Connection | None = None
        self._eraser: Eraser | None = None
        self._wait_for_erased: list[Future[None]] = []
        self._written_at = time.monotonic()
        self._rest_s: float | None = None  # until idle time is used; None: there is no use

    # --- called from any thread -----------------------------------------------------------------

    def submit(self, work: Work[T], replaces: str | None = None) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            is_open = self._deadline is None
            if is_open:
                self._enqueue(work, future, replaces)
        if not is_open:
            future.set_exception(ClosedError("The store is closed."))
        return future

    def erased(self) -> Future[None]:
        """Done at the first idle moment at which nothing is left to erase."""
        erased: Future[None] = Future()

        def fail(submitted: Future[None]) -> None:
            if error := submitted.exception():
                erased.set_exception(error)

        def wait(_: Connection) -> None:
            if self._eraser is None:
                erased.set_result(None)
            else:
                self._wait_for_erased.append(erased)

        self.submit(wait).add_done_callback(fail)
        return erased

    def position(self) -> int:
        """A ticket for `wait_for`: everything that was submitted so far."""
        with self._changed:
            return self._submitted

    def wait_for(self, ticket: int) -> None:
        """Return when all up to that ticket is done, or when the writer is in trouble."""
        with self._changed:
            self._changed.wait_for(lambda: self._finished >= ticket or self._trouble)

    def begin_close(self, timeout: float) -> None:
        """Take nothing more; do what is left, at most until the timeout."""
        with self._changed:
            if self._deadline is None:
                self._deadline = time.monotonic() + timeout
            self._changed.notify_all()

    def close(self, timeout: float) -> int:
        """End, after the threads that read have ended; how many writes were lost.

        Only the last connection merges SQLite's log into the database, and only one that
        can write: so it has to be this one.
        """
        self.begin_close(timeout)
        self._readers_ended.set()
        self.join(timeout + self._busy_timeout_s + 1.0)
        return self._unsaved

    def _enqueue(self, work: Work[T], future: Future[T], replaces: str | None) -> None:
        waiting = self._replaceable(replaces)
        if waiting is not None:
            waiting.work = work
            waiting.futures.append(future)
            return
        self._submitted += 1
        self._jobs.append(_Job(work, [future], replaces, self._submitted))
        self._changed.notify_all()

    def _replaceable(self, name: str | None) -> _Job | None:
        """A waiting job of that name with nothing behind it that its order matters to."""
        if name is None:
            return None
        for job in reversed(self._jobs):
            if job.replaces is None:
                return None
            if job.replaces == name:
                return job
        return None

    # --- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self.database = self._until_it_works(self._open)
        except Exception as error:  # noqa: BLE001 -- whatever it was, nobody may wait for ever
            self._cannot_open(error)
            return
        if self.database.connect_writer is not None and self.database.path.exists():
            from models.store.erasing import Eraser

            self._eraser, self._rest_s = Eraser(self.database.path), 0.0
        self.opened.set_result(self.database.outcome)
        while (job := self._next()) is not None:
            self._do(job)
            del job  # what it wrote is not kept until the next one comes
            self._written_at, self._rest_s = time.monotonic(), 0.0
        self._readers_ended.wait()
        self._erase_before_the_end()
        self._merge_log()
        self.database.clean_up()

    def _open(self) -> Database:
        from models.store.opening import open_database

        return open_database(
            self._data_dir,
            read_only=self._read_only,
            read_only_sentence=self._read_only_sentence,
            busy_timeout_s=self._busy_timeout_s,
        )

    def _cannot_open(self, error: Exception) -> None:
        from models.store.trouble import words_of

        failed = StoreError(
            f"The database couldn't be opened ({words_of(error)}). Nothing is saved in this "
            "window. Restart Cutaway."
        )
        failed.__cause__ = error
        self._on_problem("failed", str(failed))
        self.opened.set_exception(failed)
        while (job := self._next()) is not None:
            if job.begin():
                job.fail(failed)
            self._unsaved += 1
            self._finish()

    def _next(self) -> _Job | None:
        """The next job; None when the store is closing and nothing is left."""
        while True:
            with self._changed:
                rest_s = self._rest_s if self._eraser is not None else None
                self._changed.wait_for(lambda: self._jobs or self._deadline is not None, rest_s)
                if self._jobs:
                    return self._jobs.popleft()
                if self._deadline is not None:
                    return None
            self._rest_s = self._erase(self._is_idle)

    def _is_idle(self) -> bool:
        return not self._jobs and self._deadline is None

    def _erase(self, may_go_on: Callable[[], bool]) -> float | None:
        """A piece of it; how long to rest then, None for ever."""
        from models.store.connecting import raw_of
        from models.store.trouble import is_damage

        assert self.database is not None
        assert self.database.connect_writer is not None
        assert self._eraser is not None
        try:
            if self._connection is None:
                self._connection = self.database.connect_writer()
            quiet_s = time.monotonic() - self._written_at
            rest_s = self._eraser.go_on(raw_of(self._connection), may_go_on, quiet_s)
        except Exception as error:  # noqa: BLE001 -- it is tried again, and hinders nobody
            _log.warning("what was deleted could not be erased yet", exc_info=error)
            self._disconnect()
            if is_damage(error):
                self.database.mark_suspect()
                return None  # the next start repairs it, and goes on
            return _ERASE_AGAIN_S
        if rest_s is None:
            while self._wait_for_erased:
                self._wait_for_erased.pop().set_result(None)
        return rest_s

    def _erase_before_the_end(self) -> None:
        """What is quickly done; the next start does the rest."""
        while self._eraser is not None and not self._is_past_deadline():
            if self._erase(lambda: not self._is_past_deadline()) != 0.0:
                break
        for future in self._wait_for_erased:
            future.set_exception(ClosedError("The store was closed before all was erased."))

    def _do(self, job: _Job) -> None:
        from models.store.trouble import as_store_error, is_damage

        if job.begin():
            try:
                job.succeed(self._until_it_works(lambda: self._transaction(job.work)))
            except Exception as error:  # noqa: BLE001 -- it belongs to whoever asked
                if is_damage(error):
                    self._found_damage(as_store_error(error))
                if isinstance(error, ClosedError):
                    self._unsaved += 1
                job.fail(as_store_error(error))
        self._finish()

    def _finish(self) -> None:
        with self._changed:
            self._finished += 1
            self._changed.notify_all()

    def _transaction(self, work: Work[T]) -> T:
        assert self.database is not None
        if self._trouble and self._is_past_deadline():
            raise ClosedError(_LOST)
        if self.database.connect_writer is None:
            raise ReadOnlyError(self.database.outcome.sentence)
        if self._connection is None:
            self._connection = self.database.connect_writer()
        with self._connection.begin():
            return work(self._connection)

    def _until_it_works(self, act: Callable[[], T]) -> T:
        """Do it, again and again while the trouble may pass. Gives up only when closing."""
        delay_s = _RETRY_FIRST_S
        while True:
            try:
                result = act()
            except Exception as error:
                if not self._may_pass(error):
                    raise
            else:
                self._tell("")
                return result
            with self._changed:
                self._changed.wait_for(self._is_past_deadline, delay_s)
            delay_s = min(2 * delay_s, _RETRY_LONGEST_S)

    def _may_pass(self, error: Exception) -> bool:
        from models.store.trouble import is_lock, passing_trouble

        sentence = passing_trouble(error)
        if sentence is None:
            return False
        if not is_lock(error):
            self._disconnect()  # a connection that met an I/O error is not to be trusted
        self._tell(sentence)
        if self._is_past_deadline():
            raise ClosedError(_LOST) from error
        return True

    def _is_past_deadline(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _tell(self, sentence: str) -> None:
        with self._changed:
            is_new = sentence != self._trouble
            self._trouble = sentence
            self._changed.notify_all()
        if is_new:
            self._on_problem("unsaved" if sentence else "ok", sentence)

    def _merge_log(self) -> None:
        """End with a connection that can write, also where nothing was written: see `close`."""
        assert self.database is not None
        if self._connection is None and self.database.connect_writer is not None:
            with suppress(Exception):  # in trouble: the next start merges it
                self._connection = self.database.connect_writer()
        self._disconnect()

    def _found_damage(self, error: StoreError) -> None:
        assert self.database is not None
        self.database.mark_suspect()
        self._on_problem("failed", str(error))

    def _disconnect(self) -> None:
        if self._connection is not None:
            from models.store.connecting import close

            connection, self._connection = self._connection, None
            close(connection)


class ReaderThread(threading.Thread):
    """Answers questions, in order. A search that runs can be interrupted."""

    def __init__(self, writer: WriterThread) -> None:
        super().__init__(name="database-reader", daemon=True)
        self._writer = writer
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._running: _Job | None = None
        self._connection: Connection | None = None

    def submit(self, work: Work[T]) -> Future[T]:
        return self._submit(work, is_search=False)

    def submit_search(self, work: Work[T]) -> Future[T]:
        """As `submit`; an earlier search that waits or runs raises SupersededError."""
        self.give_up_searches()
        return self._submit(work, is_search=True)

    def give_up_searches(self) -> None:
        with self._changed:
            waiting = [job for job in self._jobs if job.is_search]
            for job in waiting:
                self._jobs.remove(job)
            self._give_up_running()
        for job in waiting:
            if job.begin():
                job.fail(SupersededError("A newer search took this one's place."))

    def close(self, timeout: float) -> None:
        with self._changed:
            self._is_closing = True
            self._give_up_running()
            self._changed.notify_all()
        self.join(timeout)

    def _submit(self, work: Work[T], *, is_search: bool) -> Future[T]:
        future: Future[T] = Future()
        ticket = self._writer.position()
        with self._changed:
            is_open = not self._is_closing
            if is_open:
                self._jobs.append(_Job(work, [future], ticket=ticket, is_search=is_search))
                self._changed.notify_all()
        if not is_open:
            future.set_exception(ClosedError("The store is closed."))
        return future

    def _give_up_running(self) -> None:
        if self._running is not None:
            self._running.is_given_up = True

    # --- the thread -----------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._writer.opened.result()
        except StoreError as error:
            failed = error
            self._answer_all(lambda job: job.fail(failed))
            return
        self._answer_all(self._do)
        if self._connection is not None:
            self._disconnect()

    def _answer_all(self, answer: Callable[[_Job], None]) -> None:
        while (job := self._next()) is not None:
            if job.begin():
                answer(job)
            del job  # what was read is not kept until the next question comes

    def _next(self) -> _Job | None:
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._jobs or self._is_closing)
            self._running = self._jobs.popleft() if self._jobs else None
            return self._running

    def _do(self, job: _Job) -> None:
        from models.store.trouble import as_store_error, is_damage, is_interrupt

        self._writer.wait_for(job.ticket)
        try:
            job.succeed(self._ask(job))
        except Exception as error:  # noqa: BLE001 -- it belongs to whoever asked
            if is_interrupt(error):
                job.fail(SupersededError("This question was given up."))
                return
            if is_damage(error) and self._writer.database is not None:
                self._writer.database.mark_suspect()
            job.fail(as_store_error(error))

    def _ask(self, job: _Job) -> object:
        from models.store.trouble import passing_trouble

        attempts = 1
        while True:
            try:
                return self._transaction(job)
            except Exception as error:
                if passing_trouble(error) is None or attempts == _READ_ATTEMPTS:
                    raise
            attempts += 1
            self._disconnect()
            time.sleep(_RETRY_FIRST_S)

    def _transaction(self, job: _Job) -> object:
        from models.store.connecting import raw_of

        database = self._writer.database
        assert database is not None
        if self._connection is None:
            self._connection = database.connect_reader()
        with self._connection.begin():
            if not job.is_search:
                return job.work(self._connection)
            with _asking(raw_of(self._connection), lambda: job.is_given_up):
                return job.work(self._connection)

    def _disconnect(self) -> None:
        if self._connection is not None:
            from models.store.connecting import close

            connection, self._connection = self._connection, None
            close(connection)


@contextmanager
def _asking(raw: sqlite3.Connection, is_given_up: Callable[[], bool]) -> Iterator[None]:
    """SQLite asks now and then whether to give the query up.

    Its `interrupt` from another thread would be lost where the query has not begun yet.
    """
    raw.set_progress_handler(is_given_up, _STEPS_BETWEEN_ASKING)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)
