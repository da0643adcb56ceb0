"""Events become signals, and what other threads post runs on the bridge's thread."""

from __future__ import annotations

import threading
import typing

import pytest
from PySide6.QtCore import QCoreApplication

from app.bridge import SIGNAL_OF_EVENT, Bridge
from app.chat import events


@pytest.fixture
def bridge(qapp: QCoreApplication) -> Bridge:
    return Bridge()


def test_every_event_has_its_signal(bridge: Bridge) -> None:
    assert set(SIGNAL_OF_EVENT) == set(typing.get_args(events.Event))
    assert len(set(SIGNAL_OF_EVENT.values())) == len(SIGNAL_OF_EVENT)


def test_event_arrives_with_its_signal(qtbot, bridge: Bridge) -> None:
    event = events.Noticed("info", "Hello.")
    with qtbot.waitSignal(bridge.noticed) as caught:
        bridge.emit_event(event)
    assert caught.args == [event]


def test_posts_of_another_thread_run_here_in_order(qtbot, bridge: Bridge) -> None:
    heard: list[tuple[int, threading.Thread]] = []

    def post_all() -> None:
        for number in range(50):
            bridge.post(lambda n=number: heard.append((n, threading.current_thread())))

    thread = threading.Thread(target=post_all)
    thread.start()
    thread.join()
    assert heard == []
    qtbot.waitUntil(lambda: len(heard) == 50)
    assert heard == [(n, threading.current_thread()) for n in range(50)]


def test_nothing_runs_after_close(qtbot, bridge: Bridge) -> None:
    heard: list[str] = []
    bridge.noticed.connect(lambda _: heard.append("noticed"))
    bridge.post(lambda: heard.append("posted"))
    bridge.close()
    bridge.post(lambda: heard.append("late"))
    bridge.emit_event(events.Noticed("info", "Hello."))
    QCoreApplication.processEvents()
    assert heard == []
