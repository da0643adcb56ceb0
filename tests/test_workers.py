"""Workers that share tests, seen from outside: pytest on a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from workers import pytest_xdist_make_scheduler

HOOKS = """
from workers import (
    pytest_collection_modifyitems, pytest_runtest_protocol, pytest_xdist_make_scheduler
)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """run(options, **sources) runs pytest on files with these sources, and returns its output."""

    def run_pytest(*options: str, **sources: str) -> str:
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
        (tmp_path / "conftest.py").write_text(HOOKS)
        for name, source in sources.items():
            (tmp_path / f"test_{name}.py").write_text(source)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-rA", *options],
            cwd=tmp_path,
            env={
                **inherited,
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTHONPATH": str(Path(__file__).parent),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        return done.stdout + done.stderr

    return run_pytest


FILES = ("-p", "xdist", "-n2", "--dist=loadfile", "--no-loadscope-reorder")


@pytest.mark.soak
def test_a_test_that_ends_its_worker_or_hangs_fails_once_and_the_rest_of_its_file_runs(run):
    dies = (
        "import os\ndef test_before(): pass\ndef test_dies(): os._exit(3)\ndef test_after(): pass"
    )
    said = run(
        *FILES,
        # What ends well needs far less, on a busy machine too.
        *("-o", "faulthandler_timeout=4", "-o", "faulthandler_exit_on_timeout=true"),
        dies=dies,
        hangs="import time\ndef test_sleeps(): time.sleep(90)\ndef test_after(): pass",
        last="import os\ndef test_dies(): os._exit(3)",
        other="def test(): 0",
    )
    assert "3 failed, 4 passed" in said
    assert "crashed while running 'test_dies.py::test_dies'" in said
    assert "in test_sleeps" in said
    assert "crashed while running 'test_hangs.py::test_sleeps'" in said
    assert "crashed while running 'test_last.py::test_dies'" in said


class Node:
    """A worker as the scheduler sees it."""

    shutting_down = False

    def __init__(self) -> None:
        self.given: list[int] = []
        self.gateway = self
        self.id = "node"

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


class Config:
    """What the scheduler asks pytest's configuration for."""

    class option:  # noqa: N801
        loadscopereorder = False

    def getvalue(self, name: str) -> object:
        return {"dist": "loadfile", "tx": ["2*popen"]}[name]


def test_a_worker_that_is_still_collecting_gets_no_work():
    """One worker has ended and its successor collects when the other one ends, too."""
    scheduler = pytest_xdist_make_scheduler(Config(), None)
    tests = ["a.py::one", "a.py::two", "b.py::one", "b.py::two"]
    first, second, third = Node(), Node(), Node()
    for node in (first, second):
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    assert (first.given, second.given) == ([0, 1], [2, 3])
    first.shutting_down = second.shutting_down = True
    assert scheduler.remove_node(first) == "a.py::one"
    scheduler.add_node(third)
    assert scheduler.remove_node(second) == "b.py::one"
    assert third.given == []
    scheduler.add_node_collection(third, tests)
    scheduler.schedule()
    assert third.given == [1]
    scheduler.mark_test_complete(third, 1)
    assert third.given == [1, 3]


NOTING = """
import pytest

def note(name):
    with open("notes", "a") as notes:
        notes.write(name + " ")
"""
NAMED = (
    NOTING
    + """
@pytest.mark.parametrize("of", ["alone"])
def test_named(of):
    note("named")
"""
)
LONELY = (
    NOTING
    + """
def test_plain():
    note("plain")

@pytest.mark.alone
def test_lonely():
    note("lonely")
"""
)
ALONE = """
import pathlib, time, pytest
NOTES = pathlib.Path("notes")

@pytest.mark.parametrize("number", range(3))
{mark}
def test(number):
    with NOTES.open("a") as notes:
        notes.write("in {name}\\n")
    time.sleep({seconds})
    with NOTES.open("a") as notes:
        notes.write("out {name}\\n")
"""


def test_a_test_marked_alone_runs_beside_no_other(run, tmp_path):
    plain, alone = (
        ALONE.format(name=name, mark=mark, seconds=0.3)
        for name, mark in (("plain", ""), ("alone", "@pytest.mark.alone"))
    )
    assert "6 passed" in run(*FILES, plain=plain, alone=alone)
    notes = (tmp_path / "notes").read_text().split("\n")[:-1]
    assert len(notes) == 12
    for place, note in enumerate(notes):
        if note == "in alone":
            assert notes[place + 1] == "out alone"


def test_files_with_lonely_tests_come_first(run, tmp_path):
    """A parameter of that name makes no test lonely."""
    run(a=NAMED, b=LONELY)
    assert (tmp_path / "notes").read_text() == "plain lonely named "


@pytest.mark.parametrize("options", [("-p", "xdist", "-n0"), ()])
def test_without_workers_nothing_is_waited_for(run, options):
    alone = ALONE.format(name="alone", mark="@pytest.mark.alone", seconds=0)
    assert "3 passed" in run(*options, alone=alone)
