"""The header: the weights' state in words, the menu, load progress."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtGui import QAction
from pytestqt.qtbot import QtBot
from recording_desk import loaded

from app.chat.events import EngineStateChanged
from models.records import Weights
from ui.chat.header import ChatHeader
from ui.look.theme import Theme
from ui.shell.tab_order import stops_in

SMOL = "SmolLM2 135M (included)"
DEFAULTS = "Model defaults…"
KNOWN = [
    Weights("/weights/smollm2.gguf", SMOL, 98_000_000),
    Weights("/weights/b&b.gguf", "B&B", 4_000_000_000),
]


@pytest.fixture
def header(qtbot: QtBot, theme: Theme) -> ChatHeader:
    made = ChatHeader(theme, lambda: KNOWN)
    qtbot.addWidget(made)
    made.resize(900, 60)
    made.show()
    return made


def entries(header: ChatHeader) -> dict[str, QAction]:
    header.menu.aboutToShow.emit()
    return {
        action.text().split("\t")[0]: action for action in header.menu.actions() if action.text()
    }


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (EngineStateChanged("stopped"), "Choose a model…"),
        (EngineStateChanged("stopped", SMOL), "SmolLM2 135M · not loaded"),
        (EngineStateChanged("loading", SMOL), "Loading SmolLM2 135M · 0%"),
        (EngineStateChanged("ready", SMOL, loaded()), "SmolLM2 135M · Q4_1 · 4k"),
        (EngineStateChanged("busy", SMOL, loaded()), "SmolLM2 135M · Q4_1 · 4k"),
        (EngineStateChanged("crashed", SMOL), "SmolLM2 135M · engine not running"),
        (EngineStateChanged("crashed"), "Engine not running"),
    ],
)
def test_each_state_has_its_words(
    header: ChatHeader, state: EngineStateChanged, words: str
) -> None:
    header.set_engine_state(state)
    assert header.weights_button.text() == words
    assert header.weights_button.accessibleName() == f"Model: {words}"


def test_loading_shows_progress_and_can_be_cancelled(header: ChatHeader, qtbot: QtBot) -> None:
    assert not header.load_progress.isVisible()
    height = header.sizeHint().height()
    header.set_engine_state(EngineStateChanged("loading", SMOL))
    header.set_progress(0.43)
    assert header.load_progress.isVisible()
    assert header.load_progress.value() == 430
    assert header.weights_button.text() == "Loading SmolLM2 135M · 43%"
    assert header.sizeHint().height() == height
    with qtbot.waitSignal(header.cancel_load_requested):
        header.cancel_button.click()
    header.set_engine_state(EngineStateChanged("ready", SMOL, loaded()))
    assert not header.load_progress.isVisible()
    assert not header.cancel_button.isVisible()


def test_a_second_load_begins_at_zero(header: ChatHeader) -> None:
    header.set_engine_state(EngineStateChanged("loading"))
    header.set_progress(0.9)
    header.set_engine_state(EngineStateChanged("ready", SMOL, loaded()))
    header.set_engine_state(EngineStateChanged("loading"))
    assert header.load_progress.value() == 0


@pytest.mark.parametrize(("fraction", "value"), [(-1.0, 0), (2.0, 1000)])
def test_odd_fractions_stay_in_bounds(header: ChatHeader, fraction: float, value: int) -> None:
    header.set_engine_state(EngineStateChanged("loading"))
    header.set_progress(fraction)
    assert header.load_progress.value() == value


def test_the_menu_lists_known_weights_and_marks_the_loaded_one(
    header: ChatHeader, qtbot: QtBot
) -> None:
    header.set_engine_state(EngineStateChanged("ready", SMOL, loaded()))
    found = entries(header)
    assert list(found) == [SMOL, "B&&B", "Open a GGUF file…", "Library…", DEFAULTS, "Unload"]
    assert found[SMOL].isChecked()
    assert not found["B&&B"].isChecked()
    with qtbot.waitSignal(header.weights_chosen) as chosen:
        found["B&&B"].trigger()
    assert chosen.args == ["/weights/b&b.gguf"]
    with qtbot.waitSignal(header.unload_requested):
        found["Unload"].trigger()


def test_nothing_loaded_offers_no_unload(header: ChatHeader, qtbot: QtBot) -> None:
    found = entries(header)
    assert "Unload" not in found
    with qtbot.waitSignal(header.open_file_requested):
        found["Open a GGUF file…"].trigger()


def test_while_loading_the_menu_offers_to_cancel(header: ChatHeader, qtbot: QtBot) -> None:
    header.set_engine_state(EngineStateChanged("loading", SMOL))
    with qtbot.waitSignal(header.cancel_load_requested):
        entries(header)["Cancel loading"].trigger()


def test_long_words_are_cut_where_there_is_no_room(header: ChatHeader, qtbot: QtBot) -> None:
    name: Any = "weights with an uncommonly long name that goes on and on and on"
    header.set_title("a title that is also rather long " * 3)
    header.set_engine_state(EngineStateChanged("ready", name, loaded()))
    header.resize(420, 60)
    qtbot.waitUntil(lambda: header.weights_button.shown_text().endswith("…"))
    qtbot.waitUntil(lambda: header.title.shown_text().endswith("…"))
    assert header.title.toolTip() == header.title.text()
    assert header.weights_button.geometry().right() < 420
    header.resize(2400, 60)
    qtbot.waitUntil(lambda: header.weights_button.shown_text() == header.weights_button.text())


def test_the_button_to_show_the_list_is_there_only_without_the_list(header: ChatHeader) -> None:
    assert not header.sidebar_button.isVisible()
    header.set_sidebar_hidden(True)
    assert header.sidebar_button.isVisible()


def test_what_is_in_the_menu_too_leaves_a_narrow_header_and_comes_back(header: ChatHeader) -> None:
    leaving = (header.step_button, header.temporary_button, header.text_button)
    header.set_title("A chat about the weather of Lyon in late autumn")
    assert all(button.isVisible() for button in leaving)
    gone_before = 0
    for width in range(900, 260, -20):
        header.resize(width, 60)
        shown = [button.isVisible() for button in leaving]
        gone = shown.count(False)
        assert shown == [False] * gone + [True] * (3 - gone)
        assert gone >= gone_before
        gone_before = gone
    assert gone_before == 3
    header.resize(900, 60)
    assert all(button.isVisible() for button in leaving)


def test_tab_goes_as_the_eye_does(header: ChatHeader) -> None:
    header.set_sidebar_hidden(True)
    header.set_engine_state(EngineStateChanged("loading", SMOL))
    stops = [w for w in stops_in(header) if w.isVisible() and w.isEnabled()]
    by_eye = sorted(stops, key=lambda w: w.mapTo(header, w.rect().center()).x())
    assert len(by_eye) >= 7
    seen = [by_eye[0]]
    at = by_eye[0].nextInFocusChain()
    while at is not by_eye[0]:
        if at in stops:
            seen.append(at)
        at = at.nextInFocusChain()
    assert [w.objectName() for w in seen] == [w.objectName() for w in by_eye]
