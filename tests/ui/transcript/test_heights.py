"""The running sums of heights."""

from __future__ import annotations

from hypothesis import given, strategies as st

from ui.transcript.heights import Heights

SIZES = st.lists(st.integers(0, 50).map(float), min_size=1, max_size=30)


@given(SIZES, st.data())
def test_same_as_summing_up(sizes: list[float], data: st.DataObject) -> None:
    heights = Heights(sizes)
    for _ in range(10):
        index = data.draw(st.integers(0, len(sizes) - 1))
        sizes[index] = data.draw(st.integers(0, 50).map(float))
        heights.set(index, sizes[index])
        probe = data.draw(st.integers(0, len(sizes)))
        assert heights.top(probe) == sum(sizes[:probe])
    assert heights.total == sum(sizes)


@given(SIZES, st.floats(-10, 2000))
def test_at_finds_the_thing_below_a_height(sizes: list[float], y: float) -> None:
    heights = Heights(sizes)
    index = heights.at(y)
    assert 0 <= index < len(sizes)
    if 0 <= y < heights.total:
        assert heights.top(index) <= y < heights.top(index + 1)


def test_append_and_truncate() -> None:
    heights = Heights([1.0, 2.0])
    heights.append(3.0)
    assert (len(heights), heights.total, heights[2]) == (3, 6.0, 3.0)
    heights.truncate(1)
    assert (len(heights), heights.total) == (1, 1.0)
    heights.append(5.0)
    assert heights.total == 6.0


def test_empty() -> None:
    assert Heights().total == 0
    assert Heights().at(10) == 0
