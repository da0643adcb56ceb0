"""Which chats to export, and as what; by keyboard too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QRadioButton
from recording_desk import conversation

from app.chat.exchange.choices import Choices
from ui.look.theme import Theme
from ui.windows.export_dialog import ExportDialog

SHOWN, OTHER, THIRD = (conversation(n, f"Chat {n}") for n in (1, 2, 3))


@pytest.fixture
def chosen() -> list[tuple[Any, str]]:
    return []


@pytest.fixture
def make(qtbot: Any, theme: Theme, chosen: list[Any]) -> Callable[..., ExportDialog]:
    def made(
        shown: Any = SHOWN, marked: Sequence[Any] = (), n_all: int = 3, **options: Any
    ) -> ExportDialog:
        dialog = ExportDialog(
            theme, shown, marked, n_all, lambda *what: chosen.append(what), **options
        )
        dialog.open()
        dialog.activateWindow()
        qtbot.waitExposed(dialog)
        return dialog

    return made


def choose(dialog: ExportDialog, form: str) -> None:
    dialog.format.setCurrentIndex(dialog.format.findData(form))


def words_of(dialog: ExportDialog) -> list[str]:
    return [button.text() for button in dialog.findChildren(QRadioButton)]


def test_return_alone_exports_the_chat_on_screen_with_everything(
    make: Callable[..., ExportDialog], qtbot: Any, chosen: list[Any]
) -> None:
    dialog = make()
    assert words_of(dialog)[:2] == ["This chat: “Chat 1”", "All chats, including archived (3)"]
    qtbot.waitUntil(lambda: dialog.focusWidget() is not None)
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: [(ids, what.form) for ids, what, _ in chosen] == [(["c1"], "json")])


def test_chosen_chats_come_first(
    make: Callable[..., ExportDialog], qtbot: Any, chosen: list[Any]
) -> None:
    dialog = make(marked=[OTHER, THIRD])
    assert words_of(dialog)[1] == "The 2 selected chats"
    choose(dialog, "markdown")
    dialog.zip.setChecked(True)
    dialog.export_button.click()
    assert chosen == [(["c2", "c3"], Choices("markdown", paper=dialog.choices.paper), True)]


def test_the_chat_on_screen_is_offered_once(make: Callable[..., ExportDialog]) -> None:
    assert len(words_of(make(marked=[SHOWN]))) == 2
    assert "The selected chat: “Chat 2”" in words_of(make(marked=[OTHER]))


def test_all_where_the_chat_on_screen_is_not_stored(
    make: Callable[..., ExportDialog], qtbot: Any, chosen: list[Any]
) -> None:
    dialog = make(shown=None, n_all=1)
    assert words_of(dialog)[0] == "All chats, including archived (1)"
    dialog.export_button.click()
    assert [(ids, what.form) for ids, what, _ in chosen] == [(None, "json")]


def test_escape_exports_nothing(
    make: Callable[..., ExportDialog], qtbot: Any, chosen: list[Any]
) -> None:
    dialog = make()
    with qtbot.waitSignal(dialog.rejected):
        qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert chosen == []


def test_titles_are_text(make: Callable[..., ExportDialog]) -> None:
    shown = conversation(4, "A & <b>B</b>\n" + "long " * 30)
    words = words_of(make(shown=shown))[0]
    assert words.startswith("This chat: “A && <b>B</b> long")
    assert len(words) < 70


def test_each_kind_offers_its_own_options(make: Callable[..., ExportDialog]) -> None:
    dialog = make(before=Choices("html", tints=True), folder=("Work", ["c1", "c2"]))
    options = ("branches", "reasoning", "tints", "system", "shape", "alternatives", "zip")

    def offered() -> set[str]:
        return {name for name in options if getattr(dialog, name).isVisible()}

    assert offered() == {"branches", "reasoning", "tints"}
    assert dialog.choices.tints
    choose(dialog, "training")
    assert offered() == {"branches", "reasoning", "system", "shape"}
    dialog.shape.setCurrentIndex(1)
    dialog.system.setChecked(False)
    assert (dialog.choices.shape, dialog.choices.system) == ("sharegpt", False)
    choose(dialog, "tokens")
    assert offered() == {"branches", "alternatives"}
    dialog.findChild(QRadioButton, "export_folder").click()
    assert offered() == {"branches", "alternatives", "zip"}
    choose(dialog, "json")
    assert offered() == set()
    assert "The folder “Work” (2)" in words_of(dialog)
