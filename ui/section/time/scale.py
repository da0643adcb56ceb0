"""Which part of a stretch of time is in view, and where a moment lies then. Pure; no Qt.

What must hold: what is in view lies within the whole, and a zoom leaves the moment under the
pointer where it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

MOST_ZOOM_PX: Final = 400.0
"""A millisecond is never wider than this."""

_STEPS: Final = (1, 2, 5)


class TimeScale:
    """`whole_ms` long, of which `shown_ms` from `left_ms` on are in view, `width_px` wide."""

    def __init__(self) -> None:
        self.whole_ms = 0.0
        self.left_ms = 0.0
        self.shown_ms = 0.0
        self.width_px = 1.0

    @property
    def px_per_ms(self) -> float:
        return self.width_px / self.shown_ms if self.shown_ms > 0 else 0.0

    @property
    def right_ms(self) -> float:
        return self.left_ms + self.shown_ms

    @property
    def is_whole(self) -> bool:
        return self.shown_ms >= self.whole_ms

    def x_of(self, ms: float) -> float:
        return (ms - self.left_ms) * self.px_per_ms

    def ms_at(self, x: float) -> float:
        return self.left_ms + x * self.shown_ms / self.width_px

    def set_width(self, width_px: float) -> None:
        self.width_px = max(width_px, 1.0)
        self._keep_inside()

    def set_whole(self, whole_ms: float) -> None:
        """What is all in view stays so; what is not keeps its place."""
        was_whole = self.is_whole
        self.whole_ms = max(whole_ms, 0.0)
        if was_whole:
            self.fit()
        else:
            self._keep_inside()

    def fit(self) -> None:
        self.left_ms, self.shown_ms = 0.0, self.whole_ms

    def zoom(self, factor: float, x: float) -> None:
        """Closer (above 1) or farther, around the moment at `x`."""
        anchor = self.ms_at(x)
        self.shown_ms = max(self.shown_ms / factor, self._least_ms())
        self.left_ms = anchor - x * self.shown_ms / self.width_px
        self._keep_inside()

    def move(self, px: float) -> None:
        """What lies to the right (above 0) comes into view."""
        self.left_ms += px * self.shown_ms / self.width_px
        self._keep_inside()

    def move_to(self, left_ms: float) -> None:
        self.left_ms = left_ms
        self._keep_inside()

    def show(self, start_ms: float, end_ms: float) -> None:
        """Move no farther than needed to have this in view."""
        if end_ms > self.right_ms:
            self.left_ms = end_ms - self.shown_ms
        if start_ms < self.left_ms:
            self.left_ms = start_ms
        self._keep_inside()

    def ticks(self, least_px: float) -> Iterator[float]:
        """Round moments in view, at least so far apart."""
        step = step_for(least_px / self.px_per_ms) if self.px_per_ms > 0 else 0.0
        if step <= 0:
            return
        for number in range(math.ceil(self.left_ms / step), math.floor(self.right_ms / step) + 1):
            yield number * step

    def _least_ms(self) -> float:
        return min(self.width_px / MOST_ZOOM_PX, self.whole_ms)

    def _keep_inside(self) -> None:
        self.shown_ms = min(max(self.shown_ms, self._least_ms()), self.whole_ms)
        self.left_ms = min(max(self.left_ms, 0.0), self.whole_ms - self.shown_ms)


def step_for(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … (and 0.5, 0.2, …) that is not below `least`.

    >>> step_for(3), step_for(60), step_for(0.3), step_for(10)
    (5.0, 100.0, 0.5, 10.0)
    """
    if least <= 0:
        return 0.0
    power = math.floor(math.log10(least))
    for exponent in (power, power + 1):
        for step in _STEPS:
            found = step * 10.0**exponent
            if found >= least * (1 - 1e-9):
                return found
    return 10.0 ** (power + 2)
