"""Tags in the left column: put on by keys, filtered by clicks, seen, renamed, deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton
from pytestqt.qtbot import QtBot
from recording_desk import NOON, conversation

from app.chat.conversations.tagging import KnownTag, known_tags
from models.records import Conversation, Folder
from ui.look.theme import Theme
from ui.shell.palette_rows import tagged_with
from ui.sidebar.sidebar import Sidebar

Key = Qt.Key
FOLDERS = [Folder("f1", "Job", NOON), Folder("f2", "Empty", NOON)]


def chat(number: int, title: str, *tags: str, **fields: Any) -> Conversation:
    return replace(conversation(number, title, **fields), tags=tags)


CHATS = [
    chat(1, "Capitals", "travel", "work"),
    chat(2, "SQL", "work", folder_id="f1"),
    chat(3, "Rain"),
    chat(4, "Put away", "work", is_archived=True),
]


@pytest.fixture
def sidebar(qtbot: QtBot, theme: Theme) -> Sidebar:
    made = Sidebar(theme)
    qtbot.addWidget(made)
    made.set_folders(FOLDERS)
    made.set_conversations(CHATS)
    made.set_open("c1")
    made.resize(236, 600)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    return made


def shown(sidebar: Sidebar) -> list[str]:
    model = sidebar.view.model()
    rows = [model.index(row, 0) for row in range(model.rowCount())]
    return [str(row.data()) for row in rows if row.flags() & Qt.ItemFlag.ItemIsEnabled]


def chips(sidebar: Sidebar) -> dict[str, QPushButton]:
    found = sidebar.tag_bar.findChildren(QPushButton, "tag_chip")
    return {chip.text(): chip for chip in found if chip.isVisible()}


def test_clicks_filter_the_list_its_folders_and_the_archive(sidebar: Sidebar) -> None:
    assert list(chips(sidebar)) == ["travel", "work"]
    chips(sidebar)["work"].click()
    assert shown(sidebar) == ["Job", "SQL", "Capitals"]  # and no folder without such a chat
    chips(sidebar)["travel"].click()
    assert shown(sidebar) == ["Capitals"]
    sidebar.show_archive(True)
    assert shown(sidebar) == []
    assert sidebar._empty.text() == "No chat in the archive has these tags."
    chips(sidebar)["travel"].click()
    assert shown(sidebar) == ["Put away"]
    sidebar.show_archive(False)
    # A tag that is gone narrows nothing any more.
    sidebar.set_conversations([replace(each, tags=()) for each in CHATS])
    assert not sidebar.tag_bar.isVisible()
    assert shown(sidebar) == ["Empty", "Job", "SQL", "Capitals", "Rain"]


def test_the_menu_has_what_two_lines_have_not(sidebar: Sidebar) -> None:
    many = tuple(f"tag number {number}" for number in range(20))
    sidebar.set_conversations([replace(CHATS[0], tags=many)])
    assert 0 < len(chips(sidebar)) < len(many)
    assert sidebar.tag_bar.height() < sidebar.height() // 4
    menu = sidebar.tag_bar.tag_menu()
    entries = {action.text().split("\t")[0]: action for action in menu.actions()}
    entries["tag number 19"].trigger()
    assert chips(sidebar)["tag number 19"].isChecked()  # what is chosen is always seen
    menu = sidebar.tag_bar.tag_menu()
    next(a for a in menu.actions() if a.text() == "Show all chats").trigger()
    assert not sidebar.tag_bar.chosen


def test_tags_are_put_on_by_the_keyboard_alone(sidebar: Sidebar) -> None:
    asked: list[Any] = []
    sidebar.tags_requested.connect(lambda ids, on, off: asked.append((ids, on, off)))
    dialog = sidebar.tag_chats(("c1", "c3"))
    assert dialog is not None
    states = {dialog.list.item(n).text(): dialog.list.item(n).checkState() for n in range(2)}
    assert set(states.values()) == {Qt.CheckState.PartiallyChecked}  # one of the two has them
    for typed in ("tra", "#Home", "wor"):
        QTest.keyClicks(dialog.field, typed)
        QTest.keyClick(dialog.field, Key.Key_Return)
        assert dialog.field.text() == ""
    QTest.keyClicks(dialog.field, "work")
    QTest.keyClick(dialog.field, Key.Key_Return)  # off again: for both
    QTest.keyClicks(dialog.field, "last one")
    QTest.mouseClick(dialog.done_button, Qt.MouseButton.LeftButton)
    assert asked == [(("c1", "c3"), ("travel", "Home", "last one"), ("work",))]
    second = sidebar.tag_chats(("c1",))
    assert second is not None
    QTest.keyClicks(second.field, "never")
    QTest.keyClick(second, Key.Key_Escape)
    assert len(asked) == 1


def test_they_are_said_by_a_screen_reader_and_in_the_tooltip(sidebar: Sidebar) -> None:
    index = sidebar.view.model().index_of("c1")  # type: ignore[attr-defined]
    spoken = index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Capitals, open, tagged travel, work"
    assert index.data(Qt.ItemDataRole.ToolTipRole) == "Capitals\n#travel #work"
    sidebar.view.grab()  # painted, beside long titles too


def test_the_palette_finds_chats_by_tag() -> None:
    assert [each.id for each in tagged_with("#WOR", CHATS)] == ["c1", "c2", "c4"]
    assert [each.id for each in tagged_with("tag:travel", CHATS)] == ["c1"]
    assert tagged_with("work", CHATS) == tagged_with("#", CHATS) == []


def test_a_tag_is_renamed_in_its_place_or_deleted(sidebar: Sidebar, qtbot: QtBot) -> None:
    now = {"all": list(known_tags(CHATS))}
    done: list[tuple[str, ...]] = []

    def rename(old: str, new: str) -> None:
        done.append((old, new))
        now["all"] = [KnownTag(new, 1) if tag.name == old else tag for tag in now["all"]]

    def delete(name: str) -> None:
        done.append((name,))
        now["all"] = [tag for tag in now["all"] if tag.name != name]

    dialog = sidebar.manage_tags(lambda: now["all"], rename, delete)
    qtbot.waitUntil(dialog.list.hasFocus)
    QTest.keyClick(dialog.list, Key.Key_F2)
    field = dialog.list.findChild(QLineEdit)
    assert field is not None
    field.selectAll()
    QTest.keyClicks(field, "#trips")
    QTest.keyClick(field, Key.Key_Return)
    qtbot.waitUntil(lambda: done == [("travel", "trips")])
    assert dialog.list.currentItem().text() == "trips"
    QTest.keyClick(dialog.list, Key.Key_Delete)
    QTest.keyClick(dialog.list, Key.Key_Delete)
    assert done[1:] == [("trips",), ("work",)]
    assert dialog.words.text() == "No chat has a tag yet."


def test_of_thousands_of_tags_the_bar_makes_few_and_shows_what_is_chosen(sidebar: Sidebar) -> None:
    names = [f"tag {number:04}" for number in range(2000)]
    chats = [chat(1, "All", *names, "work"), chat(2, "None"), chat(3, "One", "work")]
    sidebar.set_conversations(chats)
    made = sidebar.tag_bar.findChildren(QPushButton, "tag_chip")
    assert len([chip for chip in made if not chip.isHidden()]) < 12
    assert len(sidebar.tag_bar._chips) < 100
    entries = [action.text() for action in sidebar.tag_bar.tag_menu().actions()]
    assert len(entries) < 110
    assert "work\t2" in entries  # those that the most chats have
    sidebar.tag_bar.toggle("tag 1999")
    assert "tag 1999" in chips(sidebar)
    assert chips(sidebar)["tag 1999"].isChecked()
    assert shown(sidebar)[-1:] == ["All"]
    sidebar.tag_bar.toggle("tag 1999")
    assert "None" in shown(sidebar)
