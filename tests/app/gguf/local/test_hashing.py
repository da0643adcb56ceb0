"""Hashes in idle time: what comes out, that it rests, goes on, and never trusts a changed file."""

from __future__ import annotations

import hashlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.gguf.local import hashing
from app.gguf.local.hashing import BLOCK_BYTES, Hashed, Hashing, Wanted
from app.gguf.local.seen import Stamp, stamp_of
from app.low_priority import NICE, lower_priority

TIMEOUT_S = 20.0


class Room:
    def __init__(self) -> None:
        self.results: queue.Queue[Hashed] = queue.Queue()
        self.progress: queue.Queue[int] = queue.Queue()
        self.hashing = Hashing(self.results.put, lambda _wanted, done: self.progress.put(done))

    def result(self) -> Hashed:
        return self.results.get(timeout=TIMEOUT_S)


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room()
    yield room
    room.hashing.close()


def wanted(path: Path, content: bytes | None = None) -> Wanted:
    if content is not None:
        path.write_bytes(content)
    return Wanted(path, stamp_of(path.stat()))


def test_the_hash_is_sha256_of_all_bytes(room: Room, tmp_path: Path) -> None:
    contents = [b"", b"abc", os.urandom(3 * BLOCK_BYTES + 7)]
    files = [wanted(tmp_path / str(n), content) for n, content in enumerate(contents)]
    room.hashing.want(files)
    results = [room.result() for _ in files]
    assert [each.wanted for each in results] == files
    assert [each.sha256 for each in results] == [hashlib.sha256(c).hexdigest() for c in contents]


def test_nothing_is_read_while_it_rests_and_then_it_goes_on_where_it_was(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(BLOCK_BYTES) * 65
    reached, reads = threading.Event(), list[int]()
    plain = hashlib.sha256

    class Counting:
        def __init__(self) -> None:
            self._digest = plain()

        def update(self, block: memoryview) -> None:
            self._digest.update(block)
            reads.append(len(block))
            if len(reads) == 5:
                room.hashing.rest(True)
                reached.set()

        def hexdigest(self) -> str:
            return self._digest.hexdigest()

    monkeypatch.setattr(hashing.hashlib, "sha256", Counting)
    room.hashing.want([wanted(tmp_path / "big", content)])
    assert reached.wait(TIMEOUT_S)
    with pytest.raises(queue.Empty):
        room.results.get(timeout=0.2)
    assert len(reads) == 5
    room.hashing.rest(False)
    assert room.result().sha256 == plain(content).hexdigest()
    assert sum(reads) == len(content)
    assert room.progress.get_nowait() == 64 * BLOCK_BYTES


def test_a_file_that_has_changed_since_has_no_hash(room: Room, tmp_path: Path) -> None:
    before = wanted(tmp_path / "a", b"before")
    (tmp_path / "a").write_bytes(b"behind")
    os.utime(tmp_path / "a", ns=(1, 1))
    room.hashing.want([before])
    result = room.result()
    assert (result.sha256, result.trouble) == ("", "The file has changed.")


def test_a_file_that_changes_meanwhile_has_no_hash(room: Room, tmp_path: Path) -> None:
    path = tmp_path / "a"
    file = wanted(path, bytes(BLOCK_BYTES * 65))
    before = path.stat()

    def grow(_wanted: Wanted, _done: int) -> None:
        with path.open("r+b") as opened:
            opened.write(b"x")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))

    own = Hashing(room.results.put, grow)
    own.want([file])
    assert room.result().trouble == "The file has changed."
    own.close()


def test_a_file_that_is_gone_is_said_and_the_next_follows(room: Room, tmp_path: Path) -> None:
    gone, there = wanted(tmp_path / "gone", b"x"), wanted(tmp_path / "there", b"y")
    gone.path.unlink()
    room.hashing.want([gone, there])
    assert room.result().trouble
    assert room.result().sha256 == hashlib.sha256(b"y").hexdigest()


def test_what_is_not_wanted_any_more_is_left(room: Room, tmp_path: Path) -> None:
    big, other = wanted(tmp_path / "big", bytes(200 * BLOCK_BYTES)), wanted(tmp_path / "o", b"o")
    room.hashing.rest(True)
    room.hashing.want([big])
    room.hashing.want([other])
    room.hashing.rest(False)
    assert room.result().wanted == other
    assert room.results.empty()


@pytest.mark.parametrize("is_resting", [False, True])
def test_closing_does_not_wait_for_a_large_file(tmp_path: Path, is_resting: bool) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(1 << 40)
    results: queue.Queue[Hashed] = queue.Queue()
    own = Hashing(results.put)
    own.rest(is_resting)
    own.want([wanted(big)])
    own.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "hashing"]
    assert results.empty()


def _on_a_thread(call: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for the priority")
def test_only_its_own_thread_comes_last() -> None:
    def nice() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def lowered() -> int:
        lower_priority()
        return nice()

    before = nice()
    assert _on_a_thread(lowered) == NICE
    assert nice() == before


def test_a_file_that_its_network_does_not_give_is_left_and_the_next_follows(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "STUCK_AFTER_S", 0.05)
    reached, answers = threading.Event(), threading.Event()
    stamp = hashing.stamp_of

    def slow(info: os.stat_result) -> Stamp:
        if info.st_size == 3:
            reached.set()
            answers.wait(TIMEOUT_S)
        return stamp(info)

    far, near = wanted(tmp_path / "far", b"far"), wanted(tmp_path / "near", b"near")
    monkeypatch.setattr(hashing, "stamp_of", slow)
    room.hashing.want([far, near])
    assert reached.wait(TIMEOUT_S)
    room.hashing.look_after()  # not yet: it may only be slow
    threading.Event().wait(0.1)
    room.hashing.look_after()
    assert room.result().wanted == near
    stuck = [thread for thread in threading.enumerate() if thread.name == "hashing"]
    answers.set()
    room.hashing.want([far])
    room.hashing.close()
    for thread in stuck:
        thread.join(TIMEOUT_S)
    assert room.results.empty()


def test_no_file_is_hashed_twice(room: Room, tmp_path: Path) -> None:
    one, other = wanted(tmp_path / "one", b"1"), wanted(tmp_path / "other", b"2")
    room.hashing.want([one])
    assert room.result().wanted == one
    room.hashing.want([one, other])
    assert room.result().wanted == other
    assert room.results.empty()
