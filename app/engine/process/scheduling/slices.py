"""Long work beside replies, one slice after the other: questions about the inside, beam searches.

One at a time, in the order in which they came. Each is a generator that yields None after a slice
and its result at the end. Beside a reply the slices take a share of the time.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from app.engine.process.scheduling.admission import reason_of
from app.engine.protocol.messages import Done, Event, Failed, Finished, Log, Result, Stopped
from app.refusal import Refusal

Asked = TypeVar("Asked")


class BrokenOff(Exception):  # noqa: N818 - it is what was wanted
    """The work was stopped from another thread, in the middle of a slice."""


class Slices(Generic[Asked]):
    """`begun` makes the work of a question; `may_begin` is asked once of each, before its first
    slice: False where it has been ended from another thread. `share`: of the time, beside a reply.
    """

    def __init__(
        self,
        begun: Callable[[Asked], Generator[Result | None, None, None]],
        emit: Callable[[Event], None],
        clock: Callable[[], float],
        may_begin: Callable[[int], bool],
        share: float,
    ) -> None:
        self._begun = begun
        self._emit = emit
        self._clock = clock
        self._may_begin = may_begin
        self._rest = 1 / share - 1
        self._waiting: OrderedDict[int, Asked] = OrderedDict()
        self._running: tuple[int, Generator[Result | None, None, None]] | None = None
        self._rests_until = 0.0

    @property
    def is_empty(self) -> bool:
        return not self._waiting and self._running is None

    def ask(self, request_id: int, command: Asked) -> None:
        """Queue it; it ends by Finished, Stopped or Failed."""
        self._waiting[request_id] = command

    def stop(self, request_id: int) -> None:
        """End it now. Nothing where it has ended already."""
        if self._waiting.pop(request_id, None) is not None:
            self._emit(Stopped(request_id, Done()))
        elif self._running is not None and self._running[0] == request_id:
            self._leave_off()
            self._emit(Stopped(request_id, Done()))

    def stop_all(self) -> None:
        for request_id in [*self._waiting, *([self._running[0]] if self._running else [])]:
            self.stop(request_id)

    def has_work(self, *, beside_replies: bool) -> bool:
        """Whether `step` would do anything now."""
        return not self.is_empty and (not beside_replies or self._clock() >= self._rests_until)

    def step(self) -> None:
        """One slice."""
        began = self._clock()
        if self._running is None:
            request_id, command = self._waiting.popitem(last=False)
            if not self._may_begin(request_id):
                return
            self._running = (request_id, self._begun(command))
        request_id, working = self._running
        try:
            result = next(working)
        except BrokenOff:
            self._running = None
            self._emit(Stopped(request_id, Done()))
        except Exception as error:  # noqa: BLE001 - it ends this work, and no reply
            self._running = None
            if not isinstance(error, Refusal):
                self._emit(Log("error", traceback.format_exc()))
            self._emit(Failed(request_id, *reason_of(error)))
        else:
            if result is not None:
                self._leave_off()
                self._emit(Finished(request_id, result))
        now = self._clock()
        self._rests_until = now + (now - began) * self._rest

    def _leave_off(self) -> None:
        """What is running frees what it has."""
        assert self._running is not None
        (_, working), self._running = self._running, None
        working.close()
