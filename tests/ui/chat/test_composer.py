"""The composer: which keys send, input methods, growing, drafts, Send and Stop."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QFontMetrics, QInputMethodEvent, QKeyEvent, QTextOption
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFrame, QLineEdit, QPushButton

from ui.chat.composer import Composer, MessageEdit, clean_text
from ui.look.theme import Theme

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


def test_a_click_anywhere_on_its_card_is_a_click_into_the_field(
    composer: Composer,
) -> None:
    other = QLineEdit(composer)
    other.show()
    card = composer.findChild(QFrame, "composer_card")
    buttons = [button.geometry() for button in card.findChildren(QPushButton) if button.isVisible()]
    corners = (card.rect().topLeft(), card.rect().bottomLeft(), card.rect().center())
    places = [QPoint(c.x() + 6, min(max(c.y(), 4), card.height() - 5)) for c in corners]
    for place in places:
        assert not any(button.contains(place) for button in buttons)
        other.setFocus()
        child = card.childAt(place) or card
        QTest.mouseClick(child, Qt.MouseButton.LeftButton, pos=child.mapFrom(card, place))
        assert composer.focusWidget().objectName() == "composer", place


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


def test_send_becomes_stop_and_what_is_written_is_queued(
    qtbot, composer: Composer, sent: list[str]
) -> None:
    queued: list[str] = []
    composer.queue_requested.connect(queued.append)
    send, stop, queue = (
        composer.findChild(QPushButton, name)
        for name in ("send_button", "stop_button", "queue_button")
    )
    assert (send.isVisible(), stop.isVisible()) == (True, False)
    composer.set_generating(True)
    assert (send.isVisible(), stop.isVisible(), queue.isVisible()) == (False, True, False)
    press(composer, Qt.Key.Key_Return)
    assert queued == []
    composer.set_text("next")
    assert queue.isVisible()
    press(composer, Qt.Key.Key_Return)
    assert (sent, queued, composer.text()) == ([], ["next"], "")
    composer.set_text("and one")
    QTest.mouseClick(queue, Qt.MouseButton.LeftButton)
    assert queued == ["next", "and one"]
    assert edit_of(composer).hasFocus(), "not the button beside it, which stops the reply"
    with qtbot.waitSignal(composer.stop_requested):
        QTest.mouseClick(stop, Qt.MouseButton.LeftButton)
    composer.set_generating(False)
    composer.set_text("now")
    QTest.mouseClick(send, Qt.MouseButton.LeftButton)
    assert sent == ["now"]


def paste(composer: Composer, text: str = "", files: Sequence[str] = ()) -> None:
    mime = QMimeData()
    if text:
        mime.setText(text)
    if files:
        mime.setUrls([QUrl.fromLocalFile(file) for file in files])
    edit_of(composer).insertFromMimeData(mime)


def test_a_huge_paste_is_handed_on_and_a_short_one_is_not(composer: Composer) -> None:
    pasted: list[str] = []
    composer.long_pasted.connect(pasted.append)
    paste(composer, "a" * 4000)
    assert (composer.text(), pasted) == ("a" * 4000, [])
    composer.set_text("")
    paste(composer, "b" * 4001)
    assert (composer.text(), pasted) == ("", ["b" * 4001])


def test_a_huge_paste_that_nobody_takes_yet_stays_a_text(composer: Composer) -> None:
    paste(composer, "b" * 4001)
    assert composer.text() == "b" * 4001


def test_files_are_handed_on_and_addresses_stay_text(composer: Composer) -> None:
    given: list[list[str]] = []
    composer.files_given.connect(given.append)
    paste(composer, "file:///tmp/a.txt", ["/tmp/a.txt", "/tmp/ä b.txt"])
    assert (composer.text(), given) == ("", [["/tmp/a.txt", "/tmp/ä b.txt"]])
    mime = QMimeData()
    mime.setUrls([QUrl("https://example.org/")])
    mime.setText("https://example.org/")
    edit_of(composer).insertFromMimeData(mime)
    assert composer.text() == "https://example.org/"


def test_up_brings_back_what_was_sent(composer: Composer) -> None:
    composer.set_history(lambda: ["first", "second\nwith two lines"])
    drafts: list[str] = []
    composer.draft_changed.connect(drafts.append)
    for key, text in (
        (Qt.Key.Key_Down, ""),
        (Qt.Key.Key_Up, "second\nwith two lines"),
        (Qt.Key.Key_Up, "first"),
        (Qt.Key.Key_Up, "first"),
        (Qt.Key.Key_Down, "second\nwith two lines"),
        (Qt.Key.Key_Down, ""),
    ):
        press(composer, key)
        assert composer.text() == text
    assert drafts[-1] == ""
    assert "first" in drafts, "what is recalled is a draft"


def test_up_moves_the_caret_in_a_text_that_is_written(composer: Composer) -> None:
    composer.set_history(lambda: ["sent"])
    composer.set_text("one\ntwo")
    press(composer, Qt.Key.Key_Up)
    type_text(composer, "X")
    assert composer.text() == "oneX\ntwo"
    composer.set_text("")
    press(composer, Qt.Key.Key_Up)
    type_text(composer, "!")
    press(composer, Qt.Key.Key_Up)
    assert composer.text() == "sent!", "changed, it is a text of one's own"


def test_up_during_preedit_recalls_nothing(composer: Composer) -> None:
    composer.set_history(lambda: ["sent"])
    compose(composer, "に")
    press(composer, Qt.Key.Key_Up)
    compose(composer, "")
    assert composer.text() == ""


def test_a_chat_that_is_not_kept_says_so_in_the_field(composer: Composer) -> None:
    composer.set_temporary(True)
    assert "not saved" in edit_of(composer).placeholderText()
    assert "dashed" in composer.styleSheet()
    composer.set_temporary(False)
    assert "dashed" not in composer.styleSheet()


def test_a_very_long_word_is_no_wait(composer: Composer) -> None:
    began = time.thread_time()
    composer.set_text("word" * 25_000)
    QApplication.processEvents()
    assert time.thread_time() - began < 1.0
    composer.set_text("short again")
    wraps = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
    assert edit_of(composer).wordWrapMode() == wraps


def test_escape_stops_only_while_generating(qtbot, composer: Composer) -> None:
    with qtbot.assertNotEmitted(composer.stop_requested):
        press(composer, Qt.Key.Key_Escape)


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
    composer.set_text("مرحبا\nhello\n🙂 שלום, abc 12")
    first = edit_of(composer).document().firstBlock()
    assert first.textDirection() == Qt.LayoutDirection.RightToLeft
    assert first.next().textDirection() == Qt.LayoutDirection.LeftToRight
    assert first.next().next().textDirection() == Qt.LayoutDirection.RightToLeft


def test_names(composer: Composer) -> None:
    assert edit_of(composer).accessibleName() == "Message"
    for name in ("send_button", "stop_button"):
        assert composer.findChild(QPushButton, name).accessibleName()
    assert edit_of(composer).placeholderText() == "Message"
