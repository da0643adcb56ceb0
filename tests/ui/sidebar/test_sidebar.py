"""The left column by mouse and keyboard."""

from __future__ import annotations

import random
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot
from recording_desk import NOON, conversation

from ui.sidebar.conversation_model import ID_ROLE, ConversationModel
from ui.sidebar.sidebar import Sidebar
from ui.theme import Theme

CHATS = [
    conversation(1, "The capital of France"),
    conversation(2, "SQL window functions"),
    conversation(3, "Poem about rain"),
]
Key = Qt.Key


class Asked(list[tuple[Any, ...]]):
    """What the sidebar asked for, in order."""


@pytest.fixture
def sidebar(qtbot: QtBot, theme: Theme) -> Sidebar:
    made = Sidebar(theme)
    qtbot.addWidget(made)
    model = made.view.model()
    assert isinstance(model, ConversationModel)
    model._now = lambda: NOON
    made.set_conversations(CHATS)
    made.set_open("c1")
    made.resize(236, 600)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    return made


@pytest.fixture
def asked(sidebar: Sidebar) -> Asked:
    made = Asked()
    names = ("open", "rename", "trash", "new_chat", "undo", "settings", "hide")
    for name in names:
        signal = getattr(sidebar, f"{name}_requested")
        signal.connect(lambda *args, name=name: made.append((name, *args)))
    return made


def row_place(sidebar: Sidebar, conversation_id: str) -> QPoint:
    model = sidebar.view.model()
    assert isinstance(model, ConversationModel)
    return sidebar.view.visualRect(model.index_of(conversation_id)).center()


def editor(sidebar: Sidebar) -> QLineEdit:
    found = sidebar.view.findChild(QLineEdit, "rename_field")
    assert found is not None
    return found


def test_a_click_opens_a_conversation(sidebar: Sidebar, asked: Asked) -> None:
    QTest.mouseClick(
        sidebar.view.viewport(), Qt.MouseButton.LeftButton, pos=row_place(sidebar, "c2")
    )
    assert asked == [("open", "c2")]


def test_arrows_and_return_open_a_conversation(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    assert sidebar.view.current_id() == "c1"
    QTest.keyClick(sidebar.view, Key.Key_Down)
    assert asked == []
    QTest.keyClick(sidebar.view, Key.Key_Return)
    assert asked == [("open", "c2")]


def test_arrows_step_over_headings(sidebar: Sidebar) -> None:
    sidebar.set_conversations([*CHATS, conversation(4, "Older", 3)])
    sidebar.view.setFocus()
    for _ in range(3):
        QTest.keyClick(sidebar.view, Key.Key_Down)
    assert sidebar.view.current_id() == "c4"


def test_delete_trashes_the_one_under_the_keyboard(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    QTest.keyClick(sidebar.view, Key.Key_Down)
    QTest.keyClick(sidebar.view, Key.Key_Delete)
    assert asked == [("trash", "c2")]


def test_backspace_and_other_keys_never_trash(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    dice = random.Random(9)
    keys = [Key.Key_Backspace, Key.Key_A, Key.Key_Space, Key.Key_Up, Key.Key_End, Key.Key_Home]
    for _ in range(300):
        QTest.keyClick(sidebar.view, dice.choice(keys))
    assert [each for each in asked if each[0] in ("trash", "rename")] == []


def test_delete_in_the_search_field_edits_text_only(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.search()
    QTest.keyClicks(sidebar.search_field, "poem")
    QTest.keyClick(sidebar.search_field, Key.Key_Home)
    QTest.keyClick(sidebar.search_field, Key.Key_Delete)
    assert sidebar.search_field.text() == "oem"
    assert asked == []


def test_undo_key_in_the_list_asks_for_undo(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    QTest.keyClick(sidebar.view, Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert asked == [("undo",)]


@pytest.mark.parametrize("end", [Key.Key_Return, Key.Key_Tab])
def test_f2_renames_in_place(sidebar: Sidebar, asked: Asked, qtbot: QtBot, end: Qt.Key) -> None:
    sidebar.view.setFocus()
    QTest.keyClick(sidebar.view, Key.Key_F2)
    field = editor(sidebar)
    assert field.selectedText() == "The capital of France"
    QTest.keyClicks(field, "Paris")
    QTest.keyClick(field, end)
    qtbot.waitUntil(lambda: asked == [("rename", "c1", "Paris")])


def test_escape_leaves_a_rename_without_one(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.rename("c3")
    QTest.keyClicks(editor(sidebar), "x")
    QTest.keyClick(editor(sidebar), Key.Key_Escape)
    assert asked == []


def test_delete_and_backspace_inside_a_rename_edit_the_title(
    sidebar: Sidebar, asked: Asked, qtbot: QtBot
) -> None:
    sidebar.rename("c2")
    QTest.keyClick(editor(sidebar), Key.Key_End)
    QTest.keyClick(editor(sidebar), Key.Key_Backspace)
    QTest.keyClick(editor(sidebar), Key.Key_Delete)
    QTest.keyClick(editor(sidebar), Key.Key_Return)
    qtbot.waitUntil(lambda: asked == [("rename", "c2", "SQL window function")])


def test_a_rename_survives_news_of_a_reply(sidebar: Sidebar, asked: Asked, qtbot: QtBot) -> None:
    sidebar.rename("c3")
    QTest.keyClicks(editor(sidebar), "Rain")
    sidebar.set_conversations([CHATS[2], CHATS[0], CHATS[1]])
    assert editor(sidebar).text() == "Rain"
    QTest.keyClick(editor(sidebar), Key.Key_Return)
    qtbot.waitUntil(lambda: asked == [("rename", "c3", "Rain")])


def test_renaming_one_that_the_filter_hides_shows_it(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("rain")
    sidebar.rename("c1")
    assert sidebar.search_field.text() == ""
    assert editor(sidebar).text() == "The capital of France"


def test_typing_filters_and_return_opens_the_first(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.search()
    QTest.keyClicks(sidebar.search_field, "window")
    assert [
        sidebar.view.model().index(row, 0).data(ID_ROLE)
        for row in range(sidebar.view.model().rowCount())
    ] == ["", "c2"]
    QTest.keyClick(sidebar.search_field, Key.Key_Return)
    assert asked == [("open", "c2")]


def test_down_goes_from_search_into_the_list(sidebar: Sidebar) -> None:
    sidebar.search()
    QTest.keyClick(sidebar.search_field, Key.Key_Down)
    assert sidebar.view.hasFocus()
    assert sidebar.view.current_id() == "c1"


def test_escape_empties_search_then_leaves_it(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.search_field.setText("x")
    sidebar.search()
    QTest.keyClick(sidebar.search_field, Key.Key_Escape)
    assert sidebar.search_field.text() == ""
    with qtbot.waitSignal(sidebar.search_left):
        QTest.keyClick(sidebar.search_field, Key.Key_Escape)


def test_an_empty_list_says_so(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("zebra")
    assert sidebar._empty.isVisible()
    assert "zebra" in sidebar._empty.text()
    sidebar.search_field.clear()
    assert not sidebar._empty.isVisible()


def test_the_context_menu_offers_each_act_with_its_key(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    menu = sidebar.view.context_menu()
    acts = {action.text().split("\t")[0]: action for action in menu.actions() if action.text()}
    assert list(acts) == ["Open", "Rename", "Move to trash"]
    assert all("\t" in action.text() for action in acts.values())
    acts["Move to trash"].trigger()
    acts["Open"].trigger()
    assert asked == [("trash", "c1"), ("open", "c1")]


def test_every_control_is_named(sidebar: Sidebar) -> None:
    for name in ("new_chat_button", "conversation_list", "search_field", "trash_button"):
        widget = sidebar.findChild(object, name)  # type: ignore[call-overload]
        assert widget is not None, name
        assert widget.accessibleName(), name
