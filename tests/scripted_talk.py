"""An engine that plays a script, and a record of what it said: for tests that read as a talk."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from app.engine.client.engine import Engine
from app.engine.client.process import child_command
from app.engine.client.supervisor import EngineEvent, EngineState, StateChanged
from app.engine.protocol.loading_messages import Loaded
from app.engine.protocol.messages import Generate, TokenArrived
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt

PATIENCE_S = 30.0
E = TypeVar("E")


class LateClock:
    """A clock that stands still until it is started."""

    def __init__(self) -> None:
        self._started_at: float | None = None

    def start(self) -> None:
        self._started_at = time.monotonic()

    def __call__(self) -> float:
        return 0.0 if self._started_at is None else time.monotonic() - self._started_at


class ScriptedTalk:
    """Starts engines over script files in a folder and closes them all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._engines: list[Engine] = []
        self.events: list[EngineEvent] = []
        self._changed = threading.Condition()

    def engine(self, script: dict[str, Any], **options: Any) -> Engine:
        path = self._folder / f"script-{len(self._engines)}.json"
        path.write_text(json.dumps(script), encoding="utf-8")
        return self.over(child_command("scripted", str(path)), **options)

    def loaded_engine(self, script: dict[str, Any], **options: Any) -> Engine:
        """Ready. The engine's deadlines run from here on: a busy machine starts a child slowly."""
        clock = LateClock()
        engine = self.engine(script, **({"clock": clock} | options))
        ending = engine.wait_for(engine.load("weights.gguf"), PATIENCE_S)
        assert isinstance(getattr(ending, "result", None), Loaded), ending
        clock.start()
        return engine

    def over(self, command: list[str], **options: Any) -> Engine:
        engine = Engine(command, self._note, **options)
        self._engines.append(engine)
        return engine

    def close(self) -> None:
        for engine in self._engines:
            engine.close()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(is_so, PATIENCE_S), self.events[-10:]

    def wait_for_state(self, state: EngineState) -> StateChanged:
        self.wait_until(lambda: any(s.state is state for s in self.of(StateChanged)))
        return next(s for s in reversed(self.of(StateChanged)) if s.state is state)

    def wait_for_tokens(self, count: int) -> None:
        self.wait_until(lambda: len(self.of(TokenArrived)) >= count)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in list(self.events) if isinstance(event, kind)]

    def states(self) -> list[str]:
        return [str(event.state) for event in self.of(StateChanged)]

    def _note(self, event: EngineEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()


class HandClock:
    """Stands still; `pass_by` moves it on, a second at a time, as the child gives a sign."""

    def __init__(self, talk: ScriptedTalk) -> None:
        self.now = 1000.0
        self._talk = talk
        self._signs = threading.Semaphore(0)

    def __call__(self) -> float:
        return self.now

    def watch(self, engine: Engine) -> None:
        on_report = engine._oversight._on_report

        def note(child: Any, report: Any) -> None:
            on_report(child, report)
            self._signs.release()

        engine._oversight._on_report = note  # type: ignore[method-assign]

    def pass_by(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            while self._signs.acquire(blocking=False):
                pass
            assert self._signs.acquire(timeout=PATIENCE_S), "the child says nothing"


def ask(text: str = "Hello", **fields: Any) -> Generate:
    return Generate(0, ChatPrompt([ChatMessage("user", text)]), **fields)


def slow(text: str = "a ", ms: float = 10, count: int = 2000) -> dict[str, Any]:
    """A script whose one reply goes on for long."""
    return {"load": {"ms": 5}, "replies": [{"tokens": [{"text": text, "ms": ms, "repeat": count}]}]}


def wait_until_gone(pid: int, seconds: float) -> float:
    """Wait until no process has this pid (or it is a zombie); return how long it took."""
    import psutil

    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return time.monotonic() - began
        except psutil.NoSuchProcess:
            return time.monotonic() - began
        time.sleep(0.02)
    raise AssertionError(f"process {pid} is still there after {seconds} s")
