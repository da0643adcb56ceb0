"""The weights of this machine kept up to date: changes, hashes, what is remembered, stuck disks."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from placed_weights import hashed, looked_into, put

from app.gguf import source
from app.gguf.local import finding, seen
from app.gguf.local.places import Origin, Place
from app.library import local
from app.library.local import LocalLibrary, LocalSnapshot, Verified
from models.records import LocalFile

TIMEOUT_S = 20.0


class Room:
    """A library, and what it has told."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.told: list[LocalSnapshot] = []
        self.learned: dict[str, LocalFile] = {}
        self.others: list[Place] = []
        self.library = self.new()

    def new(self) -> LocalLibrary:
        return LocalLibrary(self._tell, self._learn, others=lambda: self.others)

    def _tell(self, snapshot: LocalSnapshot) -> None:
        with self._changed:
            self.told.append(snapshot)
            self._changed.notify_all()

    def _learn(self, files: tuple[LocalFile, ...]) -> None:
        with self._changed:
            self.learned |= {file.path: file for file in files}
            self._changed.notify_all()

    def until(self, holds: Callable[[LocalSnapshot], object]) -> LocalSnapshot:
        with self._changed:
            assert self._changed.wait_for(lambda: self.told and holds(self.told[-1]), TIMEOUT_S), (
                self.told[-1:]
            )
            return self.told[-1]

    def until_names(self, *names: str) -> LocalSnapshot:
        return self.until(
            lambda told: not told.is_looking and [e.name for e in told.entries] == list(names)
        )

    def until_all_is_known(self) -> LocalSnapshot:
        return self.until(lambda told: not told.is_looking and told.n_unhashed == 0)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(local, "WATCH_INTERVAL_S", 0.05)
    monkeypatch.setattr(local, "TOLD_EVERY_S", 0.02)
    room = Room()
    yield room
    room.library.close()


def chosen(*paths: Path) -> list[Place]:
    return [Place(Origin.FOLDER, path, is_chosen=True) for path in paths]


def test_what_comes_and_goes_is_told(room: Room, tmp_path: Path) -> None:
    put(tmp_path / "a.gguf", "a")
    room.library.start(chosen(tmp_path))
    room.until_names("a")
    put(tmp_path / "below" / "b.gguf", "b")
    room.until_names("a", "b")
    (tmp_path / "a.gguf").rename(tmp_path / "c.gguf")
    room.until_names("b", "c")
    (tmp_path / "c.gguf").unlink()
    found = room.until_names("b").entries[0]
    assert found.path == tmp_path / "below" / "b.gguf"
    assert found.facts is not None
    assert found.facts.kind == "chat"


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_file_that_may_be_read_again_is_read_again(
    is_asked: bool, room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time and size stay the same when permissions are changed or a disk comes back."""
    put(tmp_path / "a.gguf")
    opened = source.FileSource.__init__
    is_closed = True

    def closed(made: source.FileSource, path: Path) -> None:
        if is_closed:
            raise PermissionError(13, "no")
        opened(made, path)

    monkeypatch.setattr(source.FileSource, "__init__", closed)
    monkeypatch.setattr(finding, "is_readable", lambda _path: not is_closed and not is_asked)
    room.library.start(chosen(tmp_path))
    assert "can't be read" in room.until_names("a").entries[0].trouble
    is_closed = False
    if is_asked:
        room.library.look_again()
    room.until(lambda told: told.entries[0].can_load)


def test_a_download_of_another_program_becomes_whole(room: Room, tmp_path: Path) -> None:
    whole = put(tmp_path / "made" / "a.gguf").read_bytes()
    target = tmp_path / "models" / "a.gguf"
    target.parent.mkdir()
    part = target.with_name("a.gguf.crdownload")
    part.write_bytes(whole[:100])
    room.library.start(chosen(target.parent))
    room.until_names()
    target.write_bytes(b"")
    assert "still being downloaded" in room.until_names("a").entries[0].trouble
    target.write_bytes(whole)
    part.unlink()
    room.until(lambda told: told.entries and told.entries[0].can_load)


def test_the_same_content_in_two_places_becomes_one_entry(room: Room, tmp_path: Path) -> None:
    mine = put(tmp_path / "mine" / "x.gguf", "same")
    theirs = put(tmp_path / "lm" / "y.gguf", "same")
    room.others.append(Place(Origin.LM_STUDIO, tmp_path / "lm"))
    room.library.start(chosen(tmp_path / "mine"))
    (found,) = room.until_all_is_known().entries
    assert (found.path, found.also_at, found.origin) == (theirs, (mine,), Origin.LM_STUDIO)
    assert found.is_computed
    assert found.sha256 == hashlib.sha256(mine.read_bytes()).hexdigest()
    assert {file.sha256 for file in room.learned.values()} == {found.sha256}


def test_a_copy_known_from_before_is_not_listed_while_it_is_looked(
    room: Room, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        put(tmp_path / f"{name}.gguf", "same")
    looked = looked_into(tmp_path)
    look = local._Look(Place(Origin.FOLDER, tmp_path), None, False, files=looked)
    for each in hashed(looked):
        room.library._sha256s[each.seen.path, each.seen.stamp] = each.sha256
    room.library._tell(is_looking=True, looking=look)
    assert [found.name for found in room.told[-1].entries] == ["a"]
    assert room.told[-1].n_unhashed == 0


def test_nothing_is_hashed_while_a_reply_is_written(room: Room, tmp_path: Path) -> None:
    put(tmp_path / "x.gguf")
    room.library.rest(True)
    room.library.start(chosen(tmp_path))
    assert room.until_names("x").n_unhashed == 1
    time.sleep(0.2)
    assert room.told[-1].n_unhashed == 1
    room.library.rest(False)
    room.until_all_is_known()


def test_places_can_be_changed_and_looked_into_again(room: Room, tmp_path: Path) -> None:
    put(tmp_path / "one" / "a.gguf", "a")
    put(tmp_path / "two" / "b.gguf", "b")
    put(tmp_path / "other" / "c.gguf", "c")
    room.others.append(Place(Origin.JAN, tmp_path / "other"))
    room.library.start(chosen(tmp_path / "one"))
    room.until_names("a", "c")
    room.library.set_places(chosen(tmp_path / "one", tmp_path / "two"))
    room.until_names("a", "b", "c")
    room.library.set_places(chosen(tmp_path / "two"), with_others=False)
    room.until_names("b")
    room.others.append(Place(Origin.GPT4ALL, tmp_path / "one"))
    room.library.set_places((), with_others=True)
    room.library.look_again()
    room.until_names("a", "c")


def test_a_chosen_folder_that_is_not_there_is_named_until_it_is(room: Room, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    room.library.start(chosen(folder))
    assert "can't be found" in room.until_names().troubles[0]
    put(folder / "a.gguf", "a")
    assert room.until_names("a").troubles == ()


# --- what is remembered -----------------------------------------------------------------------


def remembered(room: Room, *paths: Path) -> list[LocalFile]:
    """What a first run leaves behind."""
    room.library.start(chosen(*paths))
    room.until_all_is_known()
    room.library.close()
    files = list(room.learned.values())
    room.told.clear()
    room.learned.clear()
    room.library = room.new()
    return files


def no_reading(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []

    def look_at(file: seen.SeenFile) -> seen.LookedFile:
        read.append(file.path)
        return finding.look_at(file)

    monkeypatch.setattr(local, "look_at", look_at)
    return read


def test_a_file_that_is_the_same_is_neither_read_nor_hashed_again(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "x.gguf")
    files = remembered(room, tmp_path)
    assert len(files) == 1
    read = no_reading(monkeypatch)
    room.library.rest(True)  # no hash is computed now
    room.library.start(chosen(tmp_path), files)
    (found,) = room.until_all_is_known().entries
    assert found.facts is not None
    assert found.facts.n_parameters == 4
    assert found.is_computed
    assert read == []
    assert not room.learned


@pytest.mark.parametrize(
    "change",
    [{"size_bytes": 1}, {"mtime_ns": 1}, {"inode": 1}, {"path": "/other"}],
    ids=lambda change: next(iter(change)),
)
def test_a_file_that_is_not_the_same_is_read_again(
    change: dict[str, Any], room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "x.gguf")
    (file,) = remembered(room, tmp_path)
    read = no_reading(monkeypatch)
    wrong = replace(file, sha256="0" * 64, **change)
    room.library.start(chosen(tmp_path), [wrong])
    (found,) = room.until_all_is_known().entries
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read == [path]


@pytest.mark.parametrize("facts", [{"name": 3}, {}, {"kind": "chat"}])
def test_facts_that_make_no_sense_are_read_again_and_the_hash_holds(
    facts: dict[str, Any], room: Room, tmp_path: Path
) -> None:
    put(tmp_path / "x.gguf")
    (file,) = remembered(room, tmp_path)
    room.library.rest(True)
    room.library.start(chosen(tmp_path), [replace(file, facts=facts)])
    (found,) = room.until_all_is_known().entries
    assert found.facts is not None
    assert found.sha256 == file.sha256


def test_facts_of_another_reader_are_read_again(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "x.gguf")
    (file,) = remembered(room, tmp_path)
    read = no_reading(monkeypatch)
    room.library.start(chosen(tmp_path), [replace(file, reader="before")])
    room.until_all_is_known()
    assert read == [path]
    assert room.learned[str(path)].reader == file.reader != "before"


# --- disks that do not answer -----------------------------------------------------------------


def test_a_disk_that_does_not_answer_holds_nothing_but_itself(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "STUCK_AFTER_S", 0.2)
    put(tmp_path / "network" / "far.gguf", "far")
    put(tmp_path / "near" / "near.gguf", "near")
    answers = threading.Event()
    list_folder = os.scandir

    def scandir(folder: Path) -> object:
        if folder.name == "network":
            answers.wait(TIMEOUT_S)
        return list_folder(folder)

    monkeypatch.setattr("app.gguf.local.finding.os.scandir", scandir)
    room.library.start(chosen(tmp_path / "network", tmp_path / "near"))
    told = room.until_names("near")
    assert told.troubles == (
        f"“{tmp_path / 'network'}” doesn't respond. It will be searched as soon as it does.",
    )
    put(tmp_path / "near" / "new.gguf", "new")
    room.until_names("near", "new")
    answers.set()
    assert room.until_names("far", "near", "new").troubles == ()


def test_closing_does_not_wait_for_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "CLOSE_TIMEOUT_S", 0.1)
    reached, answers = threading.Event(), threading.Event()

    def scandir(_folder: Path) -> Sequence[object]:
        reached.set()
        answers.wait(TIMEOUT_S)
        raise OSError

    monkeypatch.setattr("app.gguf.local.finding.os.scandir", scandir)
    room = Room()
    room.library.start(chosen(tmp_path))
    assert reached.wait(TIMEOUT_S)
    before = time.monotonic()
    room.library.close()
    assert time.monotonic() - before < TIMEOUT_S / 2
    answers.set()
    for thread in threading.enumerate():
        if thread.name.startswith("library"):
            thread.join(TIMEOUT_S)


def test_a_folder_that_is_removed_while_it_is_looked_into_holds_nothing(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "small" / "a.gguf", "a")
    ended = threading.Event()

    def endless(place: Place, pace: Callable[[], None]) -> seen.Scan:
        if place.path.name != "endless":
            return finding.scan(place, pace)
        try:
            while True:
                pace()
                time.sleep(0.001)
        finally:
            ended.set()

    monkeypatch.setattr(local, "scan", endless)
    room.library.start(chosen(tmp_path / "endless"))
    room.until(lambda told: told.is_looking)
    room.library.set_places(chosen(tmp_path / "small"))
    room.until_names("a")
    assert ended.is_set()


def test_closing_in_the_middle_ends_the_look(tmp_path: Path) -> None:
    for number in range(300):
        put(tmp_path / f"{number}.gguf", str(number))
    room = Room()
    room.library.rest(True)  # slowly
    room.library.start(chosen(tmp_path))
    time.sleep(0.05)
    room.library.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("library")]


@pytest.mark.parametrize(("is_resting", "least_s"), [(False, 0.1), (True, 0.5)])
def test_a_look_takes_short_turns_and_rests_longer_while_a_reply_is_written(
    is_resting: bool,
    least_s: float,
    room: Room,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "TURN_S", 0.0)
    monkeypatch.setattr(local, "REST_S", 0.01)
    monkeypatch.setattr(local, "LONG_REST_S", 0.05)
    for number in range(5):  # two steps for each, and no turn is longer than one
        put(tmp_path / f"{number}.gguf", str(number))
    room.library.rest(is_resting)
    began = time.perf_counter()
    room.library.start(chosen(tmp_path))
    room.until(lambda told: len(told.entries) == 5)
    assert time.perf_counter() - began >= least_s


def test_a_fault_in_one_place_leaves_the_others(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a" / "a.gguf", "a")
    put(tmp_path / "b" / "b.gguf", "b")

    def broken(place: Place, pace: Callable[[], None]) -> seen.Scan:
        if place.path.name == "a":
            raise ZeroDivisionError
        return finding.scan(place, pace)

    monkeypatch.setattr(local, "scan", broken)
    room.library.start(chosen(tmp_path / "a", tmp_path / "b"))
    assert "couldn't be searched (ZeroDivisionError)" in room.until_names("b").troubles[0]


def test_a_part_opened_by_hand_is_found_with_its_set(room: Room, tmp_path: Path) -> None:
    parts = [put(tmp_path / f"big-0000{n}-of-00002.gguf", str(n)) for n in (1, 2)]
    put(tmp_path / "other.gguf")
    room.library.start([Place(Origin.OPENED, parts[1])])
    (found,) = room.until_names("big").entries
    assert found.parts == tuple(parts)


def test_d12_looking_into_thousands_of_files_leaves_the_window_its_turns(
    room: Room, tmp_path: Path
) -> None:
    """The owner's thread wakes every 2 ms, as a window does while a reply comes in."""
    content = put(tmp_path / "one.gguf").read_bytes()
    for number in range(2000):
        folder = tmp_path / "all" / f"{number % 50:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04d}.gguf").write_bytes(content)
    asked: list[float] = []
    late: list[float] = []

    def timed(call: Callable[[], None]) -> None:
        before = time.perf_counter()
        call()
        asked.append(time.perf_counter() - before)

    def tick() -> float:
        before = time.perf_counter()
        time.sleep(0.002)
        return time.perf_counter() - before - 0.002

    usual = sorted(tick() for _ in range(100))[95]  # the machine may be busy
    timed(lambda: room.library.start(chosen(tmp_path / "all")))
    ends_at = time.monotonic() + TIMEOUT_S
    while not (room.told and not room.told[-1].is_looking) and time.monotonic() < ends_at:
        late.append(tick())
    assert len(room.told[-1].entries) == 2000
    timed(room.library.look_again)
    timed(lambda: room.library.set_places([]))
    assert sorted(late)[len(late) * 95 // 100] < usual + 0.02, sorted(late)[-20:]
    assert max(asked) < 0.1


def test_what_was_hashed_as_it_came_is_not_read_again(room: Room, tmp_path: Path) -> None:
    path, changed = put(tmp_path / "a.gguf", "a"), put(tmp_path / "b.gguf", "b")
    room.library.rest(True)
    room.library.start(chosen(tmp_path))
    assert room.until_names("a", "b").n_unhashed == 2
    info = path.stat()
    room.library.know(
        [
            Verified(path, info.st_size, info.st_mtime_ns, "ab" * 32),
            Verified(changed, info.st_size, info.st_mtime_ns - 1, "cd" * 32),
        ]
    )
    told = room.until(lambda told: told.n_unhashed == 1)
    assert [(each.sha256, each.is_computed) for each in told.entries] == [
        ("ab" * 32, True),
        ("", False),
    ]
    assert room.learned[str(path)].sha256 == "ab" * 32


def test_a_fault_in_one_round_leaves_the_next(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a.gguf", "a")
    failures = iter([ZeroDivisionError()])
    room.others.append(Place(Origin.JAN, tmp_path))

    def others() -> list[Place]:
        for failure in failures:
            raise failure
        return room.others

    room.library = LocalLibrary(room._tell, others=others)
    monkeypatch.setattr(local, "MAX_WATCH_INTERVAL_S", 0.05)
    room.library.start([])
    room.until_names("a")
