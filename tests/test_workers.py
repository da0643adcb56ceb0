"""Workers that share tests, seen from outside: pytest on a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HOOKS = """
from workers import (
    pytest_addoption, pytest_collection_modifyitems, pytest_runtest_protocol, pytest_runtestloop
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


TWO = ("--workers=2",)


DIES = """
import os
def test_before(): pass
def test_dies(): os._exit(3)
def test_after(): pass
"""


def test_a_test_that_ends_its_worker_fails_once_and_the_rest_of_its_file_runs(run):
    last = "import os, signal\ndef test_dies(): os.kill(os.getpid(), signal.SIGKILL)"
    said = run(*TWO, dies=DIES, last=last, other="def test(): 0")
    assert "2 failed, 3 passed" in said
    assert "A worker ended (exit code 3) while running 'test_dies.py::test_dies'" in said
    assert "A worker ended (SIGKILL) while running 'test_last.py::test_dies'" in said


@pytest.mark.soak
def test_a_test_that_hangs_fails_once_and_the_rest_of_its_file_runs(run):
    said = run(
        *TWO,
        # What ends well needs far less, on a busy machine too.
        *("-o", "faulthandler_timeout=4", "-o", "faulthandler_exit_on_timeout=true"),
        hangs="import time\ndef test_sleeps(): time.sleep(90)\ndef test_after(): pass",
        other="def test(): 0",
    )
    assert "1 failed, 2 passed" in said
    assert "in test_sleeps" in said
    assert "A worker ended (exit code 1) while running 'test_hangs.py::test_sleeps'" in said


@pytest.mark.soak
def test_the_first_failure_ends_all_where_that_is_asked_for(run):
    sleeps = "import time\ndef test_sleeps(): time.sleep(90)"
    said = run(*TWO, "-x", fails="def test_fails(): assert 0\ndef test_after(): pass", z=sleeps)
    assert "stopping after 1 failures" in said
    assert "1 failed in" in said


@pytest.mark.soak
def test_what_cannot_be_collected_is_said_and_nothing_runs(run):
    said = run(*TWO, bad="import nothing_of_that_name", good="def test(): pass")
    assert "1 error during collection" in said
    assert "passed" not in said


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
    assert "6 passed" in run(*TWO, plain=plain, alone=alone)
    notes = (tmp_path / "notes").read_text().split("\n")[:-1]
    assert len(notes) == 12
    for place, note in enumerate(notes):
        if note == "in alone":
            assert notes[place + 1] == "out alone"


def test_files_with_lonely_tests_come_first(run, tmp_path):
    """A parameter of that name makes no test lonely."""
    run(a=NAMED, b=LONELY)
    assert (tmp_path / "notes").read_text() == "plain lonely named "


@pytest.mark.parametrize("options", [("--workers=0",), ()])
def test_without_workers_nothing_is_waited_for(run, options):
    alone = ALONE.format(name="alone", mark="@pytest.mark.alone", seconds=0)
    assert "3 passed" in run(*options, alone=alone)
