"""Tests that run alone, and the others beside each other: with processes, as workers are."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from turns import Turns

WORKER = """
import sys
from pathlib import Path
from turns import Turns

turn = Turns(Path(sys.argv[1])).turn(alone=sys.argv[2] == "alone")
print("asks", file=sys.stderr, flush=True)
with turn:
    print("in", flush=True)
    sys.stdin.readline()
"""

Worker = subprocess.Popen[str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """start("alone" or "together"): a process that takes a turn, until it is sent a line."""
    workers: list[Worker] = []

    def start_one(how: str) -> Worker:
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path), how],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        workers.append(worker)
        assert worker.stderr is not None
        assert worker.stderr.readline() == "asks\n"
        return worker

    yield start_one
    for worker in workers:
        worker.kill()
        worker.communicate()


def is_in(worker: Worker) -> bool:
    assert worker.stdout is not None
    return worker.stdout.readline() == "in\n"


def let_go(worker: Worker) -> None:
    worker.communicate("\n")


def waits(worker: Worker) -> bool:
    """Whether it is neither in nor through after a while that is long for taking a lock."""
    return not select.select([worker.stdout], [], [], 0.3)[0]


def test_ordinary_tests_run_beside_each_other(start):
    first, second = start("together"), start("together")
    assert is_in(first)
    assert is_in(second)


@pytest.mark.parametrize(("running", "next_one"), [("together", "alone"), ("alone", "together")])
def test_a_test_alone_is_alone(start, running, next_one):
    first = start(running)
    assert is_in(first)
    second = start(next_one)
    assert waits(second)
    let_go(first)
    assert is_in(second)


def test_nobody_overtakes_who_waits_to_be_alone(start):
    running = start("together")
    assert is_in(running)
    alone = start("alone")
    assert waits(alone)
    late = start("together")
    assert waits(late)
    let_go(running)
    assert is_in(alone)
    assert waits(late)
    let_go(alone)
    assert is_in(late)


def test_a_worker_that_is_killed_is_waited_for_no_longer(start, tmp_path):
    killed = start("alone")
    assert is_in(killed)
    killed.kill()
    with Turns(tmp_path).turn(alone=True):
        pass
