"""Named deadlines for a thread that waits on an inbox. Not thread-safe: one owner.

Time counts only while the owner is awake. Of a pause that is longer than `NAP_S` (the machine
slept, the process was held up) `NAP_S` counts: what is owed could not come meanwhile. So the
owner wakes at least that often while anything is armed; `nap_s` says how long it may sleep.

>>> read = [100.0]
>>> timers = Timers(lambda: read[0])
>>> began = timers.now()
>>> read[0] += 0.5
>>> timers.now() - began
0.5
>>> read[0] += 3600.0
>>> timers.now() - began
1.5
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NAP_S: Final = 1.0


class Timers:
    """At most one deadline per name; arming a name again replaces it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._read_at = clock()
        self._awake_s = 0.0
        self._armed: dict[str, tuple[float, Callable[[], None]]] = {}

    def now(self) -> float:
        """Seconds that the owner has been awake."""
        read_at = self._clock()
        self._awake_s += min(max(read_at - self._read_at, 0.0), NAP_S)
        self._read_at = read_at
        return self._awake_s

    def nap_s(self, *others: float | None) -> float | None:
        """How long the owner may sleep: until the first deadline, those in `others` (by `now`)
        among them, but not too long. None: until something comes."""
        times = [at for at, _ in self._armed.values()] + [at for at in others if at is not None]
        return min(max(min(times) - self.now(), 0.0), NAP_S) if times else None

    def arm(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` from `run_due` once `seconds` have passed."""
        self._armed[name] = (self.now() + seconds, action)

    def disarm(self, name: str) -> None:
        """Forget a deadline; it need not be armed."""
        self._armed.pop(name, None)

    def clear(self) -> None:
        """Forget all deadlines."""
        self._armed.clear()

    def run_due(self) -> None:
        """Run what is due. An action may arm and disarm."""
        now = self.now()
        for name, (at, action) in list(self._armed.items()):
            if at <= now and self._armed.get(name) == (at, action):
                del self._armed[name]
                action()
