"""A long PDF in the whole window: asked about by keys, the parts that went in seen and opened."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from long_document import TOWNS, depth, page_text
from pdfs import pdf
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QPlainTextEdit, QWidget

N_PAGES, PAGE = 9, 6
SCRIPT: dict[str, Any] = {
    "load": {"loaded": {"n_ctx": 16384}},
    "replies": [{"text": "It is deep."}],
}
QUESTION = f"How many metres deep is the harbour of {TOWNS[PAGE - 1]}?"
FACT = f"The harbour of {TOWNS[PAGE - 1]} is {depth(PAGE)} metres deep."


def words_of(person: Any, name: str) -> str:
    labels = person.window.findChildren(QLabel, name)
    return " ".join(label.text() for label in labels if label.isVisible())


def window_of(person: Any) -> QWidget:
    found = (
        each for each in person.window.findChildren(QWidget, "document_window") if each.isVisible()
    )
    window: QWidget = person.wait(lambda: next(found, None))
    return window


def test_the_parts_are_chosen_shown_sent_and_opened(open_window: Any, tmp_path: Path) -> None:
    path = tmp_path / "towns.pdf"
    path.write_bytes(
        pdf(["\n".join(textwrap.wrap(page_text(n), 90)) for n in range(1, N_PAGES + 1)])
    )
    person = open_window(SCRIPT)
    person.wait_ready()
    desk = person.app.desk
    desk.attachments.add_files([str(path)])
    mode = person.wait(lambda: person.window.findChild(QComboBox, "document_mode"))
    person.wait(lambda: mode.currentData() == "parts")
    assert "Until you type a question: its beginning" in person.wait(
        lambda: "beginning" in (words := words_of(person, "document_words")) and words
    )
    # As the question is typed, the parts that would go in, with their cost.
    person.type(QUESTION)
    said = person.wait(
        lambda: (
            f"page {PAGE} (" in (words := words_of(person, "document_words"))
            and desk.attachments.of_open[0].tokens
            and words
        )
    )
    assert " by words · " in said
    # Pages by hand, wrong ones in words; then parts again.
    mode.setCurrentIndex(mode.findData("pages"))
    mode.activated.emit(mode.currentIndex())
    pages = person.window.findChild(QLineEdit, "document_pages")
    person.wait(pages.isVisible)
    pages.setFocus()
    person.qtbot.keyClicks(pages, "7, 99")
    person.qtbot.keyClick(pages, Qt.Key.Key_Return)
    wrong = "There is no page 99: they run from 1 to 9."
    person.wait(lambda: wrong in words_of(person, "document_words"))
    pages.clear()
    person.qtbot.keyClicks(pages, "7-8")
    person.qtbot.keyClick(pages, Qt.Key.Key_Return)
    person.wait(lambda: desk.attachments.of_open[0].details.get("pages") == "7-8")
    assert desk.attachments.of_open[0].details["sent"][0][3] == "page 7–8"
    mode.setCurrentIndex(mode.findData("parts"))
    mode.activated.emit(mode.currentIndex())
    person.wait(lambda: f"page {PAGE} (" in words_of(person, "document_words"))
    # Sent: the parts stand under the message's chip, with their scores.
    person.press(Qt.Key.Key_Return)
    person.wait(lambda: len(desk.shelf.path) == 2 and not desk.replies.is_generating)
    transcript = person.window.chat.transcript
    person.wait(lambda: len(transcript.rows) == 2)
    pills = [a for a in transcript.rows.item(0).actions(0, 1e6) if a.name == "open_part"]
    (best,) = [pill for pill in pills if pill.label.startswith(f"Open page {PAGE} · ")]
    assert best.payload.endswith("#100")
    # A click opens the document there; the part is marked.
    at = best.rect.center() + transcript.item_origin(0)
    person.qtbot.mouseClick(
        transcript.viewport(),
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
        QPoint(round(at.x()), round(at.y())),
    )
    window = window_of(person)
    view = window.findChild(QPlainTextEdit, "document_text")
    place = window.findChild(QComboBox, "document_places")
    part = window.findChild(QLabel, "document_part")
    assert f"page {PAGE} · " in part.text()
    person.wait(lambda: place.currentText() == f"page {PAGE}")
    marked = [mark.cursor.selectedText() for mark in view.extraSelections()]
    assert any(FACT.split(" is ")[0] in text.replace("\u2029", " ") for text in marked)
    find = window.findChild(QLineEdit, "document_find")
    person.qtbot.keyClicks(find, f"harbour of {TOWNS[2]}".upper())
    person.qtbot.keyClick(find, Qt.Key.Key_Return)
    assert view.textCursor().selectedText().casefold() == f"harbour of {TOWNS[2]}".casefold()
    window.close()
    # The next question is searched in it, too, until somebody says no.
    person.type(f"And how deep is {TOWNS[4]}?")
    earlier = person.wait(
        lambda: "towns.pdf: " in (words := words_of(person, "earlier_document_words")) and words
    )
    assert "page 5 (" in earlier
    leave = person.window.findChild(QWidget, "leave_document_button")
    leave.click()
    person.wait(lambda: not words_of(person, "earlier_document_words"))
    person.press(Qt.Key.Key_Return)
    person.wait(lambda: len(desk.shelf.path) == 4 and not desk.replies.is_generating)
    assert desk.shelf.path[2].attachments == ()
