"""What the engine takes of memory now, and what is free on each device: measured when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from app.amounts import bytes_words
from app.chat.events import Noticed
from app.chat.inspection.questions import Newest, Questions
from app.chat.surroundings import Surroundings
from app.chat.weights.loading import Loader
from app.engine.protocol.loading_messages import Device, DevicesRead, ReadDevices


@dataclass(frozen=True, slots=True)
class MemoryNow:
    """`engine_bytes`: resident memory of the engine's process, as the system counts it (what is
    mapped from the file counts as far as it was read); None where it cannot be told. `devices`: as
    llama.cpp's backends say it now."""

    engine_bytes: int | None
    devices: Sequence[Device]

    def lines(self) -> list[str]:
        """
        >>> MemoryNow(412_000_000, [Device("CPU", "", "cpu", 8 * 10**9, 16 * 10**9)]).lines()
        ['Engine now: 412 MB', 'CPU now: 8 GB free of 16 GB']
        """
        found = [
            f"{device.name} now: {bytes_words(device.free_bytes)} free of "
            f"{bytes_words(device.total_bytes)}"
            for device in self.devices
            if device.total_bytes
        ]
        if self.engine_bytes is not None:
            found.insert(0, f"Engine now: {bytes_words(self.engine_bytes)}")
        return found


class MemoryWatch:
    """Asks only when somebody looks; a newer question replaces an older one."""

    def __init__(self, around: Surroundings, loader: Loader, questions: Questions) -> None:
        self._around = around
        self._loader = loader
        self._questions = questions
        self._newest = Newest(questions)

    def read(self, then: Callable[[MemoryNow], None]) -> None:
        """`then` is called once, or never: where no engine runs, or it ends."""
        still = self._newest.begin()

        def take(found: DevicesRead) -> None:
            then(MemoryNow(self._resident(), tuple(found.devices)))

        self._newest.request_id = self._questions.ask(
            ReadDevices(0), DevicesRead, take, lambda _sentence: None, still=still
        )

    def tell(self) -> None:
        """Say it once, in words."""
        self.read(lambda now: self._around.emit(Noticed("info", " · ".join(now.lines()) + ".")))

    def _resident(self) -> int | None:
        pid = self._loader.engine.pid
        if pid is None:
            return None
        try:
            return int(psutil.Process(pid).memory_info().rss)
        except (psutil.Error, OSError):
            return None
