"""Branching and step mode in the whole window: by keys and clicks, and back again."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QWidget

from models.records import MessageState
from ui.section.tokens.alternatives import AlternativesTable
from ui.tokens.step_bar import StepBar

TABLE = [["blue", 0.5], ["red", 0.25], ["the", 0.1]]
STAGES = {"stages": [["top-k", 2, 0.66], ["dist", 1, 1.0]], "removed_by": [255, 255, 0]}
SCRIPT = {
    "load": {"ms": 5},
    "replies": [
        {
            "tokens": [
                {"text": word, "probability": 0.5, "alternatives": TABLE, **STAGES}
                for word in ("The ", "blue", " sky", " is", " up.")
            ]
        }
    ],
}


@pytest.fixture
def person(open_window: Any) -> Any:
    person = open_window(SCRIPT)
    person.wait_ready()
    return person


def show_section(person: Any) -> AlternativesTable:
    """The panels, with the second token of the reply chosen."""
    person.press(Qt.Key.Key_I, Qt.KeyboardModifier.ControlModifier)
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces) == 5 and looking.words)
    looking.select(1)
    table: AlternativesTable = person.find(AlternativesTable, "alternatives_table")
    person.wait(lambda: table.candidates.rowCount() == 3)
    return table


def contents(person: Any) -> list[str]:
    return [message.content for message in person.app.desk.shelf.path]


def test_an_alternative_is_branched_at_and_the_old_version_is_a_click_away(person: Any) -> None:
    person.send("Colour?")
    old = person.wait_ended()
    table = show_section(person)
    table.setFocus()
    person.qtbot.keyClick(table, Qt.Key.Key_Down)
    person.qtbot.keyClick(table, Qt.Key.Key_Return)
    person.wait(lambda: contents(person) == ["Colour?", "The red sky is up."])
    new = person.wait_ended()
    assert (new.sibling_index, new.sibling_count) == (1, 2)
    # The panels follow to the new version, and know what was chosen.
    looking = person.window.section_acts.looking()
    person.wait(lambda: looking.message.id == new.id and len(looking.traces) == 5)
    assert [token.chosen for token in looking.traces] == [False, True, False, False, False]
    person.app.window.chat.transcript.version_step_requested.emit(new.id, -1)
    person.wait(lambda: contents(person)[-1] == "The blue sky is up.")
    assert person.app.desk.shelf.path[-1].id == old.id


def test_a_typed_text_is_branched_at(person: Any) -> None:
    person.send("Colour?")
    person.wait_ended()
    show_section(person)
    field = person.find(QLineEdit, "branch_text")
    person.qtbot.keyClicks(field, "the red")
    person.click("branch_text_button")
    person.wait(lambda: contents(person)[-1].startswith("The the red"))
    person.wait_ended()


def test_a_reply_is_written_token_by_token_with_the_keyboard_alone(person: Any) -> None:
    person.press(Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
    assert person.find(QPushButton, "step_button").isChecked()
    person.send("Colour?")
    bar = person.wait(lambda: person.window.findChild(StepBar, "step_bar"))
    person.wait(bar.isVisible)

    def at(text: str) -> QWidget:
        person.wait(lambda: bar.text.text() == text and person.app.desk.step.held_token is not None)
        focus = QApplication.focusWidget()
        assert focus is bar.table
        return focus

    person.qtbot.keyClick(at(""), Qt.Key.Key_Space)
    table = at("The·")
    assert bar.take_button.text() == "Take “blue”"
    person.qtbot.keyClick(table, Qt.Key.Key_Down)
    person.qtbot.keyClick(table, Qt.Key.Key_Down)
    person.qtbot.keyClick(table, Qt.Key.Key_Return)  # one that a stage had removed
    person.qtbot.keyClick(at("The·the"), Qt.Key.Key_Return)
    at("The·the·sky")
    person.click("step_run_on_button")
    reply = person.wait_ended()
    assert reply.content == "The the sky is up."
    assert not bar.isVisible()
    assert not person.find(QPushButton, "step_button").isChecked()
    assert person.find(QWidget, "composer").hasFocus()


def test_a_held_reply_waits_while_another_chat_is_looked_at(person: Any) -> None:
    desk = person.app.desk
    person.click("step_button")
    person.send("Colour?")
    person.wait(lambda: desk.step.held_token)
    first = desk.shelf.open.id
    bar = person.find(StepBar, "step_bar")
    person.click("new_chat_button")
    person.wait(lambda: not bar.isVisible())
    desk.shelf.open_stored(first)
    person.wait(bar.isVisible)
    person.qtbot.keyClick(person.window, Qt.Key.Key_Escape)
    reply = person.wait_ended()
    assert reply.state is MessageState.STOPPED
    assert not bar.isVisible()


def test_a_document_is_continued_token_by_token(person: Any) -> None:
    desk = person.app.desk
    person.click("new_text_button")
    person.click("step_button")
    assert desk.text.go_on("Look up. Look down.", 8)
    bar = person.wait(lambda: person.window.findChild(StepBar, "step_bar"))
    person.wait(lambda: bar.isVisible() and bar.text.text() == "Look·up.")
    person.qtbot.keyClick(bar.table, Qt.Key.Key_Space)
    person.wait(lambda: bar.text.text() == "Look·up.The·")
    person.click("step_stop_button")
    person.wait(lambda: not desk.replies.is_generating)
    assert desk.text.text == "Look up.The  Look down."
    assert not bar.isVisible()
