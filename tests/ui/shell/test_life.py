"""First paint, signals, and what is taken out of the way of the window's start."""

from __future__ import annotations

import builtins
import gc
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui.shell import life
from ui.shell.life import (
    FirstPaint,
    SignalWatcher,
    call_after,
    drop_import_hook,
    warm_up,
)


@pytest.fixture
def window(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    return window


def test_action_waits_for_the_first_paint_and_comes_once(qtbot, window):
    heard: list[bool] = []
    FirstPaint(window, lambda: heard.append(window.isVisible()))
    QCoreApplication.processEvents()
    assert heard == []
    window.show()
    qtbot.waitUntil(lambda: heard == [True])
    window.resize(300, 300)
    window.repaint()
    QCoreApplication.processEvents()
    assert heard == [True]


def test_window_that_is_never_painted_does_not_wait_for_ever(qtbot, window, monkeypatch):
    monkeypatch.setattr(life, "LATEST_START_MS", 20)
    heard: list[int] = []
    FirstPaint(window, lambda: heard.append(1))
    qtbot.waitUntil(lambda: heard == [1])


def test_cancelled_start_never_comes(qtbot, window):
    heard: list[int] = []
    first_paint = FirstPaint(window, lambda: heard.append(1))
    window.show()
    first_paint.cancel()
    qtbot.waitExposed(window)
    QCoreApplication.processEvents()
    assert heard == []


@pytest.mark.parametrize("number", life.ENDING)
def test_signal_wakes_an_idle_event_loop(qtbot, number):
    heard: list[int] = []
    former = signal.getsignal(number)
    with SignalWatcher(lambda: heard.append(1)):
        os.kill(os.getpid(), number)
        qtbot.waitUntil(lambda: heard == [1])
    assert signal.getsignal(number) is former


def test_action_after_some_time(qtbot, window):
    heard: list[int] = []
    call_after(window, 0.01, lambda: heard.append(1))
    qtbot.waitUntil(lambda: heard == [1])


@pytest.fixture
def collections():
    """The generations that were collected."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[life.QuietCollector]:
    """Of a window that is busy until `is_busy` is set otherwise."""
    monkeypatch.setattr(life, "TIDY_EVERY_MS", 5)
    monkeypatch.setattr(life, "COLLECT_EVERY_MS", 5)
    former = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # as users have it
    made = life.QuietCollector(lambda: made.is_busy)
    made.is_busy = True
    gc.collect()
    yield made
    made.end()
    gc.set_threshold(*former)
    gc.freeze()  # as it was: else each collection would look at all modules and tests


def _make(count: int) -> list[list[int]]:
    return [[number] for number in range(count)]


def test_nothing_is_collected_by_itself_while_the_collector_is_held(
    collector: life.QuietCollector, collections: list[int]
) -> None:
    """Whichever thread makes objects, at the start or later."""
    former = gc.get_threshold()
    collector.hold()
    made: list[Any] = []
    threads = [threading.Thread(target=lambda: made.append(_make(30_000))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not gc.isenabled()
    collector.begin()
    made.append(_make(30_000))
    assert collections == []
    collector.end()
    assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == (True, former, 0)


def test_new_objects_are_looked_at_on_the_windows_thread(
    qtbot: QtBot, collector: life.QuietCollector, collections: list[int]
) -> None:
    where: list[int] = []
    note = lambda phase, _: where.append(threading.get_ident())  # noqa: E731
    gc.callbacks.append(note)
    collector.hold()
    collector.begin()
    kept = []
    try:
        for _ in range(13):
            thread = threading.Thread(target=lambda: kept.append(_make(2_000)))
            thread.start()
            thread.join()
            before = len(collections)
            qtbot.waitUntil(lambda: len(collections) > before)  # noqa: B023 - at once
    finally:
        gc.callbacks.remove(note)
    assert set(collections) == {0, 1}
    assert set(where) == {threading.get_ident()}


class _Circle:
    def __init__(self) -> None:
        self.itself = self


def test_circles_are_let_go_of(qtbot: QtBot, collector: life.QuietCollector) -> None:
    collector.hold()
    collector.begin()
    gone = weakref.ref(_Circle())
    assert gone() is not None
    kept = _make(2_000)
    qtbot.waitUntil(lambda: gone() is None)
    assert len(kept) == 2_000


def test_what_comes_in_large_numbers_is_not_looked_at(
    qtbot: QtBot, collector: life.QuietCollector, collections: list[int]
) -> None:
    collector.hold()
    collector.begin()
    kept, before = _make(2 * life.MANY), gc.get_freeze_count()
    qtbot.waitUntil(lambda: gc.get_freeze_count() >= before + len(kept))
    assert collections == []


def test_full_collections_come_only_in_quiet_moments(
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    collector: life.QuietCollector,
    collections: list[int],
) -> None:
    monkeypatch.setattr(life, "COLLECTIONS_DUE", 1)
    collector.hold()
    collector.begin()
    kept = []
    while 1 not in collections:
        kept.append(_make(2_000))
        qtbot.wait(10)
    qtbot.wait(50)
    assert 2 not in collections
    collector.is_busy = False
    qtbot.waitUntil(lambda: 2 in collections)


def test_import_goes_without_the_hook_and_works(qapp, monkeypatch):
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    drop_import_hook()
    assert builtins.__import__ is builtins.__orig_import__
    assert __import__("json").dumps([1]) == "[1]"


def test_warming_up_ends_by_itself(qapp):
    thread = warm_up()
    thread.join(10)
    assert not thread.is_alive()
