"""Stop, Hold, Choose and Resume on their way from the thread that reads to the one that plays."""

from __future__ import annotations

import threading

from app.engine.protocol import (
    Choose,
    Generate,
    Hold,
    LoadWeights,
    MeasureStep,
    Resume,
    Stop,
)


class StopSeenError(Exception):
    """The user stopped what is being played."""


class Steering:
    """What the user wants of each request. All methods may be called from both threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stopped: set[int] = set()
        self._holding: set[int] = set()
        self._choices: dict[int, int | None] = {}
        self._expected: set[int] = set()
        self._ended = False

    def expect(self, command: Generate | LoadWeights | MeasureStep) -> None:
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
        with self._changed:
            if self._changed.wait_for(lambda: self._is_over(request_id), max(seconds, 0)):
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
        with self._changed:
            self._changed.wait_for(lambda: self._is_over(request_id) or request_id in self._choices)
            if self._is_over(request_id):
                raise StopSeenError
            return self._choices.pop(request_id)

    def _is_over(self, request_id: int) -> bool:
        return self._ended or request_id in self._stopped
