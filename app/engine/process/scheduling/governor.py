"""How many threads decode: steered by how long the steps take. Pure logic, no clock, no threads.

llama.cpp's threads spin while they wait for each other, so one that loses its core to another
program stalls all of them: two threads on two cores decode 56 tokens/s when the machine is idle and
2 to 5 when another program takes one core, where a single thread still does 21 to 25. Steered, a
token took 36 ms there, where two fixed threads took 202 and one 40.

    settled at n threads ──step much slower than the best──▶ try fewer ──faster?──▶ settle there,
          ▲                                                      │ no               try fewer still
          └──────────────────────────────────────────────────────┘
    settled below the ceiling ──every 3, 6, 12 … 60 s──▶ try more ──not slower?──▶ settle there

Only steps of the same number of rows are compared, and a step may take longer as the cache grows.
What counts is the mean of the last six: beside a busy program most are quick, some twenty times
slower. The machine may be busy from the start, where the steps' times tell nothing. Threads that
spin and have their cores take all of those cores' time; where they get less for a third of a second
and three steps, or where nobody knows, the next one tries fewer threads, once. What the window does
as a reply begins shall not be taken for another program, so this is soon asked again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

MAX_ROWS: Final = 64
"""Steps of more rows read prompts: they wait for each other less often, and vary more."""

SLOW: Final = 1.5
_GAIN: Final = 0.85
_SURE_GAIN: Final = 0.6
_LOSS: Final = 1.25
_SAMPLES: Final = 3
_RECENT: Final = 6
_UP_WAIT_S: Final = 3.0
_DOWN_WAIT_S: Final = 4.0
_LONGEST_WAIT_S: Final = 60.0
_WATCH_S: Final = 0.3
_FIRST_UP_WAIT_S: Final = 0.7
_MISSED: Final = 0.4
"""So much of one core may be missing from the processor's time that the threads got: on an idle
machine of two cores up to 0.2 was, with one core taken 0.7 to 0.85."""
_PROVEN_S: Final = 10.0
"""More threads that have not been given up for so long were right."""

_WORTH: Final = 20.0
"""A try that failed is repeated only after this many times what it took, so that tries cost at
most a twentieth of the time."""


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """From the next step on: `n_threads`. `reason` is a sentence where it is settled, empty while
    it is only tried."""

    n_threads: int
    reason: str = ""


@dataclass(slots=True)
class _Seen:
    """Steps of one number of rows at one number of threads: the best, and the last few.

    Beside a busy program most steps are as quick as ever and some take twenty times as long, so
    what counts is the mean; but one slow step alone says nothing.
    """

    best_s: float = 0.0
    best_cells: int = 0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def add(self, elapsed_s: float, cells: int, expected_s: float) -> None:
        self.recent.append(elapsed_s)
        if not self.best_s or elapsed_s <= expected_s:
            self.best_s, self.best_cells = elapsed_s, cells

    @property
    def usual_s(self) -> float:
        return sum(self.recent) / len(self.recent)

    def is_slow(self, expected_s: float) -> bool:
        limit = SLOW * expected_s
        return self.usual_s > limit and sum(step > limit for step in self.recent) > 1


@dataclass(slots=True)
class _Trial:
    """Other threads for a few steps. `reference_s`: what a step took before, on average and at
    worst. `is_first`: only to know the machine."""

    origin: int
    rows: int
    reference_s: float
    worst_s: float
    upwards: bool
    is_first: bool = False
    samples: list[float] = field(default_factory=list)


class Governor:
    """Steers between 1 thread and the ceiling. `growth`: share of a step that one more cell in
    the cache may add (bytes of cache per token / bytes of weights).

    >>> governor = Governor(2, growth=0.0)
    >>> changes = [governor.after_step(1, 0, 0.3, now=n * 0.3) for n in range(3)]
    >>> changes[-1]                      # the first try, to know the machine
    ThreadChange(n_threads=1, reason='')
    >>> governor.after_step(1, 0, 0.04, now=1.0).n_threads
    1
    """

    def __init__(self, ceiling: int, *, growth: float) -> None:
        self._growth = growth
        self.set_ceiling(ceiling)

    def set_ceiling(self, ceiling: int) -> None:
        """Begin anew with at most `ceiling` threads."""
        self._ladder = ladder(ceiling)
        self._at = 0
        self._trial: _Trial | None = None
        self._seen: dict[tuple[int, int], _Seen] = {}
        self.knows_machine = len(self._ladder) == 1
        """Whether it is settled how the machine was when the first steps were made."""
        self._watched: list[tuple[float, float]] = []
        self._up_wait_s, self._down_wait_s = _UP_WAIT_S, _DOWN_WAIT_S
        self._up_at = self._down_at = 0.0
        self._up_since = -_LONGEST_WAIT_S

    @property
    def n_threads(self) -> int:
        return self._ladder[self._at]

    @property
    def is_trying(self) -> bool:
        """Whether the next steps are to tell how another number of threads does."""
        return self._trial is not None

    @property
    def _is_lowest(self) -> bool:
        return self._at == len(self._ladder) - 1

    def after_step(
        self,
        rows: int,
        cells: int,
        elapsed_s: float,
        now: float,
        processor_s: float | None = None,
    ) -> ThreadChange | None:
        """A step of `rows` writers is over, whose sequences hold `cells` together. What changes, if
        anything. `processor_s`: what the process had of the processor meanwhile, all threads
        together; asked for until `knows_machine`."""
        if rows > MAX_ROWS or elapsed_s <= 0 or len(self._ladder) == 1:
            return None
        seen = self._seen.setdefault((rows, self.n_threads), _Seen())
        expected_s = self._expected(seen, cells)
        seen.add(elapsed_s, cells, expected_s)
        if self._trial is not None:
            return self._judge(self._trial, rows, elapsed_s, now)
        if not self.knows_machine and processor_s is not None:
            self._watched.append((elapsed_s, processor_s))
        if len(seen.recent) < _SAMPLES:
            return None
        if not self.knows_machine:
            if self._is_watching:
                return None
            self.knows_machine = True
            if self._missed() > _MISSED:
                return self._try(rows, seen, now, upwards=False, is_first=True)
        if seen.is_slow(expected_s) and now >= self._down_at:
            return self._try(rows, seen, now, upwards=False)
        if self._at > 0 and now >= self._up_at:
            return self._try(rows, seen, now, upwards=True)
        return None

    @property
    def _is_watching(self) -> bool:
        """Whether a few steps more are to be seen before it is judged how the machine is."""
        return bool(self._watched) and sum(step for step, _ in self._watched) < _WATCH_S

    def _missed(self) -> float:
        """How many cores' time the threads did not get lately; all of it where nobody knows."""
        lately = self._watched[len(self._watched) // 2 :]
        if not lately:
            return float(self.n_threads)
        return self.n_threads - sum(had for _, had in lately) / sum(step for step, _ in lately)

    def _expected(self, seen: _Seen, cells: int) -> float:
        return seen.best_s * (1 + self._growth * max(cells - seen.best_cells, 0))

    # --- trying -----------------------------------------------------------------------------

    def _try(
        self, rows: int, seen: _Seen, now: float, *, upwards: bool, is_first: bool = False
    ) -> ThreadChange | None:
        if not upwards and self._is_lowest:
            self._down_at = now + self._down_wait_s
            return None
        self._trial = _Trial(self._at, rows, seen.usual_s, max(seen.recent), upwards, is_first)
        self._at += -1 if upwards else 1
        self._forget_recent(rows)
        return ThreadChange(self.n_threads)

    def _forget_recent(self, rows: int) -> None:
        if (seen := self._seen.get((rows, self.n_threads))) is not None:
            seen.recent.clear()

    def _judge(self, trial: _Trial, rows: int, elapsed_s: float, now: float) -> ThreadChange | None:
        if rows != trial.rows:
            return self._back(trial, now)
        trial.samples.append(elapsed_s)
        ratio = sum(trial.samples) / len(trial.samples) / trial.reference_s
        last = len(trial.samples) == (_RECENT if trial.upwards else _SAMPLES)
        if trial.upwards:
            if elapsed_s > _LOSS * trial.reference_s or (last and ratio > 1):
                return self._back(trial, now)
            return self._settle(trial, now) if last else None
        if ratio > _GAIN:
            lost = elapsed_s > _LOSS * trial.worst_s
            return self._back(trial, now) if lost or self._is_lowest else self._deeper(trial)
        return self._settle(trial, now) if last or ratio < _SURE_GAIN else None

    def _deeper(self, trial: _Trial) -> ThreadChange:
        """Not better and not worse: perhaps more cores are taken than that."""
        self._at += 1
        trial.samples.clear()
        self._forget_recent(trial.rows)
        return ThreadChange(self.n_threads)

    def _back(self, trial: _Trial, now: float) -> ThreadChange:
        """It was no better. Ask again later, the later the more often it failed."""
        self._trial = None
        self._at = trial.origin
        cost_s = _WORTH * sum(trial.samples)
        if trial.upwards:
            self._up_at = now + max(self._up_wait_s, cost_s)
            self._up_wait_s = min(2 * self._up_wait_s, _LONGEST_WAIT_S)
        elif not trial.is_first:
            self._down_at = now + max(self._down_wait_s, cost_s)
            self._down_wait_s = min(2 * self._down_wait_s, _LONGEST_WAIT_S)
            # Fewer threads are no faster, so this is what a step takes now.
            if (seen := self._seen.get((trial.rows, self.n_threads))) is not None:
                seen.best_s = max(seen.best_s, min(seen.recent))
        return ThreadChange(self.n_threads)

    def _settle(self, trial: _Trial, now: float) -> ThreadChange:
        self._trial = None
        if trial.upwards:
            self._up_at = self._up_since = now
            return ThreadChange(self.n_threads, "The CPU has capacity again.")
        self._down_wait_s = _DOWN_WAIT_S
        was_right = now - self._up_since > _PROVEN_S
        self._up_wait_s = _UP_WAIT_S if was_right else min(2 * self._up_wait_s, _LONGEST_WAIT_S)
        if trial.is_first:
            self._up_wait_s = _FIRST_UP_WAIT_S
        self._up_at = now + max(self._up_wait_s, _WORTH * trial.reference_s)
        self._down_at = now
        self.knows_machine = False  # perhaps still fewer are better still
        self._watched.clear()
        return ThreadChange(self.n_threads, "Another program is using the CPU.")


def ladder(ceiling: int) -> list[int]:
    """Numbers of threads to go down by: one less, then quarters, then one.

    >>> ladder(2), ladder(4), ladder(16)
    ([2, 1], [4, 3, 2, 1], [16, 15, 12, 8, 4, 2, 1])
    """
    ceiling = max(ceiling, 1)
    rungs = {ceiling, ceiling - 1, ceiling * 3 // 4, ceiling // 2, ceiling // 4, ceiling // 8, 1}
    return sorted((rung for rung in rungs if rung >= 1), reverse=True)
