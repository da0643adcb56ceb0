"""Reading aloud from the window: keys, the bar above the composer, and where it cannot be done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from recording_desk import FakeBridge, FakeDesk, conversation, message

from app.chat.events import ReadingChanged
from models.records import Role
from ui.shell.window import MainWindow

TALK = (
    message(1, Role.USER, "One?"),
    message(2, Role.ASSISTANT, "First answer."),
    message(3, Role.ASSISTANT, "Second answer."),
)


@pytest.fixture
def talking(desk: FakeDesk) -> FakeDesk:
    desk.shelf.open = conversation(1, "A chat")
    desk.shelf.conversations = (desk.shelf.open,)
    desk.shelf.path = TALK
    return desk


def test_keys_and_buttons_steer_it_and_the_bar_says_the_sentence(
    open_window: Callable[..., MainWindow], talking: FakeDesk, bridge: FakeBridge
) -> None:
    window = open_window()
    QTest.keyClick(window, Qt.Key.Key_F8)
    assert talking.calls[-1] == ("aloud.read", TALK[-1].id)  # the last reply
    talking.aloud.is_reading = True
    bridge.emit_event(ReadingChanged("c1", TALK[-1].id, "Second <b>answer.", is_paused=False))
    bar = window.aloud_acts.bar()
    assert bar.isVisible()
    assert bar.sentence.text() == "Second <b>answer."
    bar.pause_button.click()
    assert talking.calls[-1] == ("aloud.toggle_pause",)
    bridge.emit_event(ReadingChanged("c1", TALK[-1].id, "Second answer.", is_paused=True))
    assert bar.pause_button.accessibleName() == "Go on reading"
    bar.next_button.click()
    assert talking.calls[-1] == ("aloud.skip",)
    QTest.keyClick(window.chat.composer, Qt.Key.Key_Escape)
    assert talking.calls[-1] == ("aloud.stop",)
    talking.aloud.is_reading = False
    bridge.emit_event(ReadingChanged())
    assert not bar.isVisible()
    QTest.keyClick(window.chat.composer, Qt.Key.Key_Escape)
    assert [call[0] for call in talking.calls].count("aloud.stop") == 1


def test_without_a_voice_it_is_greyed_out_and_says_what_to_install(
    open_window: Callable[..., MainWindow], talking: FakeDesk
) -> None:
    talking.aloud.is_possible = False
    talking.aloud.why_not = lambda: "Install espeak-ng."
    action = open_window().action_registry["read_aloud"]
    assert not action.is_enabled()
    assert action.place == "Install espeak-ng."
