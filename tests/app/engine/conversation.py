"""A conversation with an engine's process over its real pipes, frame by frame."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from app.engine.client.process import child_command
from app.engine.protocol import wire
from app.engine.protocol.loading_messages import Loaded, LoadOptions, LoadWeights
from app.engine.protocol.messages import Command, Event, Failed, Finished, Stopped

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = LoadOptions(n_ctx=2048, n_threads=1)
PATIENCE_S = 60.0


class Conversation:
    """A child and what it has said so far. It loads once; another file has another child."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._start()

    def _start(self) -> None:
        self._has_loaded = False
        self.process = subprocess.Popen(
            child_command("engine"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._writer = wire.FrameWriter(self.process.stdin)
        self._reader = wire.FrameReader(self.process.stdout)
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._drain, daemon=True),
        ]
        self.stderr = b""
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        while (payload := self._reader.read()) is not None:
            self._queue.put(wire.decode_event(payload))
        self._queue.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.stderr = self.process.stderr.read()

    def say(self, command: Command) -> None:
        self._writer.write(command)

    def hear(self, kind: type | tuple[type, ...], request_id: int | None = None) -> Any:
        """The next event of this kind (and request); everything on the way is kept."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            event = self._queue.get(timeout=max(deadline - time.monotonic(), 0.01))
            if event is None:
                pytest.fail(f"the child left: {self.stderr.decode(errors='replace')[-2000:]}")
            self.events.append(event)
            if isinstance(event, kind) and request_id in (None, getattr(event, "id", None)):
                return event

    def ending(self, request_id: int) -> Any:
        return self.hear((Finished, Stopped, Failed), request_id)

    def ask(self, command: Any) -> Any:
        self.say(command)
        return self.ending(command.id)

    def load(self, path: Path, options: LoadOptions = OPTIONS) -> Loaded:
        if self._has_loaded:
            assert self.leave() == 0
            self._start()
        self._has_loaded = True
        finished = self.ask(LoadWeights(1, str(path), options))
        assert isinstance(finished, Finished), finished
        assert isinstance(finished.result, Loaded)
        return finished.result

    def leave(self) -> int:
        """End it by closing its stdin; return its exit code."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(10)
        for thread in self._threads:
            thread.join(5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code
