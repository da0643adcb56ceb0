"""The composer: which keys send, input methods, growing, drafts, Send and Stop."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QFontMetrics, QInputMethodEvent, QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton

from ui.composer import Composer, MessageEdit, clean_text
from ui.theme import Theme

NO = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
CONTROL = Qt.KeyboardModifier.ControlModifier
KEYPAD = Qt.KeyboardModifier.KeypadModifier


@pytest.fixture
def composer(qtbot) -> Composer:
    made = Composer(Theme("light"))
    qtbot.addWidget(made)
    made.resize(700, 200)
    with qtbot.waitExposed(made):
        made.show()
    made.focus()
    return made


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    texts: list[str] = []
    composer.send_requested.connect(texts.append)
    return texts


def edit_of(composer: Composer) -> MessageEdit:
    edit = composer.findChild(MessageEdit, "composer")
    assert edit is not None
    return edit


def press(composer: Composer, key: Qt.Key, modifiers: Qt.KeyboardModifier = NO) -> None:
    QTest.keyClick(edit_of(composer), key, modifiers)


def type_text(composer: Composer, text: str) -> None:
    QTest.keyClicks(edit_of(composer), text)


def compose(composer: Composer, preedit: str, commit: str = "") -> None:
    event = QInputMethodEvent(preedit, [])
    if commit:
        event.setCommitString(commit)
    QApplication.sendEvent(edit_of(composer), event)


def test_enter_sends_and_clears(composer: Composer, sent: list[str]) -> None:
    type_text(composer, "Hello")
    press(composer, Qt.Key.Key_Return)
    assert sent == ["Hello"]
    assert composer.text() == ""


def test_shift_enter_breaks(composer: Composer, sent: list[str]) -> None:
    type_text(composer, "a")
    press(composer, Qt.Key.Key_Return, SHIFT)
    type_text(composer, "b")
    assert sent == []
    assert composer.text() == "a\nb"


@pytest.mark.parametrize("modifiers", [NO, KEYPAD])
def test_numpad_enter_sends(composer: Composer, sent: list[str], modifiers) -> None:
    type_text(composer, "1")
    press(composer, Qt.Key.Key_Enter, modifiers)
    assert sent == ["1"]


def test_ctrl_enter_setting(composer: Composer, sent: list[str]) -> None:
    composer.set_send_key("ctrl_enter")
    type_text(composer, "a")
    press(composer, Qt.Key.Key_Return)
    assert composer.text() == "a\n"
    press(composer, Qt.Key.Key_Return, CONTROL)
    assert sent == ["a\n"]


def test_unknown_send_key_is_refused(composer: Composer) -> None:
    with pytest.raises(ValueError, match="space"):
        composer.set_send_key("space")


def test_enter_during_preedit_never_sends(composer: Composer, sent: list[str]) -> None:
    compose(composer, "に")
    press(composer, Qt.Key.Key_Return)
    assert sent == []
    compose(composer, "", commit="日")
    press(composer, Qt.Key.Key_Return)
    assert sent == ["日"]


def test_escape_during_preedit_does_not_stop(qtbot, composer: Composer) -> None:
    composer.set_generating(True)
    compose(composer, "に")
    with qtbot.assertNotEmitted(composer.stop_requested):
        press(composer, Qt.Key.Key_Escape)
    compose(composer, "")
    with qtbot.waitSignal(composer.stop_requested):
        press(composer, Qt.Key.Key_Escape)


def test_blank_text_is_not_sent(composer: Composer, sent: list[str]) -> None:
    type_text(composer, "  ")
    press(composer, Qt.Key.Key_Return)
    assert sent == []


def test_held_enter_sends_once(composer: Composer, sent: list[str]) -> None:
    composer.set_text("once")
    repeat = QKeyEvent(QKeyEvent.Type.KeyPress, Qt.Key.Key_Return, NO, "\r", autorep=True, count=1)
    QApplication.sendEvent(edit_of(composer), repeat)
    assert sent == []
    press(composer, Qt.Key.Key_Return)
    assert sent == ["once"]


def test_send_becomes_stop(qtbot, composer: Composer, sent: list[str]) -> None:
    send = composer.findChild(QPushButton, "send_button")
    stop = composer.findChild(QPushButton, "stop_button")
    assert (send.isVisible(), stop.isVisible()) == (True, False)
    composer.set_text("next")
    composer.set_generating(True)
    assert (send.isVisible(), stop.isVisible()) == (False, True)
    press(composer, Qt.Key.Key_Return)
    assert sent == []
    assert composer.text() == "next", "the text is kept"
    with qtbot.waitSignal(composer.stop_requested):
        QTest.mouseClick(stop, Qt.MouseButton.LeftButton)
    composer.set_generating(False)
    QTest.mouseClick(send, Qt.MouseButton.LeftButton)
    assert sent == ["next"]


def test_escape_stops_only_while_generating(qtbot, composer: Composer) -> None:
    with qtbot.assertNotEmitted(composer.stop_requested):
        press(composer, Qt.Key.Key_Escape)


def test_reason_is_shown_and_blocks(composer: Composer, sent: list[str]) -> None:
    composer.set_enabled_reason("Choose a GGUF file first.")
    type_text(composer, "Hello")
    press(composer, Qt.Key.Key_Return)
    assert sent == []
    hint = composer.findChild(object, "composer_hint")
    assert hint.text() == "Choose a GGUF file first."
    composer.set_enabled_reason(None)
    assert hint.text() == "Enter sends · Shift Enter breaks"
    press(composer, Qt.Key.Key_Return)
    assert sent == ["Hello"]


def test_draft_changed_when_typed_but_not_when_set(qtbot, composer: Composer) -> None:
    drafts: list[str] = []
    composer.draft_changed.connect(drafts.append)
    composer.set_text("from the store")
    assert drafts == []
    type_text(composer, "!")
    assert drafts == ["from the store!"]


def test_grows_to_ten_lines(composer: Composer) -> None:
    edit = edit_of(composer)
    one = edit.sizeHint().height()
    spacing = QFontMetrics(edit.font()).lineSpacing()
    composer.set_text("\n".join("abcde"))
    assert edit.sizeHint().height() == one + 4 * spacing
    composer.set_text("\n".join("a" * 60))
    assert edit.sizeHint().height() == one + 9 * spacing
    composer.set_text("word " * 200)
    assert edit.line_count() > 3, "wrapped lines count"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\ud800b", "ab"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\u2029b\u2028c", "a\nb\nc"),
        ("a\u00a0b", "a\u00a0b"),
        ("😀", "😀"),
    ],
)
def test_clean_text(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


@pytest.mark.parametrize("text", ["plain\n" * 9, "häl 漢字 🙂\n" * 9])
def test_clean_text_is_not_copied(text: str) -> None:
    assert clean_text(text) is text


def test_text_is_read_once_for_each_key(
    composer: Composer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading five million characters takes a while; nobody should wait twice."""
    reads, read = [], MessageEdit.text
    monkeypatch.setattr(MessageEdit, "text", lambda edit: reads.append(edit) or read(edit))
    type_text(composer, "x")
    assert len(reads) == 1


def test_no_break_space_survives_the_field(composer: Composer) -> None:
    composer.set_text("a\u00a0b")
    assert composer.text() == "a\u00a0b"


def test_paste_is_plain(composer: Composer) -> None:
    mime = QMimeData()
    mime.setHtml("<b>bold</b>")
    mime.setText("bold\r\nnext")
    edit_of(composer).insertFromMimeData(mime)
    assert composer.text() == "bold\nnext"


def test_tab_leaves_the_field(composer: Composer) -> None:
    composer.set_text("a")
    press(composer, Qt.Key.Key_Tab)
    assert not edit_of(composer).hasFocus()
    assert composer.text() == "a"


def test_right_to_left_per_paragraph(composer: Composer) -> None:
    composer.set_text("مرحبا\nhello")
    first = edit_of(composer).document().firstBlock()
    assert first.textDirection() == Qt.LayoutDirection.RightToLeft
    assert first.next().textDirection() == Qt.LayoutDirection.LeftToRight


def test_names(composer: Composer) -> None:
    assert edit_of(composer).accessibleName() == "Message"
    for name in ("send_button", "stop_button"):
        assert composer.findChild(QPushButton, name).accessibleName()
    assert edit_of(composer).placeholderText() == "Write a message"
