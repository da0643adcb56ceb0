"""The lanes of the scripted engine: it plays one reply at a time, so all of them go down the first.

The thread that plays records, the one that reads commands answers.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from app.engine.process.scripted.take import Take
from app.engine.process.trace.lanes import LaneRecorder
from app.engine.protocol.lane_messages import Lanes


@dataclass(slots=True)
class _Played:
    take: Take
    evaluated: int = 0
    first_at: float = 0.0
    last_at: float = 0.0

    @property
    def reused(self) -> int:
        return self.take.reused

    @property
    def generated(self) -> list[int]:
        return self.take.token_ids


class ScriptLanes:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorder = LaneRecorder(1, time.monotonic)
        self._played: _Played | None = None
        self._last = 0.0

    def begin(self, take: Take) -> None:
        with self._lock:
            self._last = time.monotonic()
            self._played = _Played(take)
            command = take.command
            self._recorder.join(0, self._played, command.reply_id, command.conversation, self._last)

    def read(self, n_tokens: int) -> None:
        """So many tokens of the prompt."""
        with self._lock:
            if self._played is not None and n_tokens > 0:
                self._played.evaluated += n_tokens
                self._pass(n_tokens, is_reading=True)

    def token(self) -> None:
        with self._lock:
            if self._played is not None:
                self._pass(1, is_reading=False)
                self._played.first_at = self._played.first_at or self._last
                self._played.last_at = self._last

    def _pass(self, rows: int, *, is_reading: bool) -> None:
        started, self._last = self._last, time.monotonic()
        self._recorder.passed(((0, rows, is_reading),), started, self._last)

    def end(self, ending: str) -> None:
        with self._lock:
            self._recorder.leave(0, ending)
            self._played = None

    def answer(self, since: int, n_slots: int) -> Lanes:
        with self._lock:
            return self._recorder.read(since, [], n_slots)
