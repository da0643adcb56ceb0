"""The headings of a table lead to their terms, and a click on one does what it did."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent, QStandardItemModel
from PySide6.QtWidgets import QApplication, QMenu, QTableView, QToolTip
from pytestqt.qtbot import QtBot

from ui.section.heading_terms import HeadingTerms
from ui.section.term_label import ASKED, TermAsked


class Table(QTableView):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        model = QStandardItemModel(1, 2, self)
        model.setHorizontalHeaderLabels(["Entropy\nbit", "Time"])
        self.setModel(model)
        HeadingTerms(self)

    def customEvent(self, event: QEvent) -> None:
        if event.type() == ASKED:
            assert isinstance(event, TermAsked)
            event.accept()
            self.asked.append(event.term.name)


@pytest.fixture
def table(qtbot: QtBot) -> Table:
    made = Table()
    qtbot.addWidget(made)
    made.show()
    return made


def middle(table: Table, column: int) -> QPoint:
    header = table.horizontalHeader()
    left = header.sectionViewportPosition(column)
    return QPoint(left + header.sectionSize(column) // 2, header.height() // 2)


def test_a_right_click_looks_it_up(table: Table) -> None:
    table.horizontalHeader().customContextMenuRequested.emit(middle(table, 0))
    menu = table.findChild(QMenu, "heading_menu")
    assert menu is not None
    (entry,) = menu.actions()
    assert entry.text() == "Look up “entropy”"
    entry.trigger()
    assert table.asked == ["entropy"]
    menu.close()


def test_where_no_term_stands_there_is_no_menu(table: Table) -> None:
    table.horizontalHeader().customContextMenuRequested.emit(middle(table, 1))
    assert table.findChild(QMenu, "heading_menu") is None


def test_the_tooltip_says_how(table: Table) -> None:
    view = table.horizontalHeader().viewport()
    place = middle(table, 0)
    event = QHelpEvent(QEvent.Type.ToolTip, place, view.mapToGlobal(place))
    QApplication.sendEvent(view, event)
    assert QToolTip.text() == "Right-click to look up “entropy”."
    QToolTip.hideText()
