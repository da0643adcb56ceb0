"""Who may run beside whom when several workers (`workers.py`) share the tests.

Any number of ordinary tests run at once. A test marked `alone`, which measures time or needs
every core, runs while no other does: it waits until the running ones are through, and the next
ones wait for it. Without workers there is nobody to wait for.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


class Turns:
    """Locks on two files in a folder that all workers share; they end with their process."""

    def __init__(self, folder: Path) -> None:
        # The gate is passed one by one, so whoever wants to be alone is not overtaken for ever.
        self._gate = folder / "turns-gate"
        self._room = folder / "turns-room"

    @contextlib.contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        """Wait for a turn among the others, or for one without them."""
        with self._room.open("a") as room:
            with self._gate.open("a") as gate:
                fcntl.flock(gate, fcntl.LOCK_EX)
                fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield
