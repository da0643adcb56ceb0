"""What a message offers: by its buttons, its menu, and the keys while the keyboard is on it."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu

from models.records import Message, MessageState, Role
from ui.look.theme import Theme
from ui.transcript.actions import QUIET
from ui.transcript.offers import LINE, is_cut_short, offers, quick_offers, ways_out
from ui.transcript.view import TranscriptView

NOW = datetime(2026, 11, 28, tzinfo=UTC)
SHIFT = Qt.KeyboardModifier.ShiftModifier


def said(text: str = "Hello", **fields: Any) -> Message:
    return Message("u", "c", None, Role.USER, text, NOW, **fields)


def reply(text: str = "Hi", **fields: Any) -> Message:
    return Message("r", "c", "u", Role.ASSISTANT, text, NOW, **fields)


def names(message: Message, *, is_last: bool = True) -> list[str]:
    return [offer.name for offer in offers(message, is_last=is_last) if offer is not LINE]


@pytest.fixture
def view(qtbot: Any) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(800, 500)
    with qtbot.waitExposed(made):
        made.show()
    made.set_conversation([said(), reply()])
    made.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(made, Qt.Key.Key_End)
    return made


def test_every_button_is_in_the_menu_and_every_entry_has_a_key():
    for message in (said(), reply(), reply(stop_reason="max_tokens"), reply(sibling_count=3)):
        listed = offers(message, is_last=False)
        assert {offer.name for offer in quick_offers(message)} <= {offer.name for offer in listed}
        assert all(offer.key for offer in listed if offer is not LINE and offer.label[:4] != "Copy")
        keys = [offer.key for offer in listed if offer.key]
        assert len(set(keys)) == len(keys)
        assert {offer.name for offer in quick_offers(message)} <= QUIET


def test_continue_stands_beside_a_reply_that_was_cut_short():
    for cut in (
        reply(state=MessageState.STOPPED),
        reply(state=MessageState.INTERRUPTED),
        reply(stop_reason="max_tokens"),
    ):
        assert is_cut_short(cut)
        assert "continue" in [offer.name for offer in quick_offers(cut)]
    for whole in (reply(stop_reason="end_token"), reply("", state=MessageState.STOPPED), said()):
        assert not is_cut_short(whole)
        assert "continue" not in [offer.name for offer in quick_offers(whole)]
    assert "continue" in names(reply(stop_reason="end_token"))


def test_only_several_versions_can_be_compared():
    assert "compare" not in names(reply())
    assert "compare" in names(reply(sibling_count=2))


def test_deleting_says_whether_more_follows():
    assert "trash_alone" not in names(said(), is_last=True)
    listed = {offer.name: offer.label for offer in offers(said(), is_last=False)}
    assert listed["trash"] == "Delete with everything after it"
    assert listed["trash_alone"] == "Delete only this message"


def test_a_message_that_cannot_be_read_is_not_edited():
    broken = names(reply("", state=MessageState.UNREADABLE))
    assert not {"edit", "continue", "retry", "swap_role"} & set(broken)
    assert "trash" in broken


@pytest.mark.parametrize(
    ("key", "modifier", "name"),
    [
        (Qt.Key.Key_E, None, "edit"),
        (Qt.Key.Key_C, None, "continue"),
        (Qt.Key.Key_A, None, "answers"),
        (Qt.Key.Key_W, None, "begin"),
        (Qt.Key.Key_I, None, "insert_below"),
        (Qt.Key.Key_I, SHIFT, "insert_above"),
        (Qt.Key.Key_S, None, "swap_role"),
        (Qt.Key.Key_B, None, "branch_off"),
        (Qt.Key.Key_M, None, "map"),
        (Qt.Key.Key_Delete, None, "trash"),
    ],
)
def test_a_key_acts_on_the_message_that_the_keyboard_is_on(qtbot, view, key, modifier, name):
    with qtbot.waitSignal(view.act_requested) as caught:
        QTest.keyClick(view, key, modifier or Qt.KeyboardModifier.NoModifier)
    assert caught.args == [name, "r"]


def test_r_asks_for_another_version(qtbot, view):
    with qtbot.waitSignal(view.retry_requested) as caught:
        QTest.keyClick(view, Qt.Key.Key_R)
    assert caught.args == ["r"]


def test_keys_do_nothing_before_the_keyboard_is_on_a_message(qtbot):
    view = TranscriptView(Theme("light"))
    qtbot.addWidget(view)
    view.show()
    view.set_conversation([said(), reply()])
    view.setFocus(Qt.FocusReason.MouseFocusReason)
    asked: list[str] = []
    view.act_requested.connect(lambda name, _id: asked.append(name))
    for key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace, Qt.Key.Key_E):
        QTest.keyClick(view, key)
    assert asked == []


def test_while_a_reply_grows_only_what_changes_no_path_is_offered(qtbot, view):
    view.is_locked = True
    left = [offer.name for offer in view.offers_of(1) if offer is not LINE]
    assert left == ["copy_message", "read_aloud", "toggle_raw", "settings", "map"]
    asked: list[str] = []
    view.act_requested.connect(lambda name, _id: asked.append(name))
    QTest.keyClick(view, Qt.Key.Key_Delete)
    QTest.keyClick(view, Qt.Key.Key_E)
    assert asked == []
    QTest.keyClick(view, Qt.Key.Key_M)
    assert asked == ["map"]


def test_the_menu_key_opens_the_menu_of_the_current_message(qtbot, view):
    event = QContextMenuEvent(
        QContextMenuEvent.Reason.Keyboard, QPoint(5, 5), view.mapToGlobal(QPoint(5, 5))
    )
    QApplication.sendEvent(view.viewport(), event)
    menu = view.findChild(QMenu, "message_menu")
    entry = next(a for a in menu.actions() if a.objectName() == "branch_off")
    assert entry.text().startswith("Branch to a new chat\t")
    with qtbot.waitSignal(view.act_requested) as caught:
        entry.trigger()
    assert caught.args == ["branch_off", "r"]
    menu.close()


def test_the_button_with_dots_opens_the_menu_beside_it(qtbot, view):
    top = view.scroll_top - view.rows.top(1)
    found = view.rows.item(1).actions(top, top + 500)
    more = next(action for action in found if action.name == "more")
    place = (more.rect.center() + view.item_origin(1)).toPoint()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    menu = view.findChild(QMenu, "message_menu")
    assert menu.isVisible()
    menu.close()


def test_what_stands_beside_a_wide_bubble_never_leaves_the_view(qtbot):
    for width in (320, 480, 800):
        view = TranscriptView(Theme("light"))
        qtbot.addWidget(view)
        view.resize(width, 500)
        view.show()
        view.set_conversation([said("word " * 200)])
        for action in view.rows.item(0).actions(0, 10_000):
            assert action.rect.left() >= 0, (width, action)


def test_a_prompt_that_is_too_long_offers_room():
    """C01."""
    room = {"can_enlarge": True, "can_trim": True}
    failed = reply("", state=MessageState.FAILED, stop_reason="prompt_too_long")
    assert [offer.name for offer in ways_out(failed)] == ["new_chat"]
    with_room = reply(
        "", state=MessageState.FAILED, stop_reason="prompt_too_long", settings={"room": room}
    )
    assert [offer.name for offer in ways_out(with_room)] == ["enlarge", "trim", "new_chat"]
    for broken in ("room", 3, None, {"can_enlarge": "yes"}):
        message = reply(
            "", state=MessageState.FAILED, stop_reason="prompt_too_long", settings={"room": broken}
        )
        assert [offer.name for offer in ways_out(message)] == ["new_chat"]


def test_a_template_that_failed_offers_the_choice_of_another():
    failed = reply("", state=MessageState.FAILED, stop_reason="bad_template", error="No.")
    assert [offer.name for offer in ways_out(failed)] == ["choose_format", "try_again"]
    other = reply("", state=MessageState.FAILED, stop_reason="internal", error="No.")
    assert [offer.name for offer in ways_out(other)] == ["try_again"]


def test_a_reply_that_was_cut_inside_its_first_character_is_cut_short():
    assert is_cut_short(reply("", stop_reason="max_tokens", token_ids=(5,)))
    assert not is_cut_short(reply("", stop_reason="max_tokens", token_ids=()))


def test_several_ways_out_stand_in_their_box_one_beside_the_other(qtbot, view):
    room = {"can_enlarge": True, "can_trim": True}
    failed = reply(
        "",
        state=MessageState.FAILED,
        stop_reason="prompt_too_long",
        error="This chat has 5,000 tokens, but the context window holds only 4,096. " * 4,
        settings={"room": room},
    )
    view.set_conversation([said(), failed])
    item = view.rows.item(1)
    buttons = [a for a in item.actions(0, 1000) if a.name in ("enlarge", "trim", "new_chat")]
    assert len(buttons) == 3
    for left, right in itertools.pairwise(buttons):
        assert left.rect.right() < right.rect.left()
        assert left.rect.top() == right.rect.top()
    row = next(a for a in item.actions(0, 1000) if a.name == "more")
    assert buttons[0].rect.bottom() < row.rect.top()
    place = (buttons[1].rect.center() + view.item_origin(1)).toPoint()
    with qtbot.waitSignal(view.act_requested) as caught:
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert caught.args == ["trim", "r"]
