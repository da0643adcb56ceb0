"""Lanes: who joined when, who left, and whose rows each pass had; held against the replies' own
summaries, and refused where they do not fit each other."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
from native_session import NativeSession

from app.engine.process.native.weights import Weights
from app.engine.process.trace.lanes import MERGED_S, LaneRecorder, Share
from app.engine.protocol import wire
from app.engine.protocol.frames import Array, ProtocolError
from app.engine.protocol.lane_messages import (
    MAX_LANE_SPANS,
    MAX_VISITS,
    Lanes,
    LaneVisit,
    LaneWaiting,
)
from app.engine.protocol.messages import Finished, Summary


@dataclass
class Reply:
    reused: int = 0
    evaluated: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    generated: list[int] = field(default_factory=list)


class Recorded:
    """A recorder with a clock that is set by hand."""

    def __init__(self, n_slots: int = 4) -> None:
        self.now = 0.0
        self.recorder = LaneRecorder(n_slots, lambda: self.now)

    def join(self, slot: int, name: str = "r", reply: Reply | None = None) -> None:
        self.recorder.join(slot, reply or Reply(), name, "c", self.now)

    def passed(self, *shares: Share, s: float = 0.1) -> None:
        started, self.now = self.now, self.now + s
        self.recorder.passed(shares, started, self.now)

    def read(self, since: int = 0, *waiting: LaneWaiting) -> Lanes:
        lanes = self.recorder.read(since, waiting)
        lanes.check()
        return lanes


def spans(lanes: Lanes) -> list[tuple[float, float, int, list[tuple[int, int, int]]]]:
    """(start, end, passes, [(visit, rows, is of a prompt)])."""
    columns = (lanes.visits_of, lanes.rows, lanes.is_reading)
    shares = list(zip(*(column.numbers() for column in columns), strict=True))
    found = []
    for start, end, passes, n in zip(
        lanes.starts.numbers(),
        lanes.ends.numbers(),
        lanes.passes.numbers(),
        lanes.n_shares.numbers(),
        strict=True,
    ):
        found.append((start, end, passes, shares[:n]))
        shares = shares[n:]
    return found


def test_passes_of_the_same_rows_are_one_span_for_a_while() -> None:
    made = Recorded()
    made.join(1)
    made.passed((1, 20, True))
    for _ in range(4):
        made.passed((1, 1, False))
    assert MERGED_S == 0.25
    assert spans(made.read()) == [
        (0.0, 100.0, 1, [(0, 20, 1)]),
        (100.0, 300.0, 2, [(0, 1, 0)]),
        (300.0, 500.0, 2, [(0, 1, 0)]),
    ]


def test_who_comes_into_the_same_slot_is_another_one() -> None:
    made = Recorded()
    made.join(0, "a")
    made.passed((0, 1, False), s=0.01)
    made.recorder.leave(0, "end_token")
    made.join(0, "b")
    made.passed((0, 1, False), s=0.01)
    lanes = made.read()
    assert [span[3] for span in spans(lanes)] == [[(0, 1, 0)], [(1, 1, 0)]]
    assert [(v.reply_id, v.left_ms, v.ending) for v in lanes.visits] == [
        ("a", 10.0, "end_token"),
        ("b", 0.0, ""),
    ]


def test_what_is_known_already_is_not_told_again() -> None:
    made = Recorded()
    made.join(2, "first")
    made.passed((2, 9, True))
    made.recorder.leave(2, "stopped")
    made.join(0, "second")
    made.passed((0, 1, False), s=0.05)
    made.passed((0, 1, False), s=0.05)
    lanes = made.read(1, LaneWaiting("third", "c", "queued"))
    assert lanes.first == 1
    assert spans(lanes) == [(100.0, 200.0, 2, [(1, 1, 0)])]
    assert [visit.reply_id for visit in lanes.visits] == ["second"]
    assert [waiting.reply_id for waiting in lanes.waiting] == ["third"]
    assert made.read(2).first == 2


def test_what_is_kept_is_bounded() -> None:
    made = Recorded(2)
    made.join(0, "stays")
    for number in range(MAX_VISITS + 40):
        made.join(1, str(number))
        made.passed((0, 1, False), (1, 5, True))
        made.recorder.leave(1, "end_token")
    lanes = made.read()
    assert len(lanes.visits) <= MAX_VISITS
    assert lanes.visits[0].reply_id == "stays"
    for _ in range(MAX_LANE_SPANS + 9):
        made.passed((0, 1, False), s=0.3)
    assert made.read().starts.size == MAX_LANE_SPANS
    assert len(wire.encode_frame(made.read())) < 200_000


def _fitting() -> Lanes:
    made = Recorded()
    made.join(0)
    made.passed((0, 3, True))
    made.passed((0, 1, False))
    return made.read()


@pytest.mark.parametrize(
    "changes",
    [
        {"n_shares": Array.of("i4", [1, 2])},
        {"n_shares": Array.of("i4", [2, 0])},
        {"rows": Array.of("i4", [3, 0])},
        {"visits_of": Array.of("i4", [0, 7])},
        {"ends": Array.of("f8", [300.0, 200.0])},
        {"ends": Array.of("f8", [100.0, float("nan")])},
        {"starts": Array.of("f8", [100.0])},
        {"n_slots": 1, "visits": [LaneVisit(0, 1, "r", "c", 0.0, 0.0)]},
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object]) -> None:
    lanes = msgspec.structs.replace(_fitting(), **changes)
    frame = wire.encode_frame(Finished(1, lanes))
    with pytest.raises(ProtocolError):
        wire.decode_event(frame[4:])
    wire.decode_event(wire.encode_frame(Finished(1, _fitting()))[4:])


# --- of a real scheduler --------------------------------------------------------------------------


def _summary(session: NativeSession, request: int) -> Summary:
    ending = session.ending(request)
    assert isinstance(ending, Finished)
    assert isinstance(ending.result, Summary)
    return ending.result


@pytest.mark.weights
def test_the_rows_of_each_lane_are_those_that_its_reply_tells(
    made_session: NativeSession, made: Weights
) -> None:
    """Prompt rows add up to what was evaluated, rows of writing to the tokens drawn by a pass; so
    many passes and slots as the replies' own time lines say."""
    session = made_session
    shared = [100 + n for n in range(60)]
    texts = [shared, shared, [*shared, 7], [200 + n for n in range(90)], [300, 301]]
    requests = [
        session.add(ids, max_tokens=9 + n, reply_id=f"m{n}", conversation=str(n))
        for n, ids in enumerate(texts)
    ]
    session.scheduler.step()
    lanes = session.scheduler.read_lanes(0)
    lanes.check()
    assert {w.reply_id: w.awaited for w in lanes.waiting} == {"m1": "prefix", "m2": "prefix"}
    session.run()
    late = session.add(texts[4], max_tokens=3, reply_id="late")
    session.run()
    lanes = session.scheduler.read_lanes(0)
    lanes.check()
    visits = {visit.reply_id: visit for visit in lanes.visits}
    by_visit: dict[int, list[int]] = {visit.number: [0, 0] for visit in lanes.visits}
    for _, _, passes, shares in spans(lanes):
        for number, rows, is_reading in shares:
            by_visit[number][is_reading] += passes * rows
    for name, request in [*((f"m{n}", r) for n, r in enumerate(requests)), ("late", late)]:
        summary, visit = _summary(session, request), visits[name]
        assert (visit.reused, visit.read) == (summary.reused, summary.evaluated)
        assert (visit.written, visit.ending) == (summary.generated, summary.stop_reason)
        assert by_visit[visit.number] == [summary.generated - 1, summary.evaluated]
        assert 0 <= visit.joined_ms <= visit.first_ms <= visit.last_ms <= visit.left_ms
    n_together = max(len(shares) for *_, shares in spans(lanes))
    assert n_together == max(s.slots for r in requests for s in _summary(session, r).timeline)
    assert len({visits[f"m{n}"].slot for n in range(5)}) == 5
    assert visits["late"].joined_ms >= max(visits[f"m{n}"].left_ms for n in range(5))
