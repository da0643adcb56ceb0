"""What drafts did: from a trace, from the engine's report as it is stored, and never from junk."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from made_traces import trace_of

from app.chat.settings.settings import as_stored
from app.engine.process.drafting.state import DraftState, Proposal
from app.engine.protocol.draft_messages import Drafts, Rejected
from app.engine.protocol.messages import TokenTrace
from app.insight.time.drafts import DraftFigures, from_stored, of_trace
from app.insight.trace.table import TraceTable

(TOKEN,) = trace_of([b"x"])
PASSES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=20)
"""Of each: how many were accepted and how many were not."""


def trace_of_passes(passes: list[tuple[int, int]]) -> list[TokenTrace]:
    found: list[TokenTrace] = []
    for accepted, lost in passes:
        rejected = Rejected([5] * lost, [b"x"] * lost, -1.0) if lost else None
        for at in range(accepted + 1):
            is_last = at == accepted
            token = msgspec.structs.replace(
                TOKEN, drafted=not is_last, rejected=rejected if is_last else None
            )
            found.append(token)
    return found


def state_of_passes(passes: list[tuple[int, int]]) -> DraftState:
    state = DraftState(Drafts())
    for accepted, lost in passes:
        if not accepted + lost:
            continue
        state.begin_pass([Proposal(5)] * (accepted + lost))
        for _ in range(accepted):
            state.drawn(5)
            state.pending.popleft()
        state.drawn(6)
        state.pending.clear()
    return state


@given(PASSES)
def test_the_trace_tells_what_the_engine_counted(passes: list[tuple[int, int]]) -> None:
    report = state_of_passes(passes).report()
    stored = from_stored(as_stored(report))
    assert stored is not None
    for traces in (trace_of_passes(passes), TraceTable(trace_of_passes(passes))):
        found = of_trace(traces)
        if not report.passes:
            assert found is None
            continue
        assert found is not None
        assert (found.passes, found.by_position) == (stored.passes, stored.by_position)
        assert (found.proposed, found.accepted) == (report.proposed, report.accepted)
        assert sum(found.histogram) == found.passes
        assert sum(n * count for n, count in enumerate(found.histogram)) == found.accepted


def test_figures_follow_from_what_was_counted() -> None:
    figures = DraftFigures("lookup", "", 4, ((4, 3), (4, 1)), 2.0, 8, 2.0, 6)
    assert figures.mean_length == 2.0
    assert (figures.drafted_rate, figures.plain_rate) == (4.0, 3.0)
    assert figures.gain == pytest.approx(4 / 3)
    assert DraftFigures(drafted_tokens=9, drafted_s=1.0).gain is None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "magic"},
        {"passes": -1},
        {"passes": 2.5},
        {"plain_s": float("nan")},
        {"off": 3},
        {"by_position": [[1, 2]]},
        {"by_position": [{"proposed": 1, "accepted": 2}]},
        {"by_position": [{"proposed": 1, "accepted": 1}] * 99},
    ],
)
def test_what_this_program_does_not_write_is_none(change: dict[str, Any]) -> None:
    stored = as_stored(state_of_passes([(2, 1)]).report())
    assert isinstance(stored, dict)
    assert from_stored(stored) is not None
    assert from_stored({**stored, **change}) is None
    assert from_stored(None) is None
