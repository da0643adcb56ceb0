"""How many proposed tokens a pass shall check: arithmetic alone, no clock.

A pass of more rows takes longer, on a processor nearly in proportion; a proposed token comes true
with some chance, and only if all before it did. With the chances p₁, p₂, … and t(n) the seconds of
a pass of n rows, checking k gives

    (1 + p₁ + p₁·p₂ + … + p₁⋯p_k) / t(1 + k)        tokens per second, against 1 / t(1) without

(Leviathan et al., arXiv 2211.17192, eq. 1 and 3.8, with chances and costs as they were measured
here.) Where others write in the same pass, their tokens and rows count on both sides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

_GROWTH: Final = 0.35
"""What one row more is guessed to add, in passes of one row, where nothing near was measured."""

_SAMPLES: Final = 5
_STALE: Final = (0, 40, 120, 600)
"""Passes after which times no longer count, where there are so many of them: the machine may have
been busy then, and what looks slow once is not tried again by itself."""

_MARGIN: Final = 1.03


class PassTimes:
    """Seconds of a pass by its number of rows: the median of the latest ones, of one or two the
    better.

    >>> times = PassTimes()
    >>> times.add(1, 0.010)
    >>> times.add(9, 0.030)
    >>> times.of(1), round(times.of(5), 4), round(PassTimes().of(3), 2)
    (0.01, 0.02, 1.7)
    """

    def __init__(self) -> None:
        self._times: dict[int, deque[tuple[int, float]]] = {}
        self._n_passes = 0

    def add(self, rows: int, seconds: float) -> None:
        self._n_passes += 1
        self._times.setdefault(rows, deque(maxlen=_SAMPLES)).append((self._n_passes, seconds))

    def clear(self) -> None:
        """Another number of threads takes other times."""
        self._times.clear()

    def of(self, rows: int) -> float:
        """Measured, between two that were, or guessed."""
        known = self._known(rows)
        if known is not None:
            return known
        below = max((n for n in self._times if n < rows and self._known(n)), default=0)
        above = min((n for n in self._times if n > rows and self._known(n)), default=0)
        low, high = self._known(below), self._known(above)
        if low and high:
            return low + (high - low) * (rows - below) / (above - below)
        if low:
            return low * _guess(rows) / _guess(below)
        return high * _guess(rows) / _guess(above) if high else _guess(rows)

    def _known(self, rows: int) -> float | None:
        times = self._times.get(rows, ())
        stale = _STALE[min(len(times), len(_STALE) - 1)]
        recent = sorted(seconds for at, seconds in times if self._n_passes - at < stale)
        if not recent:
            return None
        # By hand: `statistics` imports `fractions`, and few replies have drafts.
        return recent[len(recent) // 2] if len(recent) > 2 else recent[0]


def best_count(
    chances: Sequence[float],
    seconds_of: Callable[[int], float],
    *,
    writers: int = 1,
    rows: int = 1,
    longest_s: float = float("inf"),
) -> int:
    """How many of the proposed tokens are worth checking in a pass that has so many `writers` and
    `rows` already, and may take `longest_s`.

    >>> best_count([0.9] * 8, lambda rows: 0.010 + 0.003 * rows)
    6
    >>> best_count([0.2] * 8, lambda rows: 0.010 * rows)
    0
    """
    best, best_rate = 0, _MARGIN * writers / seconds_of(rows)
    expected, both = float(writers), 1.0
    for count, chance in enumerate(chances, 1):
        both *= chance
        expected += both
        seconds = seconds_of(rows + count)
        if seconds > longest_s:
            break
        if expected / seconds > best_rate:
            best, best_rate = count, expected / seconds
    return best


def _guess(rows: int) -> float:
    return 1 + _GROWTH * (rows - 1)
