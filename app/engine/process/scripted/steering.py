"""Stop, Hold, Choose and Resume on their way from the thread that reads to the one that plays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from app.engine.protocol.adapter_messages import MakeVector
from app.engine.protocol.beam_messages import SearchBeams
from app.engine.protocol.cache_messages import MeasureStep
from app.engine.protocol.embedding_messages import EmbeddingCommand
from app.engine.protocol.inside_messages import LookInside
from app.engine.protocol.loading_messages import LoadWeights
from app.engine.protocol.machine_messages import MachineCommand
from app.engine.protocol.messages import Choose, Generate, Hold, Resume, Stop

PULSE_S: Final = 0.2
"""Of the real engine it is longer; deadlines of tests are short."""


class StopSeenError(Exception):
    """The user stopped what is being played."""


class Steering:
    """What the user wants of each request. All methods may be called from both threads. `pulse` is
    called now and then while the player waits: a delay stands for work, and a held reply for a
    person who thinks; of a hang nothing is heard."""

    def __init__(self, pulse: Callable[[], None]) -> None:
        self._pulse = pulse
        self._changed = threading.Condition()
        self._stopped: set[int] = set()
        self._holding: set[int] = set()
        self._choices: dict[int, int | None] = {}
        self._expected: set[int] = set()
        self._ended = False

    def expect(
        self,
        command: Generate
        | LoadWeights
        | MeasureStep
        | LookInside
        | EmbeddingCommand
        | MachineCommand
        | SearchBeams
        | MakeVector,
    ) -> None:
        """A request that may be stopped from now on, also before it is played."""
        with self._changed:
            self._expected.add(command.id)
            if isinstance(command, Generate) and command.hold:
                self._holding.add(command.id)

    def take(self, command: Stop | Hold | Choose | Resume) -> None:
        """Note what the user wants and wake the player."""
        with self._changed:
            if command.target not in self._expected:
                return
            if isinstance(command, Stop):
                self._stopped.add(command.target)
            elif isinstance(command, Hold):
                self._holding.add(command.target)
            elif isinstance(command, Choose):
                self._choices[command.target] = command.token_id
            else:
                self._holding.discard(command.target)
                self._choices[command.target] = None
            self._changed.notify_all()

    def end(self) -> None:
        """The parent is gone: whatever plays is stopped."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, request_id: int, seconds: float) -> None:
        """Sleep, or raise StopSeenError as soon as the request is to stop."""
        if self._wait_for(lambda: self._is_over(request_id), seconds):
            raise StopSeenError

    def is_holding(self, request_id: int) -> bool:
        """Whether the next token waits for a choice."""
        with self._changed:
            holding = request_id in self._holding
            if holding:
                self._choices.pop(request_id, None)
            return holding

    def choice(self, request_id: int) -> int | None:
        """Wait for Choose (its ID) or Resume (None). Raises StopSeenError at Stop."""
        self._wait_for(lambda: self._is_over(request_id) or request_id in self._choices)
        with self._changed:
            if self._is_over(request_id):
                raise StopSeenError
            return self._choices.pop(request_id)

    def _wait_for(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        """Whether it came to be so within this time (None: however long it takes)."""
        ends_at = None if seconds is None else time.monotonic() + seconds
        while True:
            left = PULSE_S if ends_at is None else max(ends_at - time.monotonic(), 0.0)
            with self._changed:
                if self._changed.wait_for(is_so, min(left, PULSE_S)):
                    return True
            if left <= PULSE_S and ends_at is not None:
                return False
            self._pulse()

    def _is_over(self, request_id: int) -> bool:
        return self._ended or request_id in self._stopped
