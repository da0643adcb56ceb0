"""A copy of a sequence is read only where it has the form that is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.engine.process.probe.state import positions_in


def section(
    positions: list[int], n_layer: int = 2, *, row: int = 8, is_transposed: bool = False
) -> bytes:
    """One cache as llama.cpp writes it (`state_write_meta` and `state_write_data`)."""
    n = len(positions)
    out = np.array([1, n], "<u4").tobytes()
    for position in positions:
        out += np.array([position, 1, 0], "<i4").tobytes()
    if not n:
        return out
    out += np.array([is_transposed, n_layer], "<u4").tobytes()
    for _ in range(n_layer):
        out += np.array([1], "<i4").tobytes() + np.array([row], "<u8").tobytes() + bytes(row * n)
    for _ in range(n_layer):
        if is_transposed:
            out += np.array([1, 2, row // 2], "<u4").tobytes() + bytes(row * n)
        else:
            out += np.array([1], "<i4").tobytes() + np.array([row], "<u8").tobytes()
            out += bytes(row * n)
    return out


def copy(*sections: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(bytes(8) + b"".join(sections), np.uint8)


def plain(found: Any) -> Any:
    return None if found is None else [(positions.tolist(), n) for positions, n in found]


@pytest.mark.parametrize("is_transposed", [False, True])
def test_positions_come_in_the_order_of_the_cells(is_transposed: bool) -> None:
    whole = section([0, 4, 1, 3, 2], 3, is_transposed=is_transposed)
    assert plain(positions_in(copy(whole), 1, 5)) == [([0, 4, 1, 3, 2], 3)]
    window = section([4, 3], 1, is_transposed=is_transposed)
    assert plain(positions_in(copy(whole, window), 2, 5)) == [([0, 4, 1, 3, 2], 3), ([4, 3], 1)]


def _wrong() -> Iterator[tuple[str, Any, int, int]]:
    whole = section([0, 1, 2])
    yield "more behind it", copy(whole, b"x"), 1, 3
    yield "another cache", copy(whole, whole), 1, 3
    yield "a cache too few", copy(whole), 2, 3
    yield "a token more", copy(whole), 1, 4
    yield "a token less", copy(whole), 1, 2
    yield "a gap", copy(section([0, 2, 3])), 1, 4
    yield "one twice", copy(section([0, 1, 1])), 1, 3
    yield "a position below 0", copy(section([-1, 0, 1])), 1, 2
    yield "nothing", np.empty(0, np.uint8), 1, 3
    yield "no cache, of a state", copy(whole), 0, 3
    yield "two streams", copy(b"\2" + whole[1:]), 1, 3
    yield "a cell of two sequences", copy(whole[:12] + b"\2" + whole[13:]), 1, 3
    yield "values that lie in a third way", copy(whole[:44] + b"\2" + whole[45:]), 1, 3


@pytest.mark.parametrize(
    ("data", "n_caches", "n_tokens"), [w[1:] for w in _wrong()], ids=[w[0] for w in _wrong()]
)
def test_another_form_is_not_read(data: Any, n_caches: int, n_tokens: int) -> None:
    assert positions_in(data, n_caches, n_tokens) is None


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 300), st.integers(0, 255))
def test_a_damaged_copy_is_read_right_or_not_at_all(at: int, value: int) -> None:
    data = copy(section([0, 2, 1]), section([2, 1])).copy()
    at %= len(data)
    data[at] = value
    found = plain(positions_in(data, 2, 3))
    assert found is None or [p for p, _ in found] == [[0, 2, 1], [2, 1]]
    assert positions_in(data[:at], 2, 3) is None
