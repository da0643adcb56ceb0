"""Where the keyboard is after a click on a button beside the composer, and after its key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from recording_desk import NOON, FakeBridge, FakeDesk, conversation, message

from app.chat.events import AttachmentsChanged, QueueChanged, QueuedMessage
from models.records import Attachment, Role
from ui.chat.composer_chips import Chip
from ui.chat.composer_queue import QueuedRow

if TYPE_CHECKING:
    from ui.shell.window import MainWindow

LEFT = Qt.MouseButton.LeftButton
BUTTONS = (
    "attach_button",
    "stop_button",
    "token_view_toggle",
    "step_button",
    "section_button",
    "temporary_chat_button",
)


@pytest.fixture
def window(open_window: Callable[..., MainWindow], desk: FakeDesk) -> MainWindow:
    """A chat in which a reply grows, so that there is something to stop."""
    desk.shelf.open = conversation(1, "A chat")
    desk.shelf.path = (message(1, Role.USER, "One?"), message(2, Role.ASSISTANT, "First."))
    desk.replies.is_generating = True
    return open_window()


def find(window: MainWindow, name: str) -> QPushButton:
    found = window.findChild(QPushButton, name)
    assert found is not None
    return found


def close_dialogs(window: MainWindow) -> None:
    for dialog in window.findChildren(QWidget, "attach_dialog"):
        dialog.close()


@pytest.mark.parametrize("start", ["composer", "transcript"])
def test_a_click_by_mouse_leads_back_to_writing(window: MainWindow, start: str) -> None:
    for name in BUTTONS:
        window.chat.composer.focus() if start == "composer" else window.chat.transcript.setFocus()
        QTest.mouseClick(find(window, name), LEFT)
        close_dialogs(window)
        assert window.focusWidget() is window.chat.composer.focusProxy(), name


def test_by_keyboard_the_button_keeps_the_focus(window: MainWindow) -> None:
    for name in BUTTONS:
        button = find(window, name)
        button.setFocus(Qt.FocusReason.TabFocusReason)
        assert button.hasFocus(), name
        pressed: list[bool] = []
        button.clicked.disconnect()  # what it does is told elsewhere
        button.clicked.connect(lambda _=False, pressed=pressed: pressed.append(True))
        QTest.keyClick(button, Qt.Key.Key_Space)
        assert (pressed, button.hasFocus()) == ([True], True), name


def test_a_space_after_attaching_by_mouse_is_written(window: MainWindow) -> None:
    QTest.mouseClick(find(window, "attach_button"), LEFT)
    close_dialogs(window)
    focus = window.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, Qt.Key.Key_Space)
    assert window.chat.composer.text() == " "
    assert not [d for d in window.findChildren(QWidget, "attach_dialog") if d.isVisible()]


def test_attaching_by_keyboard_leads_back_to_the_button(window: MainWindow) -> None:
    button = find(window, "attach_button")
    button.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(button, Qt.Key.Key_Space)
    assert [d for d in window.findChildren(QWidget, "attach_dialog") if d.isVisible()]
    close_dialogs(window)
    assert window.focusWidget() is button


def test_chips_and_queued_messages_take_no_focus_by_mouse(
    window: MainWindow, bridge: FakeBridge, desk: FakeDesk
) -> None:
    desk.attachments.of_open = (Attachment("a1", "c1", "notes.txt", "some notes", 10, NOON),)
    bridge.emit_event(AttachmentsChanged("c1", desk.attachments.of_open))
    queued = (QueuedMessage("q1", "c1", "one"), QueuedMessage("q2", "c1", "two"))
    bridge.emit_event(QueueChanged("c1", queued, True))
    composer, field = window.chat.composer, window.chat.composer.focusProxy()
    composer.focus()
    (chip,) = window.findChildren(Chip)
    QTest.mouseClick(chip, LEFT)
    for reader in window.findChildren(QWidget, "attachment_reader"):
        reader.close()
    assert window.focusWidget() is field
    row = window.findChildren(QueuedRow)[0]
    QTest.mouseClick(row.remove_button, LEFT)
    bridge.emit_event(QueueChanged("c1", queued[1:], True))
    assert window.focusWidget() is field
    QTest.mouseClick(composer.queue.send_button, LEFT)
    assert window.focusWidget() is field
    assert desk.called("queue.remove") == [("q1",)]
    assert desk.called("queue.send_next") == [()]
    assert QApplication.focusWidget() is not None
