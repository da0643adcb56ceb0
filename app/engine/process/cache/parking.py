"""Chats that are not being worked on wait in host memory, so that they slow nobody down.

Every cell in the cache costs each step a little, whoever it belongs to. So what a slot leaves
behind is copied here (45 MB: 12 ms) and comes back by copy when its chat goes on. It is a cache:
losing it costs time only. Whoever was used longest ago goes first when the cap is reached.

Pure bookkeeping: the copying itself is `Cells.save` and `Cells.restore`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import numpy as np

from app.engine.process.cache.cells import Ids, State, Traits, common_length

DEFAULT_SHARE: Final = 8
"""Without a cap in the options: one eighth of the host memory that is free at load …"""

DEFAULT_MOST_BYTES: Final = 2 * 1024**3
"""… and at most this."""

_numbers = count(1)


def default_cap(free_bytes: int) -> int:
    """
    >>> default_cap(8 * 1024**3) == 1024**3
    True
    """
    return min(free_bytes // DEFAULT_SHARE, DEFAULT_MOST_BYTES)


@dataclass(frozen=True, slots=True, eq=False)
class Parked:
    """The copy of one sequence: `ids` are its tokens, `first_position` the oldest one held.
    `conversation`: who wrote it last. `is_stored`: it may be written to disk. `is_from_disk`: it
    was read there. `adapters`: key of the set that it was computed with, without which it is of no
    use. `number`: what a person calls it by."""

    ids: np.ndarray[Any, np.dtype[np.int32]]
    data: State
    first_position: int
    conversation: str = ""
    is_stored: bool = False
    is_from_disk: bool = False
    adapters: str = ""
    parked_at: float = field(default_factory=time.time)
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def size_bytes(self) -> int:
        return copy_bytes(len(self.ids), len(self.data))


def copy_bytes(n_tokens: int, state_bytes: int) -> int:
    """What the copy of a sequence takes: its state and its token IDs."""
    return state_bytes + n_tokens * np.dtype(np.int32).itemsize


class Parking:
    """Copies in the order of their last use, under a cap."""

    def __init__(self, cap_bytes: int, traits: Traits) -> None:
        self.cap_bytes = cap_bytes
        self._traits = traits
        self._parked: list[Parked] = []
        self.guest: Parked | None = None
        """A copy that is larger than the cap, until the request that waits for it has it."""

    def __len__(self) -> int:
        return len(self._parked)

    def __iter__(self) -> Iterator[Parked]:
        return iter(self._parked)

    @property
    def size_bytes(self) -> int:
        return sum(parked.size_bytes for parked in self._parked)

    @property
    def free_bytes(self) -> int:
        return self.cap_bytes - self.size_bytes

    def holds(self, ids: Ids, adapters: str = "") -> bool:
        """Whether a copy already serves whatever these cells could; it counts as used."""
        for parked in self._parked:
            common = common_length(parked.ids, ids) if parked.adapters == adapters else -1
            if common == len(ids) and self._serves(parked, common):
                self.touch(parked)
                return True
        return False

    def put(
        self,
        ids: Sequence[int],
        data: State,
        first_position: int,
        conversation: str = "",
        *,
        is_stored: bool = False,
        adapters: str = "",
    ) -> bool:
        """Keep a copy; what is longest unused makes way. False: it is larger than the cap."""
        own = np.asarray(ids, np.int32)
        return self.take(
            Parked(own, data, first_position, conversation, is_stored, adapters=adapters)
        )

    def take(self, parked: Parked) -> bool:
        """The same for a copy that was made elsewhere."""
        if parked.size_bytes > self.cap_bytes:
            return False
        self._parked = [other for other in self._parked if not self._replaces(parked, other)]
        self._parked.append(parked)
        while self.size_bytes > self.cap_bytes:
            self._parked.pop(0)
        return True

    def best(self, ids: Ids, most: int, adapters: str = "") -> tuple[Parked | None, int]:
        """The copy with the longest usable beginning of `ids` (at most `most` tokens)."""
        found, longest = None, 0
        for parked in [*self._parked, *([self.guest] if self.guest is not None else [])]:
            if parked.adapters != adapters:
                continue
            keep = min(common_length(parked.ids, ids), most)
            if keep > longest and self._serves(parked, keep):
                found, longest = parked, keep
        return found, longest

    def touch(self, parked: Parked) -> None:
        """It was used just now (it may have made way already)."""
        if parked in self._parked:
            self._parked.remove(parked)
            self._parked.append(parked)

    def drop(self, parked: Parked) -> None:
        if parked is self.guest:
            self.guest = None
        if parked in self._parked:
            self._parked.remove(parked)

    def clear(self) -> None:
        self._parked = []
        self.guest = None

    def _serves(self, parked: Parked, keep: int) -> bool:
        return self._traits.usable(len(parked.ids), parked.first_position, keep) is None

    def _replaces(self, new: Parked, old: Parked) -> bool:
        """Whether `new` serves every prompt that `old` could."""
        if new.adapters != old.adapters:
            return False
        common = common_length(new.ids, old.ids)
        return common == len(old.ids) and self._serves(new, common)
