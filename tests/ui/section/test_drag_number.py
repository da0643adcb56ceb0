"""A number that is typed, stepped or dragged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QStyle,
    QStyleOptionFrame,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.look.theme_sheet import stylesheet
from ui.section.drag_number import PX_PER_STEP, DragNumber

LEFT = Qt.MouseButton.LeftButton
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def field(qtbot: QtBot) -> Iterator[DragNumber]:
    """With another field beside it that has the keyboard."""
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    other, field = QLineEdit(window), DragNumber(is_whole=False, step=0.5, parent=window)
    column.addWidget(other)
    column.addWidget(field)
    field.show_value(2.0)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    other.setFocus()
    yield field
    window.close()


def drag(field: DragNumber, by: int, modifier: Qt.KeyboardModifier | None = None) -> None:
    keys = modifier or Qt.KeyboardModifier.NoModifier
    QTest.mousePress(field, LEFT, keys, QPoint(50, 8))
    steps = range(0, by, 3 if by > 0 else -3)
    for x in (*steps, by):
        move(field, QPoint(50 + x, 8), keys)
    QTest.mouseRelease(field, LEFT, keys, QPoint(50 + by, 8))


def move(field: DragNumber, at: QPoint, keys: Qt.KeyboardModifier) -> None:
    """QTest moves the mouse without keys."""
    place = QPointF(at)
    event = QMouseEvent(
        QEvent.Type.MouseMove, place, QPointF(field.mapToGlobal(at)), LEFT, LEFT, keys
    )
    QApplication.sendEvent(field, event)


def test_dragging_tells_each_step_once(field: DragNumber) -> None:
    told: list[object] = []
    field.changed_by_user.connect(told.append)
    drag(field, 4 * PX_PER_STEP)
    assert told == [2.5, 3.0, 3.5, 4.0]
    drag(field, -2 * PX_PER_STEP)
    assert told[4:] == [3.5, 3.0]
    assert not field.hasFocus()


def test_shift_makes_it_finer(field: DragNumber) -> None:
    drag(field, 4 * PX_PER_STEP, SHIFT)
    assert field.value() == pytest.approx(2.2)


def test_a_whole_number_stays_whole(qtbot: QtBot) -> None:
    field = DragNumber(is_whole=True, step=5)
    qtbot.addWidget(field)
    field.show_value(40)
    drag(field, 2 * PX_PER_STEP)
    assert field.text() == "50"
    drag(field, 3 * PX_PER_STEP, SHIFT)
    assert field.text() == "53"
    assert isinstance(field.value(), int)


def test_being_let_go_is_told(field: DragNumber, qtbot: QtBot) -> None:
    with qtbot.waitSignal(field.drag_ended, timeout=1000):
        drag(field, 30)
    with qtbot.assertNotEmitted(field.drag_ended):
        QTest.mouseClick(field, LEFT, pos=QPoint(10, 8))


def test_where_it_is_being_typed_in_the_mouse_selects(field: DragNumber) -> None:
    QTest.mouseClick(field, LEFT, pos=QPoint(10, 8))
    assert field.hasFocus()
    assert field.selectedText() == "2"
    drag(field, 30)
    assert field.text() == "2"


def test_what_is_no_number_cannot_be_dragged(field: DragNumber, qtbot: QtBot) -> None:
    field.setText("many")
    with qtbot.assertNotEmitted(field.changed_by_user):
        drag(field, 30)
    assert field.text() == "many"


def test_alt_and_an_arrow_are_left_to_whoever_stands_around(field: DragNumber) -> None:
    QTest.keyClick(field, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert field.text() == "2"
    QTest.keyClick(field, Qt.Key.Key_Up)
    assert field.text() == "2.5"


def test_a_number_is_never_cut(field: DragNumber, qtbot: QtBot) -> None:
    """Measured where it is painted; and it is small again for a short one."""
    theme = Theme("light")
    field.setStyleSheet(stylesheet(theme))
    field.set_least_width(theme.px(42))
    short = field.width()
    assert short == theme.px(42)
    for text in ("1.75", "-0.25", "0.055", "100000"):
        field.setText(text)
        option = QStyleOptionFrame()
        field.initStyleOption(option)
        room = field.style().subElementRect(QStyle.SubElement.SE_LineEditContents, option, field)
        assert room.width() >= field.fontMetrics().horizontalAdvance(text) + 2
    field.setText("5")
    assert field.width() == short
