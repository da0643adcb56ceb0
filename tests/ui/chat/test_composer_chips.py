"""Attachment chips in the composer: what they say, by mouse and by keyboard."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from each import each
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QComboBox,
    QLabel,
    QPushButton,
    QStyle,
    QStyleOptionComboBox,
)

from app.chat.attachments.text_files import ENCODINGS
from app.reading.document import DOCX, HTML, ODT, PDF, XLSX
from models.records import Attachment
from ui.chat.attachment_reader import MAX_LINE, MAX_SHOWN, AttachmentReader, shown_part
from ui.chat.composer import Composer
from ui.chat.composer_chips import Chip
from ui.look.theme import Theme
from ui.widgets.icon_button import ICON_PX


def attached(number: int, tokens: int | None = None, name: str = "") -> Attachment:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    name = name or f"file {number}.txt"
    return Attachment(f"a{number}", "c", name, "the text", 2048, when, tokens=tokens)


@pytest.fixture
def composer(qtbot) -> Composer:
    made = Composer(Theme("light"))
    qtbot.addWidget(made)
    made.complete()
    made.resize(500, 400)
    with qtbot.waitExposed(made):
        made.show()
    made.focus()
    return made


def chips_of(composer: Composer) -> list[Chip]:
    return composer.chips.chips()


def test_a_chip_says_name_size_and_cost(composer: Composer) -> None:
    composer.set_attachments([attached(1)])
    (chip,) = chips_of(composer)
    assert chip.isVisible()
    assert chip.accessibleName() == "Attached: file 1.txt, 2.05 kB"
    composer.set_attachments([attached(1, tokens=1234)])
    assert chips_of(composer) == [chip], "the same chip, with its cost"
    assert chip.accessibleName() == "Attached: file 1.txt, 2.05 kB · 1,234 tokens"


@each(
    ("kind", "labels", "shown", "facts"),
    [
        (PDF, ["page 1"], "1 page · 9 tokens", "PDF · 1 page"),
        (DOCX, ["page 1", "page 2"], "2 pages · 9 tokens", "Word document · 2 pages"),
        (ODT, ["Introduction"], "1 section · 9 tokens", "OpenDocument text · 1 section"),
        (XLSX, ["A", "B"], "2 sheets · 9 tokens", "Excel workbook · 2 sheets"),
        (HTML, [], "2.05 kB · 9 tokens", "Web page"),
    ],
)
def test_a_documents_chip_says_what_it_is(
    kind: str, labels: list[str], shown: str, facts: str, composer: Composer
) -> None:
    details = {"media_type": kind, "places": [[n, label] for n, label in enumerate(labels)]}
    document = replace(attached(1, tokens=9), kind="document", details=details)
    composer.set_attachments([document])
    (chip,) = chips_of(composer)
    assert chip._cost.text() == shown
    assert chip.accessibleName() == f"Attached: file 1.txt, {facts} · 2.05 kB · 9 tokens"
    composer.set_attachments([])


def test_the_hint_says_how_far_a_document_is_read(composer: Composer) -> None:
    hint = composer._hint
    usual = hint.text()
    composer.set_attachments([], is_coming=True)
    composer.set_reading("Reading long.pdf: page 3 of 900")
    assert hint.text() == "Reading long.pdf: page 3 of 900 · Esc to stop"
    stopped: list[bool] = []
    composer.reading_stopped.connect(lambda: stopped.append(True))
    stop = composer._stop_button
    assert (stop.isHidden(), stop.toolTip()) == (False, "Stop reading (Esc)")
    stop.click()
    QTest.keyClick(composer._edit, Qt.Key.Key_Escape)
    assert len(stopped) == 2
    composer.send()
    assert hint.text() == "Reading long.pdf: page 3 of 900 · Sends when it is ready"
    composer.set_attachments([], is_refused=True)
    assert hint.text() == usual
    assert stop.isHidden()


def test_its_icons_grow_with_the_zoom(composer: Composer) -> None:
    composer.set_attachments([attached(1)])
    (chip,) = chips_of(composer)
    before = chip._remove.iconSize().width()
    composer._theme.set_zoom(300)
    assert chip._remove.iconSize().width() == 3 * ICON_PX
    assert before == ICON_PX


def test_attachments_alone_can_be_sent(composer: Composer) -> None:
    sent: list[str] = []
    composer.send_requested.connect(sent.append)
    composer.send()
    assert sent == []
    composer.set_attachments([attached(1)])
    assert composer.findChild(QPushButton, "send_button").isEnabled()
    composer.send()
    assert sent == [""]
    composer.set_attachments([])
    assert not composer.chips.isVisible()
    assert not composer.findChild(QPushButton, "send_button").isEnabled()


@pytest.mark.parametrize("text", ["Look", ""])
def test_enter_waits_for_what_is_on_its_way(composer: Composer, text: str) -> None:
    sent: list[str] = []
    composer.send_requested.connect(sent.append)
    composer.set_attachments([], is_coming=True)
    composer.insert_text(text)
    composer.send()
    assert (sent, composer.text()) == ([], text)
    assert "attachment" in composer.findChild(QLabel, "composer_hint").text()
    composer.set_attachments([attached(1)], is_coming=True)
    assert sent == []
    composer.set_attachments([attached(1), attached(2)])
    assert (sent, composer.text()) == ([text], "")
    composer.set_attachments([attached(3)])
    assert sent == [text], "once"
    assert "attachment" not in composer.findChild(QLabel, "composer_hint").text()


def test_what_is_typed_behind_an_enter_that_waits_stays_or_follows(composer: Composer) -> None:
    sent: list[str] = []
    composer.send_requested.connect(sent.append)
    composer.set_attachments([], is_coming=True)
    for text in ("one", "two"):
        composer.insert_text(text)
        composer.send()
    composer.insert_text("three")
    assert (sent, composer.text()) == ([], "onetwothree")
    composer.set_attachments([attached(1)])
    assert (sent, composer.text()) == (["one", "two"], "three")
    composer.set_attachments([])
    assert sent == ["one", "two"], "once"


@pytest.mark.parametrize("since", ["changed", "another chat", "refused"])
def test_enter_that_waits_is_forgotten_where_something_else_was_meant(
    composer: Composer, since: str
) -> None:
    sent: list[str] = []
    composer.send_requested.connect(sent.append)
    composer.insert_text("Look")
    composer.set_attachments([], is_coming=True)
    composer.send()
    if since == "changed":
        QTest.keyClick(composer._edit, Qt.Key.Key_Backspace)
    elif since == "another chat":
        composer.set_text("Look")
    composer.set_attachments([attached(1)], is_refused=since == "refused")
    composer.set_attachments([attached(1)])
    assert sent == []
    assert composer.text().startswith("Loo")
    composer.send()
    assert len(sent) == 1


def test_many_chips_go_on_in_the_next_line_and_scroll(qtbot, composer: Composer) -> None:
    composer.set_attachments([attached(n, 10) for n in range(3)])
    first, _second, third = chips_of(composer)
    qtbot.waitUntil(lambda: first.y() < third.y())
    composer.set_attachments([attached(n, 10) for n in range(30)])
    qtbot.waitUntil(lambda: 60 <= composer.chips.height() <= 112)
    qtbot.waitUntil(lambda: composer.chips.verticalScrollBar().maximum() > 0)


def test_by_mouse_it_opens_and_is_removed(composer: Composer) -> None:
    opened, removed = [], []
    composer.attachment_opened.connect(opened.append)
    composer.attachment_removed.connect(removed.append)
    composer.set_attachments([attached(1)])
    (chip,) = chips_of(composer)
    QTest.mouseClick(chip, Qt.MouseButton.LeftButton, pos=QPoint(20, 10))
    assert (opened, removed) == (["a1"], [])
    button = chip.findChild(QPushButton, "remove_attachment_button")
    assert button.accessibleName() == "Remove file 1.txt"
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert (opened, removed) == (["a1"], ["a1"])


@pytest.mark.parametrize("key", [Qt.Key.Key_Delete, Qt.Key.Key_Backspace])
def test_by_keyboard_it_is_reached_opened_and_removed(composer: Composer, key: Qt.Key) -> None:
    opened, removed = [], []
    composer.attachment_opened.connect(opened.append)
    composer.attachment_removed.connect(removed.append)
    composer.set_attachments([attached(1), attached(2)])
    QTest.keyClick(composer.focusWidget(), Qt.Key.Key_Backtab, Qt.KeyboardModifier.ShiftModifier)
    second = chips_of(composer)[1]
    second.setFocus()
    QTest.keyClick(second, Qt.Key.Key_Return)
    assert opened == ["a2"]
    QTest.keyClick(second, key)
    assert removed == ["a2"]
    composer.set_attachments([attached(1)])
    assert chips_of(composer)[0].hasFocus(), "the next one has the keyboard"
    composer.set_attachments([])
    assert composer.focusWidget().objectName() == "composer"


def test_the_menu_offers_to_put_it_into_the_text(qtbot, composer: Composer) -> None:
    wanted: list[str] = []
    composer.attachment_wanted_as_text.connect(wanted.append)
    composer.set_attachments([attached(1)])
    (chip,) = chips_of(composer)
    chip.wanted_as_text.emit("a1")
    assert wanted == ["a1"]


def test_the_reader_shows_the_text_and_changes_nothing(qtbot) -> None:
    done: list[str] = []
    reader = AttachmentReader(
        Theme("dark"), attached(1, 7), put_into_text=lambda: done.append("into the message")
    )
    reader.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(reader)
    reader.show()
    assert reader.view.toPlainText() == "the text"
    assert reader.view.isReadOnly()
    assert reader.findChild(QPushButton, "attachment_remove_button") is None
    QTest.mouseClick(
        reader.findChild(QPushButton, "attachment_into_text_button"), Qt.MouseButton.LeftButton
    )
    assert done == ["into the message"]
    assert not reader.isVisible()


def test_size_and_cost_are_one_line_beside_all_that_can_be_done(qtbot) -> None:
    reader = AttachmentReader(
        Theme("light"),
        attached(1, 1234567),
        put_into_text=print,
        remove=print,
        encoding="cp1252",
        read_as=print,
    )
    reader.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(reader)
    with qtbot.waitExposed(reader):
        reader.show()
    words = reader.findChild(QLabel, "attachment_words")
    assert words.width() >= words.fontMetrics().horizontalAdvance(words.text())


def test_the_name_of_every_encoding_is_whole_in_the_reader(qtbot) -> None:
    reader = AttachmentReader(
        Theme("light"), attached(1, 7), encoding="cp932", read_as=lambda _: None, remove=print
    )
    reader.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(reader)
    with qtbot.waitExposed(reader):
        reader.show()
    combo = reader.findChild(QComboBox, "attachment_encoding")
    option = QStyleOptionComboBox()
    combo.initStyleOption(option)
    part = QStyle.SubControl.SC_ComboBoxEditField
    room = combo.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, combo)
    for name in ENCODINGS.values():
        assert combo.fontMetrics().horizontalAdvance(name) <= room.width(), name


def test_the_reader_breaks_what_qt_could_not_lay_out() -> None:
    shown = shown_part("a" * 3_000_000)
    assert len(shown.replace("\n", "")) == MAX_SHOWN
    assert max(map(len, shown.split("\n"))) == MAX_LINE
    assert shown_part("one\n\ntwo") == "one\n\ntwo"
