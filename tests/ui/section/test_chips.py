"""Chips: what they say to eyes and readers, and that each has room."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.chips import Chip, ChipView

CHIPS = [Chip("·the", "260", "about it"), Chip("=" * 400, "7 · control"), Chip("x", "")]


def view(theme: Theme, qtbot: QtBot) -> ChipView:
    built = ChipView(theme, "Tokens")
    qtbot.addWidget(built)
    built.resize(200, 200)
    built.show()
    qtbot.waitExposed(built)
    built.show_chips(CHIPS)
    return built


def test_a_reader_is_told_piece_and_id(theme: Theme, qtbot: QtBot) -> None:
    model = view(theme, qtbot).chips
    index = model.index(0)
    assert model.data(index, Qt.ItemDataRole.AccessibleTextRole) == "·the, 260"
    assert model.data(index, Qt.ItemDataRole.ToolTipRole) == "about it"
    assert model.data(model.index(2), Qt.ItemDataRole.AccessibleTextRole) == "x"


def test_a_long_piece_is_no_wider_than_the_view_at_any_zoom(theme: Theme, qtbot: QtBot) -> None:
    built = view(theme, qtbot)
    for zoom in (100, 300):
        theme.set_zoom(zoom)
        built.grab()
        rects = [built.visualRect(built.chips.index(row)) for row in range(3)]
        assert all(rect.right() <= built.viewport().width() for rect in rects)
        assert rects[1].top() > rects[0].top(), "it goes on in the next line"
    assert rects[0].height() > 60


def test_arrow_keys_move_from_chip_to_chip(theme: Theme, qtbot: QtBot) -> None:
    built = view(theme, qtbot)
    built.setFocus()
    built.setCurrentIndex(built.chips.index(0))
    QTest.keyClick(built, Qt.Key.Key_Down)
    assert built.currentIndex().row() == 1


def test_the_chosen_one_is_painted_differently(theme: Theme, qtbot: QtBot) -> None:
    built = view(theme, qtbot)
    built.clearSelection()
    plain = built.grab().toImage()
    built.setCurrentIndex(built.chips.index(0))
    assert built.grab().toImage() != plain
