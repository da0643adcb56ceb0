"""The slots of the engine as lanes: what its answers add up to, and the figures of each.

`LaneRecord` takes answer after answer; each says what is new since the one before.
A *burst* is a stretch in which somebody was always in a slot: what there is to see at once.
No numpy: a window that only chats does not import it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.engine.protocol.lane_messages import (
    MAX_LANE_SPANS,
    MAX_VISITS,
    Lanes,
    LaneVisit,
    LaneWaiting,
)

LATELY_MS: Final = 2000.0
"""What is written now is counted over so long."""


@dataclass(frozen=True, slots=True)
class Share:
    """`rows` rows in each pass for a visit, of its prompt where `is_reading`."""

    visit: int
    rows: int
    is_reading: bool


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """`passes` passes one behind the other, each with these rows. `start_ms` to `end_ms`: from the
    first one's begin to the last one's end."""

    number: int
    start_ms: float
    end_ms: float
    passes: int
    shares: tuple[Share, ...]

    @property
    def prompt_rows(self) -> int:
        """In each pass."""
        return sum(share.rows for share in self.shares if share.is_reading)

    @property
    def token_rows(self) -> int:
        return sum(share.rows for share in self.shares if not share.is_reading)

    @property
    def ms_per_pass(self) -> float:
        return (self.end_ms - self.start_ms) / self.passes


class LaneRecord:
    """What is known of the lanes of the loaded weights. Bounded as the engine's own record is."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Other weights: their engine counts from 0 again."""
        self.n_slots = 0
        self.now_ms = 0.0
        self.spans: deque[LaneSpan] = deque(maxlen=MAX_LANE_SPANS)
        self.visits: dict[int, LaneVisit] = {}
        self.waiting: tuple[LaneWaiting, ...] = ()

    @property
    def since(self) -> int:
        """The last span may have grown, and whoever was there may have left in the middle of it."""
        return self.spans[-1].number if self.spans else 0

    def take(self, told: Lanes) -> None:
        while self.spans and self.spans[-1].number >= told.first:
            self.spans.pop()
        self.spans.extend(_spans(told))
        gone = [n for n, visit in self.visits.items() if not visit.left_ms]
        told_of = {visit.number: visit for visit in told.visits}
        for number in gone:  # it is in no slot any more, and the engine has forgotten how it ended
            if number not in told_of:
                del self.visits[number]
        self.visits.update(told_of)
        while len(self.visits) > MAX_VISITS:
            del self.visits[min(self.visits)]
        self.n_slots, self.now_ms, self.waiting = told.n_slots, told.now_ms, tuple(told.waiting)

    # --- what there is to see -------------------------------------------------------------------

    @property
    def present(self) -> list[LaneVisit]:
        """Who is in a slot."""
        return [visit for visit in self.visits.values() if not visit.left_ms]

    def bursts(self) -> list[tuple[float, float]]:
        """From when to when somebody was there, the last one last.

        >>> record = LaneRecord()
        >>> record.now_ms = 90.0
        >>> record.visits = {
        ...     n: LaneVisit(n, 0, "", "", 0.0, joined, left_ms=left)
        ...     for n, (joined, left) in enumerate([(1.0, 5.0), (4.0, 9.0), (50.0, 0.0)])
        ... }
        >>> record.bursts()
        [(1.0, 9.0), (50.0, 90.0)]
        """
        found: list[tuple[float, float]] = []
        for visit in sorted(self.visits.values(), key=lambda one: one.joined_ms):
            end = visit.left_ms or max(self.now_ms, visit.joined_ms)
            if found and visit.joined_ms <= found[-1][1]:
                found[-1] = (found[-1][0], max(found[-1][1], end))
            else:
                found.append((visit.joined_ms, end))
        return found

    def visits_in(self, start_ms: float, end_ms: float) -> list[LaneVisit]:
        """Whoever was in a slot then, by slot and in order."""
        found = [
            visit
            for visit in self.visits.values()
            if visit.joined_ms <= end_ms and (visit.left_ms or self.now_ms) >= start_ms
        ]
        return sorted(found, key=lambda visit: (visit.slot, visit.number))

    def spans_in(self, start_ms: float, end_ms: float) -> list[LaneSpan]:
        return [span for span in self.spans if span.end_ms >= start_ms and span.start_ms <= end_ms]

    def tokens_per_s(self, start_ms: float, end_ms: float) -> float | None:
        """Rows of writing per second then, of all together; None where nobody wrote.

        A span that lies partly in this time counts with its part.
        """
        rows = 0.0
        first, last = end_ms, start_ms
        for span in self.spans_in(start_ms, end_ms):
            if not span.token_rows or span.end_ms <= span.start_ms:
                continue
            begin, end = max(span.start_ms, start_ms), min(span.end_ms, end_ms)
            share = (end - begin) / (span.end_ms - span.start_ms)
            rows += span.token_rows * span.passes * share
            first, last = min(first, begin), max(last, end)
        return 1000 * rows / (last - first) if rows and last > first else None

    def lately(self) -> float | None:
        """Rows of writing per second in the last `LATELY_MS` in which there was a pass."""
        if not self.spans:
            return None
        end = self.spans[-1].end_ms
        return self.tokens_per_s(end - LATELY_MS, end)


def rate_of(visit: LaneVisit) -> float | None:
    """Its tokens/s as llama-bench counts: those after the first, over the time since it.

    >>> rate_of(LaneVisit(0, 0, "", "", 0.0, 5.0, first_ms=100.0, last_ms=600.0, written=6))
    10.0
    """
    if visit.written < 2 or visit.last_ms <= visit.first_ms:
        return None
    return 1000 * (visit.written - 1) / (visit.last_ms - visit.first_ms)


def as_csv(record: LaneRecord) -> str:
    """A line for each share of each span, with the names of the columns above."""
    lines = ["start_ms,end_ms,passes,slot,reply,rows_per_pass,kind"]
    for span in record.spans:
        for share in span.shares:
            visit = record.visits.get(share.visit)
            slot = visit.slot + 1 if visit is not None else ""
            kind = "prompt" if share.is_reading else "tokens"
            lines.append(
                f"{span.start_ms:.3f},{span.end_ms:.3f},{span.passes},{slot},{share.visit},"
                f"{share.rows},{kind}"
            )
    return "\n".join(lines) + "\n"


def _spans(told: Lanes) -> Iterator[LaneSpan]:
    shares: Sequence[tuple[int, int, int]] = list(
        zip(
            told.visits_of.numbers(),
            told.rows.numbers(),
            told.is_reading.numbers(),
            strict=True,
        )
    )
    at = 0
    columns = (told.starts, told.ends, told.passes, told.n_shares)
    for number, (start, end, passes, n) in enumerate(
        zip(*(column.numbers() for column in columns), strict=True), told.first
    ):
        own = tuple(Share(visit, rows, bool(kind)) for visit, rows, kind in shares[at : at + n])
        yield LaneSpan(number, start, end, passes, own)
        at += n
