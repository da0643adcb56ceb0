"""The branch map: what it shows, going somewhere, pruning and bringing back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from recording_desk import NOON, FakeBridge, FakeDesk, message

from app.chat.events import MessageAdded, TreeRead
from models.records import MessageState, Role, TreeNode
from ui.chat.branch_map import HERE, NODE, SPOKEN, BranchMap
from ui.look.theme import Theme


def node(message_id: str, parent: str | None, role: Role, text: str, **fields: Any) -> TreeNode:
    return TreeNode(message_id, parent, role, MessageState.COMPLETE, text, NOON, **fields)


NODES = (
    node("q", None, Role.USER, "One?"),
    node("a", "q", Role.ASSISTANT, "First\nanswer."),
    node("b", "q", Role.ASSISTANT, "Second answer."),
    node("c", "b", Role.USER, "And now?"),
    node("d", "q", Role.ASSISTANT, "Gone.", trashed_at=NOON),
)


@pytest.fixture
def map_(qtbot: Any, desk: FakeDesk, bridge: FakeBridge, theme: Theme) -> Iterator[BranchMap]:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(900, 700)
    window.show()
    made = BranchMap(desk, bridge, theme, window)  # type: ignore[arg-type]
    with qtbot.waitExposed(made):
        made.open_map()
    bridge.emit_event(TreeRead("c0", NODES, ("q", "b", "c")))
    yield made
    made.close()


def test_it_asks_for_the_tree_and_shows_where_you_are(map_: BranchMap, desk: FakeDesk):
    assert desk.called("tree.read_tree") == [()]
    assert map_.tree.currentItem() is map_.item("c")
    assert map_.item("c").text(1) == HERE
    assert map_.item("a").text(0) == "Reply: First answer."
    assert map_.item("b").text(1) == "2 of 2"
    assert map_.item("d") is None
    assert "4 messages, 2 branches" in map_.summary.text()
    assert map_.item("c").data(0, SPOKEN) == f"You: And now?. {HERE}"


def test_the_path_is_told_apart_by_more_than_colour(map_: BranchMap):
    assert map_.item("b").font(0).bold()
    assert not map_.item("a").font(0).bold()


def test_a_line_without_marks_has_their_room_too(map_: BranchMap):
    assert map_.item("q").isFirstColumnSpanned()
    assert not map_.item("b").isFirstColumnSpanned()


def test_icons_grow_with_the_zoom_of_an_open_map(map_: BranchMap, theme: Theme):
    before = map_.tree.iconSize()
    theme.set_zoom(200)
    assert map_.tree.iconSize() == 2 * before


def test_enter_goes_to_the_line_of_the_keyboard(qtbot: Any, map_: BranchMap):
    QTest.keyClick(map_.tree, Qt.Key.Key_Home)
    QTest.keyClick(map_.tree, Qt.Key.Key_Down)
    assert map_.tree.currentItem() is map_.item("a")
    with qtbot.waitSignal(map_.chosen) as caught:
        QTest.keyClick(map_.tree, Qt.Key.Key_Return)
    assert caught.args == ["a"]


def test_a_click_goes_there(qtbot: Any, map_: BranchMap):
    place = map_.tree.visualItemRect(map_.item("a")).center()
    with qtbot.waitSignal(map_.chosen) as caught:
        QTest.mouseClick(map_.tree.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert caught.args == ["a"]


def test_delete_prunes_the_branch(map_: BranchMap, desk: FakeDesk):
    map_.tree.setCurrentItem(map_.item("a"))
    QTest.keyClick(map_.tree, Qt.Key.Key_Delete)
    assert desk.called("tree.prune") == [("a",)]
    map_.prune_button.click()
    assert desk.called("tree.prune") == [("a",), ("a",)]


def test_what_was_deleted_can_be_shown_and_brought_back(map_: BranchMap, desk: FakeDesk):
    assert not map_.restore_button.isVisible()
    map_.deleted.setChecked(True)
    map_.tree.setCurrentItem(map_.item("d"))
    assert map_.item("d").font(0).strikeOut()
    assert not map_.prune_button.isEnabled()
    map_.restore_button.click()
    assert desk.called("tree.restore") == [("d", "c0")]
    QTest.keyClick(map_.tree, Qt.Key.Key_Delete)
    assert desk.called("tree.prune") == []


def test_it_follows_the_chat_and_keeps_its_place(
    map_: BranchMap, desk: FakeDesk, bridge: FakeBridge
):
    map_.tree.setCurrentItem(map_.item("a"))
    bridge.emit_event(MessageAdded(message(1, Role.USER, "x")))
    assert len(desk.called("tree.read_tree")) == 2
    bridge.emit_event(TreeRead("c0", NODES, ("q", "a")))
    assert map_.tree.currentItem() is map_.item("a")
    assert map_.item("a").text(1) == f"1 of 2 · {HERE}"
    bridge.emit_event(TreeRead("another", (), ()))
    assert map_.item("a") is not None


def test_a_folded_run_opens_by_enter(qtbot: Any, map_: BranchMap, bridge: FakeBridge):
    run = [node("0", None, Role.USER, "0")]
    run += [node(str(i), str(i - 1), Role.USER, str(i)) for i in range(1, 30)]
    bridge.emit_event(TreeRead("c0", tuple(run), ("0",)))
    folded = next(i for i in map_._all_items() if i.data(0, NODE) is None)
    assert not folded.isExpanded()
    map_.tree.setCurrentItem(folded)
    QTest.keyClick(map_.tree, Qt.Key.Key_Return)
    assert folded.isExpanded()
    assert folded.childCount() == 25


def test_escape_closes_it_and_it_opens_again(map_: BranchMap):
    QTest.keyClick(map_.tree, Qt.Key.Key_Escape)
    assert not map_.isVisible()
    map_.open_map()
    assert map_.isVisible()


def test_ten_thousand_messages_are_shown_at_once(map_: BranchMap, bridge: FakeBridge):
    nodes = [node("0", None, Role.USER, "0")]
    nodes += [node(str(i), str(i - 1), Role.USER, f"text {i}") for i in range(1, 10_000)]
    nodes.append(node("beside", "0", Role.USER, "beside"))
    began = time.thread_time()
    bridge.emit_event(TreeRead("c0", tuple(nodes), ("0", "1")))
    assert time.thread_time() - began < 1.0
    assert map_.item("9999") is not None
    assert "10,001 messages, 2 branches" in map_.summary.text()


def test_lines_are_plain_words(map_: BranchMap, bridge: FakeBridge):
    signs = (node("q", None, Role.USER, "Is **$n$** right?"),)
    bridge.emit_event(TreeRead("c0", signs, ("q",)))
    assert map_.item("q").text(0) == "You: Is n right?"


def test_a_summary_is_called_so(map_: BranchMap, bridge: FakeBridge):
    bridge.emit_event(TreeRead("c0", (node("s", None, Role.SYSTEM, "It.", is_summary=True),), ()))
    assert map_.item("s").text(0) == "Summary: It."


def test_the_chosen_line_has_one_even_tone(qapp: QApplication, map_: BranchMap, theme: Theme):
    theme.apply_to(qapp)
    map_.tree.setFocus()
    picture = map_.tree.viewport().grab().toImage()
    row = map_.tree.visualItemRect(map_.item("c"))
    tones = {picture.pixelColor(row.right() - 2, y).name() for y in range(row.top(), row.bottom())}
    assert tones == {theme.colors.accent_tone}
