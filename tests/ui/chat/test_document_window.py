"""A document's window: places, parts and finding, also in long and broken texts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from each import each
from PySide6.QtGui import QTextCursor

from app.insight.retrieval.choice import Part
from models.records import Attachment
from ui.chat.document_window import MAX_LINE, STRETCH, DocumentWindow, Stretch
from ui.look.theme import Theme
from ui.widgets.utf16 import utf16_length

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def document(text: str, places: list[list[Any]] | None = None) -> Attachment:
    details = {"media_type": "application/pdf", "places": places or [], "mode": "parts"}
    return Attachment("a", "c", "x.pdf", text, len(text), NOW, kind="document", details=details)


@pytest.fixture
def show(qtbot: Any) -> Any:
    def opened(one: Attachment, parts: list[Part], current: int = -1) -> DocumentWindow:
        window = DocumentWindow(Theme("light"), one, parts, current, "words")
        qtbot.addWidget(window)
        with qtbot.waitExposed(window):
            window.show()
        return window

    return opened


def shown_at(window: DocumentWindow, character: int, length: int) -> str:
    """What stands at a character of the document, read out of the view."""
    cursor = QTextCursor(window.view.document())
    cursor.setPosition(window._stretch.place(character))
    cursor.setPosition(window._stretch.place(character + length), QTextCursor.MoveMode.KeepAnchor)
    return cursor.selectedText()


@each(
    "text",
    ["plain " * 9, "🙂é x\n" * 30, "a" * (2 * MAX_LINE + 5) + "\nz", "🙂" * (MAX_LINE + 3), ""],
)
def test_characters_are_found_in_what_is_shown(text: str) -> None:
    stretch = Stretch(text, 0, len(text))
    assert stretch.text.replace("\n", "") == text.replace("\n", "")
    units = stretch.text.encode("utf-16-le")
    for at in {0, 3, len(text) // 2, len(text) - 1} - {-1}:
        if at < len(text) and text[at] != "\n":
            place = stretch.place(at)
            size = 2 * utf16_length(text[at])
            assert units[2 * place : 2 * place + size].decode("utf-16-le") == text[at]
            assert stretch.character(place) == at


def test_it_opens_at_a_part_and_goes_on_to_the_next(show: Any) -> None:
    text = "".join(f"[Page {n}]\nWords of page {n}.\n" * 20 for n in range(1, 30))
    places = [[text.index(f"[Page {n}]"), f"page {n}"] for n in range(1, 30)]
    parts = [
        Part(places[n - 1][0], places[n - 1][0] + 25, float(n), f"page {n}") for n in (3, 12, 20)
    ]
    window = show(document(text, places), parts, 1)
    assert window.part_words.text() == "Part 2 of 3 · page 12 · 12.0"
    assert window.places.currentText() == "page 12"
    window.step(1)
    assert window.part_words.text() == "Part 3 of 3 · page 20 · 20.0"
    window.step(1)
    assert window.part_words.text() == "Part 1 of 3 · page 3 · 3.0"
    window.step(-1)
    assert window.places.currentText() == "page 20"


def test_a_place_is_known_by_where_it_stands_not_by_its_name(show: Any) -> None:
    text = "Notes\r\n" * 100 + "THE END\r\n" * 50
    at = text.index("THE END")
    window = show(document(text, [[0, "Notes"], [350, "Notes"]]), [Part(at, at + 7, 1.0, "")], 0)
    assert window.places.currentIndex() == 1
    marked = [mark.cursor.selectedText() for mark in window.view.extraSelections()]
    assert "THE END" in marked


def test_it_says_what_it_is_and_what_is_missing(show: Any) -> None:
    one = document("[Page 1]\n\n[Page 2]", [[0, "page 1"], [10, "page 2"]])
    one.details["note"] = "Page 1 of “x.pdf” has no text: pictures aren't read."
    words = show(one, [])._facts.text()
    assert words == f"PDF · 2 pages · 18 bytes · about 5 tokens in all · {one.details['note']}"


def test_of_a_long_document_a_stretch_is_shown_that_moves_along(show: Any) -> None:
    text = "A line of words.\n" * (STRETCH // 10) + "The NEEDLE is here.\n" + "More.\n" * 9
    at = text.index("The NEEDLE")
    window = show(document(text), [Part(at, at + 19, 3.0, "")], -1)
    assert len(window.view.toPlainText()) <= STRETCH + 20
    assert window.part_words.text() == "1 part went in"
    window.show_part(0)
    assert shown_at(window, at, 10) == "The NEEDLE"
    window.show_part(-1)
    assert shown_at(window, 0, 6) == "A line"
    window.finder.setText("needle")
    window.find_next(1)
    assert window.view.textCursor().selectedText() == "NEEDLE"
    window.finder.setText("nowhere")
    window.find_next(1)
    assert window.found.text() == "Not found"
