"""When the engine says that it lives: while it computes, or waits for a person; not when stuck."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from app.engine.process import pulse
from app.engine.process.pulse import COMPUTES_S, PULSE_S, Pulse

PATIENCE_S = 30.0


@dataclass
class _Engine:
    is_open: bool = True
    quiet_s: float = 2 * PULSE_S
    waits: bool = False
    processor_s: float = 3.0
    said: int = 0

    def pulse(self) -> Pulse:
        made = Pulse(
            lambda: self.is_open,
            lambda: self.quiet_s,
            lambda: self.waits,
            self._say,
            lambda: self.processor_s,
        )
        made.look()  # what was used before it began to look
        self.said = 0
        return made

    def _say(self) -> None:
        self.said += 1


def test_a_step_that_computes_is_alive() -> None:
    engine = _Engine()
    beats = engine.pulse()
    for _ in range(3):
        engine.processor_s += 1.0
        beats.look()
    assert engine.said == 3


def test_what_is_stuck_says_nothing() -> None:
    engine = _Engine()
    beats = engine.pulse()
    for _ in range(5):
        beats.look()
    assert engine.said == 0


def test_work_that_is_slowed_by_a_disk_adds_up() -> None:
    engine = _Engine()
    beats = engine.pulse()
    for _ in range(12):
        engine.processor_s += COMPUTES_S / 4 + 1e-9
        beats.look()
    assert engine.said == 3


def test_who_waits_for_a_person_is_alive() -> None:
    engine = _Engine(waits=True)
    beats = engine.pulse()
    beats.look()
    assert engine.said == 1


def test_nothing_is_added_to_tokens_that_come() -> None:
    engine = _Engine(quiet_s=PULSE_S / 2, waits=True)
    beats = engine.pulse()
    for _ in range(5):
        engine.processor_s += 1.0
        beats.look()
    assert engine.said == 0


def test_its_thread_sleeps_until_something_is_asked_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulse, "PULSE_S", 0.001)
    asked, said = threading.Event(), threading.Semaphore(0)
    looks: list[bool] = []

    def is_open() -> bool:
        looks.append(asked.is_set())
        return asked.is_set()

    beats = Pulse(is_open, lambda: 1.0, lambda: True, lambda: said.release())
    leaving = threading.Event()
    thread = threading.Thread(target=beats.run, args=[leaving])
    thread.start()
    asked.set()
    beats.begin()
    for _ in range(3):
        assert said.acquire(timeout=PATIENCE_S)
    assert looks[0]  # not before it was asked to
    leaving.set()
    beats.begin()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
