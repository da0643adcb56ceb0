"""First paint, signals, and what is taken out of the way of the window's start."""

from __future__ import annotations

import builtins
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui import life
from ui.life import (
    FirstPaint,
    Imports,
    SignalWatcher,
    call_after,
    drop_import_hook,
    no_collection,
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


@pytest.mark.parametrize("is_busy", [False, True])
def test_full_collections_come_only_in_quiet_moments(qtbot, monkeypatch, collections, is_busy):
    monkeypatch.setattr(life, "COLLECT_EVERY_MS", 5)
    asked: list[int] = []
    former = gc.get_threshold()
    collector = life.QuietCollector(lambda: asked.append(1) or is_busy)
    gc.collect()
    collector.begin()
    try:
        collections.clear()
        kept = [[number] for number in range(700 * 10 * (life.COLLECTIONS_DUE + 10))]
        assert set(collections) == {0, 1}
        qtbot.waitUntil(lambda: bool(asked))
        assert (2 in collections) is not is_busy
    finally:
        collector.end()
    assert len(kept) > 0
    assert gc.get_threshold() == former
    assert gc.get_freeze_count() == 0


def test_import_goes_without_the_hook_and_works(qapp, monkeypatch):
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    drop_import_hook()
    assert builtins.__import__ is builtins.__orig_import__
    assert __import__("json").dumps([1]) == "[1]"


def test_warming_up_ends_by_itself(qapp):
    thread = warm_up()
    thread.join(10)
    assert not thread.is_alive()


def test_nothing_is_collected_while_something_is_imported_beside_the_window() -> None:
    assert gc.isenabled()
    with no_collection:
        with no_collection:
            assert not gc.isenabled()
        assert not gc.isenabled(), "another thread still imports"
    assert gc.isenabled()
    gc.disable()
    try:
        with no_collection:
            pass
        assert not gc.isenabled(), "who switched it off keeps it off"
    finally:
        gc.enable()


def test_imports_beside_the_window_are_made_without_collections(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asks_for_the_collector.py").write_text("import gc\nIS_ON = gc.isenabled()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    window = QWidget()
    qtbot.addWidget(window)
    done: list[bool] = []
    imports = Imports(window, ["asks_for_the_collector"], lambda: done.append(True))
    imports.begin()
    qtbot.waitUntil(lambda: bool(done))
    assert sys.modules["asks_for_the_collector"].IS_ON is False
    assert gc.isenabled()
