"""What is offered for each document of a draft, and said of it."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from app.chat.attachments.document_parts import with_sent
from app.insight.retrieval.choice import Part
from models.records import Attachment
from ui.chat.composer_documents import ComposerDocuments
from ui.chat.document_words import LONG_TEXT
from ui.look.theme import Theme

PLACES = [[0, "page 1"], [100, "page 2"]]


def attached(own_id: str, kind: str = "document", tokens: int = 900, **details: Any) -> Attachment:
    when, text = datetime(2026, 1, 1, tzinfo=UTC), "x" * LONG_TEXT
    return Attachment(
        own_id, "c", f"{own_id}.pdf", text, 9, when, tokens=tokens, kind=kind, details=details
    )


@pytest.fixture
def asked() -> list[tuple[str, str, str]]:
    return []


@pytest.fixture
def documents(qtbot: Any, asked: list[tuple[str, str, str]]) -> ComposerDocuments:
    def choose(own_id: str, mode: str, pages: str) -> str:
        asked.append((own_id, mode, pages))
        return "There is no page 9." if pages == "9" else ""

    made = ComposerDocuments(Theme("light"), choose)
    qtbot.addWidget(made)
    made.resize(600, 300)
    return made


def test_each_document_has_its_choices(documents: ComposerDocuments) -> None:
    short = Attachment("s", "c", "s.txt", "short", 5, datetime(2026, 1, 1, tzinfo=UTC))
    pdf = attached("a", media_type="application/pdf", places=PLACES)
    documents.set_documents([pdf, attached("b", "text"), short])
    one, other = documents.rows()
    assert [one.mode.itemText(n) for n in range(one.mode.count())] == [
        "Whole",
        "Pages",
        "Parts that fit",
    ]
    assert [other.mode.itemData(n) for n in range(other.mode.count())] == ["whole", "parts"]
    assert one._name.text() == "a.pdf · 900 tokens in all"
    documents.set_documents([pdf])
    assert documents.rows() == [one]
    assert one._name.text() == "900 tokens in all"
    documents.set_documents([])
    assert documents.isHidden()


def test_it_says_what_goes_in(documents: ComposerDocuments) -> None:
    found = [Part(0, 50, 3.5, "page 1"), Part(100, 150, 8.25, "page 2")]
    pdf = attached("a", mode="parts", places=PLACES, whole_tokens=5000)
    documents.set_documents([with_sent(pdf, found, question="deep?", by="words")])
    (row,) = documents.rows()
    said = "2 parts by words · page 2 (8.2), page 1 (3.5)"
    assert row.words.text() == said
    blank = [Part(0, 50, 0.0, "page 1")]
    for question, words in (("", "Until you type a question: its beginning"), ("x", "Nothing ")):
        documents.set_documents([with_sent(pdf, blank, question=question)])
        assert row.words.text().startswith(words)


def test_where_nothing_counts_the_costs_are_about(documents: ComposerDocuments) -> None:
    """At a server, which is given nothing that is not sent; or before a model is loaded."""
    pdf = dataclasses.replace(attached("a", mode="parts", places=PLACES), tokens=None)
    documents.set_documents([with_sent(pdf, [Part(0, 400, 3.5, "page 1")], by="words")])
    (row,) = documents.rows()
    assert row._name.text() == "about 5,000 tokens in all"
    assert row.words.text() == "1 part by words · about 120 tokens · page 1 (3.5)"
    documents.set_documents([with_sent(pdf, [], question="deep?", by="words")])
    assert row.words.text() == "Nothing of it is sent"  # others fit better


def test_pages_that_are_not_there_are_said_and_a_choice_is_told_once(
    documents: ComposerDocuments, asked: list[tuple[str, str, str]]
) -> None:
    documents.set_documents([attached("a", places=PLACES)])
    (row,) = documents.rows()
    row.mode.setCurrentIndex(1)
    row.mode.activated.emit(1)
    assert asked == []
    documents.set_documents([attached("a", tokens=901, places=PLACES)])
    assert row.mode.currentData() == "pages", "news of it take back no choice"
    row.pages.setText("9")
    row.pages.editingFinished.emit()
    documents.set_documents([attached("a", tokens=902, places=PLACES, mode="pages")])
    assert row.words.text() == "There is no page 9.", "what is wrong stays, whatever is counted"
    row.pages.setText("2")
    row.pages.editingFinished.emit()
    assert asked == [("a", "pages", "9"), ("a", "pages", "2")]
