"""One child process and the threads that talk to it. No Qt, no policy.

`ChildProcess` starts a command, sends it frames, and tells its owner, through one callback,
what came back: events, lines of stderr, broken frames, and at last the exit. What the owner
makes of them is `engine.py`'s business. What must hold:

* `send` never blocks: a child that does not read its stdin fills only our queue.
* The exit is reported exactly once, after all events and stderr lines that came before it.
* `join` leaves no process, thread or file descriptor behind.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from app.engine.protocol import wire
from app.engine.protocol.frames import WireMessage

_STDERR_GRACE_S: Final = 1.0
_EXIT_GRACE_S: Final = 2.0
_LINE_BYTES: Final = 4096

_CHILD_ENVIRONMENT: Final = {
    # Aborting native code must not start a debugger or print its backtrace on stdout.
    "GGML_NO_BACKTRACE": "1",
    # Paths and logs are UTF-8 whatever the console says.
    "PYTHONUTF8": "1",
    # A native crash leaves the Python stack in stderr, our evidence.
    "PYTHONFAULTHANDLER": "1",
}


@dataclass(frozen=True, slots=True)
class StderrLine:
    """One line that the child (or native code in it) printed."""

    text: str


@dataclass(frozen=True, slots=True)
class BrokenFrames:
    """The child sent something that is not a frame. Nothing more is read from it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The process has ended. `code` as subprocess gives it (negative: by a signal)."""

    code: int


@dataclass(frozen=True, slots=True)
class Events:
    """What the child said, in order: at least one message, and what came with it."""

    messages: list[WireMessage]


ChildReport = Events | StderrLine | BrokenFrames | Exited


def child_command(kind: str, *args: str) -> list[str]:
    """The argv of one of the program's own children: engine, scripted FILE, templates,
    or documents."""
    main = Path(__file__).resolve().parents[3] / "main.py"
    return [sys.executable, str(main), f"--child={kind}", *args]


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment, with what a child needs before native code loads."""
    return {**os.environ, **_CHILD_ENVIRONMENT, **(extra or {})}


class ChildProcess:
    """A running child. Start it on a thread that lives at least as long as the child:
    Linux ends a child that asked for it (`wire.die_with_parent`) with the thread that
    started it."""

    def __init__(
        self,
        command: list[str],
        report: Callable[[ChildProcess, ChildReport], None],
        env: Mapping[str, str] | None = None,
        decode: Callable[[bytes], WireMessage] = wire.decode_event,
        encode: Callable[[WireMessage], bytes] = wire.encode_command,
    ) -> None:
        """Start the process. Raises OSError if it cannot be started."""
        self._report = report
        self._decode = decode
        self._encode = encode
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(env),
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self.pid = self._process.pid
        self._stderr_reader = self._thread(self._read_stderr, "stderr")
        self._threads = [
            self._stderr_reader,
            self._thread(self._read_frames, "reader"),
            self._thread(self._write_frames, "writer"),
        ]
        for thread in self._threads:
            thread.start()

    def send(self, command: WireMessage) -> None:
        """Queue one struct. Raises ProtocolError for one that the child would not take."""
        self._frames.put(self._encode(command))

    def close_stdin(self) -> None:
        """Say goodbye: after what is queued, the child's stdin ends, and so does the child."""
        self._frames.put(None)

    def terminate(self) -> None:
        """Ask the system to end the process (it may still refuse)."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()

    def join(self, timeout_s: float = 5.0) -> None:
        """Wait for the threads of an exited child and close its pipes."""
        self._frames.put(None)
        for thread in self._threads:
            thread.join(timeout_s)
        for stream in (self._stdin, self._stdout, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()

    @property
    def _stdin(self) -> BinaryIO:
        return cast("BinaryIO", self._process.stdin)

    @property
    def _stdout(self) -> BinaryIO:
        return cast("BinaryIO", self._process.stdout)

    @property
    def _stderr(self) -> BinaryIO:
        return cast("BinaryIO", self._process.stderr)

    def _thread(self, run: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=run, name=f"engine-{name}-{self.pid}", daemon=True)

    def _read_frames(self) -> None:
        """Report events until the stream ends or breaks, then the exit."""
        frames = wire.FrameReader(self._stdout)
        try:
            while payloads := frames.read_few():
                self._report_all(payloads)
                del payloads  # megabytes at the end of a long chat's reply
        except Exception as error:  # noqa: BLE001 - without its exit no request would end
            self._report(self, BrokenFrames(str(error) or repr(error)))
            # The child must not block in a write that nobody reads.
            with contextlib.suppress(Exception):
                while self._stdout.read(65536):
                    pass
        code = self._wait_for_exit()
        # A grandchild may hold stderr open a little longer; its lines can be missed then.
        self._stderr_reader.join(_STDERR_GRACE_S)
        self._report(self, Exited(code))

    def _report_all(self, payloads: list[bytes]) -> None:
        """All in one report; up to the first that does not fit, whose ProtocolError goes on."""
        messages: list[WireMessage] = []
        try:
            messages.extend(map(self._decode, payloads))
        finally:
            if messages:
                self._report(self, Events(messages))

    def _wait_for_exit(self) -> int:
        """Wait for the process; one that only closed its stdout is reported as broken."""
        try:
            return self._process.wait(_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            self._report(self, BrokenFrames("the stream ended but the process did not"))
            return self._process.wait()

    def _write_frames(self) -> None:
        """Write what is queued. Errors need no report: the exit will say it."""
        with contextlib.suppress(OSError, ValueError):
            while (frame := self._frames.get()) is not None:
                self._stdin.write(frame)
                self._stdin.flush()
                del frame  # a long chat's is megabytes, and the next may be long in coming
        with contextlib.suppress(OSError):
            self._stdin.close()

    def _read_stderr(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := self._stderr.readline(_LINE_BYTES):
                text = line.decode("utf-8", "replace").rstrip()
                if text:
                    self._report(self, StderrLine(text))


Reports = queue.SimpleQueue[WireMessage | ChildReport]
"""What a child says, message by message, and how it ended."""


def reporting_child(
    command: list[str], reports: Reports, decode: Callable[[bytes], WireMessage]
) -> ChildProcess:
    """A child for one request at a time, whose owner waits at `reports`. Raises OSError if it
    cannot be started."""

    def put(_: ChildProcess, report: ChildReport) -> None:
        for one in report.messages if isinstance(report, Events) else [report]:
            reports.put(one)

    return ChildProcess(command, put, decode=decode, encode=wire.encode_frame)
