"""The governor on made-up machines, and once on the real one."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest

from app.engine.process.scheduling.governor import Governor, ThreadChange, ladder


@dataclass
class Machine:
    """Steps of an engine whose threads stall when there are more of them than free cores.

    One thread takes `alone_s`; n threads on free cores take alone_s / n ** 0.8. A thread without
    a core of its own makes `share` of the steps `stall` times as long as one thread alone would.
    """

    cores: int
    alone_s: float = 0.030
    stall: float = 8.0
    share: float = 1.0
    noise: float = 0.0
    taken: int = 0
    growth: float = 0.0
    source: random.Random = field(default_factory=lambda: random.Random(7))

    def step_s(self, n_threads: int, rows: int = 1, cells: int = 0) -> float:
        free = self.cores - self.taken
        fast = self.alone_s / n_threads**0.8
        stalls = n_threads > free and self.source.random() < self.share
        seconds = self.alone_s * self.stall if stalls else fast
        seconds *= (1 + 0.3 * (rows - 1)) * (1 + self.growth * cells)
        return seconds * (1 + self.noise * self.source.random())

    def processor_s(self, n_threads: int, seconds: float) -> float:
        """What threads that spin have of the processor: a taken core is shared by halves."""
        without = max(n_threads - (self.cores - self.taken), 0)
        return (n_threads - 0.5 * without) * seconds


@dataclass
class Run:
    """Lets a governor decode on a machine; counts steps and seconds."""

    machine: Machine
    governor: Governor
    now: float = 0.0
    n_threads: int = 0
    tells_processor: bool = False
    threads: list[int] = field(default_factory=list)
    changes: list[ThreadChange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.n_threads = self.governor.n_threads

    def steps(self, count: int, rows: int = 1, cells: int = 0) -> float:
        began = self.now
        for n in range(count):
            seconds = self.machine.step_s(self.n_threads, rows, cells + n)
            self.now += seconds
            self.threads.append(self.n_threads)
            had = self.machine.processor_s(self.n_threads, seconds)
            change = self.governor.after_step(
                rows, cells + n, seconds, self.now, had if self.tells_processor else None
            )
            if change is not None:
                self.n_threads = change.n_threads
                self.changes.append(change)
        return self.now - began

    def seconds(self, duration_s: float, rows: int = 1) -> int:
        until, before = self.now + duration_s, len(self.threads)
        while self.now < until:
            self.steps(1, rows)
        return len(self.threads) - before


def run_on(
    machine: Machine, ceiling: int | None = None, growth: float = 0.0, *, tells: bool = False
) -> Run:
    governor = Governor(ceiling or machine.cores, growth=growth)
    return Run(machine, governor, tells_processor=tells)


@pytest.mark.parametrize("cores", [2, 4, 16])
def test_an_idle_machine_loses_nothing(cores: int) -> None:
    run = run_on(Machine(cores, noise=0.15))
    took = run.steps(300)
    at_ceiling = sum(run.machine.step_s(cores) for _ in range(300))
    assert took <= at_ceiling * 1.02
    assert run.n_threads == cores
    assert [change.reason for change in run.changes if change.reason] == []


@pytest.mark.parametrize("cores", [2, 4, 16])
def test_where_the_threads_had_their_cores_nothing_is_tried(cores: int) -> None:
    """A step of large weights takes a quarter of a second: one with fewer threads is felt."""
    run = run_on(Machine(cores, noise=0.15), tells=True)
    run.steps(300)
    assert run.changes == []


@pytest.mark.parametrize("cores", [2, 16])
def test_where_they_had_not_fewer_are_tried(cores: int) -> None:
    run = run_on(Machine(cores, taken=1), tells=True)
    run.steps(4)
    assert run.threads[3] < cores


@pytest.mark.parametrize(("cores", "taken"), [(2, 1), (4, 1), (4, 3), (8, 1), (16, 1), (16, 5)])
@pytest.mark.parametrize("when", ["from the start", "later"])
@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("tells", [False, True])
def test_cores_that_are_taken(
    cores: int, taken: int, when: str, share: float, *, tells: bool
) -> None:
    """After two seconds, 300 tokens: near the best fixed number, far above the ceiling. On many
    cores 300 tokens take hardly longer than a few stalled steps, so those are what is counted."""
    run = run_on(Machine(cores, noise=0.15, share=share), tells=tells)
    if when == "later":
        run.steps(200)
    run.machine.taken = taken
    run.seconds(2.0 if taken == 1 else 6.0)
    took = run.steps(300)
    fixed = {n: sum(run.machine.step_s(n) for _ in range(300)) for n in range(1, cores + 1)}
    best = min(fixed[n] for n in ladder(cores))
    allowed = 0.11 * best if cores == 2 else 5 * run.machine.alone_s * run.machine.stall
    assert took - best <= allowed
    assert fixed[cores] / took >= 2
    settled = [change.n_threads for change in run.changes if change.reason]
    assert settled[-1] <= cores - taken


def test_a_core_that_is_freed_is_used_again() -> None:
    run = run_on(Machine(2, taken=1))
    run.seconds(30.0)
    assert run.n_threads == 1
    run.machine.taken = 0
    run.seconds(70.0)
    assert run.n_threads == 2
    assert [change.n_threads for change in run.changes if change.reason] == [1, 2]


def test_tries_upwards_come_at_growing_intervals() -> None:
    run = run_on(Machine(2, taken=1))
    run.seconds(400.0)
    tries = [i for i, n in enumerate(run.threads) if n == 2][3:]
    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert all(later >= earlier - 1 for earlier, later in itertools.pairwise(gaps))  # in steps
    assert gaps[-1] > 10 * gaps[0]
    assert len(tries) <= 12


def test_steps_of_other_rows_and_a_longer_cache_are_not_slow() -> None:
    run = run_on(Machine(2, growth=0.0005), growth=0.001)
    run.steps(50)
    run.steps(50, rows=4)
    run.steps(50, cells=3000)
    run.steps(50)
    assert [change for change in run.changes if change.reason] == []


def test_a_single_slow_step_changes_nothing() -> None:
    run = run_on(Machine(2))
    run.steps(50)
    before = len(run.changes)
    for _ in range(20):
        run.machine.taken = 1
        run.steps(1)
        run.machine.taken = 0
        run.steps(10)
    assert run.changes[before:] == []


def test_a_machine_that_is_slow_with_any_number_keeps_its_threads() -> None:
    """Slower for a reason that fewer threads do not cure: heat, or memory that others use."""
    run = run_on(Machine(4, noise=0.1))
    run.steps(100)
    run.machine.alone_s *= 4
    run.seconds(60.0)
    assert run.n_threads == 4
    assert sum(n < 4 for n in run.threads) < 0.05 * len(run.threads)


def test_rows_that_change_in_the_middle_of_a_try_end_it() -> None:
    governor = Governor(2, growth=0.0)
    changes = [governor.after_step(1, 0, 0.02, n * 0.02) for n in range(3)]
    assert changes[-1] == ThreadChange(1)
    assert governor.after_step(2, 0, 0.05, 1.0) == ThreadChange(2)


def test_long_steps_and_one_thread_are_left_alone() -> None:
    assert all(Governor(1, growth=0.0).after_step(1, 0, 1.0, n) is None for n in range(9))
    assert all(Governor(8, growth=0.0).after_step(65, 0, 1.0, n) is None for n in range(9))


def test_a_new_ceiling_begins_anew() -> None:
    run = run_on(Machine(4, taken=3))
    run.seconds(10.0)
    assert run.n_threads == 1
    run.governor.set_ceiling(3)
    assert run.governor.n_threads == 3
    assert ladder(1) == [1]


def test_what_the_window_does_as_a_reply_begins_is_no_other_program() -> None:
    """Opening panels takes a core for a moment; what was given up for it is soon taken back."""
    run = run_on(Machine(2, alone_s=0.018, stall=2.0), tells=True)
    run.machine.taken = 1
    run.steps(3)
    run.machine.taken = 0
    run.seconds(3.0)
    assert run.changes == []

    run = run_on(Machine(2, alone_s=0.018), tells=True)
    run.machine.taken = 1
    run.steps(4)
    assert run.n_threads == 1
    run.machine.taken = 0
    assert run.seconds(6.0) > 250
    assert run.n_threads == 2
