"""How many prompt tokens the next step reads.

alone, on a processor       a whole ubatch: Stop can abort it, and the same prompt is always
                            cut the same way, so its numbers repeat to the last bit
alone, on a device          ubatch, ubatch / 2, …: the largest that stays under MAX_STEP_S
beside somebody who writes  what fits into MAX_STEP_S by the speed measured so far
"""

from __future__ import annotations

from typing import Final

MAX_STEP_S: Final = 0.150
"""Nobody who is being written to waits longer than this for the next token."""

FIRST_CHUNK: Final = 8
_HEADROOM: Final = 0.8
_MEMORY: Final = 0.7


class Pace:
    """Measures steps and sizes the next one. `can_abort`: a decode can be stopped inside.

    A machine that reads 100 rows per second fits 12 into a step of 150 ms with headroom:

    >>> pace = Pace(512, can_abort=True)
    >>> pace.measure(50, 0.5)
    >>> pace.chunk(somebody_writes=True), pace.chunk(somebody_writes=False)
    (12, 512)
    """

    def __init__(self, n_ubatch: int, *, can_abort: bool) -> None:
        self._n_ubatch = n_ubatch
        self._can_abort = can_abort
        self._rows_per_s = 0.0

    def measure(self, rows: int, elapsed_s: float) -> None:
        """A step of `rows` rows that read a prompt is over. Those of two rows count too: after a
        stall they are all that there is, and without them it would stay so. One row alone says
        how fast is written, not read."""
        if rows < 2 or elapsed_s <= 0:
            return
        speed = rows / elapsed_s
        if self._rows_per_s:
            speed = _MEMORY * self._rows_per_s + (1 - _MEMORY) * speed
        self._rows_per_s = speed

    def chunk(self, *, somebody_writes: bool) -> int:
        """Prompt tokens for the next step; at least one."""
        if not somebody_writes and self._can_abort:
            return self._n_ubatch
        if not self._rows_per_s:
            return min(FIRST_CHUNK, self._n_ubatch)
        fitting = max(int(self._rows_per_s * MAX_STEP_S * _HEADROOM), 1)
        if somebody_writes:
            return min(fitting, self._n_ubatch)
        chunk = self._n_ubatch
        while chunk > fitting and chunk > FIRST_CHUNK:
            chunk //= 2
        return chunk
