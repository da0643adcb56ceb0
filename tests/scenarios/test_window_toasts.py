"""What the desk says is seen where it was asked for: in the window that lies over the main one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QPushButton, QWidget

from app.chat.settings.presets import NOT_A_PRESET
from ui.shell.notices import NoticeCard
from ui.shell.window import MainWindow
from ui.windows.presets_window import PresetsWindow

OPENERS: dict[str, Callable[[MainWindow], object]] = {
    "presets_window": lambda window: window.lazy.show_presets(),
    "levels_window": lambda window: window.lazy.show_levels(),
    "settings_window": lambda window: window.show_settings(),
    "trash_window": lambda window: window.show_trash(),
    "library_view": lambda window: window.lazy.show_library(),
}


@pytest.fixture
def person(open_window: Any) -> Any:
    person = open_window({"load": {"ms": 5}, "replies": [{"text": "Paris."}]})
    person.wait_ready()
    return person


def beside(person: Any, name: str) -> Any:
    OPENERS[name](person.window)
    found = person.find(QWidget, name)
    person.wait(found.isActiveWindow)
    return found


def cards(window: QWidget) -> list[NoticeCard]:
    return [card for card in window.findChildren(NoticeCard) if card.isVisible()]


def test_it_is_said_in_the_window_that_is_open(person: Any) -> None:
    person.send("A question")
    person.wait_ended()
    desk = person.app.desk
    (chat,) = desk.shelf.conversations
    for name in OPENERS:  # one after another: opening the program takes longest
        window = beside(person, name)
        desk.folders.trash_one(chat.id)
        (card,) = person.wait(lambda window=window: cards(window))
        assert window.rect().contains(card.geometry().translated(card.parentWidget().pos())), name
        undo(card)
        assert cards(window) == [], name
        person.wait(lambda: [each.id for each in desk.shelf.conversations] == [chat.id])
        window.close()
        desk.folders.trash_one(chat.id)
        person.wait(lambda: not desk.shelf.conversations)
        assert cards(window) == [], name
        person.window.following.undo_last()
        person.wait(lambda: desk.shelf.conversations)


def undo(card: NoticeCard) -> None:
    next(each for each in card.findChildren(QPushButton) if each.text() == "Undo").click()


def test_a_notice_that_is_put_away_leaves_the_focus_in_its_window(person: Any) -> None:
    for name in OPENERS:
        window = beside(person, name)
        person.app.desk.settings.set("top_k", -1)
        (card,) = person.wait(lambda window=window: cards(window))
        put_away(card)
        assert cards(window) == [], name
        focus = window.focusWidget()
        assert focus is not None, name
        assert focus.isVisible(), name
        window.close()


def put_away(card: NoticeCard) -> None:
    close = card.findChild(QAbstractButton, "close_notice_button")
    close.setFocus()
    QTest.keyClick(close, Qt.Key.Key_Space)


def test_a_file_that_is_no_preset_is_refused_over_the_presets(person: Any, tmp_path: Path) -> None:
    window = beside(person, "presets_window")
    assert isinstance(window, PresetsWindow)
    person.wait(window.list.count)
    content = window.content.text()
    unread = "The file can't be read: No such file or directory. Choose another file."
    for text, sentence in (("{}", NOT_A_PRESET), ("no JSON", NOT_A_PRESET), (None, unread)):
        path = tmp_path / f"{text}.json"
        if text is not None:
            path.write_text(text)
        window.take_file(str(path))
        (card,) = person.wait(lambda: cards(window))
        assert card.sentence.text() == sentence
        assert window.content.text() == content
        put_away(card)
        assert cards(window) == []
