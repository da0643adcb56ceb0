"""One voice and the program that it has, which may hang, flood, or leave others behind."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest

from app.chat.aloud import voice as voices
from app.chat.aloud.speakers import Speaker
from app.chat.aloud.voice import Voice


class Listening:
    """A voice with this program, and what it tells."""

    def __init__(self, does: str, folder: Path) -> None:
        self.told: list[str] = []
        self.has_ended = threading.Event()
        command = ("/bin/sh", "-c", does, str(folder / "pid"))
        self._pid = folder / "pid"
        self.voice = Voice(Speaker("fake", command), lambda _: None, self._end)
        self.voice.say(0, "It rains." * 30)
        self.voice.end()

    def _end(self, why: str) -> None:
        self.told.append(why)
        self.has_ended.set()

    def inner(self) -> psutil.Process:
        """What the program has begun; it writes down its number."""
        tick = threading.Event()
        while not self._pid.exists() or not self._pid.read_text().strip():
            tick.wait(0.01)
        return psutil.Process(int(self._pid.read_text()))


def test_a_program_around_the_real_one_is_silent_with_it(tmp_path: Path) -> None:
    listening = Listening('sleep 60 & echo $! > "$0"; wait', tmp_path)
    inner = listening.inner()
    listening.voice.stop()
    listening.voice.join(10)
    assert not listening.voice.is_alive
    _, alive = psutil.wait_procs([inner], 0)
    while alive and inner.status() != psutil.STATUS_ZOMBIE:
        _, alive = psutil.wait_procs([inner], 0.01)
    assert listening.told == []


def test_one_that_floods_or_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "PATIENCE_S", 0.2)
    monkeypatch.setattr(voices, "S_PER_CHAR", 0.0)
    for does in ("exec yes flooded >&2", "exec sleep 60", "sleep 60 & wait"):
        listening = Listening(does, tmp_path)
        assert listening.has_ended.wait(10)
        listening.voice.join(10)
        assert listening.told == ["fake didn't respond."]


def test_nobody_waits_for_what_it_leaves_behind(tmp_path: Path) -> None:
    """It holds the pipes of the program that began it."""
    for code, told in ((0, ""), (4, "fake failed: no device.")):
        does = f'sleep 60 & echo $! > "$0"; echo no device >&2; exit {code}'
        listening = Listening(does, tmp_path)
        try:
            assert listening.has_ended.wait(10)
        finally:
            listening.inner().kill()
        listening.voice.join(10)
        assert listening.told == [told]
