"""The field of the search: the button that empties it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.sidebar.search_field import SearchField


@pytest.fixture
def field(qtbot: QtBot, qapp: QApplication, theme: Theme) -> SearchField:
    theme.apply_to(qapp)
    made = SearchField(theme)
    qtbot.addWidget(made)
    made.resize(190, 34)
    made.show()
    return made


def test_it_can_be_emptied_once_something_is_in_it(field: SearchField, qtbot: QtBot) -> None:
    assert not field.clear_button.isVisible()
    field.setText("staircase")
    assert field.clear_button.isVisible()
    qtbot.mouseClick(field.clear_button, Qt.MouseButton.LeftButton)
    assert field.text() == ""
    assert not field.clear_button.isVisible()


@pytest.mark.parametrize("zoom", [80, 200, 300])
def test_the_button_grows_with_the_zoom_and_no_word_is_below_it(
    field: SearchField, theme: Theme, zoom: int
) -> None:
    theme.set_zoom(zoom)
    field.setText("staircase")
    assert field.clear_button.iconSize().width() == theme.px(16)
    assert field.textMargins().right() >= field.clear_button.width()
    assert field.rect().right() - field.clear_button.geometry().right() <= 1
