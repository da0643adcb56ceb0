"""Alarms go off once, in time, on the owner's side, and never after close."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from app.chat.alarms import Alarms


class Posted:
    """Collects what is posted; `next` waits for it."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.alarms = Alarms(self.queue.put)

    def run_next(self) -> None:
        self.queue.get(timeout=5)()


@pytest.fixture
def posted() -> Iterator[Posted]:
    posted = Posted()
    yield posted
    posted.alarms.close()


def test_alarm_runs_where_it_was_posted_to(posted: Posted) -> None:
    threads: list[threading.Thread] = []
    posted.alarms.set("a", 0.0, lambda: threads.append(threading.current_thread()))
    posted.run_next()
    assert threads == [threading.current_thread()]


def test_setting_again_replaces_and_delays(posted: Posted) -> None:
    heard: list[str] = []
    begun = time.monotonic()
    posted.alarms.set("a", 0.05, lambda: heard.append("first"))
    posted.alarms.set("a", 0.15, lambda: heard.append("second"))
    posted.run_next()
    assert heard == ["second"]
    assert time.monotonic() - begun >= 0.15
    assert posted.queue.empty()


def test_set_once_keeps_the_first(posted: Posted) -> None:
    heard: list[str] = []
    posted.alarms.set_once("a", 0.05, lambda: heard.append("first"))
    posted.alarms.set_once("a", 0.0, lambda: heard.append("second"))
    posted.run_next()
    assert heard == ["first"]


def test_sooner_alarm_overtakes_a_later_one(posted: Posted) -> None:
    heard: list[str] = []
    posted.alarms.set("late", 0.2, lambda: heard.append("late"))
    posted.alarms.set("soon", 0.01, lambda: heard.append("soon"))
    posted.run_next()
    posted.run_next()
    assert heard == ["soon", "late"]


def test_cancelled_and_closed_alarms_are_silent(posted: Posted) -> None:
    posted.alarms.set("a", 0.05, lambda: None)
    posted.alarms.cancel("a")
    posted.alarms.set("b", 0.05, lambda: None)
    posted.alarms.close()
    with pytest.raises(queue.Empty):
        posted.queue.get(timeout=0.15)
