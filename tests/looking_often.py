"""pytest-qt's bot, looking more often at first: most of what tests wait for is there at once."""

from __future__ import annotations

from collections.abc import Callable

from pytestqt.qtbot import QtBot


class _Pauses:
    """What `waitUntil` knows of a bot: pauses of one millisecond, two, … up to what it asks for."""

    def __init__(self, wait: Callable[[int], None]) -> None:
        self._wait = wait
        self._ms = 0

    def wait(self, most: int) -> None:
        self._ms = min(self._ms + 1, most)
        self._wait(self._ms)


class OftenLooking(QtBot):
    def waitUntil(self, condition: Callable[[], object], *, timeout: int = 5000) -> None:  # noqa: N802
        QtBot.waitUntil(_Pauses(self.wait), condition, timeout=timeout)  # type: ignore[arg-type]
