"""Events reach those who ask for them, and what other threads post runs on the bridge's thread."""

from __future__ import annotations

import dataclasses
import threading
import typing
import weakref

import pytest
from PySide6.QtCore import QCoreApplication, QObject

from app.bridge import Bridge
from app.chat import events
from app.chat.events import Noticed


@pytest.fixture
def bridge(qapp: QCoreApplication) -> Bridge:
    return Bridge()


def test_every_event_is_told_to_those_who_asked_for_its_class(bridge: Bridge) -> None:
    for kind in typing.get_args(events.Event):
        heard: list[object] = []
        event = kind(**dict.fromkeys(field.name for field in dataclasses.fields(kind)))
        bridge.on(kind, heard.append)
        bridge.emit_event(event)
        assert heard == [event], kind


def test_one_may_ask_for_several_classes_and_hears_no_other(bridge: Bridge) -> None:
    heard: list[object] = []
    told = [events.Noticed("info", "Hello."), events.LevelsChanged("chat")]
    bridge.on((events.Noticed, events.LevelsChanged), heard.append)
    for event in (*told, events.LastChatStays()):
        bridge.emit_event(event)
    assert heard == told


def test_what_a_widget_is_told_ends_with_the_widget(qtbot, bridge: Bridge) -> None:
    heard: list[object] = []

    class Widget(QObject):
        def take(self, event: object) -> None:
            heard.append(event)

    widget = Widget()
    bridge.on(events.LastChatStays, widget.take)
    gone = weakref.ref(widget)
    del widget
    assert gone() is None
    bridge.emit_event(events.LastChatStays())
    assert heard == []


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
    bridge.on(Noticed, lambda _: heard.append("noticed"))
    bridge.post(lambda: heard.append("posted"))
    bridge.close()
    bridge.post(lambda: heard.append("late"))
    bridge.emit_event(events.Noticed("info", "Hello."))
    QCoreApplication.processEvents()
    assert heard == []
