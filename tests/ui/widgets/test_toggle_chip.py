"""A button that shows a state and asks for the other one."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.widgets.toggle_chip import ToggleChip


def test_a_click_asks_and_changes_nothing_by_itself(theme: Theme, qtbot: QtBot) -> None:
    chip = ToggleChip(theme, "puzzle-piece", "Tokens", "what it does")
    qtbot.addWidget(chip)
    with qtbot.waitSignal(chip.clicked):
        chip.click()
    assert not chip.isChecked()
    chip.set_on(True)
    assert chip.isChecked()
    assert chip.accessibleName() == "Tokens"


def test_where_room_is_short_it_is_an_icon(theme: Theme, qtbot: QtBot) -> None:
    chip = ToggleChip(theme, "puzzle-piece", "Tokens", "what it does")
    qtbot.addWidget(chip)
    wide = chip.width()
    assert (chip.text(), chip.icon().isNull()) == ("Tokens", True)
    chip.set_compact(True)
    assert (chip.text(), chip.icon().isNull()) == ("", False)
    assert chip.width() < wide
    chip.set_compact(False)
    assert (chip.text(), chip.width()) == ("Tokens", wide)


def test_it_grows_with_the_zoom(theme: Theme, qtbot: QtBot) -> None:
    chip = ToggleChip(theme, "puzzle-piece", "Tokens", "what it does")
    qtbot.addWidget(chip)
    height = chip.height()
    theme.set_zoom(200)
    assert chip.height() == 2 * height
