"""How many tokens are worth a larger pass, against all counts tried out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from app.engine.process.drafting.worth import PassTimes, best_count

CHANCES = st.lists(st.floats(0, 1), max_size=15)


@given(CHANCES, st.floats(0, 2), st.integers(1, 4))
def test_the_best_count_is_the_fastest_of_all(
    chances: list[float], growth: float, writers: int
) -> None:
    def seconds_of(rows: int) -> float:
        return 0.01 * (1 + growth * (rows - 1))

    def rate(count: int) -> float:
        gained = sum(math.prod(chances[:n]) for n in range(1, count + 1))
        return (writers + gained) / seconds_of(writers + count)

    best = best_count(chances, seconds_of, writers=writers, rows=writers)
    rates = [rate(count) for count in range(len(chances) + 1)]
    if best:
        assert rates[best] == pytest.approx(max(rates))
    else:
        assert max(rates) <= 1.03 * rates[0] + 1e-9


def test_others_do_not_wait_longer_than_they_may() -> None:
    assert best_count([1.0] * 8, lambda rows: 0.03 * rows**0.5, longest_s=0.07) == 4


def test_times_are_medians_and_forgotten() -> None:
    times = PassTimes()
    for seconds in (0.5, 0.01, 0.02):
        times.add(1, seconds)
        assert times.of(1) == {0.5: 0.5, 0.01: 0.01, 0.02: 0.02}[seconds]
    times.add(1, 0.01)
    times.add(1, 0.01)
    assert times.of(1) == 0.01
    assert times.of(3) == pytest.approx(0.017)
    for _ in range(600):
        times.add(4, 0.02)
    assert times.of(1) == pytest.approx(0.02 / 2.05)  # only guessed from that of four rows
    times.clear()
    assert times.of(1) == 1.0


def test_a_slow_moment_is_soon_forgotten() -> None:
    times = PassTimes()
    for _ in range(9):
        times.add(1, 0.01)
    times.add(4, 0.4)  # once, while another program ran
    assert times.of(4) == 0.4
    for _ in range(40):
        times.add(1, 0.01)
    assert times.of(4) == pytest.approx(0.0205)
