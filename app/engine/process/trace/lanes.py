"""Records who shared which passes, for whoever watches the slots at work.

    slot 0   ▒▒▒▒▒▒▒▒████████████████████      a prompt is read, then a token with each pass
    slot 1           ▒██████████████████████   its prompt was shared: one row, then tokens
    slot 2                     ▒▒███████████

Neighbouring passes of the same rows are one span, up to `MERGED_S`, so that a second of writing is
a few spans whatever the machine's speed. What must hold: a pass costs the decoding thread the
making of one small tuple and a comparison; what is kept is bounded; nobody waits for who looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from app.engine.protocol.frames import Array
from app.engine.protocol.lane_messages import (
    MAX_LANE_SPANS,
    MAX_LANE_WAITING,
    MAX_VISITS,
    Lanes,
    LaneVisit,
    LaneWaiting,
)

MERGED_S: Final = 0.25

Share = tuple[int, int, bool]
"""Slot, rows, whether they are of a prompt."""


class Visitor(Protocol):
    """A reply as far as its lane shows it (`SlotReply`)."""

    @property
    def reused(self) -> int: ...
    @property
    def evaluated(self) -> int: ...
    @property
    def first_at(self) -> float: ...
    @property
    def last_at(self) -> float: ...
    @property
    def generated(self) -> list[int]: ...


@dataclass(slots=True)
class _Visit:
    number: int
    slot: int
    reply_id: str
    conversation: str
    arrived: float
    joined: float
    reply: Visitor | None
    told: LaneVisit | None = None


@dataclass(slots=True)
class _Span:
    number: int
    start: float
    end: float
    shares: tuple[Share, ...]
    visits: tuple[int, ...]
    passes: int = 1


class LaneRecorder:
    """Of one context. Moments are seconds of the engine's clock."""

    def __init__(self, n_slots: int, clock: Callable[[], float]) -> None:
        self._n_slots = n_slots
        self._clock = clock
        self._began = clock()
        self._in_slot: list[_Visit | None] = [None] * n_slots
        self._visits: deque[_Visit] = deque()
        self._n_visits = 0
        self._spans: deque[_Span] = deque(maxlen=MAX_LANE_SPANS)
        self._n_spans = 0

    def join(
        self, slot: int, reply: Visitor, reply_id: str, conversation: str, arrived: float
    ) -> None:
        """A reply has its slot from now on."""
        visit = _Visit(self._n_visits, slot, reply_id, conversation, arrived, self._clock(), reply)
        self._n_visits += 1
        self._in_slot[slot] = visit
        self._visits.append(visit)
        if len(self._visits) > MAX_VISITS:
            self._forget_first()

    def leave(self, slot: int, ending: str) -> None:
        """The reply in this slot has ended so."""
        visit = self._in_slot[slot]
        if visit is not None:
            self._in_slot[slot] = None
            visit.told = self._told(visit, self._clock(), ending)
            visit.reply = None

    def passed(self, shares: tuple[Share, ...], started: float, now: float) -> None:
        """A pass of these rows is over."""
        last = self._spans[-1] if self._spans else None
        if (
            last is not None
            and last.shares == shares
            and now - last.start <= MERGED_S
            and self._are_same(last)
        ):
            last.end = now
            last.passes += 1
            return
        visits = [self._in_slot[slot] for slot, _, _ in shares]
        numbers = tuple(visit.number for visit in visits if visit is not None)
        if len(numbers) == len(shares):
            self._spans.append(_Span(self._n_spans, started, now, shares, numbers))
            self._n_spans += 1

    def _are_same(self, span: _Span) -> bool:
        """Whether those in its slots are who they were."""
        for number, (slot, _, _) in zip(span.visits, span.shares, strict=True):
            visit = self._in_slot[slot]
            if visit is None or visit.number != number:
                return False
        return True

    def _forget_first(self) -> None:
        """The oldest visit that is over, and the passes that it was in."""
        first = next((visit for visit in self._visits if visit.told is not None), None)
        if first is None:
            return
        self._visits.remove(first)
        while self._spans and min(self._spans[0].visits) <= first.number:
            self._spans.popleft()
        kept = [span for span in self._spans if first.number not in span.visits]
        if len(kept) < len(self._spans):
            self._spans = deque(kept, maxlen=MAX_LANE_SPANS)

    # --- for whoever looks ----------------------------------------------------------------------

    def read(self, since: int, waiting: Iterable[LaneWaiting], n_slots: int = 0) -> Lanes:
        """All spans from number `since` on, and whoever is there now. `n_slots`: there are more
        than this one knows of."""
        spans = [span for span in self._spans if span.number >= since]
        shares = [share for span in spans for share in span.shares]
        visits_of = [number for span in spans for number in span.visits]
        wanted = {*visits_of, *(visit.number for visit in self._in_slot if visit is not None)}
        now = self._clock()
        return Lanes(
            now_ms=self._ms(now),
            n_slots=max(self._n_slots, n_slots),
            first=spans[0].number if spans else self._n_spans,
            starts=Array.of("f8", [self._ms(span.start) for span in spans]),
            ends=Array.of("f8", [self._ms(span.end) for span in spans]),
            passes=Array.of("i4", [span.passes for span in spans]),
            n_shares=Array.of("i4", [len(span.shares) for span in spans]),
            visits_of=Array.of("i4", visits_of),
            rows=Array.of("i4", [rows for _, rows, _ in shares]),
            is_reading=Array.of("u1", [int(is_reading) for _, _, is_reading in shares]),
            visits=[self._told(v, now) for v in self._visits if v.number in wanted],
            waiting=list(islice(waiting, MAX_LANE_WAITING)),
        )

    def _told(self, visit: _Visit, now: float, ending: str = "") -> LaneVisit:
        if visit.told is not None or visit.reply is None:
            assert visit.told is not None
            return visit.told
        reply = visit.reply
        return LaneVisit(
            number=visit.number,
            slot=visit.slot,
            reply_id=visit.reply_id,
            conversation=visit.conversation,
            waited_ms=round((visit.joined - visit.arrived) * 1000, 3),
            joined_ms=self._ms(visit.joined),
            first_ms=self._ms(reply.first_at) if reply.first_at else 0.0,
            last_ms=self._ms(reply.last_at) if reply.first_at else 0.0,
            left_ms=self._ms(now) if ending else 0.0,
            reused=reply.reused,
            read=reply.evaluated,
            written=len(reply.generated),
            ending=ending,
        )

    def _ms(self, moment: float) -> float:
        return round(max(moment - self._began, 0.0) * 1000, 3)
