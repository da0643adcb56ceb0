"""Sums and places of a time line against plain ones; what was stored is not trusted."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from each import each
from hypothesis import given, strategies as st

from app.engine.protocol.timeline_messages import MAX_SPANS, Span, SpanKind
from app.insight.time.bars import bars, full_ms, highest, shared
from app.insight.time.timeline import (
    KINDS,
    Stretch,
    as_stored,
    from_stored,
    is_gathered,
    lane_ms,
    of_trace,
    parts,
)

SPANS = st.lists(
    st.tuples(
        st.sampled_from(sorted(KINDS)),
        st.floats(0, 1e6).filter(lambda ms: ms == 0 or ms > 1e-6),
        st.integers(0, 10_000),
        st.integers(0, 64),
        st.integers(0, 4096),
        st.integers(1, 100),
    ),
    max_size=60,
)


def spans_of(rows: list[tuple[SpanKind, float, int, int, int, int]]) -> list[Span]:
    at, spans = 0.0, []
    for kind, ms, tokens, slots, batch, n_parts in rows:
        spans.append(Span(kind, at, ms, tokens, slots, batch, n_parts))
        at += ms
    return spans


def test_every_kind_that_the_engine_sends_has_a_name() -> None:
    of_servers = {"awaited", "arrived", "told"}
    assert set(KINDS) == set(SpanKind.__args__) | of_servers
    for kind in KINDS.values():
        assert kind.sentence.endswith(".")
    assert "bound by arithmetic" in KINDS["prefill"].sentence
    assert "bound by memory" in KINDS["decode"].sentence


@given(rows=SPANS)
def test_what_is_stored_comes_back(
    rows: list[tuple[SpanKind, float, int, int, int, int]],
) -> None:
    spans = spans_of(rows)
    found = from_stored(json.loads(json.dumps(as_stored(spans))))
    assert [(s.kind, s.ms, s.tokens, s.slots, s.batch, s.parts) for s in found] == [
        (s.kind, s.ms, s.tokens, s.slots, s.batch, s.parts) for s in spans
    ]
    assert [s.start_ms for s in found] == pytest.approx([s.start_ms for s in spans])


@each(
    "rows",
    [
        None,
        "decode",
        {"decode": 1},
        [["decode"]],
        [["decode", 1, 1, 1, 1, 1, 1]],
        [["thinking", 1.0]],
        [[["decode"], 1.0]],
        [["decode", -1.0]],
        [["decode", math.nan]],
        [["decode", math.inf]],
        [["decode", True]],
        [["decode", "1"]],
        [["decode", 1.0, 1.5]],
        [["decode", 1.0, -1]],
        [["decode", 1.0, True]],
        [["decode", 1.0, 2**60]],
        [["queued", 1.0], "decode"],
        [["queued", 1.0]] * (MAX_SPANS + 1),
    ],
)
def test_what_this_program_would_not_write_is_not_shown(rows: object) -> None:
    assert from_stored(rows) == ()


def test_an_engine_that_sends_too_much_fills_no_database() -> None:
    assert len(as_stored([Span("queued", 0.0, 1.0)] * 10_000)) == MAX_SPANS


@given(rows=SPANS)
def test_parts_add_up_to_the_whole(
    rows: list[tuple[SpanKind, float, int, int, int, int]],
) -> None:
    line = from_stored(as_stored(spans_of(rows)))
    found = parts(line)
    whole = sum(row[1] for row in rows)
    assert sum(part.ms for part in found) == pytest.approx(whole)
    assert sum(lane_ms(line, lane) for lane in ("waited", "prefill", "decode")) == pytest.approx(
        whole
    )
    assert sum(part.share for part in found) == pytest.approx(1.0 if whole > 0 else 0.0)
    assert [part.kind for part in found] == [kind for kind in KINDS if kind in {r[0] for r in rows}]
    assert is_gathered(line) == any(row[5] > 1 for row in rows)
    for part in found:
        of_kind = [row for row in rows if row[0] == part.kind]
        assert part.tokens == sum(row[2] for row in of_kind)
        if part.tokens_per_s is not None:
            assert part.tokens_per_s * sum(row[1] for row in of_kind) / 1000 == pytest.approx(
                part.tokens
            )


def test_what_took_no_time_has_no_speed() -> None:
    for ms in (0.0, 5e-324, 1e-9):
        (part,) = parts([Stretch("prefill", 0.0, ms, 3)])
        assert (part.tokens, part.tokens_per_s) == (3, None)


def test_decode_counts_as_llama_bench_does() -> None:
    """(n − 1) ÷ the time after the first token."""
    line = of_trace([3.0, 20.0, 30.0, 50.0])
    decode = next(part for part in parts(line) if part.kind == "decode")
    assert decode.tokens_per_s == pytest.approx(3 / 0.1)


# --- tokens on the line ---------------------------------------------------------------------------


def line_of(*rows: tuple[str, float, int, int]) -> list[Stretch]:
    at, line = 0.0, []
    for kind, ms, tokens, slots in rows:
        line.append(Stretch(kind, at, ms, tokens, slots, slots))
        at += ms
    return line


@given(
    st.lists(st.lists(st.floats(0.001, 500), min_size=1, max_size=20), min_size=1, max_size=20),
    st.floats(0, 0.01),
)
def test_tokens_lie_in_their_stretches_one_behind_the_other(
    runs: list[list[float]], more: float
) -> None:
    """Between two tokens lies a little that belongs to neither: `more` of each run."""
    rows: list[tuple[str, float, int, int]] = [("prefill", 100.0, 9, 1)]
    for number, run in enumerate(runs):
        rows += [("decode", math.fsum(run) * (1 + more), len(run), 1 + number % 3)]
        rows += [("failed", 5.0, 0, 0)]
    line = line_of(*rows)
    flat = [ms for run in runs for ms in run]
    found = bars(line, flat)
    assert len(found) == len(flat)
    assert found.ms.tolist() == flat
    at = 0
    for run, stretch in zip(runs, line[1::2], strict=True):
        own = slice(at, at + len(run))
        assert found.starts[own][0] == pytest.approx(stretch.start_ms)
        assert found.ends[own][-1] == pytest.approx(stretch.end_ms)
        assert (found.ends[own] - found.starts[own]).tolist() == pytest.approx(
            [ms * (1 + more) for ms in run]
        )
        assert set(found.slots[own].tolist()) == {stretch.slots}
        at += len(run)


def test_a_held_token_lies_where_it_was_drawn() -> None:
    line = line_of(
        ("prefill", 50.0, 5, 1),
        ("first", 1.0, 0, 1),
        ("held", 2000.0, 0, 0),
        ("first", 0.01, 1, 1),
        ("decode", 20.0, 0, 1),
        ("held", 500.0, 0, 0),
        ("decode", 30.0, 2, 1),
    )
    found = bars(line, [1.0, 20.0, 30.0])
    assert found.starts.tolist() == pytest.approx([50.0, 2051.01, 2571.01])
    assert found.ends.tolist() == pytest.approx([51.0, 2071.01, 2601.01])


@pytest.mark.parametrize("n_traced", [0, 1, 3])
def test_a_trace_that_ends_before_the_reply_has_fewer_bars(n_traced: int) -> None:
    line = line_of(("first", 1.0, 1, 1), ("decode", 100.0, 5, 1))
    found = bars(line, [1.0, 20.0, 20.0, 20.0, 20.0, 20.0][:n_traced])
    assert len(found) == n_traced
    assert found.ends.tolist() == pytest.approx([1.0, 21.0, 41.0][:n_traced])


def test_a_trace_that_is_longer_than_the_line_and_one_of_nonsense() -> None:
    line = line_of(("first", 1.0, 1, 1), ("decode", 40.0, 2, 1))
    assert len(bars(line, [1.0, 20.0, 20.0, 20.0])) == 3
    assert bars(line, [math.nan, -5.0, math.inf]).ms.tolist() == [0.0, 0.0, 0.0]
    assert len(bars((), [1.0])) == 0
    assert shared(bars((), ())) == []


def test_what_lies_at_a_moment_and_between_two() -> None:
    found = bars(line_of(("prefill", 10.0, 3, 1), ("decode", 30.0, 3, 1)), [10.0, 10.0, 10.0])
    assert [found.at(moment) for moment in (5.0, 10.5, 29.9, 39.9, 45.0)] == [None, 0, 1, 2, None]
    assert found.between(0.0, 9.0) == (0, 0)
    assert found.between(15.0, 25.0) == (0, 2)
    assert found.between(15.0, 99.0) == (0, 3)
    assert found.between(99.0, 199.0) == (3, 3)


def test_who_shared_passes_with_gaps_between_them() -> None:
    line = line_of(
        ("decode", 20.0, 2, 1), ("decode", 20.0, 1, 4), ("failed", 5.0, 0, 0), ("decode", 9.0, 1, 4)
    )
    assert shared(bars(line, [10.0, 10.0, 20.0, 9.0])) == [
        (0.0, 20.0, 1),
        (20.0, 40.0, 4),
        (45.0, 54.0, 4),
    ]


def test_a_few_slow_tokens_do_not_flatten_all_others() -> None:
    usual = [15.0 + at % 3 for at in range(40)]
    assert full_ms(bars(of_trace([1.0, *usual]), [1.0, *usual])) == 17.0
    slow = [1.0, 800.0, *usual]
    assert 17.0 < full_ms(bars(of_trace(slow), slow)) < 40.0
    assert full_ms(bars((), ())) == 0.0


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=300), st.floats(0.01, 5))
def test_each_pixel_shows_its_slowest_token(times: list[float], px_per_ms: float) -> None:
    found = bars(of_trace(times), times)
    xs = found.starts * px_per_ms
    columns, slowest = highest(found, 0, len(found), xs)
    expected: dict[int, float] = {}
    for x, ms in zip(xs.tolist(), times, strict=True):
        expected[math.floor(x)] = max(expected.get(math.floor(x), 0.0), ms)
    assert dict(zip(columns.tolist(), slowest.tolist(), strict=True)) == expected
    assert bool(np.all(np.diff(columns) > 0))
