"""The weights on this machine, kept up to date beside the window.

Two threads look: a keeper that decides what is looked into next and tells what is known, and
under it one that touches the disks. A disk or a network that does not answer holds only that
one: the keeper names the place, leaves the thread to it and goes on with a new one. A third
thread hashes while nothing else has to be done (`app.gguf.local.hashing`). What must hold:

* No method waits. `on_changed` and `on_learned` are called on a thread of the library.
* A place is walked again when a folder's time or a file's size or time has changed; that is
  asked for every `WATCH_INTERVAL_S`, less often where asking takes long.
* Looking takes short turns, so that the window gets the interpreter, and longer rests while a reply
  is written (4 ms each, then 2 in 22). With 2,000 new files the owner's thread is late by less than
  20 ms in 95 of 100 turns.

It asks and does not wait to be told: a system's notices do not come from network drives, and run
out on large trees.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from app.gguf.local.entries import FoundWeights, entries
from app.gguf.local.finding import has_changed, look_at, scan
from app.gguf.local.hashing import Hashed, Hashing, Wanted
from app.gguf.local.places import Place, places_of_others
from app.gguf.local.seen import LookedFile, Scan, SeenFile, Stamp
from app.library.remembering import Memory
from models.records import LocalFile

WATCH_INTERVAL_S: Final = 2.0
MAX_WATCH_INTERVAL_S: Final = 30.0
WATCH_SHARE: Final = 50
"""Asking for changes takes at most one part in so many of the time."""
PLACES_INTERVAL_S: Final = 30.0
"""How often other programs' settings are read for where they keep their weights."""
TOLD_EVERY_S: Final = 0.3
STUCK_AFTER_S: Final = 5.0
TURN_S: Final = 0.004
REST_S: Final = 0.002
LONG_REST_S: Final = 0.02
CLOSE_TIMEOUT_S: Final = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalSnapshot:
    """What is known of the weights on this machine at one moment.

    `is_looking`: not everything has been looked at yet. `troubles` are sentences about places.
    `n_unhashed` is how many files have no computed hash yet.
    """

    entries: tuple[FoundWeights, ...] = ()
    troubles: tuple[str, ...] = ()
    is_looking: bool = True
    n_unhashed: int = 0


@dataclass(frozen=True, slots=True)
class Verified:
    """The hash of a file as it was when it came whole."""

    path: Path
    size_bytes: int
    mtime_ns: int
    sha256: str

    def is_of(self, stamp: Stamp) -> bool:
        return (stamp.size_bytes, stamp.mtime_ns) == (self.size_bytes, self.mtime_ns)


class _Closing(Exception):  # noqa: N818
    """The library ends, or nobody wants to know any more."""


@dataclass(slots=True, eq=False)
class _Look:
    """One look into one place; filled on the disk thread, read by the keeper."""

    place: Place
    before: Scan | None
    is_forced: bool
    result: Scan | None = None
    seconds: float = 0.0
    beat: float = field(default_factory=time.monotonic)
    has_ended: threading.Event = field(default_factory=threading.Event)
    files: list[LookedFile] = field(default_factory=list)
    is_walking: bool = False
    is_unwanted: bool = False


class _DiskThread:
    """Does looks one after the other; one that is stuck is left alone with its look."""

    def __init__(self, work: Callable[[_Look], None]) -> None:
        self._work = work
        self._condition = threading.Condition()
        self._look: _Look | None = None
        self._is_closing = False
        self.thread = threading.Thread(target=self._run, name="library-disk", daemon=True)
        self.thread.start()

    def begin(self, look: _Look) -> None:
        with self._condition:
            self._look = look
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._is_closing = True
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._is_closing or self._look is not None)
                look, self._look = self._look, None
                if look is None:
                    return
            self._work(look)
            look.has_ended.set()


class LocalLibrary:
    """Looks into places and says what is there. `start` it once, `close` it.

    `on_changed` gets a snapshot whenever it is another one; `on_learned` what is worth to be
    remembered. `others` finds the places of other programs.
    """

    def __init__(
        self,
        on_changed: Callable[[LocalSnapshot], None],
        on_learned: Callable[[tuple[LocalFile, ...]], None] = lambda _files: None,
        *,
        others: Callable[[], Sequence[Place]] = places_of_others,
    ) -> None:
        self._on_changed = on_changed
        self._on_learned = on_learned
        self._find_others = others
        self._condition = threading.Condition()
        self._own: tuple[Place, ...] = ()
        self._with_others = True
        self._is_closing = False
        self._is_resting = False
        self._is_due = False
        self._is_forced = False
        self._hashed: list[Hashed] = []
        self._verified: dict[Path, Verified] = {}
        self._hashing = Hashing(self._take_hashed)
        self._thread: threading.Thread | None = None
        # Of the keeper's thread; `_looked` is filled by the disk thread.
        self._memory = Memory()
        self._others: tuple[Place, ...] = ()
        self._others_read_at = -PLACES_INTERVAL_S
        self._scans: dict[Place, Scan] = {}
        self._looked: dict[Path, LookedFile] = {}
        self._sha256s: dict[tuple[Path, Stamp], str] = {}
        self._unhashable: set[tuple[Path, Stamp]] = set()
        self._stuck: dict[Place, _Look] = {}
        self._disk: _DiskThread | None = None
        self._is_changed = False
        self._told: LocalSnapshot | None = None
        self._told_at = 0.0
        self._tell_took_s = 0.0

    # --- from any thread ------------------------------------------------------------------------

    def start(
        self,
        own: Iterable[Place],
        remembered: Iterable[LocalFile] = (),
        *,
        with_others: bool = True,
    ) -> None:
        """Look into `own` places and, `with_others`, those of other programs."""
        if self._thread is not None or self._is_closing:
            return
        self._own, self._with_others = tuple(own), with_others
        self._memory = Memory(remembered)
        self._thread = threading.Thread(target=self._keep, name="library", daemon=True)
        self._thread.start()

    def set_places(self, own: Iterable[Place], *, with_others: bool = True) -> None:
        """Look into these from now on."""
        with self._condition:
            if (tuple(own), with_others) != (self._own, self._with_others):
                self._own, self._with_others = tuple(own), with_others
                self._look_now()

    def look_again(self) -> None:
        """Walk every place anew, whatever its times say."""
        with self._condition:
            self._is_forced = True
            self._others_read_at = -PLACES_INTERVAL_S
            self._look_now()

    def know(self, verified: Iterable[Verified]) -> None:
        """These hashes were computed already, as the files came."""
        with self._condition:
            self._verified |= {each.path: each for each in verified}
            self._look_now()

    def rest(self, is_resting: bool) -> None:
        """Hash nothing and look slowly until told otherwise: a reply is written."""
        self._is_resting = is_resting
        self._hashing.rest(is_resting)

    def close(self) -> None:
        """End the threads. One that a disk holds ends with the program."""
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        self._hashing.close()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)

    def _look_now(self) -> None:
        self._is_due = True
        self._condition.notify_all()

    def _take_hashed(self, hashed: Hashed) -> None:
        """On the hashing thread."""
        with self._condition:
            self._hashed.append(hashed)
            self._condition.notify_all()

    # --- the keeper's thread --------------------------------------------------------------------

    def _keep(self) -> None:
        try:
            while True:
                self._pause(min(self._round(), MAX_WATCH_INTERVAL_S))
        except _Closing:
            pass
        finally:
            disk, self._disk = self._disk, None
            if disk is not None:
                disk.close()
                disk.thread.join(CLOSE_TIMEOUT_S)

    def _round(self) -> float:
        """A look into all places, and what came of it; how long to wait for the next one."""
        try:
            seconds = self._look_into_all()
            self._learn_hashes()
            self._hashing.look_after()
            if self._is_changed or self._told is None or self._told.is_looking:
                self._tell(is_looking=False)
                self._want_hashes()
                self._is_changed = False
        except _Closing:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end all rounds
            _log.warning("looking for weights failed", exc_info=error)
            return MAX_WATCH_INTERVAL_S
        return max(WATCH_INTERVAL_S, WATCH_SHARE * seconds)

    def _pause(self, seconds: float) -> None:
        """Until it is time to look again; hashes that come meanwhile are told at once."""
        ends_at = time.monotonic() + seconds
        while not self._is_woken(ends_at, or_by_hashes=True):
            self._learn_hashes()
            self._tell(is_looking=False)
            pause = max(TOLD_EVERY_S, 10 * self._tell_took_s)
            if self._is_woken(min(ends_at, time.monotonic() + pause)):
                return

    def _is_woken(self, until: float, *, or_by_hashes: bool = False) -> bool:
        """Waits. True: it is time to look again; False: hashes have come, or only time passed."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._is_closing or self._is_due or (or_by_hashes and self._hashed),
                max(0.0, until - time.monotonic()),
            )
            self._check_closing()
            is_due, self._is_due = self._is_due, False
            has_ended = time.monotonic() >= until or not self._hashed
            return is_due or (or_by_hashes and has_ended)

    def _check_closing(self) -> None:
        if self._is_closing:
            raise _Closing

    def _look_into_all(self) -> float:
        """A look into every place; how long the disks took."""
        with self._condition:
            own, with_others = self._own, self._with_others
            is_forced, self._is_forced = self._is_forced, False
        if with_others and time.monotonic() - self._others_read_at >= PLACES_INTERVAL_S:
            self._others = tuple(self._find_others())
            self._others_read_at = time.monotonic()
        places = list(dict.fromkeys((*own, *(self._others if with_others else ()))))
        for known in (self._scans, self._stuck):
            for place in [place for place in known if place not in places]:
                del known[place]
                self._is_changed = True
        return sum(self._look_into(place, is_forced) for place in places)

    def _look_into(self, place: Place, is_forced: bool) -> float:
        look = self._stuck.get(place)
        if look is None:
            look = _Look(place, self._scans.get(place), is_forced)
            if self._disk is None:
                self._disk = _DiskThread(self._do)
            self._disk.begin(look)
        elif not look.has_ended.is_set():
            return 0.0  # still stuck
        while not look.has_ended.wait(TOLD_EVERY_S):
            self._check_closing()
            if time.monotonic() - look.beat > STUCK_AFTER_S:
                self._leave(look)
                return 0.0
            if not self._is_wanted(place):
                look.is_unwanted = True
            elif look.is_walking and self._may_tell():
                self._tell(is_looking=True, looking=look)
        self._check_closing()
        if self._stuck.pop(place, None) is not None:
            self._is_changed = True
        if look.result is not None:
            self._is_changed = True
            self._scans[place] = look.result
            self._remember(look.files)
            if self._may_tell():
                self._tell(is_looking=True)
        return look.seconds

    def _is_wanted(self, place: Place) -> bool:
        with self._condition:
            return place in self._own or (self._with_others and place in self._others)

    def _may_tell(self) -> bool:
        """Telling of thousands of files takes a while: at most a tenth of the time."""
        pause = max(TOLD_EVERY_S, 10 * self._tell_took_s)
        return time.monotonic() - self._told_at > pause

    def _leave(self, look: _Look) -> None:
        """The disk does not answer: its thread waits for it alone."""
        _log.warning("%s does not answer", look.place.path)
        self._stuck[look.place] = look
        self._is_changed = True
        assert self._disk is not None
        self._disk.close()
        self._disk = None

    def _remember(self, files: Iterable[LookedFile]) -> None:
        now = datetime.now(UTC)
        learned = [self._memory.learn(self._with_hash(each), now) for each in files]
        self._on_learned(tuple(file for file in learned if file is not None))

    def _with_hash(self, looked: LookedFile) -> LookedFile:
        sha256 = self._sha256s.get((looked.seen.path, looked.seen.stamp))
        return replace(looked, sha256=sha256) if sha256 else looked

    def _all_files(self) -> list[LookedFile]:
        found = []
        for result in self._scans.values():
            for seen in result.files:
                looked = self._looked.get(seen.path)
                if looked is not None and looked.seen.stamp == seen.stamp:
                    same = looked if looked.seen == seen else replace(looked, seen=seen)
                    found.append(self._with_hash(same))
        return found

    # --- what is told ---------------------------------------------------------------------------

    def _tell(self, *, is_looking: bool, looking: _Look | None = None) -> None:
        began = time.perf_counter()
        files = self._all_files()
        if looking is not None:
            known = {each.seen.path for each in files}
            new = [each for each in list(looking.files) if each.seen.path not in known]
            files += map(self._with_hash, new)
        troubles = [sentence for result in self._scans.values() for sentence in result.troubles]
        troubles += [
            f"“{place.path}” doesn't respond. It will be searched as soon as it does."
            for place in self._stuck
        ]
        snapshot = LocalSnapshot(
            entries=entries(files),
            troubles=tuple(dict.fromkeys(troubles)),
            is_looking=is_looking,
            n_unhashed=len(self._wanted(files)),
        )
        self._told_at = time.monotonic()
        self._tell_took_s = time.perf_counter() - began
        if snapshot != self._told:
            self._told = snapshot
            self._on_changed(snapshot)

    def _wanted(self, files: Iterable[LookedFile]) -> dict[tuple[Path, Stamp], Wanted]:
        """What has to be hashed: what may be the same as another file first, then the smallest."""
        sizes = Counter(each.seen.stamp.size_bytes for each in files)
        lacking = {
            (each.seen.path, each.seen.stamp): Wanted(each.seen.path, each.seen.stamp)
            for each in files
            if each.facts is not None and not each.sha256
        }
        for key in self._unhashable:
            lacking.pop(key, None)
        order = sorted(
            lacking, key=lambda key: (sizes[key[1].size_bytes] == 1, key[1].size_bytes, key[0])
        )
        return {key: lacking[key] for key in order}

    def _want_hashes(self) -> None:
        self._hashing.want(self._wanted(self._all_files()).values())

    def _learn_hashes(self) -> None:
        with self._condition:
            hashed, self._hashed = self._hashed, []
            verified, self._verified = self._verified, {}
        if not hashed and not verified:
            return
        self._is_changed = True
        files = {(each.seen.path, each.seen.stamp): each for each in self._all_files()}
        changed = []
        for each in hashed:
            key = (each.wanted.path, each.wanted.stamp)
            if not each.sha256:
                self._unhashable.add(key)
            elif key in files:
                self._sha256s[key] = each.sha256
                changed.append(files[key])
        for key, looked in files.items():
            known = verified.get(key[0])
            if known is not None and known.is_of(looked.seen.stamp) and not looked.sha256:
                self._sha256s[key] = known.sha256
                changed.append(looked)
        self._remember(changed)

    # --- the disk thread ------------------------------------------------------------------------

    def _do(self, look: _Look) -> None:
        try:
            self._look(look, _Turns(self, look))
        except _Closing:
            pass
        except Exception as error:  # noqa: BLE001 - a fault of ours must not hide the other places
            _log.warning("looking into %s failed", look.place.path, exc_info=error)
            sentence = f"“{look.place.path}” couldn't be searched ({type(error).__name__})."
            look.result = Scan(look.place, troubles=[sentence])

    def _look(self, look: _Look, pace: Callable[[], None]) -> None:
        if not look.is_forced and look.before is not None:
            began = time.perf_counter()
            is_as_before = not has_changed(look.before, pace)
            look.seconds = time.perf_counter() - began
            if is_as_before:
                return
        look.is_walking = True
        result = scan(look.place, pace)
        for seen in result.files:
            pace()
            looked = self._looked_at(seen)
            look.files.append(looked)
            if looked.is_unread:
                result.lost.append(seen.path)
        look.result = result

    def _looked_at(self, seen: SeenFile) -> LookedFile:
        known = self._looked.get(seen.path)
        now = (seen.stamp, seen.is_begun)
        is_known = known is not None and (known.seen.stamp, known.seen.is_begun) == now
        if known is not None and is_known and not known.is_unread:
            return known
        facts = None if seen.is_begun else self._memory.facts_of(seen)
        looked = LookedFile(seen, facts) if facts is not None else look_at(seen)
        sha256 = self._memory.sha256_of(seen)
        if sha256:
            self._sha256s.setdefault((seen.path, seen.stamp), sha256)
        self._looked[seen.path] = looked
        return looked


class _Turns:
    """Called at each step of a look: shows that it lives, ends it, and leaves room for others."""

    def __init__(self, library: LocalLibrary, look: _Look) -> None:
        self._library = library
        self._look = look
        self._turn_began = time.perf_counter()

    def __call__(self) -> None:
        library = self._library
        self._look.beat = time.monotonic()
        if library._is_closing or self._look.is_unwanted:
            raise _Closing
        if time.perf_counter() - self._turn_began > TURN_S:
            time.sleep(LONG_REST_S if library._is_resting else REST_S)
            self._turn_began = time.perf_counter()
