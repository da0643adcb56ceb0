"""Named deadlines for a thread that waits on an inbox. Not thread-safe: one owner."""

from __future__ import annotations

from collections.abc import Callable


class Timers:
    """At most one deadline per name; arming a name again replaces it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._armed: dict[str, tuple[float, Callable[[], None]]] = {}

    def arm(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` from `run_due` once `seconds` have passed."""
        self._armed[name] = (self._clock() + seconds, action)

    def disarm(self, name: str) -> None:
        """Forget a deadline; it need not be armed."""
        self._armed.pop(name, None)

    def clear(self) -> None:
        """Forget all deadlines."""
        self._armed.clear()

    def next_at(self) -> float | None:
        """When the next deadline is, by the clock, or None."""
        return min((at for at, _ in self._armed.values()), default=None)

    def run_due(self) -> None:
        """Run what is due. An action may arm and disarm."""
        now = self._clock()
        for name, (at, action) in list(self._armed.items()):
            if at <= now and self._armed.get(name) == (at, action):
                del self._armed[name]
                action()
