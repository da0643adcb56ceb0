"""Requests that wait for a slot: first come, first served, and each knows its place. A person's
stand before all that other programs asked for, and what is done in the background after them.

Two threads come here, the one that owns the context and the one that reads commands; the
scheduler's lock guards everything. Who waits computes nothing yet, so it is ended at once, also
while others are in the middle of a long step.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from app.engine.process.cache.slot import Request, Slot, empty_summary
from app.engine.process.cache.space import CellSpace, Plan
from app.engine.protocol.messages import Event, Finished, Queued, Stopped
from app.engine.protocol.timeline_messages import SpanKind


def awaits(
    request: Request, plan: Plan | None, space: CellSpace, slots: list[Slot], *, reuse: bool
) -> SpanKind | None:
    """What keeps a request from beginning: a slot, cells, or the others' end. A repeatable reply
    waits until everybody has ended; until it has, everybody waits."""
    if plan is None:
        return "queued"
    if not space.fits(request, reuse=reuse):
        return "room"
    others = [slot.reply.request for slot in slots if slot.reply is not None]
    alone = request.generate.repeatable or any(r.generate.repeatable for r in others)
    return "alone" if others and alone else None


class WaitingRoom:
    """The queue. `send` takes events at once; call everything with `lock` held."""

    def __init__(
        self,
        lock: threading.Lock,
        send: Callable[[Event], None],
        clock: Callable[[], float],
        n_ctx: int,
    ) -> None:
        self._lock = lock
        self._send = send
        self._clock = clock
        self._n_ctx = n_ctx
        self._requests: list[Request] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._requests))

    def add(self, request: Request) -> None:
        assert self._lock.locked()
        bisect.insort(self._requests, request, key=_rank)

    def has_before(self, request: Request) -> bool:
        """Whether any that waits comes before this one."""
        return bool(self._requests) and _rank(self._requests[0]) < _rank(request)

    def take(self, request: Request) -> bool:
        """Let a request go to its slot. False: it has been ended meanwhile."""
        assert self._lock.locked()
        if request not in self._requests:
            return False
        self._requests.remove(request)
        return True

    def end(self, request_id: int, reason: Literal["stopped", "deadline"]) -> bool:
        """End a request that waits. False: it does not."""
        request = next((r for r in self._requests if r.id == request_id), None)
        if request is None or not self.take(request):
            return False
        if request.timer is not None:
            request.timer.cancel()
        deadline = f"{request.generate.deadline_s:g} s"
        now = self._clock()
        summary = msgspec.structs.replace(
            empty_summary(request.generate, self._n_ctx),
            stop_reason=reason,
            stop_detail=deadline if reason == "deadline" else "",
            prompt_tokens=len(request.prompt.ids),
            rendered_prompt=request.prompt.rendered,
            total_s=now - request.arrived,
            cut=list(request.prompt.cut),
            timeline=request.timeline.spans(now, request.timeline.awaited),
        )
        ending = Stopped if reason == "stopped" else Finished
        self._send(ending(request.id, summary))
        return True

    def hold_up(self, first: Request, awaited: SpanKind) -> None:
        """`first` waits for this, and those behind it for their turn. From the context's thread,
        without the lock: only that thread adds and takes."""
        now = self._clock()
        first.timeline.awaits(awaited, now)
        waiting = list(self._requests)
        behind = waiting[waiting.index(first) + 1 :] if first in waiting else []
        for request in behind:
            request.timeline.awaits("queued", now)

    def tell_places(self) -> None:
        """Send each its place where it has changed."""
        assert self._lock.locked()
        for position, request in enumerate(self._requests, 1):
            if request.position != position:
                request.position = position
                self._send(Queued(request.id, position))


def _rank(request: Request) -> int:
    generate = request.generate
    return 2 if generate.is_background else 1 if generate.is_guest else 0
