"""Whose adapters the next step has.

Adapters belong to a context, so a pass has one set of them. Replies with different sets are written
beside each other all the same: the sets take turns, a stretch of steps each, in which all replies
with that set share their passes. A turn is longer the more replies it is for, so that each gets
the same share of the time; a switch has llama.cpp make its graph anew, which a step or two pay for.
While all have the same set, and that is nearly always, nothing is done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TURN_S: Final = 0.2
"""Of each reply with the set."""


class Turns:
    """
    >>> turns = Turns()
    >>> [turns.order(["", "a", "a"], now)[0] for now in (0.0, 0.1, 0.2, 0.5, 0.7)]
    ['', '', 'a', 'a', '']
    """

    def __init__(self) -> None:
        self._has: str | None = None
        self._until = 0.0
        self._waited: dict[str, float] = {}
        """Since when each set has had no turn."""

    def order(self, keys: Sequence[str], now: float) -> list[str]:
        """The sets of all replies that have something to compute, each once: whose turn it is
        first, then those that have waited longest. `keys`: of each reply, the oldest first."""
        known = list(dict.fromkeys(keys))
        self._waited = {key: self._waited.get(key, now) for key in known}
        if self._has not in known or (now >= self._until and len(known) > 1):
            others = [key for key in known if key != self._has]
            self._has = min(others, key=self._waited.__getitem__, default=None)
            self._until = now + TURN_S * sum(key == self._has for key in keys)
        self._waited = {key: since for key, since in self._waited.items() if key != self._has}
        rest = sorted(self._waited, key=self._waited.__getitem__)
        return [self._has, *rest] if self._has is not None else rest
