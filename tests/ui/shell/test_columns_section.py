"""Three columns: what stands beside what, with much room, with less, and with one column's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.chat.events import SettingsChanged
from ui.look.theme import Theme
from ui.section.section import Section
from ui.shell.sizes import CHAT_PX, SECTION_PX
from ui.shell.window import MainWindow

Open = Callable[..., MainWindow]
NO_PLACE = "00"
"""Remembered, and nothing that Qt would move a window to."""


@pytest.fixture(autouse=True)
def answers(desk: FakeDesk) -> None:
    desk.growing.trace_of = lambda _id: None
    desk.words.of = lambda _hash: None


def shown(window: MainWindow) -> tuple[bool, bool, bool]:
    section = window.findChild(Section, "section")
    return (
        window.sidebar.isVisible(),
        window.chat.isVisible(),
        section is not None and section.isVisible(),
    )


def test_the_section_is_built_when_it_is_first_wanted(open_window: Open) -> None:
    window = open_window(1440, 900)
    assert window.findChild(Section, "section") is None
    QTest.keyClick(window, Qt.Key.Key_I, Qt.KeyboardModifier.ControlModifier)
    assert shown(window) == (True, True, True)
    section = window.findChild(Section, "section")
    assert section is not None
    assert abs(section.width() - SECTION_PX) <= 2
    window.chat.header.section_button.click()
    assert shown(window) == (True, True, False)
    assert window.chat.header.section_button.accessibleName() == "Look inside"


def test_with_less_room_it_takes_the_list_s_and_gives_it_back(open_window: Open) -> None:
    window = open_window(1000, 700)
    window.section_acts.toggle()
    assert shown(window) == (False, True, True)
    window.toggle_sidebar()
    assert shown(window) == (True, True, False)
    window.section_acts.toggle()
    window.section_acts.toggle()
    assert shown(window) == (True, True, False)


def test_at_a_high_zoom_one_column_has_the_window(open_window: Open, theme: Theme) -> None:
    window = open_window(900, 700)
    theme.set_zoom(300)
    window.section_acts.toggle()
    assert shown(window) == (False, False, True)
    section = window.findChild(Section, "section")
    assert section is not None
    section.tabs.setFocus()
    section.close_button.click()
    assert shown(window) == (False, True, False)
    focus = QApplication.focusWidget()
    assert focus is not None
    assert window.chat.composer.isAncestorOf(focus), focus


def test_writing_goes_on_where_only_the_section_was_seen(open_window: Open, theme: Theme) -> None:
    window = open_window(900, 700)
    theme.set_zoom(300)
    window.section_acts.toggle()
    window.focus_composer()
    assert shown(window) == (False, True, False)


def test_a_wide_section_leaves_the_chat_its_room_at_a_higher_zoom(
    open_window: Open, theme: Theme
) -> None:
    window = open_window(1440, 900)
    window.section_acts.toggle()
    window.columns.moveSplitter(window.columns.width() - 700, 2)
    section = window.findChild(Section, "section")
    assert section is not None
    wide = section.width()
    assert abs(wide - 700) <= 2
    theme.set_zoom(150)
    assert shown(window) == (False, True, True)
    assert section.width() >= theme.px(SECTION_PX)
    assert window.chat.width() >= theme.px(CHAT_PX) - 2
    theme.set_zoom(100)
    assert section.width() == wide


def test_what_was_open_and_how_wide_is_remembered(
    open_window: Open,
    desk: FakeDesk,
    bridge: FakeBridge,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A start as it is: what is known before the database is read has the window's place, and not
    the section's width."""
    monkeypatch.setattr("ui.shell.place.SAVE_AFTER_MS", 20)
    desk.settings.now = replace(desk.settings.now, window_geometry=NO_PLACE, section_visible=True)
    window = open_window(1440, 900)
    desk.settings.now = replace(desk.settings.now, section_width=460)
    bridge.emit_event(SettingsChanged(frozenset({"section_width"})))
    assert shown(window) == (True, True, True)
    section = window.findChild(Section, "section")
    assert section is not None
    assert abs(section.width() - 460) <= 2
    window.columns.moveSplitter(window.columns.width() - 500, 2)
    qtbot.waitUntil(lambda: abs(desk.settings.now.section_width - 500) <= 3)
    section.tabs.tabBarClicked.emit(0)
    assert desk.settings.now.section_panel == "Tokens"


def test_on_a_slow_disk_a_width_of_the_first_look_is_not_saved_over_the_remembered_one(
    open_window: Open,
    desk: FakeDesk,
    bridge: FakeBridge,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ui.shell.place.SAVE_AFTER_MS", 1)
    desk.settings.now = replace(desk.settings.now, window_geometry=NO_PLACE, section_visible=True)
    desk.settings.is_read = False
    window = open_window(1440, 900)
    window.resize(1400, 880)
    timer = window._place._timer
    with qtbot.waitSignals([timer.timeout, timer.timeout]):
        pass
    assert desk.called("settings.set") == []
    desk.settings.now = replace(desk.settings.now, section_width=460)
    desk.settings.is_read = True
    bridge.emit_event(SettingsChanged(frozenset({"section_width"})))
    qtbot.waitUntil(lambda: bool(desk.called("settings.set")))
    assert abs(desk.settings.now.section_width - 460) <= 2


# --- in the chat's place ------------------------------------------------------------------------


def test_one_key_enlarges_the_section_and_the_same_key_brings_the_chat_back(
    open_window: Open,
) -> None:
    window = open_window(1440, 900)
    window.focus_composer()
    before = QApplication.focusWidget()
    QTest.keyClick(window, Qt.Key.Key_F9)
    assert shown(window) == (True, False, True)
    section = window.findChild(Section, "section")
    assert section is not None
    assert section.width() > 1440 - 236 - 10
    assert QApplication.focusWidget() is section.tabs
    assert section.enlarge_button.accessibleName() == "Return to the chat"
    QTest.keyClick(window, Qt.Key.Key_F9)
    assert shown(window) == (True, True, True)
    assert QApplication.focusWidget() is before
    assert abs(section.width() - SECTION_PX) <= 2
    section.enlarge_button.click()
    assert shown(window) == (True, False, True)
    window.new_chat()  # whoever goes to the chat sees it
    assert shown(window) == (True, True, True)


def test_a_large_section_that_is_hidden_is_as_usual_when_it_comes_back(open_window: Open) -> None:
    window = open_window(1440, 900)
    window.section_acts.enlarge()
    window.section_acts.toggle()
    assert shown(window) == (True, True, False)
    window.section_acts.toggle()
    assert shown(window) == (True, True, True)
    assert window.columns.section_width_px == SECTION_PX


def test_the_list_stands_beside_a_large_section_where_it_stands_beside_the_chat(
    open_window: Open, theme: Theme
) -> None:
    window = open_window(900, 600)
    window.section_acts.enlarge()
    assert shown(window) == (True, False, True)
    window.toggle_sidebar()
    assert shown(window) == (False, False, True)
    window.toggle_sidebar()
    assert shown(window) == (True, False, True)


def test_where_one_column_has_the_window_the_key_goes_between_section_and_chat(
    open_window: Open, theme: Theme
) -> None:
    window = open_window(900, 600)
    theme.set_zoom(200)
    window.focus_composer()
    window.section_acts.enlarge()
    assert shown(window) == (False, False, True)
    window.section_acts.enlarge()
    assert shown(window) == (False, True, False)
    focus = QApplication.focusWidget()
    assert focus is not None
    assert window.chat.composer.isAncestorOf(focus)
