"""Editors inside of the transcript: where they stand, what they decide, what they keep."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.chat.conversations.edits import Edit
from models.records import Message, Role
from ui.look.theme import Theme
from ui.transcript.edit import Choice, Editing, MessageEditor, Task
from ui.transcript.view import TranscriptView

NOW = datetime(2026, 11, 28, tzinfo=UTC)
CONTROL = Qt.KeyboardModifier.ControlModifier
SAVE = (Choice("save", "Save"), Choice("go_on", "Save and continue"))
INSERT = (Choice("insert", "Insert"),)


def conversation(count: int = 6) -> list[Message]:
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(f"m{i}", "c", None, roles[i % 2], f"text {i}", NOW) for i in range(count)]


class Desk:
    """Writes down what was decided, and what shall be kept."""

    def __init__(self) -> None:
        self.decided: list[tuple[str, str]] = []
        self.kept: dict[tuple[str, str], Edit] = {}

    def keep(self, task: str, message_id: str, edit: Edit | None) -> None:
        if edit is None:
            self.kept.pop((task, message_id), None)
        else:
            self.kept[task, message_id] = edit

    def of(self, task: str, message_id: str) -> Edit | None:
        return self.kept.get((task, message_id))

    def drop(self, task: str, message_id: str, edit: Edit) -> None:
        assert self.kept.get((task, message_id), edit) == edit, "what was typed since stays"
        self.kept.pop((task, message_id), None)

    def take(self, choice: str, editor: MessageEditor, saved: Any) -> bool:
        self.decided.append((choice, editor.text))
        saved()
        return True


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def view(qtbot: Any) -> TranscriptView:
    made = TranscriptView(Theme("light"))
    qtbot.addWidget(made)
    made.resize(800, 600)
    with qtbot.waitExposed(made):
        made.show()
    made.activateWindow()
    made.set_conversation(conversation())
    return made


def opened(view: TranscriptView, desk: Desk, index: int = 1, **fields: Any) -> Editing:
    message = view.rows.message(index)
    task = Task(
        **({"name": "edit", "title": "Edit", "choices": SAVE, "text": message.content} | fields)
    )
    editing = Editing(view, desk)  # type: ignore[arg-type]
    editing.open(message.id, task, desk.take)
    assert editing.editor is not None
    return editing


def test_the_editor_stands_where_the_message_was(view: TranscriptView, desk: Desk):
    below = view.item_origin(2).y()
    editing = opened(view, desk)
    editor = editing.editor
    assert editor.y() == round(view.item_origin(1).y())
    assert editor.geometry().bottom() < view.item_origin(2).y()
    assert view.item_origin(2).y() > below
    assert view.rows.item(1).actions(0, 1000) == []


def test_it_grows_with_its_text_and_moves_with_the_view(view: TranscriptView, desk: Desk):
    view.set_conversation(conversation(40))
    view.show_message("m1")
    editor = opened(view, desk).editor
    height = editor.height()
    editor.edit.setPlainText("line\n" * 12)
    grown = editor.height()
    assert grown > height
    editor.edit.setPlainText("line\n" * 200)
    assert grown < editor.height() == round(view.viewport().height() * 0.8)
    editor.edit.setPlainText("line\n" * 12)
    assert editor.height() == grown
    y = editor.y()
    view.verticalScrollBar().setValue(view.verticalScrollBar().value() + 40)
    assert editor.y() == y - 40


def test_control_enter_takes_the_first_choice_and_the_text(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    QTest.keyClicks(editing.editor.edit, " more")
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Return, CONTROL)
    assert desk.decided == [("save", "text 1 more")]
    assert editing.editor is None
    assert view.rows.item(1).actions(0, 1000) != []


@pytest.mark.parametrize("text", ["no\u00a0break", "one\r\ntwo", "a\u2028b"])
def test_a_text_that_is_not_changed_is_not_another(view: TranscriptView, desk: Desk, text: str):
    editor = opened(view, desk, text=text).editor
    assert (editor.text, editor.is_changed) == (text, False)
    QTest.keyClicks(editor.edit, "!")
    assert editor.text == "\n".join(text.splitlines()) + "!"


def test_enter_breaks_the_line(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Return)
    assert editing.editor.text == "text 1\n"
    assert desk.decided == []


def test_each_choice_is_a_button(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    editing.editor.buttons[1].click()
    assert desk.decided == [("go_on", "text 1")]


def test_escape_leaves_and_what_was_typed_is_there_again(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    QTest.keyClicks(editing.editor.edit, " typed")
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Escape)
    assert editing.editor is None
    assert desk.decided == []
    assert view.rows.item(1).room == 0
    editing.open("m1", Task("edit", "Edit", SAVE, "text 1"), desk.take)
    assert editing.editor.text == "text 1 typed"


def test_the_keyboard_is_on_the_message_whose_editor_was_left(view: TranscriptView, desk: Desk):
    """E opens the same one again, and not that of another message."""
    editing = opened(view, desk, 2)
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Escape)
    assert (view.hasFocus(), view.keyboard.current) == (True, 2)


def test_each_change_is_kept_until_it_is_decided_or_undone(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    QTest.keyClicks(editing.editor.edit, " x")
    assert desk.kept == {("edit", "m1"): Edit("text 1 x")}
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Backspace)
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Backspace)
    assert desk.kept == {}, "it is as it was"
    QTest.keyClicks(editing.editor.edit, " y")
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Return, CONTROL)
    assert (desk.decided, desk.kept) == ([("save", "text 1 y")], {})


def test_another_path_closes_it_without_losing_the_text(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    QTest.keyClicks(editing.editor.edit, " typed")
    others = [Message("other", "c", None, Role.USER, "other", NOW)]
    view.set_conversation(others)
    assert editing.editor is None
    view.set_conversation(conversation())
    editing.open("m1", Task("edit", "Edit", SAVE, "text 1"), desk.take)
    assert editing.editor.text == "text 1 typed"


def test_a_path_that_still_has_the_message_keeps_the_editor(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    QTest.keyClicks(editing.editor.edit, " typed")
    view.set_conversation(conversation()[:3])
    assert editing.editor.text == "text 1 typed"


def test_nothing_can_be_decided_without_text(view: TranscriptView, desk: Desk):
    editing = opened(view, desk)
    editing.editor.edit.setPlainText("  ")
    assert not any(button.isEnabled() for button in editing.editor.buttons)
    QTest.keyClick(editing.editor.edit, Qt.Key.Key_Return, CONTROL)
    assert desk.decided == []


def test_the_reasoning_of_a_reply_without_an_answer_is_kept_and_can_be_decided(
    view: TranscriptView, desk: Desk
):
    editing = opened(view, desk, text="", reasoning="Let me see.")
    QTest.keyClicks(editing.editor.thoughts, "First: ")
    assert desk.kept == {("edit", "m1"): Edit("", "First: Let me see.")}
    assert all(button.isEnabled() for button in editing.editor.buttons)
    editing.editor.thoughts.setPlainText(" ")
    assert not any(button.isEnabled() for button in editing.editor.buttons)


def test_a_new_message_stands_below_and_has_a_role(view: TranscriptView, desk: Desk):
    editing = opened(
        view, desk, name="insert", choices=INSERT, text="", role=Role.ASSISTANT, is_below=True
    )
    editor = editing.editor
    top = view.item_origin(1).y()
    assert top < editor.y() < view.item_origin(2).y()
    assert editor.geometry().bottom() < view.item_origin(2).y()
    assert editor.role is Role.ASSISTANT
    editor.roles.setCurrentIndex(0)
    assert editor.role is Role.USER
    assert view.rows.item(1).actions(0, 1000) != []


def test_keeping_what_follows_is_asked_only_where_something_does(view: TranscriptView, desk: Desk):
    assert opened(view, desk).editor.keep is None
    editing = opened(view, desk, n_following=4)
    assert editing.editor.keep.text() == "Keep the 4 messages below when saving"
    assert editing.editor.keeps_following
    editing.editor.keep.setChecked(False)
    assert not editing.editor.keeps_following


def test_keys_of_the_transcript_do_not_act_while_something_is_written(
    qtbot: Any, view: TranscriptView, desk: Desk
):
    asked: list[str] = []
    view.act_requested.connect(lambda name, _id: asked.append(name))
    editing = opened(view, desk)
    for key in (Qt.Key.Key_Delete, Qt.Key.Key_E, Qt.Key.Key_R, Qt.Key.Key_F5, Qt.Key.Key_Home):
        QTest.keyClick(editing.editor.edit, key)
    QTest.keyClick(editing.editor.buttons[0], Qt.Key.Key_Delete)
    assert asked == []


def test_what_can_be_done_stands_in_one_row_where_there_is_room(
    qapp: QApplication, qtbot: Any, view: TranscriptView, desk: Desk
):
    view.theme.apply_to(qapp)
    editor = opened(view, desk).editor
    buttons = (*editor.buttons, editor.cancel)
    qtbot.waitUntil(lambda: len({each.geometry().center().y() for each in buttons}) == 1)


def test_the_field_of_the_reasoning_shows_six_lines_at_most(view: TranscriptView, desk: Desk):
    editor = opened(view, desk, reasoning="one line").editor
    low = editor.thoughts.height()
    editor.thoughts.setPlainText("line\n" * 40)
    assert low < editor.thoughts.height() < 10 * editor.thoughts.fontMetrics().lineSpacing()
    assert editor.edit.height() >= editor.edit.fontMetrics().lineSpacing()


def test_tab_goes_from_the_field_to_what_is_done_most(view: TranscriptView, desk: Desk):
    editor = opened(view, desk, n_following=2).editor
    names = []
    widget = editor.edit
    for _ in range(5):
        names.append(widget.objectName())
        widget = widget.nextInFocusChain()
        while widget.focusPolicy() is Qt.FocusPolicy.NoFocus or not editor.isAncestorOf(widget):
            widget = widget.nextInFocusChain()
    assert names == [
        "message_editor_text",
        "message_editor_save",
        "message_editor_go_on",
        "message_editor_keep",
        "message_editor_cancel",
    ]


@pytest.mark.parametrize("zoom", [80, 100, 300])
def test_it_fits_at_every_zoom(view: TranscriptView, desk: Desk, zoom: int):
    view.theme.set_zoom(zoom)
    editor = opened(view, desk, n_following=2).editor
    assert editor.width() == round(view.rows.width)
    assert editor.edit.height() >= editor.edit.fontMetrics().lineSpacing()


def test_a_short_text_leaves_little_empty_room(
    qapp: QApplication, qtbot: Any, view: TranscriptView, desk: Desk
):
    view.theme.apply_to(qapp)
    editor = opened(view, desk, n_following=1).editor
    editor.edit.setPlainText("One line")
    qtbot.waitUntil(lambda: editor.edit.height() < 4 * editor.edit.fontMetrics().lineSpacing())
