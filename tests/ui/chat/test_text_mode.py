"""The text page: positions, growth at the caret, marks, one step of undo, versions, keys."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from PySide6.QtCore import Qt
from PySide6.QtGui import QInputMethodEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton

from ui.chat.text_mode import LARGE, TextPage, index_of, utf16_position
from ui.look.theme import Theme

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def page(qtbot) -> TextPage:
    made = TextPage(Theme("light"))
    qtbot.addWidget(made)
    made.resize(700, 400)
    with qtbot.waitExposed(made):
        made.show()
    made.focus()
    return made


def marked(page: TextPage) -> list[str]:
    return [selection.cursor.selectedText() for selection in page.edit.extraSelections()]


@given(st.text(alphabet="aé漢🙂\n", max_size=30), st.data())
def test_positions_count_characters_outside_and_utf16_inside(text: str, data) -> None:
    index = data.draw(st.integers(0, len(text)))
    assert index_of(text, utf16_position(text, index)) == index


def test_the_caret_is_told_in_characters(page: TextPage, qtbot) -> None:
    page.open_document("🙂🙂ab")
    page.edit.moveCursor(QTextCursor.MoveOperation.Left)
    with qtbot.waitSignal(page.continue_requested) as asked:
        QTest.keyClick(page.edit, Qt.Key.Key_Return, CONTROL)
    assert asked.args == ["🙂🙂ab", 3]


def test_what_is_typed_is_told_at_once(page: TextPage) -> None:
    told: list[tuple[str, int]] = []
    page.changed.connect(lambda *said: told.append(said))
    QTest.keyClicks(page.edit, "ab")
    assert told == [("a", 1), ("ab", 2)]


def test_a_large_document_is_read_a_few_times_a_second(page: TextPage, qtbot) -> None:
    page.open_document("word\n" * (LARGE // 4))
    told: list[int] = []
    page.changed.connect(lambda text, caret: told.append(caret))
    QTest.keyClicks(page.edit, "abcdefgh")
    assert told == []
    qtbot.waitUntil(lambda: told == [5 * (LARGE // 4) + 8])
    QTest.keyClicks(page.edit, "i")
    page.flush()
    assert len(told) == 2, "whoever asks gets it without waiting"


def test_generated_text_grows_where_it_was_asked_for(page: TextPage) -> None:
    page.open_document("🙂 one three")
    page.set_generating(True)
    page.begin_growth(6)
    for text in ("two", "", " 🙂 "):
        page.append(text)
    assert page.text() == "🙂 one two 🙂 three"
    assert marked(page) == ["two 🙂 "]
    page.end_growth()
    page.set_generating(False)
    page.set_generated([(6, 12)])
    assert marked(page) == ["two 🙂 "]
    QTest.keyClick(page.edit, Qt.Key.Key_Z, CONTROL)
    assert page.text() == "🙂 one three"
    QTest.keyClick(page.edit, Qt.Key.Key_Y, CONTROL)
    assert page.text() == "🙂 one two 🙂 three"


def test_nothing_can_be_typed_while_it_grows(page: TextPage, qtbot) -> None:
    page.open_document("one")
    page.set_generating(True)
    QTest.keyClicks(page.edit, "x")
    with qtbot.assertNotEmitted(page.continue_requested):
        QTest.keyClick(page.edit, Qt.Key.Key_Return, CONTROL)
    assert page.text() == "one"
    with qtbot.waitSignal(page.stop_requested):
        QTest.keyClick(page.edit, Qt.Key.Key_Escape)


def test_another_version_is_shown_by_the_smallest_change_that_can_be_undone(page: TextPage) -> None:
    page.open_document("one two three")
    told: list[str] = []
    page.changed.connect(lambda text, _caret: told.append(text))
    page.show_document("one 2 three")
    assert (page.text(), told) == ("one 2 three", [])
    QTest.keyClick(page.edit, Qt.Key.Key_Z, CONTROL)
    assert (page.text(), told) == ("one two three", ["one two three"])


def test_opening_another_document_leaves_nothing_to_undo(page: TextPage) -> None:
    QTest.keyClicks(page.edit, "mine")
    page.open_document("another")
    QTest.keyClick(page.edit, Qt.Key.Key_Z, CONTROL)
    assert page.text() == "another"


def test_versions_can_be_flipped_where_there_are_several(page: TextPage, qtbot) -> None:
    page.set_versions(0, 0)
    assert not page.retry_button.isVisible()
    page.set_versions(1, 3)
    assert page._version.text() == "2/3"
    with qtbot.waitSignal(page.version_step_requested) as asked:
        QTest.mouseClick(page.previous_button, Qt.MouseButton.LeftButton)
    assert asked.args == [-1]
    page.set_versions(2, 3)
    assert not page.next_button.isEnabled()
    with qtbot.waitSignal(page.retry_requested):
        QTest.mouseClick(page.retry_button, Qt.MouseButton.LeftButton)


@pytest.mark.parametrize("pressed", ["retry_button", "previous_button", "continue_button"])
def test_writing_goes_on_in_the_page_when_a_clicked_button_cannot_be_pressed_again(
    page: TextPage, qtbot, pressed: str
) -> None:
    beside = QPushButton("Another", page)
    beside.show()
    page.set_versions(1, 2)
    QTest.mouseClick(getattr(page, pressed), Qt.MouseButton.LeftButton)
    if pressed == "previous_button":
        page.set_versions(0, 2)
    else:
        page.set_generating(True)
    assert page.edit.hasFocus()


def test_where_there_is_little_room_words_give_way_and_not_buttons(page: TextPage, qtbot) -> None:
    page._theme.set_zoom(300)
    page.set_versions(1, 2)
    button, words = page.continue_button, page._hint
    width = 1300
    page.resize(width, 500)
    qtbot.waitUntil(lambda: page.width() == width)
    while words.shown_text() == words.text() and width > button.width():  # whatever the font
        width -= 20
        page.resize(width, 500)
        qtbot.waitUntil(lambda width=width: page.width() == width)
    assert words.shown_text() != words.text()
    assert button.width() >= button.sizeHint().width()
    assert button.geometry().right() < page.width()


def test_an_input_method_composes_before_anything_is_told(page: TextPage) -> None:
    told: list[str] = []
    page.changed.connect(lambda text, _caret: told.append(text))
    QApplication.sendEvent(page.edit, QInputMethodEvent("に", []))
    commit = QInputMethodEvent("", [])
    commit.setCommitString("日")
    QApplication.sendEvent(page.edit, commit)
    assert told[-1] == "日"


def test_every_paragraph_has_its_own_direction(page: TextPage) -> None:
    page.open_document("مرحبا\nhello")
    first = page.edit.document().firstBlock()
    assert first.textDirection() == Qt.LayoutDirection.RightToLeft
    assert first.next().textDirection() == Qt.LayoutDirection.LeftToRight


def test_all_that_can_be_pressed_has_a_name(page: TextPage) -> None:
    for widget in (
        page.edit,
        page.continue_button,
        page.stop_button,
        page.retry_button,
        page.previous_button,
        page.next_button,
    ):
        assert widget.accessibleName()
        assert widget.objectName()


def test_what_is_generated_unseen_is_there_for_whoever_asks(page: TextPage, qtbot) -> None:
    laid_out: list[str] = []
    page.edit.document().contentsChanged.connect(lambda: laid_out.append(page.edit.toPlainText()))
    page.open_document("Once ")
    page.begin_growth(5)
    page.append("upon")
    page.hide()
    laid_out.clear()
    for piece in (" a", " time", ","):
        page.append(piece)
    assert not laid_out
    assert page.text() == "Once upon a time,"
    page.append(" there")
    page.show()
    assert page.edit.toPlainText() == "Once upon a time, there"
    assert marked(page) == ["upon a time, there"]
    page.hide()
    page.append(" was")
    page.end_growth()
    assert page.edit.toPlainText() == "Once upon a time, there was"
    page.edit.undo()
    assert page.edit.toPlainText() == "Once "


def test_what_is_generated_unseen_waits_no_longer_than_a_second(page: TextPage, qtbot) -> None:
    assert page._unseen.interval() == 1000
    page._unseen.setInterval(50)
    page.open_document("Once ")
    page.begin_growth(5)
    page.hide()
    page.append("upon")
    qtbot.waitUntil(lambda: page.edit.toPlainText() == "Once upon", timeout=3_000)
    page.show()
    assert marked(page) == ["upon"]
