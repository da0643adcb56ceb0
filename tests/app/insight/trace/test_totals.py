"""Figures of a reply against the same figures computed from probabilities."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, strategies as st

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.table import TraceTable
from app.insight.trace.totals import RunningTotals, Totals, speeds

NONE = Array("i4", [0], b"")


def token(probability: float, entropy: float, ms: float) -> TokenTrace:
    return TokenTrace(0, 1, b"x", math.log(probability), 1, entropy, NONE, NONE, [], ms)


RATES = st.lists(
    st.tuples(st.floats(1e-6, 1.0), st.floats(0, 15), st.floats(0.1, 500)), min_size=1, max_size=50
)


def totals(tokens: list[TokenTrace]) -> Totals | None:
    running = RunningTotals()
    running.follow(tokens)
    return running.totals()


@given(rows=RATES)
def test_figures_are_those_of_the_whole_text(rows: list[tuple[float, float, float]]) -> None:
    found = totals([token(*row) for row in rows])
    assert found is not None
    n = len(rows)
    of_text = math.prod(row[0] ** (1 / n) for row in rows)
    assert found.perplexity == pytest.approx(1 / of_text, rel=1e-6)
    assert found.mean_logprob == pytest.approx(math.log(of_text), abs=1e-6)
    assert found.mean_entropy == pytest.approx(sum(row[1] for row in rows) / n)
    seconds = sum(row[2] for row in rows[1:]) / 1000
    assert found.tokens_per_s == (pytest.approx((n - 1) / seconds) if seconds else None)


@given(rows=RATES, points=st.integers(1, 60))
def test_the_stretches_add_up_to_the_whole(
    rows: list[tuple[float, float, float]], points: int
) -> None:
    found = speeds([row[2] for row in rows], points)
    assert len(found) <= points
    seconds = sum(row[2] for row in rows[1:]) / 1000
    if not found:
        assert len(rows) == 1
        return
    assert found[-1][0] == pytest.approx(seconds)
    starts = [0.0, *(at for at, _ in found[:-1])]
    tokens = sum((at - start) * rate for start, (at, rate) in zip(starts, found, strict=True))
    assert tokens == pytest.approx(len(rows) - 1)


def test_nothing_has_no_figures() -> None:
    assert totals([]) is None
    one = totals([token(0.5, 1.0, 7.0)])
    assert one is not None
    assert (one.tokens_per_s, one.perplexity) == (None, 2.0)


@given(rows=RATES, cuts=st.lists(st.integers(0, 50), max_size=4), is_table=st.booleans())
def test_what_grows_and_is_taken_back_has_the_figures_of_what_is_left(
    rows: list[tuple[float, float, float]], cuts: list[int], is_table: bool
) -> None:
    whole = [token(*row) for row in rows]
    running = RunningTotals()
    for cut in (*cuts, len(whole)):
        part = whole[:cut]
        running.follow(TraceTable(part) if is_table else part)
        assert list(running.times) == [each.ms for each in part]
        now, anew = running.totals(), totals(part)
        assert (now is None) == (anew is None)
        if now is not None and anew is not None:
            assert dataclasses.astuple(now) == pytest.approx(dataclasses.astuple(anew))
    assert speeds(running.times) == speeds([each.ms for each in whole])


@given(rows=RATES, others=RATES, cut=st.integers(0, 20))
def test_figures_are_those_of_what_came_in_the_place_of_what_was_taken_back(
    rows: list[tuple[float, float, float]], others: list[tuple[float, float, float]], cut: int
) -> None:
    """Nobody may look between the cut and the tokens that follow it."""
    table = TraceTable([token(*row) for row in rows])
    running = RunningTotals()
    running.follow(table)
    table.truncate(cut)
    for row in others:
        table.append(token(*row))
    running.follow(table)
    left = [token(*row) for row in (*rows[:cut], *others)]
    assert list(running.times) == [each.ms for each in left]
    now, anew = running.totals(), totals(left)
    assert (now is None) == (anew is None)
    if now is not None and anew is not None:
        assert dataclasses.astuple(now) == pytest.approx(dataclasses.astuple(anew))
