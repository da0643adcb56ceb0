"""The editor of grammars: checked after a rest, faults at their place, nothing written is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.chat.settings.resolved import resolve
from app.chat.settings.settings import Settings
from app.chat.surroundings import Still
from app.engine.process.scripted.grammar import scripted_check
from app.engine.protocol.messages import MAX_GRAMMAR_BYTES, CheckGrammar, GrammarChecked
from ui.look.theme import Theme
from ui.section.sampling.grammar_editor import (
    CHECK_AFTER_MS,
    COUNTS_ALREADY,
    STILL_BOUND,
    STILL_FREE,
    GrammarEditor,
)

LEFT = Qt.MouseButton.LeftButton
GOOD = 'root ::= "yes" | "no"'
BAD = 'root ::= "yes" | maybe'


class Chat:
    """What the editor asks and what it changes. `waits`: answers are held until they are given."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.changes: list[tuple[str, str]] = []
        self.own: dict[str, str] = {}
        self.waiting: list[Callable[[], None]] = []
        self.waits = False
        self.refusal = ""

    def check(
        self,
        grammar: str,
        json_schema: str,
        then: Callable[[GrammarChecked], None],
        failed: Callable[[str], None],
        *,
        still: Still,
    ) -> None:
        self.asked.append(grammar or json_schema)
        if self.refusal:
            failed(self.refusal)
            return
        found = scripted_check(CheckGrammar(1, grammar, json_schema))
        if self.waits:
            self.waiting.append(lambda: then(found) if still() else None)
        else:
            then(found)


@pytest.fixture
def chat() -> Chat:
    return Chat()


@pytest.fixture
def editor(qtbot: QtBot, theme: Theme, chat: Chat) -> GrammarEditor:
    editor = GrammarEditor(theme, chat.check)
    qtbot.addWidget(editor)

    def take(grammar: str, json_schema: str) -> None:
        chat.changes.append((grammar, json_schema))
        chat.own = {"grammar": grammar, "json_schema": json_schema}
        editor.show_settings(resolve(Settings(), None, chat.own))

    editor.changed.connect(take)
    editor.show_chat("c1")
    editor.show_settings(resolve(Settings()))
    editor.show()
    editor.activateWindow()
    qtbot.waitUntil(editor.isActiveWindow)
    return editor


def choose(editor: GrammarEditor, kind: str) -> None:
    button = editor.kind.findChild(QWidget, f"choice_{kind}")
    assert button is not None
    QTest.mouseClick(button, LEFT)


def write(editor: GrammarEditor, text: str) -> None:
    editor.text.setFocus()
    editor.text.selectAll()
    QTest.keyClicks(editor.text, text)


def test_a_grammar_counts_when_the_keys_have_rested(
    editor: GrammarEditor, chat: Chat, qtbot: QtBot
) -> None:
    assert editor.text.isHidden()
    choose(editor, "grammar")
    write(editor, GOOD)
    assert chat.asked == []
    with qtbot.waitSignal(editor.changed, timeout=CHECK_AFTER_MS * 20):
        pass
    assert chat.asked == [GOOD]
    assert chat.changes == [(GOOD, "")]
    assert editor.state.text() == "Set by this chat."
    assert editor.refusal.isHidden()


def marked_in(editor: GrammarEditor) -> str:
    """What is underlined."""
    selections = editor.text.extraSelections()  # its cursors live as long
    return selections[-1].cursor.selectedText()


def test_a_fault_is_underlined_where_it_is(editor: GrammarEditor, chat: Chat) -> None:
    choose(editor, "grammar")
    write(editor, BAD)
    editor.check_now()
    assert chat.changes == []
    assert editor.refusal.text() == (
        "The grammar has an error at line 1, column 18: Undefined rule identifier 'maybe'."
    )
    assert marked_in(editor) == "maybe"
    assert editor.text.accessibleDescription() == editor.refusal.text()
    assert editor.state.text() == STILL_FREE


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ('root ::= a\na ::= "🙂🙂" oops', "oops"),
        ('root ::= "🙂" (a)', "a"),
    ],
)
def test_places_are_counted_in_characters(editor: GrammarEditor, text: str, marked: str) -> None:
    choose(editor, "grammar")
    editor.text.setPlainText(text)
    editor.check_now()
    assert marked_in(editor) == marked


def test_a_fault_at_the_end_marks_the_last_character(editor: GrammarEditor) -> None:
    choose(editor, "json_schema")
    editor.text.setPlainText('{"type": "object"')
    editor.check_now()
    assert "isn't valid JSON" in editor.refusal.text()
    assert marked_in(editor) == '"'


def test_what_counted_goes_on_counting_while_it_is_mended(
    editor: GrammarEditor, chat: Chat
) -> None:
    choose(editor, "grammar")
    write(editor, GOOD)
    editor.check_now()
    write(editor, BAD)
    editor.check_now()
    editor.show_settings(resolve(Settings(), None, chat.own))
    assert chat.changes == [(GOOD, "")]
    assert editor.text.toPlainText() == BAD
    assert editor.state.text() == STILL_BOUND


def test_each_kind_keeps_its_text(editor: GrammarEditor, chat: Chat) -> None:
    schema = '{"type": "integer"}'
    choose(editor, "grammar")
    write(editor, GOOD)
    editor.check_now()
    choose(editor, "json_schema")
    write(editor, schema)
    editor.check_now()
    choose(editor, "none")
    assert chat.changes == [(GOOD, ""), ("", ""), ("", schema), ("", "")]
    choose(editor, "grammar")
    assert editor.text.toPlainText() == GOOD
    choose(editor, "json_schema")
    assert editor.text.toPlainText() == schema


def test_an_answer_to_an_older_text_is_dropped(editor: GrammarEditor, chat: Chat) -> None:
    chat.waits = True
    choose(editor, "grammar")
    write(editor, BAD)
    editor.check_now()
    write(editor, GOOD)
    editor.check_now()
    second, first = chat.waiting.pop(), chat.waiting.pop()
    second()
    first()
    assert editor.refusal.isHidden()
    assert chat.changes == [(GOOD, "")]


def test_without_weights_it_counts_and_is_checked_later(editor: GrammarEditor, chat: Chat) -> None:
    chat.refusal = "This needs a loaded model. Load one first."
    choose(editor, "grammar")
    write(editor, BAD)
    editor.check_now()
    assert editor.state.text().startswith("Not checked yet. This needs a loaded model.")
    chat.refusal = ""
    editor.recheck()
    assert "maybe" in editor.refusal.text()
    assert editor.state.text() == COUNTS_ALREADY


def test_another_chat_has_its_own_text(editor: GrammarEditor, chat: Chat) -> None:
    choose(editor, "grammar")
    write(editor, BAD)
    editor.check_now()
    editor.show_chat("c2")
    editor.show_settings(resolve(Settings(), None, {"json_schema": '{"type": "null"}'}))
    assert editor.kind.value() == "json_schema"
    assert editor.text.toPlainText() == '{"type": "null"}'
    editor.show_chat("c1")
    editor.show_settings(resolve(Settings()))
    assert editor.text.toPlainText() == BAD


def test_a_no_break_space_is_kept(editor: GrammarEditor, chat: Chat) -> None:
    choose(editor, "grammar")
    text = 'root ::= "a\u00a0b"'
    write(editor, text)
    editor.check_now()
    assert chat.asked == [text]


def test_leaving_the_field_checks_at_once(editor: GrammarEditor, chat: Chat) -> None:
    choose(editor, "grammar")
    write(editor, GOOD)
    editor.kind.setFocus()
    assert chat.asked == [GOOD]


def test_a_paste_that_nothing_may_be_as_long_as_is_not_taken(
    editor: GrammarEditor, chat: Chat
) -> None:
    """It would hold the window up for half a second, to be refused then."""
    choose(editor, "grammar")
    editor.text.setPlainText(GOOD)
    source = QMimeData()
    source.setText("x" * (MAX_GRAMMAR_BYTES + 1))
    editor.text.insertFromMimeData(source)
    assert editor.text.toPlainText() == GOOD
    assert "has 65,537 characters" in editor.refusal.text()
    source.setText("\n# yes")
    editor.text.moveCursor(QTextCursor.MoveOperation.End)
    editor.text.insertFromMimeData(source)
    editor.check_now()
    assert chat.changes[-1] == (GOOD + "\n# yes", "")
    assert not editor.refusal.isVisible()


def test_the_text_is_as_high_as_what_is_written(editor: GrammarEditor) -> None:
    choose(editor, "json_schema")
    low = editor.text.height()
    editor.text.setPlainText("\n" * 15)
    middle = editor.text.height()
    editor.text.setPlainText("\n" * 500)
    assert low < middle < editor.text.height() < 30 * editor.text.fontMetrics().lineSpacing()
    editor.text.setPlainText("")
    assert editor.text.height() == low
