"""What lies on disk of the KV cache: an index of the files, and the threads that read and write.

    reader   looks through the folder after a load, brings back what a prompt can go on from
    writer   at low priority, and only while nobody is answered: writes, removes

Losing any of it costs time only. So whatever goes wrong (a flipped bit, a full disk, another
version, a file that somebody took away) is a line in the log and one full pass, never an error.
What must hold: a file is named in the index only after its head was authenticated, and what comes
back was authenticated to its last byte (`saved_file.py`); a folder that belongs to another window
is read, and nothing in it is written, renamed or removed.

The newest use stands in a file's modification time; the oldest goes first when the cap is reached.
Files of another engine's version are removed as they are found: nobody reads them again.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from app.engine.process.cache import saved_file
from app.engine.process.cache.cells import Ids, State, Traits, common_length
from app.engine.process.cache.parking import Parked
from app.engine.process.cache.saved_file import BadFile, Head, Identity, Interrupted
from app.engine.protocol.saved_messages import (
    KEY_BYTES,
    PART_SUFFIX,
    SUFFIX,
    SavedCopy,
    SavedFolder,
)
from app.low_priority import lower_priority

LEAVE_FREE_BYTES: Final = 1 << 30
"""Of the disk: the chats themselves need room more than what can be computed again."""

MOST_OF_CHAT: Final = 8
"""Of its branches, and of states that only go on from their end; the last used ones."""

READERS: Final = min(4, os.cpu_count() or 1)
"""Threads that authenticate what somebody waits for."""

_numbers = count(1)


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """A file whose head was found right. `is_usable`: of these weights, as they are loaded."""

    path: Path
    conversation: str
    ids: np.ndarray[Any, np.dtype[np.int32]]
    first_position: int
    size_bytes: int
    used_at: float
    is_usable: bool
    adapters: str = ""
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """A copy of a sequence that shall be written."""

    ids: np.ndarray[Any, np.dtype[np.int32]]
    data: State
    first_position: int
    conversation: str
    adapters: str = ""


class SavedStates:
    """The files of one folder, for the weights of `identity`. Methods return at once, except
    `close`; they are for the thread that owns the context. `wake` is called on other threads when
    there is news for `take_news`; `say` gets lines for the log."""

    def __init__(
        self,
        identity: Identity | None,
        traits: Traits,
        wake: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.time,
        *,
        n_ctx: int = 2**31,
    ) -> None:
        """Without an identity nothing is known again, so nothing is saved. What was saved with more
        tokens than `n_ctx` finds no room."""
        self._n_ctx = n_ctx
        self._identity = identity
        self._traits = traits
        self._wake = wake
        self._say = say
        self._clock = clock
        self._folder: SavedFolder | None = None
        self._lock = threading.Lock()
        self._states: list[SavedState] = []
        self._is_scanning = False
        self._has_news = False
        self._fetching: int | None = None
        self._fetched: list[tuple[SavedState, Parked | None]] = []
        self._outgoing: Outgoing | None = None
        self._tried: set[int] = set()
        self._dropped: set[str] = set()
        self._quiet = threading.Event()
        self._quiet.set()
        self._written = threading.Condition(self._lock)
        self._end_at: float | None = None
        self._reads: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._writes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    # --- where ------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        folder = self._folder
        return self._identity is not None and folder is not None and folder.cap_bytes > 0

    @property
    def may_write(self) -> bool:
        folder = self._folder
        return self.is_on and folder is not None and folder.may_write

    @property
    def cap_bytes(self) -> int:
        return self._folder.cap_bytes if self._folder is not None else 0

    @property
    def size_bytes(self) -> int:
        with self._lock:
            return sum(state.size_bytes for state in self._states)

    def use(self, folder: SavedFolder | None) -> None:
        """Save there from now on. The folder is looked through if it is another one."""
        if folder is not None and len(folder.key) != KEY_BYTES:
            folder = None  # an empty one would authenticate whatever is there
        before, self._folder = self._folder, folder
        if folder is None or self._identity is None:
            with self._lock:
                self._states = []
            return
        self._begin_threads()
        if before is None or (before.folder, before.key) != (folder.folder, folder.key):
            with self._lock:
                self._states = []
            self._is_scanning = True
            self._reads.put(self._scan)
        else:
            self._writes.put(self._keep_to_cap)

    def _begin_threads(self) -> None:
        if self._threads:
            return
        for name, jobs, is_low in (
            ("kv-reader", self._reads, False),
            ("kv-writer", self._writes, True),
        ):
            thread = threading.Thread(target=self._run, args=(jobs, is_low), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _run(self, jobs: queue.SimpleQueue[Callable[[], None] | None], is_low: bool) -> None:
        if is_low:
            lower_priority()
        while (job := jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # noqa: BLE001 - it costs time only
                self._say(f"saved KV state: {type(error).__name__}: {error}")
            self._wake()

    # --- what is there ------------------------------------------------------------------------

    @property
    def is_scanning(self) -> bool:
        return self._is_scanning

    def best(self, ids: Ids, most: int, adapters: str = "") -> tuple[SavedState | None, int]:
        """The file with the longest usable beginning of `ids` (at most `most` tokens); of two that
        serve as well, the smaller one."""
        found, longest = None, 0
        ids = np.asarray(ids, np.int32)  # once, not for each file
        with self._lock:
            for state in self._states:
                if not state.is_usable or state.adapters != adapters:
                    continue
                if len(state.ids) > self._n_ctx:
                    continue
                keep = min(common_length(state.ids, ids), most)
                is_better = keep > longest or (
                    keep == longest and found is not None and state.size_bytes < found.size_bytes
                )
                if keep and is_better and self._serves(state, keep):
                    found, longest = state, keep
        return found, longest

    def covers(self, ids: Ids, adapters: str = "") -> bool:
        """Whether a file serves every prompt that a sequence of these tokens could, or writing one
        was tried in vain, or it was removed by hand: as they stand they are not written again."""
        if _hash(ids, adapters) in self._tried:
            return True
        return self.best(ids, len(ids), adapters)[1] == len(ids)

    def listed(self) -> list[SavedCopy]:
        """The longest unused first."""
        with self._lock:
            states = sorted(self._states, key=lambda state: state.used_at)
        return [
            SavedCopy(
                state.number,
                state.conversation,
                len(state.ids),
                state.size_bytes,
                max(int(state.used_at), 0),
                state.is_usable,
            )
            for state in states
        ]

    def _serves(self, state: SavedState, keep: int) -> bool:
        return self._traits.usable(len(state.ids), state.first_position, keep) is None

    # --- back from the disk -------------------------------------------------------------------

    @property
    def fetching(self) -> int | None:
        """The number of the file that is being read."""
        return self._fetching

    @property
    def has_news(self) -> bool:
        """Whether something has been read since `take_news`."""
        return self._has_news

    def fetch(self, state: SavedState) -> None:
        """Read a file; it comes with `take_news`. One at a time."""
        if self._fetching is None:
            self._fetching = state.number
            self._reads.put(lambda: self._read(state))

    def take_news(self) -> list[tuple[SavedState, Parked | None]]:
        """What has been read since; without a copy where the file was not what it should be."""
        with self._lock:
            self._has_news = False
            news, self._fetched = self._fetched, []
        return news

    def _read(self, state: SavedState) -> None:
        folder, parked = self._folder, None
        try:
            if folder is not None:
                head, data = saved_file.read(state.path, folder.key, READERS)
                parked = self._as_parked(head, data)
        except Exception as error:  # noqa: BLE001 - somebody waits for the answer
            why = str(error) if isinstance(error, BadFile) else f"cannot be read: {error!r}"
            self._say(f"saved KV state {state.path.name} {why}: the chat is processed again")
        if parked is None:
            self._remove(self._forget([state]))
        else:
            self._touch(state)
        with self._lock:
            self._fetched.append((state, parked))
            self._fetching = None
            self._has_news = True

    def _as_parked(self, head: Head, data: State) -> Parked | None:
        if head.identity != self._identity:
            return None
        return Parked(
            head.token_ids,
            data,
            head.first_position,
            head.conversation,
            is_stored=True,
            is_from_disk=True,
            adapters=head.adapters,
        )

    def _touch(self, state: SavedState) -> None:
        touched = self._touched(state)
        with self._lock:
            self._states = [touched if each is state else each for each in self._states]

    def _touched(self, state: SavedState) -> SavedState:
        now, folder = self._clock(), self._folder
        if folder is not None and folder.may_write:
            with contextlib.suppress(OSError):
                os.utime(state.path, (now, now))
        return replace(state, used_at=now)

    # --- the folder ---------------------------------------------------------------------------

    def _scan(self) -> None:
        """Look through the folder, on the reader's thread."""
        folder = self._folder
        try:
            if folder is not None:
                found = sorted(self._found(folder), key=lambda state: state.used_at)
                found = [self._not_later(state) for state in found]
                with self._lock:
                    known = {state.path for state in self._states}
                    self._states += [state for state in found if state.path not in known]
                self._writes.put(self._keep_to_cap)
        finally:
            self._is_scanning = False
            self._has_news = True

    def _not_later(self, state: SavedState) -> SavedState:
        """Used by now at the latest: what a clock that was set back since has left in the future
        would stay there while each new file goes."""
        if state.used_at <= self._clock():
            return state
        return self._touched(state)

    def _found(self, folder: SavedFolder) -> Iterator[SavedState]:
        place = Path(os.fsdecode(folder.folder))
        try:
            names = sorted(place.iterdir())
        except OSError:
            return  # it is made with the first file
        for path in names:
            if path.name.endswith(PART_SUFFIX) and self._outgoing is None:
                self._unlink(path)  # of a run that did not come to its end
            if not path.name.endswith(SUFFIX):
                continue
            try:
                head = saved_file.read_head(path, folder.key)
                if self._identity is None or head.identity.engine != self._identity.engine:
                    raise BadFile("was written by another version of the engine")
                status = path.stat()
            except (BadFile, OSError, MemoryError) as error:
                self._say(f"saved KV state {path.name} {error}: it is not used")
                self._unlink(path)
                continue
            yield SavedState(
                path,
                head.conversation,
                head.token_ids,
                head.first_position,
                status.st_size,
                status.st_mtime,
                head.identity == self._identity,
                head.adapters,
            )

    def drop(self, states: Iterable[SavedState]) -> None:
        """Forget files, and remove them where that is allowed."""
        states = self._forget(states)
        self._writes.put(lambda: self._remove(states))

    def drop_all(self, *, only_usable: bool = False) -> bool:
        """All files, or those alone that the loaded weights could go on from."""
        with self._lock:
            states = [s for s in self._states if s.is_usable or not only_usable]
            is_out = self._outgoing is not None
            if is_out:
                self._dropped.add("")
        self.drop(states)
        return bool(states) or is_out

    def drop_chat(self, conversation: str) -> bool:
        """All files of a chat, and one that is just being written. False: there are none."""
        with self._lock:
            states = [s for s in self._states if s.conversation == conversation]
            out = self._outgoing
            is_out = out is not None and out.conversation == conversation
            if is_out:
                self._dropped.add(conversation)
        self.drop(states)
        return bool(states) or is_out

    def drop_longer(self, conversation: str, ids: Ids, keep: int) -> None:
        with self._lock:
            states = [
                state
                for state in self._states
                if state.conversation == conversation and common_length(state.ids, ids) > keep
            ]
        self.drop(states)

    def conversation_of(self, number: int) -> str:
        """Empty: there is no such file."""
        with self._lock:
            return next((s.conversation for s in self._states if s.number == number), "")

    def drop_number(self, number: int) -> bool:
        with self._lock:
            states = [s for s in self._states if s.number == number]
        self.drop(states)
        return bool(states)

    def _forget(self, states: Iterable[SavedState]) -> list[SavedState]:
        gone = list(states)
        with self._lock:
            self._states = [state for state in self._states if state not in gone]
        return gone

    def _remove(self, states: Iterable[SavedState]) -> None:
        for state in states:
            self._unlink(state.path)

    def _unlink(self, path: Path) -> None:
        folder = self._folder
        if folder is not None and folder.may_write:
            with contextlib.suppress(OSError):
                path.unlink()

    def _keep_to_cap(self) -> None:
        """Remove the longest unused until the rest is below the cap."""
        folder = self._folder
        if folder is None or not folder.may_write:
            return
        gone = []
        with self._lock:
            total = sum(state.size_bytes for state in self._states)
            for state in sorted(self._states, key=lambda state: state.used_at):
                if total <= folder.cap_bytes:
                    break
                total -= state.size_bytes
                gone.append(state)
        self._forget(gone)
        self._remove(gone)

    # --- to the disk --------------------------------------------------------------------------

    @property
    def is_writing(self) -> bool:
        return self._outgoing is not None

    def disturb(self, is_busy: bool) -> None:
        """While somebody is answered nothing is written."""
        if is_busy and self._end_at is None:
            self._quiet.clear()
        else:
            self._quiet.set()

    def write(self, outgoing: Outgoing) -> None:
        """Write a copy; one at a time."""
        assert self._outgoing is None
        self._outgoing = outgoing
        self.leave_out(outgoing.ids, outgoing.adapters)  # whatever comes of it
        if self._end_at is not None:
            self._write(outgoing)
            return
        self._writes.put(lambda: self._write(outgoing))

    def leave_out(self, ids: Ids, adapters: str = "") -> None:
        """Do not write these tokens (again) as they stand."""
        self._tried.add(_hash(ids, adapters))

    def _write(self, outgoing: Outgoing) -> None:
        try:
            self._write_file(outgoing)
        except Interrupted:  # dropped meanwhile; or it is written anew, if there is time for it
            if not self._is_dropped(outgoing):
                self._tried.discard(_hash(outgoing.ids, outgoing.adapters))
        except (OSError, MemoryError) as error:
            self._say(f"saved KV state cannot be written: {error}")
        finally:
            with self._lock:
                self._outgoing = None
                self._dropped.clear()
                self._written.notify_all()

    def _write_file(self, outgoing: Outgoing) -> None:
        folder, identity = self._folder, self._identity
        if folder is None or identity is None or not folder.may_write:
            return
        place = Path(os.fsdecode(folder.folder))
        size_bytes = len(outgoing.data) + outgoing.ids.nbytes
        if size_bytes > folder.cap_bytes:
            return
        place.mkdir(mode=0o700, exist_ok=True)
        if shutil.disk_usage(place).free - size_bytes < LEAVE_FREE_BYTES:
            raise OSError("too little of the disk is free")
        path = saved_file.write(
            place,
            folder.key,
            identity,
            outgoing.conversation,
            outgoing.ids,
            outgoing.first_position,
            outgoing.data,
            lambda: self._pause(outgoing),
            outgoing.adapters,
            1 if self._end_at is None else READERS,
        )
        state = SavedState(
            path,
            outgoing.conversation,
            outgoing.ids,
            outgoing.first_position,
            path.stat().st_size,
            self._clock(),
            True,
            outgoing.adapters,
        )
        with self._lock:
            is_dropped = self._is_dropped(outgoing)
            gone = [state] if is_dropped else [s for s in self._states if self._replaces(state, s)]
            self._states.append(state)
            gone += self._too_many(state.conversation, gone)
        self._forget(gone)
        self._remove(gone)
        self._keep_to_cap()

    def _pause(self, outgoing: Outgoing) -> None:
        self._quiet.wait()
        end_at = self._end_at
        is_late = end_at is not None and (
            threading.current_thread() in self._threads or time.monotonic() >= end_at
        )
        if is_late or self._is_dropped(outgoing):
            raise Interrupted

    def _is_dropped(self, outgoing: Outgoing) -> bool:
        return bool({"", outgoing.conversation} & self._dropped)

    def _replaces(self, new: SavedState, old: SavedState) -> bool:
        """Whether `new` serves every prompt that `old` could. Only of one chat: what is deleted
        with a chat is all of it, and nothing of another."""
        if not old.is_usable or old.conversation != new.conversation:
            return False
        if old.adapters != new.adapters:
            return False
        common = common_length(new.ids, old.ids)
        return common == len(old.ids) and self._serves(new, common)

    def _too_many(self, conversation: str, gone: list[SavedState]) -> list[SavedState]:
        """What a chat has beyond its share, the longest unused."""
        own = [s for s in self._states if s.conversation == conversation and s not in gone]
        return sorted(own, key=lambda state: state.used_at)[:-MOST_OF_CHAT]

    def wait_written(self, timeout_s: float) -> bool:
        """Whether nothing is being written, within this time."""
        with self._written:
            return self._written.wait_for(lambda: self._outgoing is None, timeout_s)

    # --- the end ------------------------------------------------------------------------------

    def hurry(self, end_at: float) -> None:
        """What is not written by then (time.monotonic) is left. From now on `write` waits for its
        end: a thread of low priority may not come to it beside other programs."""
        self._end_at = end_at
        self._quiet.set()

    def close(self) -> None:
        """End the threads; whoever is in the middle of a file leaves it."""
        self._end_at = self._end_at or 0.0
        self._quiet.set()
        for jobs in (self._reads, self._writes):
            jobs.put(None)
        for thread in self._threads:
            thread.join(0.5)


def _hash(ids: Ids, adapters: str) -> int:
    return hash((np.asarray(ids, np.int32).tobytes(), adapters))
