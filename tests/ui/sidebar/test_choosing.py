"""Choosing chats by the mouse alone, and what a right click is about."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMenu, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import NOON, conversation

from app.chat.events import SearchAnswered
from models.records import Role, SearchHit
from ui.look.theme import Theme
from ui.sidebar.conversation_model import ConversationModel
from ui.sidebar.sidebar import Sidebar

CHATS = [conversation(number, f"Chat {number}") for number in (1, 2, 3, 4)]


@pytest.fixture
def sidebar(qtbot: QtBot, theme: Theme) -> Sidebar:
    made = Sidebar(theme)
    qtbot.addWidget(made)
    made.set_conversations(CHATS)
    made.set_open(CHATS[0].id)
    made.resize(236, 700)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    return made


def place_of(sidebar: Sidebar, number: int) -> QPoint:
    model = sidebar.view.model()
    assert isinstance(model, ConversationModel)
    return sidebar.view.visualRect(model.index_of(CHATS[number - 1].id)).center()


def click(sidebar: Sidebar, number: int) -> None:
    QTest.mouseClick(
        sidebar.view.viewport(), Qt.MouseButton.LeftButton, pos=place_of(sidebar, number)
    )


def right_click(sidebar: Sidebar, place: QPoint) -> dict[str, Any]:
    view = sidebar.view
    QTest.mouseClick(view.viewport(), Qt.MouseButton.RightButton, pos=place)
    reason = QContextMenuEvent.Reason.Mouse
    event = QContextMenuEvent(reason, place, view.viewport().mapToGlobal(place))
    QApplication.sendEvent(view.viewport(), event)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    menu.hide()
    return {each.text().split("\t")[0]: each for each in menu.actions() if each.text()}


def test_a_right_click_on_what_was_found_is_about_its_chat(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("rain")
    hit = SearchHit(
        conversation_id=CHATS[2].id,
        conversation_title="Chat 3",
        created_at=NOON,
        message_id="m7",
        role=Role.USER,
        snippet="rain",
        marks=((0, 4),),
    )
    sidebar.show_answer(SearchAnswered("rain", (hit,), is_first=True))
    opened: list[Any] = []
    pinned: list[Any] = []
    sidebar.hit_requested.connect(opened.append)
    sidebar.pin_requested.connect(lambda *args: pinned.append(args))
    view = sidebar.results
    place = view.visualRect(view.model().index(0, 0)).center()
    reason = QContextMenuEvent.Reason.Mouse
    event = QContextMenuEvent(reason, place, view.viewport().mapToGlobal(place))
    QApplication.sendEvent(view.viewport(), event)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    menu.hide()
    entries = {each.text(): each for each in menu.actions() if each.text()}
    assert "Select multiple" not in entries
    entries["Pin"].trigger()
    entries["Open"].trigger()
    assert pinned == [((CHATS[2].id,), True)]
    assert opened == [hit]
    entries["Rename"].trigger()
    assert sidebar.view.current_id() == CHATS[2].id
    assert sidebar.view.findChild(QLineEdit, "rename_field") is not None


def chosen(sidebar: Sidebar) -> list[int]:
    ids = [chat.id for chat in CHATS]
    return sorted(ids.index(each) + 1 for each in sidebar.view.chosen_ids())


def test_clicks_choose_any_chats_until_it_is_left(sidebar: Sidebar) -> None:
    opened: list[str] = []
    trashed: list[Any] = []
    sidebar.open_requested.connect(opened.append)
    sidebar.trash_requested.connect(trashed.append)
    right_click(sidebar, place_of(sidebar, 2))["Select multiple"].trigger()
    assert sidebar.bulk_bar.isVisible()
    click(sidebar, 4)
    assert chosen(sidebar) == [2, 4]
    click(sidebar, 2)
    assert chosen(sidebar) == [4], "the keyboard stands on 2, which is no longer chosen"
    assert opened == []
    trash = sidebar.findChild(QPushButton, "bulk_trash_button")
    assert trash is not None
    trash.click()
    assert trashed == [(CHATS[3].id,)]
    assert not sidebar.bulk_bar.isVisible()
    click(sidebar, 3)
    assert opened == [CHATS[2].id]


def test_the_cross_leaves_it_also_when_one_is_chosen(sidebar: Sidebar) -> None:
    right_click(sidebar, place_of(sidebar, 2))["Select multiple"].trigger()
    done = sidebar.findChild(QPushButton, "bulk_done_button")
    assert done is not None
    done.click()
    assert not sidebar.bulk_bar.isVisible()
    assert not sidebar.view.chooses_several


def test_a_right_click_beside_all_chats_is_about_none(sidebar: Sidebar) -> None:
    click(sidebar, 3)
    entries = right_click(sidebar, QPoint(100, sidebar.view.height() - 20))
    assert list(entries) == ["Select multiple", "New folder"]
    entries["Select multiple"].trigger()
    assert chosen(sidebar) == []
    click(sidebar, 1)
    click(sidebar, 3)
    assert chosen(sidebar) == [1, 3]
    right_click(sidebar, place_of(sidebar, 4))
    assert chosen(sidebar) == [1, 3, 4], "a menu is about the choice and what it was opened on"


@pytest.mark.parametrize("had_focus", [True, False])
def test_a_menu_that_was_left_leaves_the_keys_where_they_were(
    sidebar: Sidebar, qtbot: QtBot, had_focus: bool
) -> None:
    (sidebar.view if had_focus else sidebar.search_field).setFocus()
    right_click(sidebar, place_of(sidebar, 3))
    view = sidebar.view
    qtbot.waitUntil(lambda: view.chosen_ids() == (CHATS[0].id,))
    QTest.keyClick(view, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    several = view.chosen_ids()
    assert several == (CHATS[0].id, CHATS[1].id)
    right_click(sidebar, place_of(sidebar, 4))
    qtbot.waitUntil(lambda: view.chosen_ids() == several)


def test_the_keyboard_follows_a_new_chat_into_the_list(sidebar: Sidebar, qtbot: QtBot) -> None:
    """It is open before it is listed: keys would be about the chat that was open before."""
    new = conversation(5, "Chat 5")
    sidebar.set_open(new.id)
    sidebar.set_conversations([new, *CHATS])
    assert sidebar.view.chosen_ids() == (new.id,)
    right_click(sidebar, place_of(sidebar, 3))
    qtbot.waitUntil(lambda: sidebar.view.chosen_ids() == (new.id,))
    sidebar.view.go_to(sidebar.view.model().index_of(CHATS[2].id))
    sidebar.set_conversations([new, *CHATS[1:]])
    assert sidebar.view.chosen_ids() == (CHATS[2].id,), "only when it comes"


def test_what_the_menu_leads_to_is_about_its_row(sidebar: Sidebar, qtbot: QtBot) -> None:
    acts = right_click(sidebar, place_of(sidebar, 3))
    acts["Rename"].trigger()
    field = sidebar.view.findChild(QLineEdit, "rename_field")
    assert field is not None
    assert field.text() == "Chat 3"
    qtbot.wait(0)
    assert sidebar.view.current_id() == CHATS[2].id
    QTest.keyClick(field, Qt.Key.Key_Escape)
    acts = right_click(sidebar, place_of(sidebar, 2))
    sidebar.set_open(CHATS[1].id)  # as after Open
    qtbot.wait(0)
    assert sidebar.view.chosen_ids() == (CHATS[1].id,)
