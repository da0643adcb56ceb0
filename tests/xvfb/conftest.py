"""An X server for the session; each test runs its own program in it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from x_server import Program, XServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def x_server() -> Iterator[XServer]:
    with XServer() as server:
        yield server


@pytest.fixture
def start_anew(x_server, data_dir, tmp_path) -> Iterator[Callable[..., Program]]:
    """Start main.py with a scripted engine that has these replies, or with its own engine."""
    with contextlib.ExitStack() as programs:

        def start_program(*replies: dict, options: tuple[str, ...] = ()) -> Program:
            command = [sys.executable, "main.py", "--data-dir", str(data_dir), "--offline"]
            if replies:
                script = tmp_path / "script.json"
                script.write_text(json.dumps({"replies": replies, "loop": True}))
                command += ["--scripted", str(script)]
            program = Program([*command, *options], x_server.display, tmp_path / "log", cwd=ROOT)
            return programs.enter_context(program)

        yield start_program


@pytest.fixture
def start(forked_windows, start_anew) -> Callable[..., Program]:
    """The same for tests that are not about the start: the program is forked."""
    return start_anew
