"""Who shared which passes: the slots of a context as lanes over time.

A *visit* is one reply in one slot, from joining to leaving; a *span* one pass, or neighbouring
passes of the same rows. Moments are milliseconds of the engine's clock, from when the weights were
loaded. The engine keeps the last `MAX_LANE_SPANS` spans and `MAX_VISITS` visits.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.frames import (
    Amount,
    Count,
    Float64s,
    Int32s,
    Milliseconds,
    Name,
    ProtocolError,
    UInt8s,
    WireMessage,
    Word,
    check_equal,
)
from app.engine.protocol.timeline_messages import SpanKind

MAX_LANE_SPANS: Final = 2048
MAX_VISITS: Final = 256
MAX_LANE_WAITING: Final = 256
MAX_LANES: Final = 64


class ReadLanes(WireMessage, frozen=True, tag=True):
    """What the passes held since span `since`, that one included: it may have grown. Answered
    between two passes. -> Lanes"""

    id: Amount
    since: Amount = 0


class LaneVisit(WireMessage, frozen=True, tag=True):
    """A reply in slot `slot`. `joined_ms`, `first_ms` (its first token; 0: none yet), `left_ms` (0:
    it is still there). Prompt tokens `reused` and `read` until now, tokens `written`. `ending`: its
    stop reason, or failed."""

    number: Amount
    slot: Annotated[int, msgspec.Meta(ge=0, le=MAX_LANES - 1)]
    reply_id: Name
    conversation: Name
    waited_ms: Milliseconds
    joined_ms: Milliseconds
    first_ms: Milliseconds = 0.0
    last_ms: Milliseconds = 0.0
    left_ms: Milliseconds = 0.0
    reused: Count = 0
    read: Count = 0
    written: Count = 0
    ending: Word = ""


class LaneWaiting(WireMessage, frozen=True, tag=True):
    """A reply that has no slot yet, and what it waits for."""

    reply_id: Name
    conversation: Name
    awaited: SpanKind


class Lanes(WireMessage, frozen=True, tag=True):
    """`first`: the number of the first span here. Spans begin at `starts` (f8, ms), end at `ends`
    (f8), are `passes` (i4) passes, and have the next `n_shares` (i4) of the shares. A share is
    `rows` (i4) rows in each of its passes for the visit `visits_of` (i4), of its prompt where
    `is_reading` (u1). `visits`: those of the shares, and whoever is in a slot now."""

    now_ms: Milliseconds
    n_slots: Annotated[int, msgspec.Meta(ge=1, le=MAX_LANES)]
    first: Amount
    starts: Float64s
    ends: Float64s
    passes: Int32s
    n_shares: Int32s
    visits_of: Int32s
    rows: Int32s
    is_reading: UInt8s
    visits: Annotated[list[LaneVisit], msgspec.Meta(max_length=MAX_VISITS)]
    waiting: Annotated[list[LaneWaiting], msgspec.Meta(max_length=MAX_LANE_WAITING)]

    def check(self) -> None:
        """Columns are of one length, moments in order, and nobody has rows without a visit."""
        check_equal("starts and ends", self.starts.size, self.ends.size)
        check_equal("starts and passes", self.starts.size, self.passes.size)
        check_equal("starts and shares", self.starts.size, self.n_shares.size)
        check_equal("shares and rows", self.visits_of.size, self.rows.size)
        check_equal("shares and kinds", self.visits_of.size, self.is_reading.size)
        counts = self.n_shares.numbers()
        if any(n < 1 for n in counts) or sum(counts) != self.visits_of.size:
            raise ProtocolError("the shares of the passes do not add up")
        if self.starts.size > MAX_LANE_SPANS or self.visits_of.size > MAX_LANES * MAX_LANE_SPANS:
            raise ProtocolError("there are more passes than are kept")
        moments = [
            m for pair in zip(self.starts.numbers(), self.ends.numbers(), strict=True) for m in pair
        ]
        if moments != sorted(moments) or not all(0 <= m <= 1e12 for m in moments):
            raise ProtocolError("the passes do not follow each other")
        known = {visit.number for visit in self.visits}
        if not known.issuperset(self.visits_of.numbers()):
            raise ProtocolError("a pass has rows of nobody")
        if any(n < 1 for n in (*self.rows.numbers(), *self.passes.numbers())):
            raise ProtocolError("a pass has no rows")
        if any(visit.slot >= self.n_slots for visit in self.visits):
            raise ProtocolError("there are more lanes than slots")
