"""The registry of actions: keys that act, entries of menus, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QMenu, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from ui.section.drag_number import DragNumber
from ui.settings.fields import NumberField, TextField
from ui.shell.actions import Action, Actions

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    QLineEdit(window)
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    return window


@pytest.fixture
def actions(window: QWidget) -> Actions:
    return Actions(window)


def test_each_key_runs_the_action(actions: Actions, window: QWidget) -> None:
    done: list[str] = []
    actions.add(
        Action("find", "Find", "Ctrl+F", lambda: done.append("find"), other_keys=("Ctrl+G",))
    )
    QTest.keyClick(window, Qt.Key.Key_F, CONTROL)
    QTest.keyClick(window, Qt.Key.Key_G, CONTROL)
    assert done == ["find", "find"]


def test_what_is_not_enabled_does_nothing_by_key_or_by_name(
    actions: Actions, window: QWidget
) -> None:
    done: list[str] = []
    can: list[bool] = []
    actions.add(Action("copy", "Copy", "Ctrl+C", lambda: done.append("copy"), lambda: bool(can)))
    QTest.keyClick(window, Qt.Key.Key_C, CONTROL)
    actions.run("copy")
    assert done == []
    can.append(True)
    QTest.keyClick(window, Qt.Key.Key_C, CONTROL)
    assert done == ["copy"]


@pytest.mark.parametrize("kind", [NumberField, DragNumber, TextField])
def test_what_is_being_typed_counts_before_an_action(
    actions: Actions, window: QWidget, kind: Any
) -> None:
    """Not after it, when another chat may be open."""
    told: list[object] = []
    field = kind(parent=window, **({} if kind is TextField else {"is_whole": True, "step": 1}))
    field.changed_by_user.connect(told.append)
    field.show()
    field.setFocus()
    QTest.keyClicks(field, "7")
    actions.add(Action("new", "New chat", "Ctrl+N", lambda: told.append("new")))
    QTest.keyClick(field, Qt.Key.Key_N, CONTROL)
    assert told == ["7" if kind is TextField else 7, "new"]


class Listening(QWidget):
    """Writes down the keys that reach it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.heard: list[int] = []

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.heard.append(event.key())


def test_key_that_is_not_heard_is_left_to_the_widget_in_focus(
    actions: Actions, window: QWidget
) -> None:
    widget = Listening(window)
    done: list[str] = []
    actions.add(Action("stop", "Stop", "Esc", lambda: done.append("stop")))
    actions.hear("stop", False)
    QTest.keyClick(widget, Qt.Key.Key_Escape)
    assert (widget.heard, done) == ([Qt.Key.Key_Escape], [])
    actions.hear("stop", True)
    QTest.keyClick(widget, Qt.Key.Key_Escape)
    assert (widget.heard, done) == ([Qt.Key.Key_Escape], ["stop"])


def test_text_field_gives_way_to_the_windows_keys_and_keeps_its_own(
    actions: Actions, window: QWidget, qtbot: QtBot
) -> None:
    """Ctrl+Right and Ctrl+Left are a text field's own; the window wants one of them."""
    done: list[str] = []
    actions.add(Action("next", "Next", "Ctrl+Right", lambda: done.append("next")))
    field = QPlainTextEdit("one two", window)
    field.show()
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_Right, CONTROL)
    assert (done, field.textCursor().position()) == (["next"], 0)
    field.moveCursor(QTextCursor.MoveOperation.End)
    QTest.keyClick(field, Qt.Key.Key_Left, CONTROL)
    assert field.textCursor().position() == 4
    actions.hear("next", False)
    QTest.keyClick(field, Qt.Key.Key_Right, CONTROL)
    assert field.textCursor().position() == 7


def test_scope_is_the_only_place_where_the_key_works(actions: Actions, window: QWidget) -> None:
    done: list[str] = []
    inner = window.findChild(QLineEdit)
    assert inner is not None
    actions.add(
        Action("delete", "Delete", "F8", lambda: done.append("x"), place="In the field"), inner
    )
    outer = QLineEdit(window)
    outer.show()
    outer.setFocus()
    QTest.keyClick(outer, Qt.Key.Key_F8)
    assert done == []
    inner.setFocus()
    QTest.keyClick(inner, Qt.Key.Key_F8)
    assert done == ["x"]


def test_name_that_is_given_already_is_refused(actions: Actions) -> None:
    actions.add(Action("new", "New", "Ctrl+N", lambda: None))
    with pytest.raises(ValueError, match="'new'"):
        actions.add(Action("new", "Newer", "Ctrl+M", lambda: None))


def test_key_that_is_given_already_stays_with_its_first_action(
    actions: Actions, window: QWidget
) -> None:
    done: list[str] = []
    actions.add(Action("new", "New", "Ctrl+N", lambda: done.append("new")))
    actions.add(
        Action("note", "Note", "Ctrl+N", lambda: done.append("note"), other_keys=("Ctrl+M",))
    )
    actions.add(
        Action("here", "Here", "Ctrl+N", lambda: None, place="In the list"), QWidget(window)
    )
    assert actions.collisions == ["Ctrl+N: new and note"]
    assert actions["note"].keys == ("Ctrl+M",)
    QTest.keyClick(window, Qt.Key.Key_N, CONTROL)
    QTest.keyClick(window, Qt.Key.Key_M, CONTROL)
    assert done == ["new", "note"]


def test_menu_shows_what_is_switched_on(actions: Actions, window: QWidget) -> None:
    on: list[bool] = []
    actions.add(Action("full", "Full screen", "", lambda: None, is_checked=lambda: bool(on)))
    actions.add(Action("new", "New chat", "", lambda: None))
    menu = QMenu(window)
    actions.fill_menu(menu, "full")
    on.append(True)
    actions.fill_menu(menu, "full", "new")
    assert [each.isCheckable() for each in menu.actions()] == [True, True, False]
    assert [each.isChecked() for each in menu.actions()] == [False, True, False]


def test_menu_shows_keys_and_runs(actions: Actions, window: QWidget) -> None:
    done: list[str] = []
    actions.add(Action("new", "New chat", "Ctrl+N", lambda: done.append("new")))
    actions.add(Action("stop", "Stop", "", lambda: done.append("stop"), lambda: False))
    menu = QMenu(window)
    actions.fill_menu(menu, "new", "", "stop")
    new, line, stop = menu.actions()
    assert new.text() == "New chat\tCtrl+N"
    assert line.isSeparator()
    assert not stop.isEnabled()
    new.trigger()
    assert done == ["new"]
    QTest.keyClick(window, Qt.Key.Key_N, CONTROL)
    assert done == ["new", "new"]
