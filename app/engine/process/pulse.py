"""Says that the engine lives where it has nothing else to say.

The window ends an engine that owes it something and is silent for too long. A step can take
minutes (a large prefill batch on a slow processor), and a held reply, with those that wait for
it, waits for a person. So while requests are open, and nothing was sent for `PULSE_S`, a thread
looks whether

    the rest of the process has used the processor since the last look    it computes
    every worker waits for work, and a held reply for its choice          nothing is owed

and sends `Alive`. Of what is stuck neither is true. The decoding thread pays nothing for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

PULSE_S: Final = 1.0

COMPUTES_S: Final = 0.005
"""Processor time that a process which only waits does not use within a deadline's time."""


def others_processor_s() -> float:
    """What all threads but this one have used."""
    return time.process_time() - time.thread_time()


class Pulse:
    """`is_open`: whether requests are; `quiet_s`: since something was sent; `waits`: whether all
    wait, and for a person; `say`: send `Alive`. All are called on the pulse's thread."""

    def __init__(
        self,
        is_open: Callable[[], bool],
        quiet_s: Callable[[], float],
        waits: Callable[[], bool],
        say: Callable[[], None],
        processor_s: Callable[[], float] = others_processor_s,
    ) -> None:
        self._is_open = is_open
        self._quiet_s = quiet_s
        self._waits = waits
        self._say = say
        self._processor_s = processor_s
        self._used_s = 0.0
        self._asked = threading.Event()

    def begin(self) -> None:
        """Requests are open, or it is time to go. From any thread."""
        self._asked.set()

    def run(self, leaving: threading.Event) -> None:
        """Until `leaving` is set and `begin` called."""
        while not leaving.is_set():
            self._asked.wait()
            self._asked.clear()
            self._used_s = self._processor_s()
            while self._is_open() and not leaving.wait(PULSE_S):
                self.look()

    def look(self) -> None:
        """Say `Alive` if it is due and true."""
        used_s = self._processor_s()
        if self._quiet_s() < PULSE_S:
            self._used_s = used_s
        elif used_s - self._used_s >= COMPUTES_S or self._waits():
            self._say()
            self._used_s = used_s
