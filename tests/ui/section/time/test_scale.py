"""Which part of the time is in view: within the whole, and still under the pointer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from ui.section.time.scale import MOST_ZOOM_PX, TimeScale, step_for

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("zoom"), st.floats(0.05, 20), st.floats(0, 1)),
        st.tuples(st.just("move"), st.floats(-3000, 3000), st.just(0.0)),
        st.tuples(st.just("width"), st.floats(0, 3000), st.just(0.0)),
        st.tuples(st.just("whole"), st.floats(0, 1e7), st.just(0.0)),
        st.tuples(st.just("show"), st.floats(0, 1e7), st.floats(0, 100)),
    ),
    max_size=30,
)


def scale_of(whole_ms: float, width_px: float = 400) -> TimeScale:
    scale = TimeScale()
    scale.set_width(width_px)
    scale.set_whole(whole_ms)
    return scale


@given(moves=MOVES)
def test_what_is_in_view_lies_within_the_whole(moves: list[tuple[str, float, float]]) -> None:
    scale = scale_of(1000.0)
    for what, first, second in moves:
        if what == "zoom":
            scale.zoom(first, second * scale.width_px)
        elif what == "move":
            scale.move(first)
        elif what == "width":
            scale.set_width(first)
        elif what == "whole":
            scale.set_whole(first)
        else:
            scale.show(first, first + second)
        assert 0 <= scale.left_ms <= scale.right_ms <= scale.whole_ms * (1 + 1e-9)
        assert scale.px_per_ms <= MOST_ZOOM_PX * (1 + 1e-9) or scale.is_whole


@given(st.floats(1.01, 30), st.floats(0, 400))
def test_a_zoom_leaves_the_moment_under_the_pointer(factor: float, x: float) -> None:
    scale = scale_of(100_000.0)
    before = scale.ms_at(x)
    scale.zoom(factor, x)
    assert scale.ms_at(x) == pytest.approx(before, abs=1e-6)
    assert scale.shown_ms == pytest.approx(100_000.0 / factor)
    scale.zoom(1 / factor, x)
    assert scale.is_whole or scale.shown_ms == pytest.approx(100_000.0)


def test_a_whole_that_grows_stays_in_view_and_a_part_keeps_its_place() -> None:
    scale = scale_of(100.0)
    scale.set_whole(200.0)
    assert (scale.left_ms, scale.shown_ms) == (0.0, 200.0)
    scale.zoom(4, 200)
    part = (scale.left_ms, scale.shown_ms)
    scale.set_whole(1000.0)
    assert (scale.left_ms, scale.shown_ms) == part
    scale.fit()
    assert scale.is_whole


def test_a_moment_is_brought_into_view_by_the_shortest_way() -> None:
    scale = scale_of(1000.0)
    scale.zoom(10, 0)
    scale.show(50.0, 60.0)
    assert scale.left_ms == 0.0
    scale.show(150.0, 160.0)
    assert scale.right_ms == pytest.approx(160.0)
    scale.show(10.0, 20.0)
    assert scale.left_ms == pytest.approx(10.0)


@given(st.floats(1, 1e6), st.floats(1, 50), st.floats(0, 400))
def test_ticks_are_round_in_view_and_far_enough_apart(
    whole: float, factor: float, x: float
) -> None:
    scale = scale_of(whole)
    scale.zoom(factor, x)
    ticks = list(scale.ticks(60))
    step = step_for(60 / scale.px_per_ms)
    for moment in ticks:
        assert scale.left_ms - 1e-6 <= moment <= scale.right_ms + 1e-6
        assert moment / step == pytest.approx(round(moment / step))
    for first, second in pairwise(ticks):
        assert scale.x_of(second) - scale.x_of(first) >= 60 - 1e-3


def test_nothing_has_no_ticks() -> None:
    assert list(TimeScale().ticks(60)) == []
    assert step_for(0) == 0.0
