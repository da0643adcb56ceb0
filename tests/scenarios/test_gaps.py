"""The window never freezes: the longest gap in its event loop while the engine works.

Another program on the machine can stretch a gap, but not shorten one: so a phase is repeated
until one time it had none, which a window that stops itself never reaches. The bound is the
product's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer

LONGEST_GAP_MS = 100
TRIES = 6
MARKDOWN = (
    "## Heading\n\nSome **bold** text with `code`, and a list:\n\n- one\n- two\n\n"
    "```python\ndef f(x):\n    return x + 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
SCRIPT: dict[str, Any] = {
    "load": {"ms": 800, "steps": 40},
    "replies": [
        {
            "match": "prefill",
            "prefill": {"tokens": 4000, "ms": 800, "chunks": 40},
            "text": "Done.",
        },
        {"match": "at once", "text": MARKDOWN * 50},
        {
            "tokens": [
                {"text": (MARKDOWN * 50)[at : at + 12], "ms": 3}
                for at in range(0, 50 * len(MARKDOWN), 12)
            ]
        },
    ],
}


class GapMeter(QObject):
    """Measures how long the GUI's event loop did not come round, at its longest."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_ms = 0.0
        self.ticks = 0
        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_tick)

    def __enter__(self) -> GapMeter:
        self._since.start()
        self._timer.start(2)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.stop()

    def _on_tick(self) -> None:
        self.ticks += 1
        self.longest_ms = max(self.longest_ms, self._since.nsecsElapsed() / 1e6)
        self._since.restart()


def longest_gap_ms(phase: Callable[[], Any]) -> float:
    """The longest gap of the calmest try; tries end with the first one below the bound."""
    gaps: list[float] = []
    while len(gaps) < TRIES and min(gaps, default=LONGEST_GAP_MS) >= LONGEST_GAP_MS:
        with GapMeter() as meter:
            phase()
        assert meter.ticks > 50
        gaps.append(meter.longest_ms)
    print("gaps, ms:", [round(gap, 1) for gap in gaps])
    return min(gaps)


@pytest.fixture
def person(open_window):
    person = open_window(SCRIPT)
    person.window.resize(1440, 900)
    person.wait_ready()
    return person


def test_no_gap_while_loading(person):
    desk = person.app.desk

    def load() -> None:
        desk.loader.unload()
        person.wait(lambda: desk.loader.state.state == "stopped")
        desk.loader.load(str(person.app.desk.loader.known_weights()[0].path))
        person.wait_ready()

    assert longest_gap_ms(load) < LONGEST_GAP_MS


def test_no_gap_while_prefilling(person):
    def prefill() -> None:
        person.send("prefill this")
        person.wait_ended()
        person.window.new_chat()

    assert longest_gap_ms(prefill) < LONGEST_GAP_MS


def test_no_gap_while_a_long_reply_streams(person):
    view = person.window.chat.transcript

    def stream() -> None:
        before = view.repaints
        person.send("stream")
        assert len(person.wait_ended().content) > 7000
        # The question, the end, and some of what came between: how many, the machine decides.
        assert view.repaints - before > 2
        person.window.new_chat()

    assert longest_gap_ms(stream) < LONGEST_GAP_MS


@pytest.mark.soak
def test_no_gap_while_one_goes_through_a_long_reply_inside(person):
    """Every card is open, and the text before each token has thousands of them."""
    person.send("at once")
    person.wait_ended()
    person.window.action_registry.run("panel_inside")
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces) and looking.words is not None)
    panel = person.window.section_acts.section().panel()
    looking.select(len(looking.traces) - 20)
    person.wait(lambda: panel.view.seen is not None)
    for card in panel.cards:
        card.set_open(True)
    person.wait(lambda: panel.view.seen.is_whole and not panel.view.is_waiting)

    def step() -> None:
        for _ in range(4):
            panel.view.step(1)
            at = looking.index
            person.wait(lambda at=at: panel.view.index == at and panel.view.seen is not None)
            person.wait(lambda: not panel.view.is_waiting)

    assert longest_gap_ms(step) < LONGEST_GAP_MS
