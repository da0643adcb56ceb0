"""An area whose contents never stop wanting another height is fitted, and does not crash."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui.widgets.steady_area import SteadyArea

DEEP = 40


class Fickle(QWidget):
    """Each time it is asked, it needs a row more or less, as cards do whose words wrap anew."""

    def __init__(self) -> None:
        super().__init__()
        self.n_asked = 0
        policy = self.sizePolicy()
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        self.n_asked += 1
        return 300 + 20 * (self.n_asked % 3)

    def sizeHint(self) -> QSize:
        return QSize(100, 300)


class Watched(SteadyArea):
    """Counts how deep it is fitted inside of being fitted."""

    depth = deepest = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is not QEvent.Type.Resize or self.depth > DEEP:
            return super().eventFilter(watched, event)
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        try:
            return super().eventFilter(watched, event)
        finally:
            self.depth -= 1


def test_it_fits_once_what_wants_another_height_each_time(qtbot: QtBot) -> None:
    area, inside = Watched(), Fickle()
    qtbot.addWidget(area)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidgetResizable(True)
    area.setWidget(inside)
    area.resize(200, 200)
    with qtbot.waitExposed(area):
        area.show()
    for height in range(200, 360, 7):
        area.resize(200, height)
        qtbot.wait(1)
    assert inside.n_asked > 20
    assert area.deepest <= 2
    assert inside.height() in (300, 320, 340, area.viewport().height())
    assert isinstance(area, QScrollArea)


@pytest.mark.parametrize("is_backwards", [False, True])
def test_what_tab_reaches_from_outside_comes_into_view(qtbot: QtBot, is_backwards: bool) -> None:
    window, inside = QWidget(), QWidget()
    qtbot.addWidget(window)
    before, area, after = QLineEdit(), SteadyArea(), QLineEdit()
    column, rows = QVBoxLayout(window), QVBoxLayout(inside)
    buttons = [QPushButton(str(number)) for number in range(20)]
    for button in buttons:
        rows.addWidget(button)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(inside)
    for widget in (before, area, after):
        column.addWidget(widget)
    for first, second in pairwise((before, *buttons, after)):
        QWidget.setTabOrder(first, second)
    window.resize(200, 200)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    bar = area.verticalScrollBar()
    bar.setValue(0 if is_backwards else bar.maximum())
    reached = buttons[-1 if is_backwards else 0]
    (after if is_backwards else before).setFocus()
    assert reached.visibleRegion().isEmpty()
    key = Qt.Key.Key_Backtab if is_backwards else Qt.Key.Key_Tab
    QTest.keyClick(window.focusWidget(), key)
    assert window.focusWidget() is reached
    assert reached.visibleRegion().boundingRect() == reached.rect()
