"""Working on a conversation in the whole window: editing, versions, answers, branches, trash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QMenu, QPushButton

from app.chat.conversations.edits import Edit
from ui.chat.compare import Comparison

CONTROL = Qt.KeyboardModifier.ControlModifier
TALK: dict[str, Any] = {
    "load": {"ms": 20},
    "replies": [
        {"match": "ants", "text": "Six legs."},
        {"match": "spiders", "text": "Eight legs."},
        {"match": "crabs", "text": "Ten legs."},
        {"text": "It depends."},
    ],
}
TURNS = ["How many legs have ants?", "Six legs.", "And spiders?", "Eight legs."]


def texts(person: Any) -> list[str]:
    return [message.content for message in person.app.desk.shelf.path]


def wait_for(person: Any, *wanted: str) -> None:
    person.wait(lambda: texts(person) == list(wanted) and not person.app.desk.replies.is_generating)


@pytest.fixture
def person(open_window: Any) -> Any:
    made = open_window(TALK)
    made.wait_ready()
    for text in TURNS[::2]:
        made.send(text)
        made.wait_ended()
    wait_for(made, *TURNS)
    return made


def on_message(person: Any, index: int) -> Any:
    """Put the keyboard on a message, as Tab and the arrow keys do."""
    transcript = person.window.chat.transcript
    transcript.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(transcript, Qt.Key.Key_Home)
    for _ in range(index):
        QTest.keyClick(transcript, Qt.Key.Key_Down)
    assert transcript.keyboard.current == index
    return transcript


def editor(person: Any) -> Any:
    return person.wait(lambda: person.window.message_acts.editing.editor)


def comparison(person: Any) -> Any:
    shown = person.window.chat.body.currentWidget()
    return shown if isinstance(shown, Comparison) else None


def test_editing_an_earlier_answer_by_keyboard_hides_nothing(person: Any):
    """F12, and what is seen after a restart."""
    transcript = on_message(person, 1)
    QTest.keyClick(transcript, Qt.Key.Key_E)
    field = editor(person).edit
    field.selectAll()
    QTest.keyClicks(field, "Six, of course.")
    QTest.keyClick(field, Qt.Key.Key_Return, CONTROL)
    wait_for(person, TURNS[0], "Six, of course.", *TURNS[2:])

    transcript = on_message(person, 1)
    QTest.keyClick(transcript, Qt.Key.Key_Left)
    wait_for(person, *TURNS)
    transcript = on_message(person, 1)
    QTest.keyClick(transcript, Qt.Key.Key_Right)
    wait_for(person, TURNS[0], "Six, of course.", *TURNS[2:])


def test_what_was_edited_is_there_after_a_restart(person: Any, open_window: Any):
    on_message(person, 1)
    QTest.keyClick(person.window.chat.transcript, Qt.Key.Key_E)
    field = editor(person).edit
    field.setPlainText("Six, of course.")
    QTest.keyClick(field, Qt.Key.Key_Return, CONTROL)
    wait_for(person, TURNS[0], "Six, of course.", *TURNS[2:])
    person.app.close()
    again = open_window(TALK)
    again.wait(lambda: texts(again) == [TURNS[0], "Six, of course.", *TURNS[2:]])
    assert again.app.desk.shelf.path[1].sibling_count == 2


@pytest.mark.parametrize("button", ["message_editor_send", "message_editor_save"])
def test_an_edit_that_is_refused_while_a_reply_grows_is_not_lost(open_window: Any, button: str):
    slow = {"tokens": [{"text": "slow ", "ms": 5, "repeat": 5000}]}
    person = open_window(
        {"load": {"ms": 20}, "replies": [{"match": "slow", **slow}, *TALK["replies"]]}
    )
    person.wait_ready()
    person.send(TURNS[0])
    person.wait_ended()
    question = person.app.desk.shelf.path[0]
    person.window.message_acts.edit(question)
    shown = editor(person)
    shown.edit.setPlainText("How many legs have crabs?")
    person.send("slow")
    person.wait_growing(10)
    person.click(button)
    assert editor(person) is shown
    assert (shown.isVisible(), shown.text) == (True, "How many legs have crabs?")
    assert any(
        "Wait or stop it first" in card.notice.sentence
        for card in person.window.chat.toasts.cards()
    )
    assert person.app.desk.edits.of("edit", question.id) == Edit(shown.text)

    person.click("stop_button")
    person.wait_ended()
    person.click(button)
    person.wait(lambda: texts(person)[0] == "How many legs have crabs?")
    assert person.window.message_acts.editing.editor is None
    person.wait(lambda: person.app.desk.edits.of("edit", question.id) is None)


def test_what_is_attached_to_a_sent_message_is_removed_by_editing_it(person: Any):
    person.app.desk.attachments.add_paste("a long text " * 500)
    person.wait(lambda: person.app.desk.attachments.of_open)
    person.send("And crabs?")
    person.wait_ended()
    question = person.app.desk.shelf.path[-2]
    assert len(question.attachments) == 1
    person.window.message_acts.edit(question)
    shown = editor(person)
    (chip,) = shown.chips.chips()
    assert chip.isVisible()
    person.qtbot.mouseClick(
        chip.findChild(QPushButton, "remove_attachment_button"), Qt.MouseButton.LeftButton
    )
    assert not shown.chips.isVisible()
    person.click("message_editor_send")
    person.wait(lambda: person.app.desk.shelf.path[-2].id != question.id and person.wait_ended())
    assert person.app.desk.shelf.path[-2].attachments == ()
    assert person.app.desk.shelf.path[-2].content == "And crabs?"


def test_an_edited_question_is_answered_anew_by_mouse(person: Any):
    view = person.window.chat.transcript
    view.show_message(person.app.desk.shelf.path[2].id)
    click_action(person, 2, "edit")
    editor(person).edit.setPlainText("And crabs?")
    person.qtbot.mouseClick(editor(person).buttons[0], Qt.MouseButton.LeftButton)
    wait_for(person, *TURNS[:2], "And crabs?", "Ten legs.")
    click_action(person, 2, "version_previous")
    wait_for(person, *TURNS)


def test_two_answers_are_asked_for_compared_and_one_is_picked(person: Any):
    person.press(Qt.Key.Key_D, CONTROL)
    dialog = person.wait(lambda: person.window.findChild(QDialog, "several_answers_dialog"))
    person.qtbot.mouseClick(dialog.ask, Qt.MouseButton.LeftButton)
    shown = person.wait(lambda: comparison(person))
    person.wait(lambda: not person.app.desk.replies.is_generating)
    for column in shown.columns:
        column.view.select_all()
        assert column.view.selected_text() == "Eight legs."
    second = shown.columns[1].message.id
    QTest.keyClick(shown.columns[0].pick, Qt.Key.Key_3)
    person.wait(lambda: person.app.desk.shelf.path[-1].id == second)
    assert comparison(person) is None
    assert person.app.desk.shelf.path[-1].sibling_count == 3
    person.send("And crabs?")
    wait_for(person, *TURNS, "And crabs?", "Ten legs.")


def test_a_reply_is_continued_and_the_old_version_stays(person: Any):
    person.press(Qt.Key.Key_G, CONTROL)
    wait_for(person, *TURNS[:3], "Eight legs.Eight legs.")
    on_message(person, 3)
    QTest.keyClick(person.window.chat.transcript, Qt.Key.Key_Left)
    wait_for(person, *TURNS)


def test_deleting_has_an_undo_and_the_map_brings_back_later(person: Any):
    transcript = on_message(person, 2)
    QTest.keyClick(transcript, Qt.Key.Key_Delete)
    wait_for(person, *TURNS[:2])
    card = person.wait(lambda: person.window.chat.toasts.cards())[-1]
    undo = next(b for b in card.findChildren(QPushButton) if b.text() == "Undo")
    person.qtbot.mouseClick(undo, Qt.MouseButton.LeftButton)
    wait_for(person, *TURNS)

    transcript = on_message(person, 2)
    QTest.keyClick(transcript, Qt.Key.Key_Delete)
    wait_for(person, *TURNS[:2])
    person.press(Qt.Key.Key_M, CONTROL)
    shown = person.wait(lambda: person.window.findChild(QDialog, "branch_map"))
    shown.deleted.setChecked(True)
    spiders = person.wait(lambda: find_line(shown, "And spiders?"))
    shown.tree.setCurrentItem(spiders)
    person.qtbot.mouseClick(shown.restore_button, Qt.MouseButton.LeftButton)
    wait_for(person, *TURNS)
    shown.close()


def test_the_map_leads_to_another_branch_and_prunes(person: Any):
    on_message(person, 2)
    QTest.keyClick(person.window.chat.transcript, Qt.Key.Key_E)
    editor(person).edit.setPlainText("And crabs?")
    QTest.keyClick(editor(person).edit, Qt.Key.Key_Return, CONTROL)
    wait_for(person, *TURNS[:2], "And crabs?", "Ten legs.")

    on_message(person, 2)
    QTest.keyClick(person.window.chat.transcript, Qt.Key.Key_M)
    shown = person.wait(lambda: person.window.findChild(QDialog, "branch_map"))
    line = person.wait(lambda: find_line(shown, "Eight legs."))
    shown.tree.setCurrentItem(line)
    QTest.keyClick(shown.tree, Qt.Key.Key_Return)
    wait_for(person, *TURNS)
    crabs = person.wait(lambda: find_line(shown, "And crabs?"))
    shown.tree.setCurrentItem(crabs)
    QTest.keyClick(shown.tree, Qt.Key.Key_Delete)
    person.wait(lambda: person.app.desk.shelf.path[2].sibling_count == 1)
    person.wait(lambda: find_line(shown, "And crabs?") is None)
    assert texts(person) == TURNS
    shown.close()


def test_a_branch_to_a_new_chat_from_the_menu(person: Any):
    first_id = person.app.desk.shelf.open.id
    transcript = on_message(person, 1)
    menu = transcript.pointer.open_menu(1, transcript.mapToGlobal(transcript.rect().center()))
    assert isinstance(menu, QMenu)
    entry = next(a for a in menu.actions() if a.objectName() == "branch_off")
    entry.trigger()
    menu.close()
    person.wait(lambda: person.app.desk.shelf.open.id != first_id)
    wait_for(person, *TURNS[:2])
    person.send("And crabs?")
    wait_for(person, *TURNS[:2], "And crabs?", "Ten legs.")
    assert person.app.desk.shelf.open.title.endswith("(branch)")


def test_regenerating_without_weights_keeps_all_and_offers_to_choose(person: Any, tmp_path: Path):
    """C11."""
    desk = person.app.desk
    before = [m.id for m in desk.shelf.path]
    desk.loader.unload()
    person.wait(lambda: desk.loader.state.state == "stopped")
    person.app.desk.loader._path = ""  # as after a load of a file that is gone
    for key in (Qt.Key.Key_R, Qt.Key.Key_G):
        person.press(key, CONTROL)
        person.wait(lambda: desk.replies.is_waiting)
        assert [m.id for m in desk.shelf.path] == before
        assert person.window.chat.toasts.cards() or person.window.chat.banners.card("engine")
        desk.replies.stop()
        person.wait(lambda: not desk.replies.is_generating)
    assert texts(person) == TURNS
    assert person.window.chat.header.weights_button.isEnabled()


def find_line(shown: Any, text: str) -> Any:
    for item in shown._all_items():
        if text in item.text(0):
            return item
    return None


def click_action(person: Any, index: int, name: str) -> None:
    view = person.window.chat.transcript
    top = view.scroll_top - view.rows.top(index)
    actions = view.rows.item(index).actions(top, top + view.viewport().height())
    place = next(action.rect.center() for action in actions if action.name == name)
    place += view.item_origin(index)
    person.qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place.toPoint())
