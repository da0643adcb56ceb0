"""Weights that nobody uses leave memory after a while; the next message loads them again.

The engine's process ends as for an unload by hand: chats' KV state goes to disk first
(`app/engine/process/cache/keeping.py`), so that they go on where they were. What must hold: nothing
that runs or waits is ended (a reply, one held in step mode, a question of a panel, a download that
is being checked, a queued message), and time counts from the end of the last of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader

ALARM: Final = "unload when idle"
LOOK_AGAIN_S: Final = 20.0
"""While something runs: nobody tells of everything that ends."""


class IdleUnload:
    """`is_needed`: whether anything runs or waits beside the engine's own requests."""

    def __init__(self, around: Surroundings, loader: Loader, is_needed: Callable[[], bool]) -> None:
        self._around = around
        self._loader = loader
        self._is_needed = is_needed
        self._used_at = around.clock()

    @property
    def _limit_s(self) -> float:
        return 60.0 * self._around.settings.unload_after_min

    def touch(self) -> None:
        """The weights have just been used. Costs nothing."""
        self._used_at = self._around.clock()

    def look_soon(self) -> None:
        """The setting, or what is loaded, has changed: count from now."""
        self.touch()
        self._wait(self._limit_s)

    def _wait(self, delay_s: float) -> None:
        if self._limit_s > 0 and self._loader.loaded is not None and not self._around.is_closing:
            self._around.alarms.set(ALARM, delay_s, self._look)
        else:
            self._around.alarms.cancel(ALARM)

    def _look(self) -> None:
        loader = self._loader
        if loader.loaded is None or self._limit_s <= 0:
            return
        if loader.is_loading or loader.engine.is_owing or self._is_needed():
            self.touch()
            self._wait(min(LOOK_AGAIN_S, self._limit_s))
            return
        left_s = self._used_at + self._limit_s - self._around.clock()
        if left_s > 0:
            self._wait(left_s)
        else:
            loader.unload(idle_min=self._around.settings.unload_after_min)
