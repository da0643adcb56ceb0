"""A choice from a list: the wheel scrolls the page around it and chooses nothing."""

from __future__ import annotations

import ast
from pathlib import Path

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui.combo import Combo
from ui.theme import Theme

UI = Path(__file__).resolve().parents[2] / "ui"


def turn_down(widget: QWidget) -> None:
    at = QPointF(widget.rect().center())
    event = QWheelEvent(
        at,
        QPointF(widget.mapToGlobal(at.toPoint())),
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, event)


def test_the_wheel_scrolls_what_is_around(qtbot: QtBot, theme: Theme) -> None:
    area = QScrollArea()
    qtbot.addWidget(area)
    page = QWidget()
    page.setMinimumHeight(2000)
    combo = Combo(theme, page)
    combo.addItems(["one", "two", "three"])
    column = QVBoxLayout(page)
    column.addWidget(combo)
    column.addStretch()
    area.setWidget(page)
    area.resize(300, 200)
    area.show()
    area.activateWindow()
    qtbot.waitUntil(area.isActiveWindow)
    area.setFocus()
    for has_focus in (False, True):
        if has_focus:
            combo.setFocus()
        turn_down(combo)
        assert combo.currentText() == "one"
        assert combo.hasFocus() is has_focus
    assert area.verticalScrollBar().value() > 0


def test_every_list_that_opens_is_one_of_these() -> None:
    """Qt's own have no arrow in this theme, and the wheel changes them."""
    offenders = [
        path.name
        for path in UI.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"QComboBox", "QFontComboBox", "QSpinBox", "QDoubleSpinBox", "QSlider"}
    ]
    assert offenders == []
