"""Chunks that keep a step short, by made-up speeds."""

from __future__ import annotations

import pytest

from app.engine.process.scheduling.pace import FIRST_CHUNK, MAX_STEP_S, Pace


def test_alone_on_a_processor_it_is_always_the_whole_ubatch() -> None:
    pace = Pace(128, can_abort=True)
    assert pace.chunk(somebody_writes=False) == 128
    pace.measure(128, 60.0)
    assert pace.chunk(somebody_writes=False) == 128


@pytest.mark.parametrize("rows_per_s", [1.0, 7.0, 60.0, 169.0, 3000.0, 45_000.0])
@pytest.mark.parametrize("can_abort", [True, False])
def test_a_step_beside_a_writer_stays_short(rows_per_s: float, can_abort: bool) -> None:
    pace = Pace(512, can_abort=can_abort)
    assert pace.chunk(somebody_writes=True) == FIRST_CHUNK
    for _ in range(30):
        rows = max(pace.chunk(somebody_writes=True), FIRST_CHUNK)
        pace.measure(rows, rows / rows_per_s)
    chunk = pace.chunk(somebody_writes=True)
    assert 1 <= chunk <= 512
    assert chunk == 1 or chunk / rows_per_s <= MAX_STEP_S


def test_on_a_device_chunks_halve_until_they_fit() -> None:
    pace = Pace(512, can_abort=False)
    assert pace.chunk(somebody_writes=False) == FIRST_CHUNK
    pace.measure(100, 0.1)
    assert pace.chunk(somebody_writes=False) == 64
    for _ in range(40):
        pace.measure(512, 0.01)
    assert pace.chunk(somebody_writes=False) == 512
    for _ in range(40):
        pace.measure(8, 10.0)
    assert pace.chunk(somebody_writes=False) == FIRST_CHUNK


def test_one_slow_step_does_not_decide_alone_and_short_steps_do_not_count() -> None:
    pace = Pace(512, can_abort=True)
    pace.measure(100, 0.1)
    before = pace.chunk(somebody_writes=True)
    pace.measure(1, 100.0)
    pace.measure(50, 0.0)
    assert pace.chunk(somebody_writes=True) == before == 120
    pace.measure(100, 10.0)
    assert 60 < pace.chunk(somebody_writes=True) < before


def test_after_a_stall_chunks_grow_again() -> None:
    """A step costs 20 ms for one writer and 6 ms for each row more; one took five seconds."""
    pace = Pace(128, can_abort=True)
    pace.measure(9, 5.0)
    assert pace.chunk(somebody_writes=True) == 1
    for _ in range(40):
        rows = pace.chunk(somebody_writes=True) + 1
        pace.measure(rows, 0.020 + 0.006 * rows)
    assert pace.chunk(somebody_writes=True) > 12
    assert 0.020 + 0.006 * pace.chunk(somebody_writes=True) < MAX_STEP_S
