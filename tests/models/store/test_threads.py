"""Trouble with the database: nothing is dropped, the order is kept, and it is said in words."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from store_records import a_conversation, a_message

from models.records import MessageState, Role
from models.store.errors import (
    ClosedError,
    DamagedError,
    ReadOnlyError,
    StoreError,
    SupersededError,
)
from models.store.store import Store

ROOT = Path(__file__).parents[3]


class Problems:
    """An `on_problem` that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self._changed = threading.Condition()

    def __call__(self, state: str, sentence: str) -> None:
        with self._changed:
            self.seen.append((state, sentence))
            self._changed.notify_all()

    def wait_for(self, state: str) -> str:
        def sentences() -> list[str]:
            return [sentence for seen, sentence in self.seen if seen == state]

        with self._changed:
            assert self._changed.wait_for(sentences, 20), f"{state} was never told: {self.seen}"
            return sentences()[0]


@pytest.fixture
def problems() -> Problems:
    return Problems()


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Another program holds the write lock."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


# --- a locked database (case F08) -----------------------------------------------------------------


def test_a_short_lock_is_waited_for_without_words(
    open_store: Any, database: Path, problems: Problems
) -> None:
    store = open_store(on_problem=problems, busy_timeout_s=20.0)
    conversation = a_conversation()
    with locked(database):
        future = store.create_conversation(conversation)
        with pytest.raises(TimeoutError):
            future.result(0.3)
    assert future.result(20) == conversation
    assert problems.seen == []


def test_a_long_lock_keeps_the_writes_in_memory_and_in_order(
    open_store: Any, database: Path, problems: Problems
) -> None:
    store = open_store(on_problem=problems, busy_timeout_s=0.1)
    conversation = a_conversation()
    done: list[str] = []
    with locked(database):
        first = a_message(conversation)
        futures = {
            "conversation": store.create_conversation(conversation),
            "first": store.append_message(first),
            "second": store.append_message(a_message(conversation, first)),
        }
        for name, future in futures.items():
            future.add_done_callback(lambda _, name=name: done.append(name))
        assert "Another program" in problems.wait_for("unsaved")
        assert not any(future.done() for future in futures.values())
        # A question is not held up by a writer in trouble.
        assert store.list_conversations().result(10) == ()
    for future in futures.values():
        future.result(20)
    problems.wait_for("ok")
    assert done == ["conversation", "first", "second"]
    assert len(store.load_conversation(conversation.id).result()[1]) == 2
    assert [state for state, _ in problems.seen] == ["unsaved", "ok"]


def test_a_reply_that_grows_while_it_cannot_be_saved_waits_once(
    open_store: Any, database: Path, problems: Problems
) -> None:
    store = open_store(on_problem=problems, busy_timeout_s=0.1)
    conversation = a_conversation()
    store.create_conversation(conversation)
    replies = [
        a_message(conversation, role=Role.ASSISTANT, state=MessageState.STREAMING, content="")
        for _ in range(2)
    ]
    for reply in replies:
        store.append_message(reply).result()
    with locked(database):
        store.set_setting("a", 1)
        problems.wait_for("unsaved")
        futures: list[Future[None]] = []
        for count in range(50):
            futures += [store.save_streaming_text(r.id, "word " * count) for r in replies]
        assert len(store._writer._jobs) == 2
        end = store.update_message(replies[0].id, state=MessageState.COMPLETE, content="end")
        late = store.save_streaming_text(replies[1].id, "late")
    for future in [*futures, end, late]:
        future.result(20)
    assert store.load_message(replies[0].id).result().content == "end"
    assert store.load_message(replies[1].id).result().content == "late"


def test_closing_while_locked_ends_in_time_and_counts_what_is_lost(
    open_store: Any, database: Path, problems: Problems
) -> None:
    store = open_store(on_problem=problems, busy_timeout_s=0.1)
    with locked(database):
        futures = [store.set_setting("a", number) for number in range(3)]
        start = time.monotonic()
        assert store.close(0.5) == 3
        assert time.monotonic() - start < 10
    for future in futures:
        with pytest.raises(ClosedError):
            future.result(1)
    assert not [t for t in threading.enumerate() if t.name.startswith("database-")]


def test_a_lock_that_ends_while_closing_loses_nothing(
    open_store: Any, database: Path, problems: Problems
) -> None:
    store = open_store(on_problem=problems, busy_timeout_s=0.1)
    lost: list[int] = []
    with locked(database):
        saved = store.set_setting("a", 1)
        problems.wait_for("unsaved")
        closing_thread = threading.Thread(target=lambda: lost.append(store.close(20)))
        closing_thread.start()
        with pytest.raises(TimeoutError):
            saved.result(0.3)
    closing_thread.join(30)
    assert lost == [0]
    assert open_store().get_setting("a").result() == 1


def test_a_database_that_is_locked_at_the_start_is_waited_for(
    open_store: Any, data_dir: Path, database: Path, problems: Problems
) -> None:
    open_store().close()
    with locked(database):
        store = Store.open(data_dir, on_problem=problems, busy_timeout_s=0.1, backup_after_s=None)
        problems.wait_for("unsaved")
        waiting = store.list_conversations()
        assert not store.opened.done()
    assert store.opened.result(20).state == "ok"
    assert waiting.result(20) == ()
    assert store.close() == 0


def test_a_long_reader_does_not_hold_up_writing(open_store: Any, database: Path) -> None:
    store = open_store(busy_timeout_s=0.1)
    with closing(sqlite3.connect(database, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchone()
        for number in range(300):
            store.set_setting("big", "x" * 20_000 + str(number))
        store.set_setting("last", True).result(20)
    assert store.get_setting("last").result() is True


# --- a full disk, a broken one --------------------------------------------------------------------

_FULL_DISK = """
import resource, sys, threading
from pathlib import Path
from models.store.store import Store
from store_records import a_conversation, a_message

told = []
unsaved, ok = threading.Event(), threading.Event()
def on_problem(state, sentence):
    told.append((state, sentence))
    (unsaved if state == "unsaved" else ok).set()

store = Store.open(Path(sys.argv[1]), on_problem=on_problem, backup_after_s=None)
store.opened.result(20)
conversation = a_conversation()
store.create_conversation(conversation).result(20)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
messages = [a_message(conversation, content=str(i) + "x" * 30_000) for i in range(40)]
futures = [store.append_message(message) for message in messages]
assert unsaved.wait(20), "nothing was told"
assert not all(future.done() for future in futures)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
kept = [future.result(20) for future in futures]
assert ok.wait(20)
assert [m.content for m in kept] == [m.content for m in messages]
stored = store.siblings(messages[0].id).result(20)
assert [m.content for m in stored] == [m.content for m in messages]
assert store.close() == 0
print(told[0][1])
"""


def test_a_disk_that_is_full_for_a_while_loses_nothing(data_dir: Path) -> None:
    """The limit on a file's size stands for the full disk: writes fail in the middle."""
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(data_dir)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
    )
    assert done.returncode == 0, done.stderr
    assert "in memory" in done.stdout


def failing_once(code: int) -> Callable[[Any], Any]:
    """Work for the writer that meets an error of SQLite's the first time."""
    errors = [code]

    def work(_connection: Any) -> str:
        if errors:
            error = sqlite3.OperationalError("made up")
            error.sqlite_errorcode = errors.pop()
            raise error
        return "done"

    return work


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_FULL, "disk is full"),
        (sqlite3.SQLITE_IOERR_FSYNC, "reports errors"),
        (sqlite3.SQLITE_CANTOPEN, "can't be reached"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "no longer be written"),
        (sqlite3.SQLITE_NOMEM, "short of memory"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "Another program"),
    ],
)
def test_trouble_that_passes_is_told_and_tried_again(
    open_store: Any, problems: Problems, code: int, words: str
) -> None:
    store = open_store(on_problem=problems)
    assert store._write(failing_once(code)).result(20) == "done"
    assert words in problems.wait_for("unsaved")
    problems.wait_for("ok")


def test_damage_met_while_running_is_told_and_checked_at_the_next_start(
    open_store: Any, problems: Problems, database: Path
) -> None:
    store = open_store(on_problem=problems)
    with pytest.raises(DamagedError):
        store._write(failing_once(sqlite3.SQLITE_CORRUPT)).result(20)
    assert "Restart Cutaway" in problems.wait_for("failed")
    assert (database.parent / "suspect").exists()
    store.close()
    assert open_store().opened.result().state == "ok"
    assert not (database.parent / "suspect").exists()


def test_a_mistake_fails_alone(open_store: Any, problems: Problems) -> None:
    store = open_store(on_problem=problems)
    conversation = a_conversation()
    store.create_conversation(conversation)
    with pytest.raises(StoreError):
        store.append_message(a_message(conversation, seed=2**70)).result(20)
    assert store.append_message(a_message(conversation)).result(20)
    assert problems.seen == []


def test_what_changed_half_way_is_taken_back(store: Store) -> None:
    def work(connection: Any) -> None:
        connection.exec_driver_sql("INSERT INTO setting VALUES ('half', '1')")
        raise StoreError("stop")

    with pytest.raises(StoreError):
        store._write(work).result(20)
    assert store.all_settings().result() == {}


# --- reading --------------------------------------------------------------------------------------

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def test_a_search_gives_way_to_a_newer_one(store: Store) -> None:
    started = threading.Event()

    def endless(connection: Any) -> tuple[()]:
        started.set()
        return tuple(connection.exec_driver_sql(_ENDLESS))

    running = store._reader.submit_search(endless)
    waiting = store._reader.submit_search(endless)
    assert started.wait(20)
    newest = store.search("anything")
    for future in (running, waiting):
        with pytest.raises(SupersededError):
            future.result(20)
    assert newest.result(20).hits == ()
    assert store.list_conversations().result(20) == ()


def test_closing_interrupts_a_search(store: Store) -> None:
    started = threading.Event()

    def endless(connection: Any) -> tuple[()]:
        started.set()
        return tuple(connection.exec_driver_sql(_ENDLESS))

    running = store._reader.submit_search(endless)
    assert started.wait(20)
    assert store.close() == 0
    with pytest.raises(SupersededError):
        running.result(20)


def test_the_reader_cannot_write(store: Store) -> None:
    future = store._read(lambda c: c.exec_driver_sql("DELETE FROM setting"))
    with pytest.raises(StoreError):
        future.result(20)


def test_a_question_sees_every_write_before_it(store: Store) -> None:
    for number in range(200):
        store.set_setting("n", number)
        assert store.get_setting("n").result(20) == number


def test_a_store_that_is_read_only_refuses_to_write(open_store: Any) -> None:
    open_store().close()
    store = open_store(read_only=True, read_only_sentence="Because.")
    with pytest.raises(ReadOnlyError, match="Because"):
        store.set_setting("a", 1).result(20)
    with pytest.raises(ReadOnlyError):
        store.back_up().result(20)


# --- what is kept ---------------------------------------------------------------------------------


class Large:
    """Stands for a trace, or for what was read of a long chat."""


def test_nothing_of_a_job_is_kept_while_the_threads_wait(open_store: Any) -> None:
    store = open_store()
    written, read = Large(), Large()
    gone = threading.Semaphore(0)
    for kept in (written, read):
        weakref.finalize(kept, gone.release)
    store._write(lambda _connection, kept=written: None).result(10)
    store._read(lambda _connection, kept=read: None).result(10)
    del written, read, kept
    for _ in range(2):
        assert gone.acquire(timeout=10)
