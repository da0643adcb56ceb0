"""The cells of one sequence in llama.cpp's cache, and the same in a list.

`Cells` mirrors what llama.cpp holds: cell i has token `ids[i]` and position i, but for pictures at
M-RoPE: those take fewer positions than cells (`app/engine/prompts/media.py`). The mirror is
changed only after a native call succeeded, so after an abort or a failure the native side is cut
back to what the mirror says.

Forked sequences share cells. To know how many are in use, each sequence is a list of runs: a run
is a stretch of cells that one sequence wrote; a fork holds the beginning of another one's run.

    a reads 5 tokens         a: [run 1: 0-5]
    b forks 3 of them        b: [run 1: 0-3]
    both write 2 more        a: [run 1: 0-7]   b: [run 1: 0-3] [run 2: 3-5]   in use: 7 + 2

Not every architecture lets go of the end of what it has read. Recurrent and hybrid ones hold one
state, after the last token; a sliding window forgets the cells before it, also in a state copy.
`usable` knows how much of a prefix can be gone on from. Where that is nothing a retry is a full
pass, with a note.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np

from app.engine.process.native.native import llama
from app.engine.prompts.media import Run, runs_of, whole_length

Ids = Sequence[int] | np.ndarray[Any, np.dtype[np.int32]]
State = np.ndarray[Any, np.dtype[np.uint8]]

WINDOW_MOVED: Final = (
    "This model's sliding window had moved on, so the whole chat was processed again."
)
CANNOT_CUT: Final = (
    "This model can't drop part of its state, so the whole chat was processed again."
)

_run_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Traits:
    """What an architecture's cache can do. `n_swa`: size of the sliding window, 0 for none."""

    is_recurrent: bool = False
    n_swa: int = 0

    def usable(self, length: int, first_position: int, keep: int) -> str | None:
        """Why `keep` of `length` cells cannot be gone on from; None if they can.

        The token at position p sees the cells after p - n_swa. With a window of 512 and cells
        from 256 on, 767 cells can be kept (the next token sees 256 and later), 766 cannot.

        >>> Traits(n_swa=512).usable(768, 256, 767), Traits().usable(10, 0, 3)
        (None, None)
        """
        if self.is_recurrent:
            return CANNOT_CUT if keep < length else None
        needed = max(keep - self.n_swa + 1, 0) if self.n_swa else 0
        return WINDOW_MOVED if first_position > needed else None


@dataclass(slots=True)
class _Run:
    number: int
    start: int
    end: int


class Cells:
    """One sequence of a context."""

    def __init__(self, context: Any, sequence: int, traits: Traits | None = None) -> None:
        self._context = context
        self._memory = llama.llama_get_memory(context)
        self.sequence = sequence
        self.traits = traits or Traits()
        self.adapters = ""
        """Key of the set that the cells are computed with."""
        self.ids: list[int] = []
        self._pictures: list[Run] = []
        self._runs: list[_Run] = []
        self._growing = 0
        self._n_exact: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """(number, start, end) of each run; a sequence that shares one has the same number."""
        return [(run.number, run.start, run.end) for run in self._runs]

    def extend(self, token_ids: Sequence[int]) -> None:
        """A decode has filled these cells."""
        start = len(self.ids)
        self.ids.extend(token_ids)
        if min(token_ids, default=0) < -1:
            self._pictures = runs_of(self.ids)
        if self._runs and self._runs[-1].number == self._growing:
            self._runs[-1].end = len(self.ids)
        else:
            self._growing = next(_run_numbers)
            self._runs.append(_Run(self._growing, start, len(self.ids)))

    def common_prefix(self, ids: Ids, adapters: str = "") -> int:
        """How many leading tokens of `ids` are already here, computed with these adapters, as a
        pass over them would give them.

        >>> common_length([1, 2, 3, 9], [1, 2, 4])
        2
        """
        common = common_length(self.ids, ids) if adapters == self.adapters else 0
        return common if self._n_exact is None else min(common, self._n_exact)

    def usable(self, keep: int) -> str | None:
        """Why the first `keep` cells cannot be gone on from; None if they can."""
        return self.traits.usable(len(self.ids), max(self.first_position(), 0), keep)

    def cut(self, length: int) -> bool:
        """Keep the first `length` cells, or fewer where that would cut a picture. False: this
        architecture cannot, and all are gone."""
        length = whole_length(self.ids, length)
        if length >= len(self.ids):
            self.repair()
            return True
        at = self.position(length)
        if length > 0 and llama.llama_memory_seq_rm(self._memory, self.sequence, at, -1):
            self._forget(length)
            return True
        self.clear()
        return length == 0

    def position(self, length: int) -> int:
        """The position of what comes behind the first `length` cells."""
        if not self._pictures:
            return length
        return length - sum(run.n_saved for run in self._pictures if run.end <= length)

    @property
    def _last_position(self) -> int:
        """Of the last cell; all cells of a picture at M-RoPE stand at its first position."""
        last = self._pictures[-1] if self._pictures else None
        if last is not None and last.end == len(self.ids) and last.has_axes:
            return self.position(last.start)
        return self.position(len(self.ids)) - 1

    def cut_to_exact(self) -> None:
        """Keep only what a pass over these tokens alone would give."""
        if self._n_exact is not None:
            self.cut(self._n_exact)

    def shares_from(self, start: int, others: Iterable[Cells]) -> bool:
        """Whether another sequence holds cells of this one from position `start` on."""
        ends = {run.number: run.end for run in self._runs if run.end > start}
        return any(
            run.number in ends and run.end > start
            for other in others
            if other is not self
            for run in other._runs
        )

    def leave_out(self, start: int, end: int) -> bool:
        """Take out positions [start, end) and move what follows up; its keys are turned to their
        new positions by the next decode. Needs a cache that can be shifted, and cells from `start`
        on that are nobody else's: llama.cpp moves a cell for whoever holds it. False: it refused,
        and nothing has changed.

        What follows was computed while it could still see what is gone, so no other prompt may go
        on from there (`common_prefix`).
        """
        if not llama.llama_memory_seq_rm(self._memory, self.sequence, start, end):
            return False
        llama.llama_memory_seq_add(self._memory, self.sequence, end, -1, start - end)
        del self.ids[start:end]
        self._pictures = runs_of(self.ids) if self._pictures else []
        self._runs = [
            _Run(run.number, run.start, min(run.end, start))
            for run in self._runs
            if run.start < start
        ]
        self._growing = next(_run_numbers)
        if start < len(self.ids):
            self._runs.append(_Run(self._growing, start, len(self.ids)))
        self._n_exact = start if self._n_exact is None else min(self._n_exact, start)
        return True

    def clear(self) -> None:
        llama.llama_memory_seq_rm(self._memory, self.sequence, -1, -1)
        self._forget(0)

    def _forget(self, length: int) -> None:
        del self.ids[length:]
        self._pictures = [run for run in self._pictures if run.end <= length]
        while self._runs and self._runs[-1].start >= length:
            self._runs.pop()
        if self._runs:
            self._runs[-1].end = min(self._runs[-1].end, length)
        self._growing = 0  # another sequence may still hold what was cut off
        if self._n_exact is not None and length <= self._n_exact:
            self._n_exact = None

    def repair(self) -> None:
        """After a decode that did not succeed: drop what the mirror does not know."""
        last, end = llama.llama_memory_seq_pos_max(self._memory, self.sequence), len(self.ids)
        if last < self.position(end):
            if last == self._last_position:
                return
            self.clear()
        elif not llama.llama_memory_seq_rm(self._memory, self.sequence, self.position(end), -1):
            self.clear()

    def first_position(self) -> int:
        """The oldest position still held; above 0 where a sliding window has moved on."""
        return int(llama.llama_memory_seq_pos_min(self._memory, self.sequence))

    # --- copies -----------------------------------------------------------------------------

    def fork_from(self, other: Cells, length: int) -> None:
        """Share the first `length` cells of another sequence. Nothing is computed."""
        self.clear()
        end = -1 if length == len(other.ids) else other.position(length)
        llama.llama_memory_seq_cp(self._memory, other.sequence, self.sequence, 0, end)
        self.ids, self.adapters = other.ids[:length], other.adapters
        self._pictures = [run for run in other._pictures if run.end <= length]
        self._runs = [
            _Run(run.number, run.start, min(run.end, length))
            for run in other._runs
            if run.start < length
        ]
        self._growing = 0

    def state_bytes(self) -> int:
        return int(llama.llama_state_seq_get_size(self._context, self.sequence))

    def save(self) -> State | None:
        """A copy of the sequence in host memory; None if llama.cpp does not give one."""
        return _saved(self._context, self.sequence)

    def save_first(self, length: int, spare: int) -> State | None:
        """A copy of the first `length` cells, made through a sequence that holds nothing. Of layers
        with a window a copy has only what the token behind its end sees, so one that shall be gone
        on from earlier has to end there."""
        end = self.position(length)
        llama.llama_memory_seq_cp(self._memory, self.sequence, spare, 0, end)
        try:
            return _saved(self._context, spare)
        finally:
            llama.llama_memory_seq_rm(self._memory, spare, -1, -1)

    def restore(self, data: State, ids: Sequence[int]) -> bool:
        """Replace the sequence by a copy. False: it does not fit, and the sequence is empty."""
        self.clear()
        pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        read = llama.llama_state_seq_set_data(self._context, pointer, len(data), self.sequence)
        self.extend(ids)
        last = llama.llama_memory_seq_pos_max(self._memory, self.sequence)
        if read != len(data) or last != self._last_position:
            self.clear()
            return False
        return True

    @property
    def first_position_of_copy(self) -> int:
        """The oldest position that a copy of the sequence would hold."""
        n_swa = self.traits.n_swa
        return max(self.first_position(), len(self.ids) - n_swa if n_swa else 0, 0)


def _saved(context: Any, sequence: int) -> State | None:
    size = llama.llama_state_seq_get_size(context, sequence)
    data = np.empty(size, np.uint8)
    pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
    written = llama.llama_state_seq_get_data(context, pointer, size, sequence)
    return data if 0 < written == size else None


def cells_in_use(sequences: Iterable[Cells]) -> int:
    """Cells that these sequences take together; what they share counts once."""
    ends: dict[int, tuple[int, int]] = {}
    for cells in sequences:
        for run in cells._runs:
            _, end = ends.get(run.number, (0, 0))
            ends[run.number] = (run.start, max(end, run.end))
    return sum(end - start for start, end in ends.values())


def common_length(first: Ids, second: Ids) -> int:
    """Length of the longest common beginning that cuts no picture."""
    shorter = min(len(first), len(second))
    a, b = np.asarray(first[:shorter], np.int32), np.asarray(second[:shorter], np.int32)
    different = np.flatnonzero(a != b)
    length = int(different[0]) if len(different) else shorter
    return whole_length(first, whole_length(second, length))


def usable_in_copy(cells: Cells, ids: Ids, *, has_spare: bool) -> int:
    """How many of the first `ids` can be gone on from in a copy of these cells."""
    length = cells.common_prefix(ids)
    if not length:
        return 0
    if cells.first_position_of_copy > 0 and not has_spare and not _reaches(cells, length):
        return 0
    return length if cells.usable(length) is None else 0


def _reaches(cells: Cells, length: int) -> bool:
    """Whether a copy, which holds only the window, still holds what position `length` looks at."""
    return cells.traits.usable(len(cells.ids), cells.first_position_of_copy, length) is None
