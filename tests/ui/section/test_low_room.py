"""Where height is short a panel scrolls: nothing of it is squeezed, cut or laid over another."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel, QTableView, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.low_room import LowRoom

LONG = "A sentence that needs several lines where there is little width. " * 4


@pytest.fixture
def room(qtbot: QtBot, theme: Theme) -> LowRoom:
    panel = QWidget()
    column = QVBoxLayout(panel)
    table = QTableView(panel)
    table.setMinimumHeight(80)
    label = QLabel(LONG, panel)
    label.setWordWrap(True)
    column.addWidget(table, 1)
    column.addWidget(label)
    made = LowRoom(panel)
    qtbot.addWidget(made)
    made.resize(200, 400)
    with qtbot.waitExposed(made):
        made.show()
    return made


def parts(room: LowRoom) -> tuple[QTableView, QLabel]:
    return room.findChild(QTableView), room.findChild(QLabel)  # type: ignore[return-value]


def test_with_room_it_is_filled_and_nothing_scrolls(room: LowRoom) -> None:
    table, label = parts(room)
    assert not room.verticalScrollBar().isVisible()
    assert label.geometry().bottom() <= 400
    assert table.height() + label.height() > 340


def test_without_room_it_scrolls_and_nothing_is_squeezed(room: LowRoom, qtbot: QtBot) -> None:
    room.resize(200, 120)
    table, label = parts(room)
    qtbot.waitUntil(room.verticalScrollBar().isVisible)
    assert table.height() == 80, "what it needs, and not what it would like"
    assert label.height() >= label.heightForWidth(label.width())


def test_words_that_come_later_count(room: LowRoom, qtbot: QtBot) -> None:
    table, label = parts(room)
    label.setText(LONG * 4)
    qtbot.waitUntil(room.verticalScrollBar().isVisible)
    qtbot.waitUntil(lambda: label.height() >= label.heightForWidth(label.width()))
    assert table.height() >= 80
