"""What an import would bring is shown before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel
from recording_desk import NOON

from app.chat.events import ChatLooked, ImportPreviewed, LeftOut
from models.records import Whereabouts
from ui.look.theme import Theme
from ui.windows.import_dialog import ImportDialog

NEW, OTHER, THERE = Whereabouts.NEW, Whereabouts.OTHER, Whereabouts.THERE


def looked(*places: Whereabouts) -> tuple[ChatLooked, ...]:
    return tuple(
        ChatLooked(f"Chat {n}", 10 * n, NOON, "chats.json", place, f"id{n}")
        for n, place in enumerate(places)
    )


@pytest.fixture
def answers() -> list[str]:
    return []


@pytest.fixture
def make(qtbot: Any, theme: Theme, answers: list[str]) -> Iterator[Callable[..., ImportDialog]]:
    """What nobody holds any more is garbage, which must not be collected while it is painted."""
    kept: list[ImportDialog] = []

    def made(*places: Whereabouts, refusals: tuple[str, ...] = ()) -> ImportDialog:
        dialog = ImportDialog(
            theme,
            ImportPreviewed(looked(*places), refusals),
            lambda chosen: answers.append("import" if chosen is None else ",".join(sorted(chosen))),
            lambda: answers.append("forget"),
        )
        kept.append(dialog)
        dialog.open()
        dialog.activateWindow()
        qtbot.waitExposed(dialog)
        return dialog

    yield made
    kept.clear()


def rows(dialog: ImportDialog) -> list[list[str]]:
    model = dialog.list.model()
    return [
        [str(model.index(row, column).data()) for column in (0, 1, 3)]
        for row in range(model.rowCount())
    ]


def test_each_chat_says_what_happens_to_it(make: Callable[..., ImportDialog]) -> None:
    dialog = make(NEW, OTHER, THERE)
    assert dialog.summary.text() == "3 chats, 1 of them already here"
    assert rows(dialog) == [
        ["Chat 0", "0", "Added"],
        ["Chat 1", "10", "Added next to yours"],
        ["Chat 2", "20", "Already here"],
    ]
    assert dialog.import_button.text() == "Import 2 chats"
    assert "chats.json" in dialog.rows.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)


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


def test_some_are_chosen_by_keys_and_by_title(
    make: Callable[..., ImportDialog], qtbot: Any, answers: list[str]
) -> None:
    dialog = make(*[NEW] * 11, THERE)
    assert dialog.import_button.text() == "Import 11 chats"
    assert dialog.all.checkState() is Qt.CheckState.Checked
    qtbot.keyClicks(dialog.field, "chat 1")  # 1, 10 and 11, which is there already
    assert [row[0] for row in rows(dialog)] == ["Chat 1", "Chat 10", "Chat 11"]
    dialog.all.click()
    assert dialog.import_button.text() == "Import 9 chats"
    dialog.list.setFocus()
    qtbot.keyClick(dialog.list, Qt.Key.Key_Down)
    qtbot.keyClick(dialog.list, Qt.Key.Key_Space)
    assert dialog.all.checkState() is Qt.CheckState.PartiallyChecked
    dialog.field.clear()
    dialog.all.click()
    assert dialog.import_button.text() == "Import 11 chats"
    dialog.all.click()
    assert not dialog.import_button.isEnabled()
    dialog.list.setCurrentIndex(dialog.rows.index(2, 0))
    qtbot.keyClick(dialog.list, Qt.Key.Key_Space)
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: answers == ["id2"])


def test_what_another_app_brings_and_what_does_not_come(
    make: Callable[..., ImportDialog], qtbot: Any, theme: Theme
) -> None:
    chats = [
        ChatLooked("A", 1200, NOON, "x.zip", place, f"id{n}", "ChatGPT", NOON.replace(year=2023))
        for n, place in enumerate((NEW, OTHER, Whereabouts.MORE, THERE))
    ]
    left_out = (
        LeftOut("ChatGPT", "Hidden messages", 1200, ("A", "B")),
        LeftOut("ChatGPT", "Canvas", 1),
    )
    dialog = ImportDialog(
        theme,
        ImportPreviewed(tuple(chats), ("y.zip is damaged.",), left_out),
        lambda _: None,
        lambda: None,
    )
    qtbot.addWidget(dialog)
    assert [row[2] for row in rows(dialog)] == [
        "Added",
        "Copy added",
        "New messages",
        "Already here",
    ]
    assert dialog.import_button.text() == "Import 2 chats"  # not what was thrown away here
    texts = [label.text() for label in dialog.findChildren(QLabel)]
    assert "ChatGPT: 4 chats, 4,800 messages, 2023-11-27 to 2026-11-27" in texts
    dialog.copy_button.click()
    assert QGuiApplication.clipboard().text() == (
        "y.zip is damaged.\nChatGPT: Hidden messages (1,200)\n    A\n    B\nChatGPT: Canvas (1)"
    )
    dialog.rows.sort(0, Qt.SortOrder.DescendingOrder)
    dialog.rows.sort(3)
    assert rows(dialog)[0][2] == "Added"


def test_many_chats_are_rows_like_others(make: Callable[..., ImportDialog]) -> None:
    dialog = make(*[NEW] * 20_000)
    assert dialog.rows.rowCount() == 20_000
    assert dialog.import_button.text() == "Import 20,000 chats"


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


def test_presets_are_ticked_as_chats_are(theme: Theme, answers: list[str]) -> None:
    preset = ChatLooked("Calm", 0, NOON, "Calm.json", NEW, "p", is_preset=True)
    preview = ImportPreviewed((*looked(NEW, THERE), preset))
    dialog = ImportDialog(theme, preview, lambda chosen: answers.append(str(chosen)), int)
    assert dialog.summary.text() == "2 chats and 1 preset, 1 of them already here"
    assert dialog.import_button.text() == "Import 1 chat and 1 preset"
    assert rows(dialog)[2] == ["Calm", "Preset", "Added"]
    dialog.rows.setData(
        dialog.rows.index(0, 0), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole
    )
    assert dialog.import_button.text() == "Import 1 preset"
    dialog.accept()
    assert answers == ["frozenset({'p'})"]
