"""The left column by mouse and keyboard."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import QModelIndex, QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QDragEnterEvent, QDragMoveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMenu, QPushButton, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import NOON, conversation

from app.chat.events import SearchAnswered
from models.records import Folder, Role, SearchHit
from ui.look.theme import Theme
from ui.shell.tab_order import stops_in
from ui.sidebar.conversation_model import ConversationModel
from ui.sidebar.search_model import MORE_TITLES
from ui.sidebar.sidebar import Sidebar

CHATS = [
    conversation(1, "The capital of France"),
    conversation(2, "SQL window functions"),
    conversation(3, "Poem about rain"),
]
FOLDERS = [Folder("f1", "Work", NOON), Folder("f2", "Taxes", NOON, "f1")]
ASKING = (
    "open",
    "rename",
    "trash",
    "pin",
    "archive",
    "move",
    "move_to_new",
    "folder",
    "folder_rename",
    "folder_move",
    "folder_delete",
    "hit",
    "new_chat",
    "undo",
    "settings",
    "hide",
)
Key = Qt.Key
SHIFT, CONTROL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier


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


@pytest.mark.parametrize("is_archive", [False, True])
def test_tab_goes_through_it_as_the_eye_does(sidebar: Sidebar, is_archive: bool) -> None:
    sidebar.set_conversations([replace(CHATS[0], tags=("a", "b")), *CHATS[1:]])
    sidebar.set_conversations([replace(CHATS[0], tags=("a", "b", "c")), *CHATS[1:]])
    sidebar.show_archive(is_archive)
    QApplication.processEvents()
    stops = [each for each in stops_in(sidebar) if each.isVisible() and each.isEnabled()]
    by_eye: list[QWidget] = []
    left = {each: each.mapTo(sidebar, each.rect().center()) for each in stops}
    while left:  # a row is what the middle of its highest one goes through, whatever the fonts
        top = min(left, key=lambda each: left[each].y())
        row = [each for each in left if abs(left[each].y() - left[top].y()) < each.height() / 2]
        by_eye += sorted(row, key=lambda each: left[each].x())
        left = {each: at for each, at in left.items() if each not in row}
    assert sidebar.hide_button in by_eye[:2]
    walked, at = [], sidebar.nextInFocusChain()
    while at is not sidebar:
        walked += [at] * (at in stops)
        at = at.nextInFocusChain()
    assert walked == by_eye


@pytest.fixture
def asked(sidebar: Sidebar) -> Asked:
    made = Asked()
    for name in ASKING:
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
    assert asked == [("trash", ("c2",))]


def test_backspace_and_other_keys_never_trash(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    dice = random.Random(9)
    keys = [Key.Key_Backspace, Key.Key_A, Key.Key_Space, Key.Key_Up, Key.Key_End, Key.Key_Home]
    for _ in range(300):
        QTest.keyClick(sidebar.view, dice.choice(keys))
    assert [each for each in asked if each[0] != "open"] == []


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


def answer(*hits: SearchHit, **fields: Any) -> SearchAnswered:
    return SearchAnswered("rain", hits, is_first=True, **fields)


def a_hit(number: int, **fields: Any) -> SearchHit:
    values: dict[str, Any] = {
        "conversation_id": f"c{number}",
        "conversation_title": "A chat",
        "created_at": NOON,
        "message_id": f"m{number}",
        "role": Role.USER,
        "snippet": "it will rain today",
        "marks": ((8, 12),),
    }
    return SearchHit(**values | fields)


def test_typing_asks_and_the_answer_takes_the_lists_place(sidebar: Sidebar, asked: Asked) -> None:
    typed: list[str] = []
    sidebar.search_requested.connect(typed.append)
    sidebar.search()
    QTest.keyClicks(sidebar.search_field, "rain")
    assert typed == ["r", "ra", "rai", "rain"]
    assert sidebar.view.isVisible()
    hits = [a_hit(1, message_id=None), a_hit(2)]
    sidebar.show_answer(answer(*hits))
    assert sidebar.results.isVisible()
    assert not sidebar.view.isVisible()
    sidebar.results.grab()  # paints title and snippet
    QTest.keyClick(sidebar.search_field, Key.Key_Return)
    assert asked == [("hit", hits[0])]
    sidebar.search_field.clear()
    assert sidebar.view.isVisible()
    assert typed[-1] == ""


def test_what_was_found_is_looked_for_again_when_chats_come_or_go(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("rain")
    sidebar.show_answer(answer(a_hit(1), a_hit(2)))
    typed: list[str] = []
    sidebar.search_requested.connect(typed.append)
    sidebar.set_conversations(CHATS)
    assert typed == []
    sidebar.set_conversations(CHATS[1:])  # one went to the trash
    assert typed == ["rain"]
    sidebar.set_conversations(CHATS)  # and back
    assert typed == ["rain", "rain"]
    sidebar.search_field.clear()
    sidebar.set_conversations(CHATS[1:])
    assert typed == ["rain", "rain", ""]


def test_an_answer_that_comes_too_late_shows_nothing(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("rain")
    sidebar.search_field.clear()
    sidebar.show_answer(answer(a_hit(1)))
    assert sidebar.view.isVisible()


def test_keys_walk_through_what_was_found(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.search_field.setText("rain")
    hits = [a_hit(number) for number in range(4)]
    sidebar.show_answer(answer(*hits))
    sidebar.search()
    QTest.keyClick(sidebar.search_field, Key.Key_Down)
    assert sidebar.results.hasFocus()
    QTest.keyClick(sidebar.results, Key.Key_Down)
    QTest.keyClick(sidebar.results, Key.Key_Return)
    for key in (Key.Key_Delete, Key.Key_Backspace):
        QTest.keyClick(sidebar.results, key)
    assert asked == [("hit", hits[1])]
    QTest.keyClick(sidebar.results, Key.Key_Up)
    QTest.keyClick(sidebar.results, Key.Key_Up)
    assert sidebar.search_field.hasFocus()
    sidebar.results.enter()
    sidebar.search_field.clear()
    assert sidebar.search_field.hasFocus()


def test_more_is_asked_for_at_the_end_of_what_was_found(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.search_field.setText("rain")
    sidebar.show_answer(answer(*(a_hit(number) for number in range(40)), has_more=True))
    asked: list[int] = []
    sidebar.search_more_requested.connect(lambda: asked.append(1))
    sidebar.results.scrollToBottom()
    qtbot.waitUntil(lambda: bool(asked))
    more = SearchAnswered("rain", (a_hit(99),), is_first=False)
    sidebar.show_answer(more)
    assert sidebar.results.model().rowCount() == 41
    assert not sidebar.results.model().canFetchMore(QModelIndex())


def test_a_page_without_hits_that_may_go_on_asks_for_the_next(sidebar: Sidebar) -> None:
    asked: list[int] = []
    sidebar.search_more_requested.connect(lambda: asked.append(1))
    sidebar.search_field.setText("rain role:tool")
    sidebar.show_answer(answer(has_more=True))
    assert asked == [1]
    assert "Searching" in sidebar._empty.text()


def test_more_titles_are_one_row_that_adds_the_filter(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("rain")
    sidebar.show_answer(answer(a_hit(1, message_id=None), a_hit(2), has_more_titles=True))
    model = sidebar.results.model()
    assert [model.index(row, 0).data() for row in range(3)] == ["A chat", MORE_TITLES, "A chat"]
    sidebar.results.choose(model.index(1, 0))
    assert sidebar.search_field.text() == "in:title rain"


def test_filters_are_offered_by_name(sidebar: Sidebar) -> None:
    sidebar.set_folders(FOLDERS)
    sidebar.search_field.setText("rain")
    menu = sidebar.filter_button.filter_menu()
    acts = {action.text().split("\t")[0]: action for action in menu.actions()}
    acts["My messages"].trigger()
    assert sidebar.search_field.text() == "role:user rain"
    inner = menu.findChild(QMenu)
    assert inner is not None
    assert [action.text().split("\t")[0].strip() for action in inner.actions()] == ["Work", "Taxes"]
    inner.actions()[1].trigger()
    assert sidebar.search_field.text() == 'folder:"Taxes" role:user rain'
    acts["Before a date…"].trigger()
    QTest.keyClicks(sidebar.search_field, "2026")
    assert sidebar.search_field.text() == 'before:2026 folder:"Taxes" role:user rain'


def test_words_say_why_nothing_is_there(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("zebra role:x")
    sidebar.show_answer(answer(problems=("“role:x” is not known.",)))
    assert sidebar._empty.isVisible()
    assert sidebar._empty.text() == "“role:x” is not known.\nNo results."
    sidebar.search_field.clear()
    assert not sidebar._empty.isVisible()
    sidebar.set_conversations([])
    assert sidebar._empty.isVisible()


def test_renaming_while_searching_goes_back_to_the_list(sidebar: Sidebar) -> None:
    sidebar.search_field.setText("rain")
    sidebar.show_answer(answer(a_hit(1)))
    sidebar.rename("c1")
    assert sidebar.search_field.text() == ""
    assert editor(sidebar).text() == "The capital of France"


def test_a_chat_that_is_in_no_list_is_not_renamed_in_the_place_of_another(
    sidebar: Sidebar,
) -> None:
    assert not sidebar.may_rename("temporary")
    sidebar.rename("temporary")
    assert sidebar.view.findChild(QLineEdit, "rename_field") is None
    assert sidebar.may_rename("c2")


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


# --- several chats ------------------------------------------------------------------------------


def test_shift_and_space_choose_several_for_one_act(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    QTest.keyClick(sidebar.view, Key.Key_Down, SHIFT)
    assert sidebar.view.chosen_ids() == ("c1", "c2")
    assert sidebar.bulk_bar.isVisible()
    QTest.keyClick(sidebar.view, Key.Key_Down, CONTROL)
    QTest.keyClick(sidebar.view, Key.Key_Space)
    assert sidebar.view.chosen_ids() == ("c1", "c2", "c3")
    sidebar.view.grab()  # paints the choice
    QTest.keyClick(sidebar.view, Key.Key_Delete)
    assert asked == [("trash", ("c1", "c2", "c3"))]
    QTest.keyClick(sidebar.view, Key.Key_Escape)
    assert sidebar.view.chosen_ids() == ("c3",)
    assert not sidebar.bulk_bar.isVisible()


def test_a_click_that_chooses_several_opens_nothing(sidebar: Sidebar, asked: Asked) -> None:
    for chat, modifier in (("c1", Qt.KeyboardModifier.NoModifier), ("c3", CONTROL)):
        QTest.mouseClick(
            sidebar.view.viewport(), Qt.MouseButton.LeftButton, modifier, row_place(sidebar, chat)
        )
    assert asked == [("open", "c1")]
    assert sidebar.view.chosen_ids() == ("c1", "c3")


def test_news_of_a_reply_keep_the_choice(sidebar: Sidebar) -> None:
    sidebar.view.setFocus()
    QTest.keyClick(sidebar.view, Key.Key_Down, SHIFT)
    sidebar.set_conversations([CHATS[2], CHATS[1], CHATS[0]])
    sidebar.set_open("c3")
    assert sidebar.view.chosen_ids() == ("c2", "c1")


@pytest.mark.parametrize(
    ("button", "expected"),
    [
        ("bulk_pin_button", ("pin", ("c1", "c2"), True)),
        ("bulk_archive_button", ("archive", ("c1", "c2"), True)),
        ("bulk_trash_button", ("trash", ("c1", "c2"))),
    ],
)
def test_the_bar_below_acts_on_all_that_are_chosen(
    sidebar: Sidebar, asked: Asked, button: str, expected: tuple[Any, ...]
) -> None:
    sidebar.view.setFocus()
    QTest.keyClick(sidebar.view, Key.Key_Down, SHIFT)
    found = sidebar.findChild(QPushButton, button)
    assert found is not None
    found.click()
    assert asked == [expected]


def test_pinning_what_is_pinned_unpins_it(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.set_conversations([conversation(1, "x", is_pinned=True), CHATS[1]])
    sidebar.pin(("c1",))
    sidebar.pin(("c1", "c2"))
    assert asked == [("pin", ("c1",), False), ("pin", ("c1", "c2"), True)]


def test_keys_that_are_held_add_nothing_to_the_choice(sidebar: Sidebar) -> None:
    """A chat opened by Ctrl+N while Control is still down."""
    sidebar.view.setFocus()
    QTest.keyPress(sidebar.view, Key.Key_Control, CONTROL)
    sidebar.set_open("c3")
    assert sidebar.view.chosen_ids() == ("c3",)
    QTest.keyRelease(sidebar.view, Key.Key_Control)


# --- folders ------------------------------------------------------------------------------------


@pytest.fixture
def filed(sidebar: Sidebar) -> Sidebar:
    sidebar.set_conversations([*CHATS, conversation(4, "Forms", folder_id="f2")])
    sidebar.set_folders(FOLDERS)
    sidebar.view.setFocus()
    return sidebar


def stand_on_folder(sidebar: Sidebar, folder_id: str) -> None:
    model = sidebar.view.model()
    assert isinstance(model, ConversationModel)
    sidebar.view.go_to(model.folder_index(folder_id))


def current(sidebar: Sidebar) -> str:
    row = sidebar.view.current_row()
    return row.text if row else ""


def test_left_and_right_go_through_folders(filed: Sidebar) -> None:
    stand_on_folder(filed, "f1")
    seen = []
    for key in (Key.Key_Right, Key.Key_Right, Key.Key_Left, Key.Key_Left, Key.Key_Left):
        QTest.keyClick(filed.view, key)
        seen.append((current(filed), filed.view.current_row().is_expanded))  # type: ignore[union-attr]
    assert seen == [
        ("Taxes", True),
        ("Forms", False),
        ("Taxes", True),
        ("Taxes", False),
        ("Work", True),
    ]


def test_return_and_click_open_and_close_a_folder(filed: Sidebar, asked: Asked) -> None:
    stand_on_folder(filed, "f2")
    QTest.keyClick(filed.view, Key.Key_Return)
    assert not filed.view.model().index_of("c4").isValid()  # type: ignore[attr-defined]
    place = filed.view.visualRect(filed.view.currentIndex()).center()
    QTest.mouseClick(filed.view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert filed.view.model().index_of("c4").isValid()  # type: ignore[attr-defined]
    assert asked == []


def test_the_field_of_a_new_name_leaves_the_sign_of_the_folder_free(filed: Sidebar) -> None:
    stand_on_folder(filed, "f1")
    index = filed.view.currentIndex()
    rect = filed.view.visualRect(index)
    icon_end = rect.left() + 8 + 16 + 14
    QTest.keyClick(filed.view, Key.Key_F2)
    assert editor(filed).x() >= icon_end


def test_a_folder_is_renamed_and_deleted_by_key(filed: Sidebar, asked: Asked, qtbot: QtBot) -> None:
    stand_on_folder(filed, "f2")
    QTest.keyClick(filed.view, Key.Key_F2)
    QTest.keyClicks(editor(filed), "Forms and taxes")
    QTest.keyClick(editor(filed), Key.Key_Return)
    qtbot.waitUntil(lambda: asked == [("folder_rename", "f2", "Forms and taxes")])
    QTest.keyClick(filed.view, Key.Key_Delete)
    assert asked[-1] == ("folder_delete", "f2")


def test_the_move_dialog_works_by_keyboard(filed: Sidebar, asked: Asked) -> None:
    dialog = filed.move_chats(("c1", "c2"))
    assert dialog is not None
    shown = [dialog.list.item(row).text() for row in range(dialog.list.count())]
    assert shown == ["No folder", "Work", "Work / Taxes"]
    QTest.keyClick(dialog.field, Key.Key_Down)
    QTest.keyClick(dialog.field, Key.Key_Down)
    QTest.keyClick(dialog.field, Key.Key_Return)
    assert asked == [("move", ("c1", "c2"), "f2")]


def test_the_move_dialog_finds_folders_and_makes_new_ones(filed: Sidebar, asked: Asked) -> None:
    dialog = filed.move_chats(("c1",))
    assert dialog is not None
    QTest.keyClicks(dialog.field, "tax")
    shown = [dialog.list.item(row).text() for row in range(dialog.list.count())]
    assert shown == ["Work / Taxes", "New folder “tax”"]
    QTest.keyClick(dialog.field, Key.Key_Down)
    QTest.keyClick(dialog.field, Key.Key_Return)
    assert asked == [("move_to_new", ("c1",), "tax")]


def test_a_folder_is_not_offered_as_its_own_place(filed: Sidebar, asked: Asked) -> None:
    dialog = filed.move_folder("f1")
    assert dialog is not None
    assert [dialog.list.item(row).text() for row in range(dialog.list.count())] == ["No folder"]
    QTest.keyClick(dialog.field, Key.Key_Escape)
    assert asked == []


def drop(sidebar: Sidebar, what: list[QModelIndex], where: QModelIndex) -> bool:
    """Carry rows above another one and let go; whether they were taken."""
    view = sidebar.view
    data = view.model().mimeData(what)
    place = view.visualRect(where).center() if where.isValid() else QPoint(5, 590)
    for kind in (QDragEnterEvent, QDragMoveEvent, QDropEvent):
        at = QPointF(place) if kind is QDropEvent else place
        event = kind(
            at,
            Qt.DropAction.MoveAction,
            data,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
        {
            QDragEnterEvent: view.dragEnterEvent,
            QDragMoveEvent: view.dragMoveEvent,
            QDropEvent: view.dropEvent,
        }[kind](event)
    return event.isAccepted()


def test_dragging_moves_pins_and_takes_out(filed: Sidebar, asked: Asked, qtbot: QtBot) -> None:
    filed.set_conversations(
        [conversation(5, "up", is_pinned=True), *CHATS, conversation(4, "Forms", folder_id="f2")]
    )
    model = filed.view.model()
    assert isinstance(model, ConversationModel)
    chats = [model.index_of("c1"), model.index_of("c2")]
    assert drop(filed, chats, model.folder_index("f1"))
    assert drop(filed, chats[:1], model.index_of("c4"))
    assert drop(filed, [model.index_of("c4")], model.index_of("c2"))
    assert drop(filed, chats[:1], model.index_of("c5"))
    assert drop(filed, [model.folder_index("f2")], model.index_of("c2"))
    assert not drop(filed, [model.folder_index("f2")], model.folder_index("f2"))
    expected = [
        ("move", ("c1", "c2"), "f1"),
        ("move", ("c1",), "f2"),
        ("move", ("c4",), None),
        ("pin", ("c1",), True),
        ("folder_move", "f2", None),
    ]
    qtbot.waitUntil(lambda: len(asked) == len(expected))
    assert asked == expected


def test_something_dragged_opens_a_closed_folder(filed: Sidebar, qtbot: QtBot) -> None:
    model = filed.view.model()
    assert isinstance(model, ConversationModel)
    model.toggle("f2", False)
    view = filed.view
    data = model.mimeData([model.index_of("c1")])
    event = QDragEnterEvent(
        view.visualRect(model.folder_index("f2")).center(),
        Qt.DropAction.MoveAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    view.dragEnterEvent(event)
    view.grab()  # paints the place
    qtbot.waitUntil(lambda: model.index_of("c4").isValid())


def test_the_archive_takes_the_lists_place(filed: Sidebar) -> None:
    filed.set_conversations([CHATS[0], conversation(9, "Put away", is_archived=True)])
    filed.archive_button.click()
    assert filed.back_button.isVisible()
    assert filed.view.model().index_of("c9").isValid()  # type: ignore[attr-defined]
    assert not filed.view.model().index_of("c1").isValid()  # type: ignore[attr-defined]
    filed.back_button.click()
    assert not filed.archive_button.isChecked()
    assert filed.view.model().index_of("c1").isValid()  # type: ignore[attr-defined]
    filed.set_conversations([CHATS[0]])
    filed.show_archive(True)
    assert filed._empty.text() == "The archive is empty."


# --- menus and names ----------------------------------------------------------------------------


def entries(sidebar: Sidebar) -> dict[str, QAction]:
    menu = sidebar.view.context_menu()
    return {a.text().split("\t")[0]: a for a in menu.actions() if a.text()}


def test_the_context_menu_offers_each_act_with_its_key(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    acts = entries(sidebar)
    assert list(acts) == [
        "Open",
        "Rename",
        "Select multiple",
        "Pin",
        "Move to a folder…",
        "Write a title",
        "Tags…",
        "Archive",
        "Export…",
        "Move to trash",
    ]
    for words in ("Move to trash", "Open", "Pin", "Archive"):
        acts[words].trigger()
    assert asked == [
        ("trash", ("c1",)),
        ("open", "c1"),
        ("pin", ("c1",), True),
        ("archive", ("c1",), True),
    ]


def test_the_menu_of_several_says_how_many(sidebar: Sidebar, asked: Asked) -> None:
    sidebar.view.setFocus()
    QTest.keyClick(sidebar.view, Key.Key_Down, SHIFT)
    acts = entries(sidebar)
    assert "Open" not in acts
    acts["Move 2 chats to trash"].trigger()
    assert asked == [("trash", ("c1", "c2"))]


def test_the_menu_of_a_folder(filed: Sidebar, asked: Asked) -> None:
    stand_on_folder(filed, "f1")
    acts = entries(filed)
    acts["New folder inside"].trigger()
    acts["Delete folder, keep its chats"].trigger()
    assert asked == [("folder", "f1"), ("folder_delete", "f1")]


def test_every_control_is_named(sidebar: Sidebar) -> None:
    names = (
        "new_chat_button",
        "conversation_list",
        "search_field",
        "search_results",
        "filter_button",
        "new_folder_button",
        "archive_button",
        "trash_button",
    )
    for name in names:
        widget = sidebar.findChild(object, name)  # type: ignore[call-overload]
        assert widget is not None, name
        assert widget.accessibleName(), name
