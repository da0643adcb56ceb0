"""Many seeds: what the table says, by keys, while it counts and after."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, SeedsCounted
from app.chat.inspection.seeds import BUSY
from app.insight.sampling.outcomes import Run, Step, outcomes
from ui.chat.seeds_window import IDLE, SeedsWindow
from ui.look.theme import Theme

WAYS = [("The", "cat"), ("The", "dog"), ("The", "cat"), ("A",)]
P = {"The": 0.6, "A": 0.2, "cat": 0.7, "dog": 0.1}


def runs() -> list[Run]:
    ids = {word: number for number, word in enumerate(P)}
    made = []
    for seed, words in enumerate(WAYS, 100):
        steps = [Step(ids[w], w.encode(), P[w] / 2, P[w]) for w in words]
        made.append(Run(seed, steps, has_ended=len(words) < 2, is_over=True))
    return made


@pytest.fixture
def window(desk: FakeDesk, bridge: FakeBridge, theme: Theme, qtbot: QtBot) -> SeedsWindow:
    desk.loader.state = EngineStateChanged("ready", loaded=loaded())
    seeds = desk.seeds
    seeds.is_running, seeds.n_over, seeds.n_wanted, seeds.sentence = False, 4, 4, ""
    seeds.is_of = lambda message_id: message_id == "m1"
    seeds.outcomes = lambda prefix=(): outcomes(runs(), prefix)
    made = SeedsWindow(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.open_for("m1", "What animal?")
    return made


def texts(window: SeedsWindow) -> list[list[str]]:
    table = window.table
    return [
        [table.item(row, column).text() for column in range(table.columnCount())]
        for row in range(table.rowCount())
    ]


def test_counts_stand_beside_what_is_expected(window: SeedsWindow) -> None:
    assert window.where.text() == (
        "First difference at token 1, in 4 replies. Tokens that didn't come: 20.0% expected."
    )
    assert texts(window) == [
        ["The", "3", "75.0%", "60.0% ± 24.5%", "30.0%"],
        ["A", "1", "25.0%", "20.0% ± 20.0%", "10.0%"],
    ]
    assert window.progress.text() == "4 of 4"
    assert window.caption.text() == IDLE


def test_a_row_is_followed_and_left_by_keys(window: SeedsWindow) -> None:
    window.table.setFocus()
    assert window.table.currentRow() == 0
    QTest.keyClick(window.table, Qt.Key.Key_Return)
    assert window.where.text().startswith("After “The”: first difference at token 2, in 3 replies.")
    assert [row[:2] for row in texts(window)] == [["cat", "2"], ["dog", "1"]]
    QTest.keyClick(window.table, Qt.Key.Key_Return)  # nothing is known behind it
    assert window.table.rowCount() == 0
    QTest.keyClick(window.table, Qt.Key.Key_Backspace)
    QTest.keyClick(window.table, Qt.Key.Key_Backspace)
    assert [row[0] for row in texts(window)] == ["The", "A"]
    assert not window.back.isEnabled()


def test_start_and_stop_and_why_not(
    window: SeedsWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    desk.seeds.start = lambda *asked: desk.record("seeds.start", *asked) or BUSY
    window.count.setCurrentIndex(3)
    window.length.setCurrentIndex(0)
    window.start_button.click()
    assert desk.called("seeds.start") == [("m1", 64, 8)]
    assert window.caption.text() == BUSY
    desk.seeds.is_running, desk.seeds.n_over, desk.seeds.n_wanted = True, 3, 64
    bridge.emit_event(SeedsCounted(3, 64, is_over=False))
    assert window.start_button.text() == "Stop"
    assert window.progress.text() == "3 of 64"
    assert not window.count.isEnabled()
    window.start_button.click()
    assert desk.called("seeds.stop") == [()]
    window.reject()
    assert desk.called("seeds.stop") == [(), ()]


def test_the_seed_of_a_row_is_generated_whole(window: SeedsWindow) -> None:
    wanted: list[tuple[str, int]] = []
    window.version_wanted.connect(lambda *asked: wanted.append(asked))
    window.table.selectRow(1)
    window.version.click()
    assert wanted == [("m1", 103)]


def test_of_another_message_nothing_is_shown(window: SeedsWindow) -> None:
    window.open_for("m2", "Another?")
    assert window.table.rowCount() == 0
    assert window.progress.text() == ""


def test_without_a_model_it_says_so(
    window: SeedsWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    desk.loader.state = EngineStateChanged("stopped")
    bridge.emit_event(desk.loader.state)
    assert not window.start_button.isEnabled()
    assert window.caption.text() == "Load a model first."


@pytest.mark.parametrize("zoom", [100, 200])
def test_it_fits_a_small_screen(
    window: SeedsWindow, theme: Theme, zoom: int, qtbot: Callable[..., object]
) -> None:
    theme.set_zoom(zoom)
    window.resize(860, 560)
    QApplication.processEvents()
    for widget in (window.start_button, window.version, window.caption):
        assert window.rect().contains(widget.mapTo(window, widget.rect().bottomRight()))
    assert window.table.viewport().height() > theme.px(40)
