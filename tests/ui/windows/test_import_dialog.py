"""What an import would bring is shown before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel
from recording_desk import NOON

from app.chat.events import ChatLooked, ImportPreviewed
from models.records import Whereabouts
from ui.look.theme import Theme
from ui.windows.import_dialog import MOST_ROWS, ImportDialog

NEW, OTHER, THERE = Whereabouts.NEW, Whereabouts.OTHER, Whereabouts.THERE


def looked(*places: Whereabouts) -> tuple[ChatLooked, ...]:
    return tuple(
        ChatLooked(f"Chat {n}", 10 * n, NOON, "chats.json", place) for n, place in enumerate(places)
    )


@pytest.fixture
def answers() -> list[str]:
    return []


@pytest.fixture
def make(qtbot: Any, theme: Theme, answers: list[str]) -> Callable[..., ImportDialog]:
    def made(*places: Whereabouts, refusals: tuple[str, ...] = ()) -> ImportDialog:
        dialog = ImportDialog(
            theme,
            ImportPreviewed(looked(*places), refusals),
            lambda: answers.append("import"),
            lambda: answers.append("forget"),
        )
        dialog.open()
        dialog.activateWindow()
        qtbot.waitExposed(dialog)
        return dialog

    return made


def rows(dialog: ImportDialog) -> list[list[str]]:
    items = [dialog.list.topLevelItem(row) for row in range(dialog.list.topLevelItemCount())]
    return [[item.text(column) for column in range(3)] for item in items if item is not None]


def test_each_chat_says_what_happens_to_it(make: Callable[..., ImportDialog]) -> None:
    dialog = make(NEW, OTHER, THERE)
    assert dialog.summary.text() == "3 chats, 1 of them already here"
    assert rows(dialog) == [
        ["Chat 0", "0", "Added"],
        ["Chat 1", "10", "Added next to yours"],
        ["Chat 2", "20", "Already here"],
    ]
    assert dialog.import_button.text() == "Import 2 chats"
    assert "chats.json" in dialog.list.topLevelItem(0).toolTip(0)


@pytest.mark.parametrize(("key", "answer"), [("Key_Return", "import"), ("Key_Escape", "forget")])
def test_return_imports_and_escape_does_not(
    make: Callable[..., ImportDialog], qtbot: Any, answers: list[str], key: str, answer: str
) -> None:
    dialog = make(NEW)
    assert dialog.import_button.text() == "Import 1 chat"
    qtbot.keyClick(dialog, getattr(Qt.Key, key))
    qtbot.waitUntil(lambda: answers == [answer])


def test_what_is_there_already_cannot_be_imported(
    make: Callable[..., ImportDialog], qtbot: Any, answers: list[str]
) -> None:
    dialog = make(THERE, THERE)
    assert dialog.summary.text() == "2 chats, already here. Nothing to import."
    assert not dialog.import_button.isVisible()
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: answers == ["forget"])


def test_files_that_bring_nothing_say_why(make: Callable[..., ImportDialog]) -> None:
    dialog = make(refusals=tuple(f"File {n} is <b>damaged</b>." for n in range(7)))
    shown = [label.text() for label in dialog.findChildren(QLabel)]
    assert dialog.summary.text() == "Nothing to import."
    assert not dialog.list.isVisible()
    assert "File 4 is <b>damaged</b>." in shown
    assert "… and 2 more files with nothing to import." in shown


def test_many_chats_are_shown_in_part(make: Callable[..., ImportDialog]) -> None:
    dialog = make(*[NEW] * (MOST_ROWS + 5))
    assert dialog.list.topLevelItemCount() == MOST_ROWS
    assert "… and 5 more." in [label.text() for label in dialog.findChildren(QLabel)]
    assert dialog.import_button.text() == "Import 1,005 chats"


def test_zoomed_while_it_is_open_it_shows_as_much(make: Callable[..., ImportDialog], theme: Theme):
    dialog = make(NEW, THERE)
    before = dialog.size()
    theme.set_zoom(120)
    assert dialog.size() == 1.2 * before
    theme.set_zoom(100)
    assert dialog.size() == before
    theme.set_zoom(200)  # its least width is more than it had
    theme.set_zoom(100)
    assert dialog.size() == before
