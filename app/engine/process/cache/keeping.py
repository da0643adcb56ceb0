"""What of the KV cache goes to disk, when, and what a prompt brings back from there.

Runs on the thread that owns the context, between steps. A copy out of a slot is one native call
that nothing can interrupt (45 MB: 12 ms), so it is made only while nobody is answered, and some
time after the last reply: the larger the state, the later, so that a long talk does not wear out
the disk. What is parked is a copy already. Only chats that are stored go to disk
(`Generate.is_stored`); one copy at a time is held for the writer.

A file comes back into host memory, from where a slot takes it like any parked copy: when the
window counts the prompt of the chat on screen (`foresee`), so that Send finds it there, and at the
latest when a request waits for it (`awaits`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from app.engine.process.cache.parking import Parked
from app.engine.process.cache.saved import Outgoing, SavedStates
from app.engine.process.cache.slot import Request, Slot
from app.engine.process.cache.space import PARK_FROM, CellSpace

PAUSE_S: Final = 2.0
"""So long a slot has been idle before it is written …"""

WRITTEN_PER_S: Final = 30e6
"""… and a second more for each of these bytes."""

SAVE_AT_END_S: Final = 1.5
"""What cannot be written by then as the engine ends is left."""

PATIENCE_S: Final = 10.0
"""Nobody waits longer for a disk that sleeps, or hangs."""

WORTH: Final = 8
"""A file is read for a beginning of it only if that is at least one part in so many."""

SAVED_LOST: Final = (
    "The saved cache of this chat could not be used, so the whole chat was processed again."
)


class Keeping:
    """Slots, host memory and disk. `used_at` of a slot is on the same clock as `clock`."""

    def __init__(
        self,
        slots: Sequence[Slot],
        space: CellSpace,
        states: SavedStates,
        clock: Callable[[], float],
        is_awaited: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_awaited`: whether any request waits for its slot."""
        self._slots = slots
        self._space = space
        self.states = states
        self._clock = clock
        self._is_awaited = is_awaited
        self._foreseen: tuple[list[int], str] | None = None
        self._wanted: dict[int, set[int]] = {}
        """File → requests that wait for it."""
        self._lost: set[int] = set()
        self._waits_since: float | None = None
        self._is_given_up = False

    # --- back from the disk -------------------------------------------------------------------

    def take_news(self) -> None:
        """What was read goes to host memory, whatever the cap is, if a request waits for it."""
        self._is_given_up = self._is_overdue or (self._is_given_up and not self.states.has_news)
        self._waits_since = None
        for state, parked in self.states.take_news():
            waiting = self._wanted.pop(state.number, set())
            if parked is None:
                self._lost |= waiting
            elif not self._space.parking.take(parked) and waiting:
                self._space.parking.guest = parked

    def awaits(self, request: Request, keep: int) -> bool:
        """Whether a longer beginning of the prompt than these `keep` tokens is on its way from the
        disk. It is asked for here."""
        if not self.states.is_on or self._is_given_up:
            return False
        is_coming = self.states.is_scanning or self._asks_for(request, keep)
        if is_coming and self._waits_since is None:
            self._waits_since = self._clock()
        return is_coming

    @property
    def _is_overdue(self) -> bool:
        since = self._waits_since
        return since is not None and self._clock() - since > PATIENCE_S

    def _asks_for(self, request: Request, keep: int) -> bool:
        ids = request.prompt.ids
        state, longest = self.states.best(ids, len(ids) - 1, request.adapters.key)
        if state is None or not _is_worth(longest, keep, len(state.ids)):
            return False
        if self.states.fetching in (None, state.number):
            self._wanted.setdefault(state.number, set()).add(request.id)
        self.states.fetch(state)
        return True

    @property
    def has_news(self) -> bool:
        """Whether a request that waits for the disk can go on."""
        return self.states.has_news or self._is_overdue

    def is_lost(self, request: Request) -> bool:
        """Whether it has waited for a file that was not what it should be."""
        is_lost = request.id in self._lost
        self._lost.discard(request.id)
        return is_lost

    def foresee(self, ids: list[int], adapters: str = "") -> None:
        """A prompt like this may come soon, to be read with these adapters."""
        self._foreseen = (ids, adapters) if self.states.is_on else None

    def _fetch_foreseen(self) -> None:
        """Where there is room for it without a request: it may never come."""
        if self._foreseen is None or self._is_reading:
            return
        ids, adapters = self._foreseen
        self._foreseen = None
        state, longest = self.states.best(ids, len(ids), adapters)
        if state is None or state.size_bytes > self._space.parking.cap_bytes:
            return
        known = max((slot.cells.common_prefix(ids, adapters) for slot in self._slots), default=0)
        known = max(known, self._space.parking.best(ids, len(ids), adapters)[1])
        if _is_worth(longest, known, len(state.ids)):
            self.states.fetch(state)

    # --- to the disk --------------------------------------------------------------------------

    @property
    def idle_s(self) -> float | None:
        """In how many seconds `tend` has something to do; None: not before something happens."""
        if self._foreseen is not None and not self._is_reading:
            return 0.0
        if self._is_awaited() and self._waits_since is not None:
            return max(self._waits_since + PATIENCE_S - self._clock(), 0.0)
        if not self._may_write:
            return None
        now = self._clock()
        due = [self._due_at(slot) - now for slot in self._unsaved_slots()]
        if self._unsaved_copies():
            due.append(0.0)
        return max(min(due), 0.0) if due else None

    def tend(self, *, is_idle: bool) -> None:
        """Do what is due; where somebody is answered, see to it that nothing disturbs that."""
        self.states.disturb(not is_idle)
        if not is_idle:
            return
        if not self._is_awaited():  # or who waits for it would not see that it has come
            self.take_news()
            self._space.parking.guest = None
        self._fetch_foreseen()
        if not self._may_write:
            return
        now = self._clock()
        if copies := self._unsaved_copies():
            self._write(copies[0])
        elif due := [slot for slot in self._unsaved_slots() if self._due_at(slot) <= now]:
            self._write_slot(due[0])

    @property
    def _is_reading(self) -> bool:
        return self.states.is_scanning or self.states.fetching is not None

    @property
    def _may_write(self) -> bool:
        states = self.states
        return states.may_write and not states.is_scanning and not states.is_writing

    def _due_at(self, slot: Slot) -> float:
        return slot.used_at + PAUSE_S + slot.cells.state_bytes() / WRITTEN_PER_S

    def _unsaved_slots(self) -> list[Slot]:
        """The last used first."""
        found = [
            slot
            for slot in self._slots
            if slot.is_idle
            and slot.is_stored
            and len(slot.cells) >= PARK_FROM
            and slot.cells.state_bytes() <= self.states.cap_bytes
            and not self.states.covers(slot.cells.ids, slot.cells.adapters)
        ]
        return sorted(found, key=lambda slot: -slot.used_at)

    def _unsaved_copies(self) -> list[Parked]:
        return [
            parked
            for parked in reversed(list(self._space.parking))
            if parked.is_stored and not self.states.covers(parked.ids, parked.adapters)
        ]

    def _write(self, parked: Parked) -> None:
        self.states.write(
            Outgoing(
                parked.ids,
                parked.data,
                parked.first_position,
                parked.conversation,
                parked.adapters,
            )
        )

    def _write_slot(self, slot: Slot) -> None:
        cells = slot.cells
        first_position = cells.first_position_of_copy
        data = None
        with contextlib.suppress(MemoryError):
            data = cells.save()
        if data is None:
            self.states.leave_out(cells.ids, cells.adapters)
            return
        ids = np.asarray(cells.ids, np.int32)
        outgoing = Outgoing(ids, data, first_position, slot.conversation, cells.adapters)
        self.states.write(outgoing)

    def save_all(
        self, end_at: float, is_wanted: Callable[[], bool] = lambda: True, step_s: float = 0.02
    ) -> bool:
        """Write whatever is not on disk, by `end_at` (time.monotonic) at the latest or until it is
        not wanted any more. Whether all of it is."""
        while is_wanted() and time.monotonic() < end_at:
            left = end_at - time.monotonic()
            if self.states.is_scanning or not self.states.wait_written(min(step_s, left)):
                continue
            if not self.states.may_write:
                return False
            if slots := self._unsaved_slots():
                self._write_slot(slots[0])
            elif copies := self._unsaved_copies():
                self._write(copies[0])
            else:
                return True
        return False

    # --- by hand ------------------------------------------------------------------------------

    def forget(self, *, conversation: str = "", number: int = 0, only_usable: bool = False) -> bool:
        """Drop files: one by its number, those of a chat, else all. What slots and host memory
        hold of them is not written again as it stands. Whether there was any."""
        states = self.states
        if number:
            conversation = states.conversation_of(number)
            found = states.drop_number(number)
        elif conversation:
            found = states.drop_chat(conversation)
        else:
            found = states.drop_all(only_usable=only_usable)
        if conversation or not number:
            self._leave_out_unsaved(conversation)
        return found

    def forget_longer(self, conversation: str, ids: Sequence[int], keep: int) -> None:
        """Drop the files of a chat that hold more of these tokens than the first `keep`."""
        self.states.drop_longer(conversation, ids, keep)
        self._leave_out_unsaved(conversation)

    def _leave_out_unsaved(self, conversation: str) -> None:
        """Of one chat: what others hold may have no file yet. Empty: of all."""
        for slot in self._unsaved_slots():
            if conversation in ("", slot.conversation):
                self.states.leave_out(slot.cells.ids, slot.cells.adapters)
        for copy in self._unsaved_copies():
            if conversation in ("", copy.conversation):
                self.states.leave_out(copy.ids, copy.adapters)

    def close(self, *, is_sound: bool = True) -> None:
        """Save what is unsaved, in bounded time, then end the threads. After a fault of ours
        (not `is_sound`) nothing is saved."""
        try:
            if self.states.may_write and is_sound:
                end_at = time.monotonic() + SAVE_AT_END_S
                self.states.hurry(end_at)
                self.save_all(end_at)
        finally:
            self.states.close()


def _is_worth(longest: int, known: int, n_in_file: int) -> bool:
    gain = longest - known
    return gain >= PARK_FROM and gain * WORTH >= n_in_file
