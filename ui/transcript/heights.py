"""Heights of a long list of things: where each begins, and which one is at a given height."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class Heights:
    """Changing one costs nothing; the next question sums up again from there on.

    >>> heights = Heights([10.0, 20.0, 5.0])
    >>> heights.top(2), heights.at(12.0), heights.total
    (30.0, 1, 35.0)
    """

    def __init__(self, heights: Iterable[float] = ()) -> None:
        self._heights = list(heights)
        self._tops = [0.0]

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> float:
        return self._heights[index]

    @property
    def total(self) -> float:
        return self.top(len(self._heights))

    def top(self, index: int) -> float:
        """Where a thing begins (the end of the list for the index behind the last)."""
        tops = self._tops
        known = len(tops) - 1
        if known < index:
            tops.extend(accumulate(self._heights[known:index], initial=tops.pop()))
        return tops[index]

    def at(self, y: float) -> int:
        """The index of the thing at a height; the first or last one outside."""
        if not self._heights:
            return 0
        self.top(len(self._heights))
        return min(max(0, bisect_right(self._tops, y) - 1), len(self._heights) - 1)

    def set(self, index: int, height: float) -> None:
        if height != self._heights[index]:
            self._heights[index] = height
            del self._tops[index + 1 :]

    def append(self, height: float) -> None:
        self._heights.append(height)

    def prepend(self, heights: Iterable[float]) -> None:
        """More things before the first one."""
        self._heights[:0] = heights
        self._tops = [0.0]

    def truncate(self, length: int) -> None:
        """Forget everything from an index on."""
        del self._heights[length:]
        del self._tops[length + 1 :]
