"""Scores that a replay has read, kept for the next question about the same text.

They let a value be moved live: the chain is applied again, and nothing is decoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from app.engine.process.cache.cells import common_length
from app.engine.process.trace.shortlist import Scores

KEPT_BYTES: Final = 128 * 1024**2
KEPT_S: Final = 60.0
"""Scores that nobody has asked about for so long are forgotten."""


class KeptScores:
    """Scores of positions of one text, by what stands before them: the last ones that were read."""

    def __init__(
        self, most_bytes: int = KEPT_BYTES, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._most_bytes = most_bytes
        self._clock = clock
        self._ids: list[int] = []
        self._n_prompt = 0
        self._adapters = ""
        self._rows: dict[int, Scores] = {}
        self._used_at = 0.0

    def begin(self, ids: Sequence[int], n_prompt: int, adapters: str = "") -> None:
        """A question about this text: what is behind another beginning is forgotten."""
        is_same = n_prompt == self._n_prompt and adapters == self._adapters
        same = common_length(self._ids, ids) if is_same else 0
        if same < min(len(ids), len(self._ids)) or not is_same:
            self._rows = {at: row for at, row in self._rows.items() if at <= same}
            self._ids = list(ids)
        elif len(ids) > len(self._ids):
            self._ids = list(ids)
        self._n_prompt, self._adapters = n_prompt, adapters
        self._used_at = self._clock()

    def get(self, position: int) -> Scores | None:
        """The scores behind the first so many tokens."""
        return self._rows.get(position)

    def put(self, position: int, scores: Scores) -> None:
        if (len(self._rows) + 1) * scores.nbytes <= self._most_bytes:
            self._rows[position] = scores.copy()

    @property
    def idle_s(self) -> float | None:
        """After how long to call `give_back`; None where there is nothing to give."""
        return max(self._used_at + KEPT_S - self._clock(), 0.0) if self._rows else None

    def give_back(self) -> None:
        if self.idle_s == 0.0:
            self._rows, self._ids = {}, []
