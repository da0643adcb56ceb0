"""The record of the lanes: what answers add up to, whatever they repeat."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.engine.process.trace.lanes import LaneRecorder
from app.engine.protocol.lane_messages import Lanes
from app.insight.time.lanes import LaneRecord, as_csv, rate_of


class Reply:
    reused = evaluated = 0
    first_at = last_at = 0.0

    def __init__(self) -> None:
        self.generated: list[int] = []


class Slots:
    """A recorder with a clock set by hand, and a reply in each slot that is taken."""

    def __init__(self) -> None:
        self.now = 0.0
        self.recorder = LaneRecorder(3, lambda: self.now)
        self.replies: dict[int, Reply] = {}

    def join(self, slot: int) -> None:
        self.replies[slot] = Reply()
        self.recorder.join(slot, self.replies[slot], f"m{slot}", "c", self.now)

    def passed(self, rows: int = 1, *, is_reading: bool = False, s: float = 0.05) -> None:
        start, self.now = self.now, self.now + s
        shares = tuple((slot, rows, is_reading) for slot in sorted(self.replies))
        if shares:
            self.recorder.passed(shares, start, self.now)
        for reply in self.replies.values():
            if is_reading:
                reply.evaluated += rows
            else:
                reply.generated.append(1)
                reply.first_at, reply.last_at = reply.first_at or self.now, self.now

    def leave(self, slot: int) -> None:
        if self.replies.pop(slot, None) is not None:
            self.recorder.leave(slot, "end_token")

    def read(self, since: int = 0) -> Lanes:
        return self.recorder.read(since, ())


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 2)),
        st.tuples(st.just("leave"), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.integers(1, 4)),
        st.tuples(st.just("read"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(ACTS)
def test_answer_after_answer_is_as_one_answer_at_the_end(acts: list[tuple[str, int]]) -> None:
    slots, followed, once = Slots(), LaneRecord(), LaneRecord()
    for act, number in acts:
        if act == "join" and number not in slots.replies:
            slots.join(number)
        elif act == "leave":
            slots.leave(number)
        elif act == "pass":
            slots.passed(number)
        elif act == "read":
            followed.take(slots.read(followed.since))
    followed.take(slots.read(followed.since))
    once.take(slots.read())
    assert list(followed.spans) == list(once.spans)
    assert {n: v for n, v in followed.visits.items() if n in once.visits} == once.visits
    assert followed.present == once.present


def test_figures_of_each_and_of_all() -> None:
    slots = Slots()
    slots.join(0)
    slots.passed(40, is_reading=True, s=1.0)
    slots.join(1)
    for _ in range(11):
        slots.passed(s=0.1)
    record = LaneRecord()
    record.take(slots.read())
    assert [rate_of(visit) for visit in record.visits.values()] == pytest.approx([10.0, 10.0])
    assert record.lately() == pytest.approx(20.0)
    assert record.tokens_per_s(0.0, 1000.0) is None
    assert (record.spans[0].prompt_rows, record.spans[-1].token_rows) == (40, 2)
    assert record.spans[-1].ms_per_pass == pytest.approx(100.0)
    slots.leave(0)
    slots.leave(1)
    slots.now += 5.0
    slots.join(2)
    record.take(slots.read(record.since))
    assert record.bursts() == [(0.0, pytest.approx(2100.0)), (pytest.approx(7100.0),) * 2]
    assert [visit.reply_id for visit in record.visits_in(*record.bursts()[0])] == ["m0", "m1"]
    assert as_csv(record).splitlines()[1] == "0.000,1000.000,1,1,0,40,prompt"
