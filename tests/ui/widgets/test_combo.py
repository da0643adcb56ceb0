"""A choice from a list: the wheel scrolls the page around it and chooses nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.widgets.combo import Combo
from ui.widgets.slider import Slider

UI = Path(__file__).resolve().parents[3] / "ui"
QTS_OWN = ("QComboBox", "QFontComboBox", "QSpinBox", "QDoubleSpinBox", "QSlider")


def turn_down(widget: QWidget) -> QWheelEvent:
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
    return event


@pytest.mark.parametrize("has_focus", [False, True])
def test_the_wheel_is_left_to_what_is_around(qtbot: QtBot, theme: Theme, has_focus: bool) -> None:
    page = QWidget()
    qtbot.addWidget(page)
    column = QVBoxLayout(page)
    combo = Combo(theme, page)
    combo.addItems(["one", "two", "three"])
    other = QPushButton("Other", page)
    column.addWidget(combo)
    column.addWidget(other)
    page.show()
    page.activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    (combo if has_focus else other).setFocus()
    event = turn_down(combo)
    assert not event.isAccepted()
    assert combo.currentText() == "one"
    assert combo.hasFocus() is has_focus


def test_the_wheel_leaves_a_slider_alone(qtbot: QtBot) -> None:
    slider = Slider(Qt.Orientation.Horizontal)
    qtbot.addWidget(slider)
    slider.setValue(50)
    slider.show()
    assert not turn_down(slider).isAccepted()
    assert slider.value() == 50


def test_every_list_that_opens_is_one_of_these() -> None:
    """Qt's own have no arrow in this theme, and the wheel changes them."""
    sources = [(path.name, path.read_text("utf-8")) for path in UI.rglob("*.py")]
    naming = [each for each in sources if any(own in each[1] for own in QTS_OWN)]
    assert {"combo.py", "slider.py"} <= {name for name, _ in naming}
    offenders = [
        name
        for name, text in naming
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in QTS_OWN
    ]
    assert offenders == []
