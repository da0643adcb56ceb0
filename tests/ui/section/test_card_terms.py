"""A term is marked once in a card, by the label that is read first."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chat.tour.terms import terms_in
from ui.section.term_label import ElidedTermLabel, TermLabel


class Column(QWidget):
    """Two cards, the first of which has a title and two sentences."""

    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        self.cards = [QFrame(self) for _ in range(2)]
        for card in self.cards:
            card.setProperty("plane", "card")
            QVBoxLayout(card)
            column.addWidget(card)
        # Built from the last to the first: what counts is where they stand.
        self.last = self.add(0, "Again a logit, and softmax.")
        self.first = self.add(0, "The logit of a token.")
        self.title = self.add(0, "Logits")
        self.other = self.add(1, "Logits")
        self.resize(500, 300)

    def add(self, card: int, text: str) -> TermLabel:
        label = TermLabel(text, self.cards[card])
        rows = self.cards[card].layout()
        assert isinstance(rows, QVBoxLayout)
        rows.insertWidget(0, label)
        return label


@pytest.fixture
def column(qtbot: QtBot) -> Column:
    made = Column()
    qtbot.addWidget(made)
    made.show()
    return made


def marked(label: TermLabel | ElidedTermLabel) -> list[str]:
    return [found.term.name for found, _ in label.places()]


def test_the_first_that_is_read_marks_it(column: Column) -> None:
    assert marked(column.title) == ["logit"]
    assert marked(column.first) == ["token"]
    assert marked(column.last) == ["softmax"]
    assert marked(column.other) == ["logit"], "another card"


def test_another_text_or_a_hidden_label_hands_it_on(column: Column) -> None:
    column.title.setText("Scores")
    assert marked(column.first) == ["logit", "token"]
    column.title.setText("Logits")
    assert marked(column.first) == ["token"]
    column.title.hide()
    assert marked(column.first) == ["logit", "token"]
    column.title.show()
    assert marked(column.first) == ["token"]
    column.title.set_marked(False)
    assert marked(column.title) == []
    assert marked(column.first) == ["logit", "token"]


def test_what_is_handed_on_is_painted(column: Column, qtbot: QtBot) -> None:
    """Not only once the label is painted for another reason."""
    qtbot.waitExposed(column)
    without = column.first.grab().toImage()
    column.title.setText("Scores")
    column.title.repaint()
    assert column.first.grab().toImage() != without


def test_a_label_that_is_deleted_is_forgotten(column: Column, qtbot: QtBot) -> None:
    column.title.deleteLater()
    qtbot.waitUntil(lambda: marked(column.first) == ["logit", "token"])


def test_what_is_cut_is_not_marked(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    label = ElidedTermLabel("The softmax of all logits", parent)
    row = QHBoxLayout(parent)
    row.addWidget(label)
    parent.resize(600, 60)
    parent.show()
    assert marked(label) == ["softmax", "logit"]
    wide = label.fontMetrics().horizontalAdvance("The softmax of a…") + 2
    margins = row.contentsMargins()
    parent.resize(wide + margins.left() + margins.right(), 60)
    assert label.seen_text().endswith("…")
    assert marked(label) == ["softmax"]
    assert label.toolTip() == label.text()


def test_the_tooltip_comes_back(column: Column, qtbot: QtBot) -> None:
    label = column.first
    label.setToolTip("Its own")
    (_, rects) = label.places()[0]
    qtbot.mouseMove(label, rects[0].center().toPoint())
    assert label.toolTip().startswith("A piece of text")
    qtbot.mouseMove(label, label.rect().bottomRight())
    assert label.toolTip() == "Its own"


def test_hovering_a_thousand_labels_looks_nothing_up(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    rows = QVBoxLayout(parent)
    labels = [TermLabel(f"Row {number}", parent) for number in range(1000)]
    for label in labels:
        rows.addWidget(label)
    parent.show()
    parent.grab()
    known = terms_in.cache_info()
    for label in labels:
        qtbot.mouseMove(label, label.rect().center())
    assert terms_in.cache_info().misses == known.misses
    assert all(not label.toolTip() for label in labels)
