"""Buttons with a menu: hovered only under the pointer."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from ui.widgets.hovering import let_go_after


@pytest.mark.parametrize("stays", [False, True])
def test_after_its_menu_a_button_is_hovered_only_under_the_pointer(
    qtbot: QtBot, stays: bool
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(600, 400)
    button = QPushButton("Menu", window)
    button.setGeometry(10, 10, 80, 30)
    menu = QMenu(button)
    menu.addAction("One")
    button.setMenu(menu)
    let_go_after(menu, button)
    window.show()
    qtbot.waitExposed(window)
    on, off = button.mapToGlobal(QPoint(20, 10)), window.mapToGlobal(QPoint(500, 300))
    QCursor.setPos(on)
    button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, True)
    QTest.mousePress(button, Qt.MouseButton.LeftButton)
    QCursor.setPos(on if stays else off)
    menu.close()
    assert button.underMouse() is stays
    QTest.mouseRelease(button, Qt.MouseButton.LeftButton)  # else it is held in tests to come
