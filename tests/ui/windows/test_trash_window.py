"""The trash: what is listed, and that nothing goes for good unasked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import NOON, FakeBridge, FakeDesk, conversation

from app.chat.events import TrashedBranchesListed, TrashListed
from models.records import Role, TrashedBranch
from ui.look.theme import Theme
from ui.windows.trash_window import TrashWindow, time_left

Key = Qt.Key
CHATS = tuple(
    conversation(number, f"Chat {number}", trashed_at=NOON - timedelta(days=number))
    for number in range(1, 4)
)
BRANCH = TrashedBranch(
    "m7", "c9", "Weather", Role.USER, "What about\nthe rain?", NOON - timedelta(days=1.5), 3
)


@pytest.fixture
def trash(qtbot: QtBot, desk: FakeDesk, bridge: FakeBridge, theme: Theme) -> TrashWindow:
    made = TrashWindow(desk, bridge, theme)  # type: ignore[arg-type]
    qtbot.addWidget(made)
    made.open()
    qtbot.waitUntil(made.isActiveWindow)
    bridge.emit_event(TrashListed(CHATS))
    bridge.emit_event(TrashedBranchesListed((BRANCH,)))
    return made


def texts(trash: TrashWindow) -> list[str]:
    return [trash.list.item(row).text() for row in range(trash.list.count())]


def acts(desk: FakeDesk) -> list[tuple[Any, ...]]:
    return [call for call in desk.calls if ".list_" not in call[0]]


def question(trash: TrashWindow) -> QMessageBox:
    found = trash.findChild(QMessageBox, "delete_for_good_dialog")
    assert found is not None
    return found


def test_chats_and_parts_of_chats_stand_together_the_last_first(
    trash: TrashWindow, desk: FakeDesk
) -> None:
    assert desk.calls[:2] == [("shelf.list_trash",), ("tree.list_trashed",)]
    assert texts(trash) == [
        "Chat 1",
        "Weather · 3 messages: What about the rain?",
        "Chat 2",
        "Chat 3",
    ]
    assert "30 days" in trash._words.text()
    assert "Kept until" in trash.list.item(0).toolTip()


def test_the_words_follow_the_setting(trash: TrashWindow, desk: FakeDesk) -> None:
    desk.settings.set("trash_days", 1)
    assert "after 1 day" in trash._words.text()
    desk.settings.set("trash_days", 0)
    assert "until you delete them" in trash._words.text()
    assert "Kept" not in trash.list.item(0).toolTip()


@pytest.mark.parametrize(
    ("days", "gone_days", "words"),
    [
        (30, 0.0, "30 days left"),
        (30, 0.5, "30 days left"),
        (30, 28.5, "2 days left"),
        (30, 29.5, "1 day left"),
        (30, 31.0, "deleted at the next start"),
        (0, 3.0, ""),
    ],
)
def test_how_long_something_still_stays(days: int, gone_days: float, words: str) -> None:
    assert time_left(NOON, days, NOON + timedelta(days=gone_days)) == words
    assert time_left(None, days, NOON) == ""


def test_an_empty_trash_says_so(trash: TrashWindow, bridge: FakeBridge) -> None:
    bridge.emit_event(TrashListed(()))
    bridge.emit_event(TrashedBranchesListed(()))
    assert trash._words.text() == "The trash is empty."
    for button in (trash.restore_button, trash.delete_button, trash.empty_button):
        assert not button.isEnabled()


def test_several_are_restored_at_once(trash: TrashWindow, desk: FakeDesk) -> None:
    trash.list.selectAll()
    trash.restore_button.click()
    assert acts(desk) == [
        ("folders.restore", ("c1", "c2", "c3")),
        ("tree.restore", "m7", "c9"),
    ]


def test_after_a_restore_the_keyboard_is_in_the_list(
    trash: TrashWindow, bridge: FakeBridge
) -> None:
    trash.restore_button.setFocus()
    bridge.emit_event(TrashListed(trash._chats[1:]))
    assert trash.list.hasFocus(), "not on the button that empties the trash"


@pytest.mark.parametrize("key", [Key.Key_Return, Key.Key_Escape])
def test_delete_asks_and_the_first_answer_is_no(
    trash: TrashWindow, desk: FakeDesk, key: Qt.Key
) -> None:
    QTest.keyClick(trash.list, Key.Key_Delete)
    box = question(trash)
    assert "Chat 1" in box.text()
    QTest.keyClick(box, key)
    assert acts(desk) == []


def test_what_is_chosen_goes_for_good_when_the_user_says_so(
    trash: TrashWindow, desk: FakeDesk
) -> None:
    trash.delete_button.click()
    delete = [b for b in question(trash).findChildren(QPushButton) if b.text() == "Delete"]
    delete[0].click()
    assert acts(desk) == [("folders.delete_for_good", ("c1",))]


def test_backups_go_too_where_the_user_says_so(trash: TrashWindow, desk: FakeDesk) -> None:
    trash.delete_button.click()
    box = question(trash)
    assert "Backups still contain it" in box.informativeText()
    assert box.checkBox() is not None
    assert not box.checkBox().isChecked()
    QTest.keyClick(box.checkBox(), Key.Key_Space)
    next(b for b in box.findChildren(QPushButton) if b.text() == "Delete").click()
    assert acts(desk) == [("folders.delete_for_good", ("c1",)), ("folders.delete_backups",)]


def test_emptying_is_about_all_chats(trash: TrashWindow, desk: FakeDesk) -> None:
    trash.empty_button.click()
    box = question(trash)
    assert "3 chats" in box.text()
    next(b for b in box.findChildren(QPushButton) if b.text() == "Delete").click()
    assert acts(desk) == [("folders.delete_for_good", ("c1", "c2", "c3"))]


def test_backspace_deletes_nothing(trash: TrashWindow, desk: FakeDesk) -> None:
    QTest.keyClick(trash.list, Key.Key_Backspace)
    assert acts(desk) == []
    assert trash.findChild(QMessageBox) is None
