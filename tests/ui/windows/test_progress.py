"""A long import says how far it is and can be given up; a short one shows nothing."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QDialog
from recording_desk import FakeBridge, FakeDesk

from app.chat.events import ImportProgressed
from ui.shell.window import MainWindow
from ui.windows.progress import Progress


def shown(window: MainWindow) -> Progress | None:
    found = window.findChildren(QDialog, "import_progress")
    return next((each for each in found if each.isVisible()), None)


def test_it_comes_with_the_first_figures_and_goes_with_the_last(
    open_window: Callable[..., MainWindow], bridge: FakeBridge, qtbot
):
    window = open_window()
    bridge.emit_event(ImportProgressed(500, 10_000))
    dialog = shown(window)
    assert dialog.words.text() == "500 of 10,000 messages"
    assert (dialog.bar.value(), dialog.bar.maximum()) == (500, 10_000)
    assert not dialog.isModal()
    bridge.emit_event(ImportProgressed(9_500, 10_000))
    assert shown(window) is dialog
    assert dialog.bar.value() == 9_500
    bridge.emit_event(ImportProgressed(10_000, 10_000, is_over=True))
    assert shown(window) is None


def test_a_short_import_shows_nothing(open_window: Callable[..., MainWindow], bridge: FakeBridge):
    window = open_window()
    bridge.emit_event(ImportProgressed(4, 4, is_over=True))
    assert shown(window) is None


def test_it_can_be_cancelled_once(
    open_window: Callable[..., MainWindow], bridge: FakeBridge, desk: FakeDesk
):
    window = open_window()
    bridge.emit_event(ImportProgressed(500, 10_000))
    dialog = shown(window)
    dialog.cancel.click()
    assert desk.called("exchange.cancel") == [()]
    assert not dialog.cancel.isEnabled()


def test_put_away_it_stays_away_until_the_next_import(
    open_window: Callable[..., MainWindow], bridge: FakeBridge, desk: FakeDesk
):
    window = open_window()
    bridge.emit_event(ImportProgressed(500, 10_000))
    shown(window).reject()
    bridge.emit_event(ImportProgressed(1_000, 10_000))
    assert shown(window) is None
    assert desk.called("exchange.cancel") == []
    bridge.emit_event(ImportProgressed(10_000, 10_000, is_over=True))
    bridge.emit_event(ImportProgressed(500, 10_000))
    assert shown(window) is not None
