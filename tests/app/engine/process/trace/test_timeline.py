"""The time line of a reply: no gaps, whatever happens; who shared a pass; against a clock of the
test's own that only goes on while llama.cpp computes, and against real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec
import pytest
from examples import examples
from hypothesis import example, given, settings, strategies as st
from native_session import GREEDY, NativeSession, ReadyPrompt

from app.engine.process.native.native import Batch, NativeLog, llama
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.scheduler import Scheduler
from app.engine.process.trace.timeline import Pass, Timeline
from app.engine.protocol.messages import Failed, Generate, Stopped, Summary, TokenArrived
from app.engine.protocol.prompt_messages import IdsPrompt
from app.engine.protocol.timeline_messages import MAX_SPANS, Span, SpanKind

Row = tuple[str, float, int]


def rows(spans: Sequence[Span]) -> list[Row]:
    return [(span.kind, span.ms, span.tokens) for span in spans]


def is_whole(spans: Sequence[Span], total_ms: float) -> bool:
    """Whether each begins where the one before it ends, the first at 0 and the last at the end."""
    at = 0.0
    for span in spans:
        if abs(span.start_ms - at) > 0.002 or span.ms < 0:
            return False
        at = span.start_ms + span.ms
    return abs(at - total_ms) <= 0.002 and abs(sum(s.ms for s in spans) - total_ms) <= 0.01


# --- by itself ----------------------------------------------------------------------------------


def test_the_life_of_a_reply() -> None:
    timeline = Timeline(5.0)
    timeline.mark("arriving", 5.001)
    timeline.mark("rendering", 5.004)
    timeline.end_waiting(5.005)
    timeline.mark("settling", 5.006, tokens=10)
    timeline.latest = Pass(1, 20)
    timeline.prefilled(5.007, 5.107, 20)
    timeline.token(5.108)
    timeline.latest = Pass(1, 1)
    for moment in (5.128, 5.148):
        timeline.token(moment)
    timeline.latest = Pass(2, 2)
    timeline.token(5.178)
    spans = timeline.spans(5.2)
    assert rows(spans) == [
        ("arriving", 1.0, 0),
        ("rendering", 3.0, 0),
        ("queued", 1.0, 0),
        ("settling", 1.0, 10),
        ("between", 1.0, 0),
        ("prefill", 100.0, 20),
        ("first", 1.0, 1),
        ("decode", 40.0, 2),
        ("decode", 30.0, 1),
        ("ending", 22.0, 0),
    ]
    assert [(s.slots, s.batch) for s in spans[5:9]] == [(1, 20), (1, 20), (1, 1), (2, 2)]
    assert is_whole(spans, 200.0)


def test_what_is_waited_for_changes_only_where_it_changes() -> None:
    timeline = Timeline(0.0)
    for moment, kind in ((1.0, "queued"), (2.0, "prefix"), (3.0, "prefix"), (4.0, "room")):
        timeline.awaits(kind, moment)  # type: ignore[arg-type]
    timeline.end_waiting(6.0)
    assert rows(timeline.spans(6.0)) == [
        ("queued", 2000.0, 0),
        ("prefix", 2000.0, 0),
        ("room", 2000.0, 0),
    ]


def test_tokens_that_are_taken_back_are_no_decode_any_more() -> None:
    timeline = Timeline(0.0)
    timeline.latest = Pass(1, 1)
    for moment in (1.0, 2.0, 3.0, 4.0, 5.0):
        timeline.token(moment)
    timeline.take_back(3.0, 2)
    timeline.token(7.0)
    assert rows(timeline.spans(7.0)) == [
        ("first", 1000.0, 1),
        ("decode", 2000.0, 2),
        ("taken_back", 2000.0, 2),
        ("decode", 2000.0, 1),
    ]


def test_what_was_held_stays_held_when_its_token_is_taken_back() -> None:
    timeline = Timeline(0.0)
    timeline.latest = Pass(1, 1)
    timeline.token(1.0)
    timeline.drawn(2.0)
    timeline.mark("held", 5.0)
    timeline.token(5.5)
    timeline.take_back(1.0, 1)
    assert rows(timeline.spans(6.0)) == [
        ("first", 1000.0, 1),
        ("taken_back", 1000.0, 0),
        ("held", 3000.0, 0),
        ("taken_back", 500.0, 1),
        ("ending", 500.0, 0),
    ]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["token", "pass", "held", "between", "failed", "again", "back"]),
        st.integers(0, 5_000),
        st.integers(1, 4),
    ),
    max_size=60,
)


@given(steps=STEPS, repeats=st.integers(1, 60))
@example(steps=[("token", 0, 1), ("token", 0, 1), ("back", 0, 1)], repeats=1)
@example(steps=[("token", 0, 1), ("token", 0, 2), ("token", 1, 1), ("back", 0, 3)], repeats=2)
@settings(max_examples=examples(60))
def test_whatever_happens_there_are_no_gaps(
    steps: list[tuple[str, int, int]], repeats: int
) -> None:
    """As many as are sent, and sums that are those of a plain list beside it."""
    now, timeline = 100.0, Timeline(100.0)
    sums: dict[str, int] = {}
    taken: list[tuple[float, float]] = []
    for what, us, n in steps * repeats:
        start, now = now, now + us / 1e6
        timeline.latest = Pass(n, n)
        if what == "token":
            timeline.token(now)
            taken.append((start, now))
        elif what == "pass":
            timeline.prefilled(start, now, n)
            sums["read"] = sums.get("read", 0) + n
        elif what == "again":
            timeline.begin_again(now)
        elif what == "back" and len(taken) > n:
            timeline.mark("between", now)
            timeline.take_back(taken[-n][0], n)
            del taken[-n:]
        else:
            kind: SpanKind = "held" if what == "held" else "failed"
            timeline.mark(kind, now)
            sums[kind] = sums.get(kind, 0) + us
    spans = timeline.spans(now)
    assert len(spans) <= MAX_SPANS
    assert is_whole(spans, round((now - 100.0) * 1000, 3))
    assert sum(s.tokens for s in spans if s.kind in ("first", "decode")) == len(taken)
    assert sum(s.tokens for s in spans if s.kind in ("prefill", "reread")) == sums.get("read", 0)
    for kind in ("held", "failed"):
        found = sum(s.ms for s in spans if s.kind == kind)
        assert found == pytest.approx(sums.get(kind, 0) / 1000, abs=0.002 * len(spans) + 0.002)


def test_so_many_stretches_that_neighbours_are_put_together_and_say_so() -> None:
    timeline = Timeline(0.0)
    for number in range(10_000):
        timeline.latest = Pass(1 + number % 3, 1 + number % 3)
        timeline.token(number + 1.0)
    spans = timeline.spans(10_000.0)
    assert len(spans) <= MAX_SPANS
    assert sum(span.tokens for span in spans) == 10_000
    assert sum(span.parts for span in spans) == 10_000
    assert max(span.slots for span in spans) == 3
    assert is_whole(spans, 10_000_000.0)


def test_a_token_costs_the_decoding_thread_next_to_nothing() -> None:
    """A tenth of the budget's 3 % at 1,000 tokens/s would be 3 µs."""
    timeline = Timeline(0.0)
    timeline.latest = Pass(1, 1)
    moments = [number * 0.01 for number in range(1, 20_001)]
    began = time.thread_time()
    for moment in moments:
        timeline.token(moment)
    assert (time.thread_time() - began) / len(moments) < 3e-6
    assert len(timeline.spans(200.0)) == 2


# --- against a clock that only llama.cpp moves --------------------------------------------------


class Clock:
    """Goes on by a millisecond for each token of a batch, and by nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.batches: list[int] = []
        self.codes: list[int] = []
        real = llama.llama_decode

        def decode(context: object, batch: Batch) -> int:
            self.now += batch.n_tokens / 1000  # type: ignore[attr-defined]
            self.batches.append(batch.n_tokens)  # type: ignore[attr-defined]
            return self.codes.pop(0) if self.codes else int(real(context, batch))

        monkeypatch.setattr(llama, "llama_decode", decode)

    def __call__(self) -> float:
        return self.now


FIVE = [100, 200, 300, 400, 500]
"""A prompt. What is computed is nothing here, so small weights compute it."""


@pytest.fixture
def session(made: Weights, native_log: NativeLog) -> NativeSession:
    return NativeSession(made, native_log)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def clocked(session: NativeSession, native_log: NativeLog, clock: Clock) -> NativeSession:
    session.scheduler = Scheduler(session.weights, session._take, native_log, clock)
    return session


def add(
    session: NativeSession, clock: Callable[[], float], ids: list[int], **fields: object
) -> int:
    request_id = next(session._ids)
    generate = Generate(request_id, IdsPrompt(ids), GREEDY, **fields)  # type: ignore[arg-type]
    session.scheduler.add(generate, ReadyPrompt(ids), clock())
    return request_id


def summary_of(session: NativeSession, request_id: int) -> Summary:
    ending = session.ending(request_id)
    found = ending.partial if isinstance(ending, Failed) else ending.result
    assert isinstance(found, Summary)
    return found


def lasting(spans: Sequence[Span]) -> list[tuple[str, float, int, int, int]]:
    """Kind, milliseconds, tokens, slots, batch of those that lasted."""
    return [(s.kind, s.ms, s.tokens, s.slots, s.batch) for s in spans if s.ms]


@pytest.mark.weights
def test_each_pass_lasts_as_long_as_its_tokens(clocked: NativeSession, clock: Clock) -> None:
    ids = FIVE * 14
    request_id = add(clocked, clock, ids, max_tokens=5)
    clocked.run()
    assert clock.batches == [64, 6, 1, 1, 1, 1]
    summary = summary_of(clocked, request_id)
    assert lasting(summary.timeline) == [
        ("prefill", 64.0, 64, 1, 64),
        ("prefill", 6.0, 6, 1, 6),
        ("decode", 4.0, 4, 1, 1),
    ]
    first = next(span for span in summary.timeline if span.kind == "first")
    assert (first.ms, first.tokens, first.slots, first.batch) == (0.0, 1, 1, 6)
    assert summary.total_s == pytest.approx(0.074)


@pytest.mark.weights
def test_replies_that_share_a_pass_say_so(clocked: NativeSession, clock: Clock) -> None:
    """The second joins while the first one writes."""
    words = [[101, 102, 103], [201, 202, 203, 204]]
    first = add(clocked, clock, words[0], max_tokens=6)
    while len(clocked.tokens(first)) < 3:
        clocked.scheduler.step()
    second = add(clocked, clock, words[1], max_tokens=4)
    clocked.run()
    n_first, n_second = len(words[0]), len(words[1])
    spans = lasting(summary_of(clocked, first).timeline)
    assert spans == [
        ("prefill", float(n_first), n_first, 1, n_first),
        ("decode", 2.0, 2, 1, 1),
        ("decode", float(1 + n_second), 1, 2, 1 + n_second),
        ("decode", 4.0, 2, 2, 2),
    ]
    spans = lasting(summary_of(clocked, second).timeline)
    assert spans == [
        ("prefill", float(1 + n_second), n_second, 2, 1 + n_second),
        ("decode", 4.0, 2, 2, 2),
        ("decode", 1.0, 1, 1, 1),
    ]


@pytest.mark.weights
def test_what_is_waited_for(clocked: NativeSession, clock: Clock) -> None:
    """A slot; the beginning that another prompt is read with; that the others have ended."""
    n_slots = clocked.weights.n_slots
    texts = [[100 + n, 200, 300] for n in range(n_slots + 1)]
    busy = [add(clocked, clock, ids, max_tokens=4) for ids in texts]
    clocked.run()
    queued = summary_of(clocked, busy[-1]).timeline[0]
    assert queued.kind == "queued"
    assert queued.ms == sum(clock.batches[: -len(clocked.tokens(busy[-1]))])
    long = [150 + n for n in range(130)]
    reader = add(clocked, clock, long, max_tokens=2)
    sharing = add(clocked, clock, [*long, 40], max_tokens=2)
    clocked.run()
    line = lasting(summary_of(clocked, sharing).timeline)
    assert line[0] == ("prefix", float(len(long)), 0, 0, 0)
    assert lasting(summary_of(clocked, reader).timeline)[0][0] == "prefill"
    writing = add(clocked, clock, texts[0], max_tokens=3)
    alone = add(clocked, clock, texts[1], max_tokens=2, repeatable=True)
    clocked.run()
    line = lasting(summary_of(clocked, alone).timeline)
    whole = round(summary_of(clocked, writing).total_s * 1000, 3)
    assert line[0] == ("alone", whole, 0, 0, 0)


@pytest.mark.weights
def test_a_failed_pass_and_what_is_read_again(clocked: NativeSession, clock: Clock) -> None:
    ids = FIVE
    request_id = add(clocked, clock, ids, max_tokens=4)
    while len(clocked.tokens(request_id)) < 2:
        clocked.scheduler.step()
    clock.codes = [-3]
    clocked.run()
    n = float(len(ids))
    assert lasting(summary_of(clocked, request_id).timeline) == [
        ("prefill", n, 5, 1, 5),
        ("decode", 1.0, 1, 1, 1),
        ("failed", 1.0, 0, 0, 0),
        ("reread", n + 2, 7, 1, 7),
        ("decode", 1.0, 1, 1, 1),
    ]


@pytest.mark.weights
def test_a_pass_that_somebody_broke_off_is_done_again(clocked: NativeSession, clock: Clock) -> None:
    ids = FIVE
    request_id = add(clocked, clock, ids, max_tokens=3)
    while len(clocked.tokens(request_id)) < 2:
        clocked.scheduler.step()
    clock.codes = [2]
    clocked.run()
    assert [kind for kind, *_ in lasting(summary_of(clocked, request_id).timeline)] == [
        "prefill",
        "decode",
        "broken_off",
        "decode",
    ]


@pytest.mark.weights
def test_step_mode(clocked: NativeSession, clock: Clock) -> None:
    """What is held is no decode; the pass is the token's although it was held after it."""
    ids = FIVE
    request_id = add(clocked, clock, ids, max_tokens=3, hold=True)
    clocked.run()
    clock.now += 0.007
    clocked.scheduler.choose(request_id, 28)
    clocked.run()
    clock.now += 0.009
    clocked.scheduler.resume(request_id)
    clocked.run()
    summary = summary_of(clocked, request_id)
    assert lasting(summary.timeline) == [
        ("prefill", 5.0, 5, 1, 5),
        ("held", 7.0, 0, 0, 0),
        ("decode", 1.0, 0, 1, 1),
        ("held", 9.0, 0, 0, 0),
        ("decode", 1.0, 2, 1, 1),  # the held one, and the one after it
    ]
    held = sum(span.ms for span in summary.timeline if span.kind == "held")
    assert summary.total_s * 1000 + held == pytest.approx(23.0)


@pytest.mark.weights
def test_stopped_while_it_is_held(clocked: NativeSession, clock: Clock) -> None:
    ids = FIVE
    request_id = add(clocked, clock, ids, max_tokens=3, hold=True)
    clocked.run()
    clock.now += 0.007
    clocked.scheduler.stop(request_id)
    clocked.run()
    assert lasting(summary_of(clocked, request_id).timeline)[-1] == ("held", 7.0, 0, 0, 0)


@pytest.mark.weights
def test_banned_strings(clocked: NativeSession, clock: Clock) -> None:
    """What was written of a banned string was for nothing; the pass that completed it led to the
    token that stands there now, as that token's trace says."""
    ids = FIVE
    free = add(clocked, clock, ids, max_tokens=6, reuse_prefix=False)
    clocked.run()
    pieces = [event.token.piece for event in clocked.tokens(free)]
    banned = b"".join(pieces[1:4]).decode()
    sampling = msgspec.structs.replace(GREEDY, banned_strings=[banned], ban_end_token=True)
    request_id = next(clocked._ids)
    generate = Generate(request_id, IdsPrompt(ids), sampling, max_tokens=6, reuse_prefix=False)
    clocked.scheduler.add(generate, ReadyPrompt(ids), clock())
    clocked.run()
    summary = summary_of(clocked, request_id)
    back = [span for span in summary.timeline if span.kind == "taken_back"]
    assert [(span.ms, span.tokens) for span in back] == [(2.0, 2)]
    written = sum(s.tokens for s in summary.timeline if s.kind in ("first", "decode"))
    assert written == len(summary.token_ids) == 6


# --- against real time --------------------------------------------------------------------------


@pytest.fixture
def timed(session: NativeSession, native_log: NativeLog) -> NativeSession:
    """By the processor's time of this thread, which computes everything: on a busy machine any
    two looks at the wall clock may be far apart."""
    weights, take = session.weights, session._take
    session.scheduler = Scheduler(weights, take, native_log, time.thread_time)
    return session


def adds_up(session: NativeSession, request_id: int) -> None:
    """The parts against the summary's clock within a millisecond, and the tokens against what
    their traces say."""
    summary = summary_of(session, request_id)
    assert is_whole(summary.timeline, summary.total_s * 1000)
    total = sum(span.ms for span in summary.timeline)
    assert total == pytest.approx(summary.total_s * 1000, abs=1.0)
    kept = [e.token for e in session.of(request_id) if isinstance(e, TokenArrived)]
    written = [span for span in summary.timeline if span.kind in ("first", "decode")]
    assert sum(span.tokens for span in written) == len(kept) == summary.generated
    traced = sum(token.ms for token in kept)
    assert traced == pytest.approx(sum(span.ms for span in written), abs=0.5 * len(kept) + 0.5)
    read = [span for span in summary.timeline if span.kind == "prefill"]
    assert sum(span.tokens for span in read) == summary.evaluated
    assert sum(span.ms for span in read) <= summary.prefill_s * 1000 + 0.01
    decode = sum(span.ms for span in written if span.kind == "decode")
    assert decode == pytest.approx(summary.decode_s * 1000, abs=1.0)


@pytest.mark.weights
def test_alone_with_all_slots_at_once_and_with_a_queue(timed: NativeSession) -> None:
    session, began = timed, time.thread_time()
    n_slots = session.weights.n_slots
    texts = [[100 + n, 200, 300, 400] for n in range(n_slots + 2)]
    alone = add(session, time.thread_time, texts[0], max_tokens=8)
    session.run()
    adds_up(session, alone)
    together = [add(session, time.thread_time, ids, max_tokens=8) for ids in texts]
    session.run()
    for request_id in together:
        adds_up(session, request_id)
    sums = [sum(s.ms for s in summary_of(session, r).timeline) for r in (alone, *together)]
    assert max(sums[1:]) + sums[0] <= (time.thread_time() - began) * 1000
    lines = [summary_of(session, r).timeline for r in together]
    assert max(span.slots for line in lines for span in line) == n_slots
    waited = [sum(s.ms for s in line if s.kind == "queued") for line in lines]
    assert min(waited[n_slots:]) > max(waited[:n_slots])


@pytest.mark.weights
def test_a_parked_chat_is_restored(timed: NativeSession) -> None:
    session, clock = timed, time.thread_time
    ids = [150 + n for n in range(55)]
    add(session, clock, ids, conversation="a", max_tokens=2)
    session.run()
    session.scheduler._space.vacate_all()
    request_id = add(session, clock, [*ids, 40], conversation="a", max_tokens=4)
    session.run()
    adds_up(session, request_id)
    summary = summary_of(session, request_id)
    restored = [span for span in summary.timeline if span.kind == "restoring"]
    assert [span.tokens for span in restored] == [summary.reused]
    assert restored[0].ms > 0


@pytest.mark.weights
def test_a_prefill_that_is_stopped(starter: Weights, native_log: NativeLog) -> None:
    session = NativeSession(starter, native_log)
    ids = starter.vocabulary.tokenize("All work and no play makes Jack a dull boy. " * 60)
    request_id = session.add(ids, max_tokens=4)
    session.scheduler.step()
    threading.Timer(0.1, session.scheduler.stop, [request_id]).start()
    session.run()
    assert isinstance(session.ending(request_id), Stopped)
    summary = summary_of(session, request_id)
    total = sum(span.ms for span in summary.timeline)
    assert total == pytest.approx(summary.total_s * 1000, abs=1.0)
    assert is_whole(summary.timeline, summary.total_s * 1000)
    read = [span for span in summary.timeline if span.kind == "prefill"]
    assert 0 < sum(span.tokens for span in read) == summary.evaluated < len(ids)
    assert summary.timeline[-1].kind in ("ending", "broken_off")


@pytest.mark.weights
def test_one_that_is_stopped_in_the_queue_has_waited(session: NativeSession) -> None:
    ids = [101, 102, 103]
    for _ in range(session.weights.n_slots):
        session.add(ids, max_tokens=3)
    request_id = session.add(ids, max_tokens=3)
    session.scheduler.step()
    session.scheduler.stop(request_id)
    session.run()
    summary = summary_of(session, request_id)
    assert [span.kind for span in summary.timeline] == ["queued"]
    assert is_whole(summary.timeline, summary.total_s * 1000)
