"""One child process: reports come in order, sending never blocks, and nothing stays behind."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.engine.client import process as client
from app.engine.client.process import (
    BrokenFrames,
    ChildProcess,
    ChildReport,
    Events,
    Exited,
    StderrLine,
)
from app.engine.protocol import wire
from app.engine.protocol.messages import Log, Stop, Tokenize

_PRELUDE = """
import os, sys, time
from app.engine.protocol import wire
from app.engine.protocol.messages import Log
commands, frames = wire.begin_child()
reader, writer = wire.FrameReader(commands), wire.FrameWriter(frames)
"""


class Child:
    """A Python program as a child, and its reports in a queue."""

    def __init__(self, program: str) -> None:
        self.reports: queue.SimpleQueue[ChildReport] = queue.SimpleQueue()
        command = [sys.executable, "-c", _PRELUDE + program]
        self.process = ChildProcess(command, lambda _, report: self.reports.put(report))

    def all_reports(self) -> list[Any]:
        """Everything until the exit, the messages one by one."""
        seen: list[Any] = []
        while not (seen and isinstance(seen[-1], Exited)):
            report = self.reports.get(timeout=30)
            seen += report.messages if isinstance(report, Events) else [report]
        return seen

    def close(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture
def start() -> Iterator[Any]:
    children: list[Child] = []

    def begin(program: str) -> Child:
        children.append(Child(program))
        return children[-1]

    yield begin
    for child in children:
        child.close()


def test_the_exit_is_the_last_report(start: Any) -> None:
    child = start(
        "for n in range(50): writer.write(Log('info', str(n)))\n"
        "print('to stderr', file=sys.stderr)\nsys.exit(7)"
    )
    reports = child.all_reports()
    assert [r.text for r in reports if isinstance(r, Log)] == [str(n) for n in range(50)]
    assert StderrLine("to stderr") in reports
    assert reports[-1] == Exited(7)
    assert len([r for r in reports if isinstance(r, Exited)]) == 1


def test_what_comes_together_is_one_report_and_garbage_takes_nothing_along(start: Any) -> None:
    child = start(
        "good = [wire.encode_frame(Log('info', str(n))) for n in range(3)]\n"
        "frames.write(b''.join(good) + b'\\x03\\0\\0\\0abc' + good[0])\n"
        "frames.flush()"
    )
    first = child.reports.get(timeout=30)
    assert first == Events([Log("info", "0"), Log("info", "1"), Log("info", "2")])
    assert [type(report) for report in child.all_reports()] == [BrokenFrames, Exited]


def test_commands_arrive_and_stdin_ends(start: Any) -> None:
    child = start(
        "while (payload := reader.read()) is not None:\n"
        "    writer.write(Log('info', repr(wire.decode_command(payload))))\n"
    )
    child.process.send(Stop(4))
    child.process.close_stdin()
    reports = child.all_reports()
    assert reports[0] == Log("info", "Stop(target=4)")
    assert reports[-1] == Exited(0)


def test_sending_to_a_child_that_does_not_read_never_blocks(start: Any) -> None:
    child = start("time.sleep(60)")
    began = time.monotonic()
    for _ in range(20):
        child.process.send(Tokenize(1, "a" * 200_000))
    assert time.monotonic() - began < 5
    child.process.kill()
    assert isinstance(child.all_reports()[-1], Exited)


def test_garbage_is_reported_once_and_the_child_does_not_block(start: Any) -> None:
    child = start(r"frames.write(b'\xff' * 1_000_000); frames.flush(); sys.exit(0)")
    reports = child.all_reports()
    assert [type(report) for report in reports] == [BrokenFrames, Exited]
    assert "not allowed" in reports[0].reason


def test_a_child_that_only_closes_its_stdout_is_reported(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_EXIT_GRACE_S", 0.2)
    child = start("frames.close(); time.sleep(60)")
    report = child.reports.get(timeout=30)
    assert isinstance(report, BrokenFrames)
    assert "did not" in report.reason


def test_endless_lines_and_bad_bytes_on_stderr_do_no_harm(start: Any) -> None:
    child = start(r"os.write(2, b'x' * 100_000 + b'\xff\n\n'); sys.exit(0)")
    lines = [r.text for r in child.all_reports() if isinstance(r, StderrLine)]
    assert "".join(lines) == "x" * 100_000 + "\ufffd"
    assert max(map(len, lines)) <= 4096


def test_what_native_code_prints_on_stdout_is_no_frame(start: Any) -> None:
    child = start("os.write(1, b'GGML_ASSERT failed\\n'); writer.write(Log('info', 'fine'))")
    reports = child.all_reports()
    assert StderrLine("GGML_ASSERT failed") in reports
    assert Log("info", "fine") in reports


def test_a_closed_child_leaves_no_thread_process_or_descriptor(start: Any) -> None:
    me = psutil.Process()
    fds = me.num_fds() if sys.platform != "win32" else 0
    child = start("reader.read()")
    assert psutil.pid_exists(child.process.pid)
    child.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("engine-")]
    assert child.process.pid not in {process.pid for process in me.children()}
    if sys.platform != "win32":
        assert me.num_fds() == fds


def test_a_child_gets_what_native_code_needs_from_its_environment() -> None:
    env = client.child_environment({"EXTRA": "1"})
    assert (env["GGML_NO_BACKTRACE"], env["PYTHONUTF8"], env["EXTRA"]) == ("1", "1", "1")


def test_a_command_names_our_own_program() -> None:
    python, main, *rest = client.child_command("scripted", "file.json")
    assert python == sys.executable
    assert Path(main).name == "main.py"
    assert Path(main).is_file()
    assert rest == ["--child=scripted", "file.json"]


def test_a_command_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(OSError, match="does"):
        ChildProcess(["/does/not/exist"], lambda *_: None)


def test_a_decoder_of_another_protocol_may_be_given() -> None:
    reports: queue.SimpleQueue[ChildReport] = queue.SimpleQueue()
    program = _PRELUDE + "writer.write(wire.decode_command(reader.read()))"
    child = ChildProcess(
        [sys.executable, "-c", program],
        lambda _, report: reports.put(report),
        decode=wire.decode_command,
    )
    child.send(Stop(3))
    assert reports.get(timeout=30) == Events([Stop(3)])
    assert reports.get(timeout=30) == Exited(0)
    child.join()
