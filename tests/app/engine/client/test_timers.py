"""Deadlines of a thread that may itself have been held up."""

from __future__ import annotations

import pytest

from app.engine.client.timers import NAP_S, Timers


class _Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


def test_what_is_due_runs_once(clock: _Clock) -> None:
    timers, ran = Timers(clock), []
    timers.arm("a", 0.5, lambda: ran.append("a"))
    timers.arm("b", 0.25, lambda: ran.append("b"))
    timers.arm("gone", 0.25, lambda: ran.append("gone"))
    timers.disarm("gone")
    timers.run_due()
    assert ran == []
    clock.now += 0.25
    timers.run_due()
    assert ran == ["b"]
    clock.now += 0.25
    timers.run_due()
    timers.run_due()
    assert ran == ["b", "a"]


def test_an_action_may_arm_and_clear(clock: _Clock) -> None:
    timers, ran = Timers(clock), []

    def again() -> None:
        ran.append(1)
        timers.clear()
        timers.arm("next", 0.5, lambda: ran.append(3))

    timers.arm("first", 0.5, again)
    timers.arm("second", 0.5, lambda: ran.append(2))
    clock.now += 0.5
    timers.run_due()
    assert ran == [1]
    clock.now += 0.5
    timers.run_due()
    assert ran == [1, 3]


def test_of_a_long_pause_little_counts(clock: _Clock) -> None:
    """An hour in which the machine slept is no hour in which nothing came."""
    timers, ran = Timers(clock), []
    timers.arm("a", 120.0, lambda: ran.append("a"))
    clock.now += 3600.0
    timers.run_due()
    assert ran == []
    for _ in range(int(120 / NAP_S)):
        clock.now += NAP_S
        timers.run_due()
    assert ran == ["a"]


def test_a_clock_that_goes_back_does_no_harm(clock: _Clock) -> None:
    timers = Timers(clock)
    began = timers.now()
    clock.now -= 10.0
    assert timers.now() == began
    clock.now += 0.5
    assert timers.now() == began + 0.5


def test_how_long_the_owner_may_sleep(clock: _Clock) -> None:
    timers = Timers(clock)
    assert timers.nap_s(None) is None
    timers.arm("a", 0.25, lambda: None)
    assert timers.nap_s() == 0.25
    clock.now += 1.0
    assert timers.nap_s() == 0.0
    timers.arm("a", 120.0, lambda: None)
    assert timers.nap_s() == NAP_S
    assert timers.nap_s(timers.now() + 0.125) == 0.125
