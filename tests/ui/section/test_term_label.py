"""Terms are underlined where they stand, and a click on one asks for it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.chat.tour.terms import terms_in
from ui.section.card import small_label
from ui.section.term_label import ASKED, ElidedTermLabel, TermAsked, TermLabel

TEXT = "Softmax turns each logit into a probability; the KV cache keeps what was computed."


class Hearing(QObject):
    """What a window's glossary would hear."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.asked: list[str] = []
        window.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() == ASKED:
            assert isinstance(event, TermAsked)
            self.asked.append(event.term.name)
        return False


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    made.resize(240, 200)
    made.show()
    return made


@pytest.fixture
def label(parent: QWidget) -> TermLabel:
    made = small_label(TEXT, parent)
    made.setGeometry(0, 0, 240, made.heightForWidth(240))
    made.show()
    assert isinstance(made, TermLabel)
    return made


def ink(label: TermLabel | ElidedTermLabel, rect: QRectF) -> bool:
    """Whether letters stand in a rectangle, its underline aside."""
    ground = label.window().grab(label.geometry())  # alone it has none: black on nothing is black
    image = ground.toImage().convertToFormat(QImage.Format.Format_Grayscale8)
    inner = rect.adjusted(0, 1, 0, -3).toAlignedRect()
    shades = {
        image.pixelColor(x, y).lightness()
        for x in range(inner.left(), inner.right())
        for y in range(inner.top(), inner.bottom())
    }
    return max(shades) - min(shades) > 60


def test_longer_words_come_first_and_each_term_once() -> None:
    found = {each.term.name: TEXT[each.first : each.end] for each in terms_in(TEXT)}
    assert found == {
        "softmax": "Softmax",
        "logit": "logit",
        "probability": "probability",
        "KV cache": "KV cache",
    }
    assert [each.term.name for each in terms_in("token by token")] == ["token"]


def test_a_part_of_a_word_is_no_term() -> None:
    assert not terms_in("tokenless broken-down unlayered")


def test_words_stand_where_the_label_draws_them(label: TermLabel) -> None:
    """Each place has letters in it; what lies between the terms' last line and the end has none."""
    for found, rects in label.places():
        assert rects, found
        assert all(ink(label, rect) for rect in rects)
        assert all(QRectF(label.rect()).contains(rect) for rect in rects)
    tops = {round(rects[0].top()) for _, rects in label.places()}
    assert len(tops) > 1, "it wraps"


def test_a_click_on_a_term_asks_the_window(label: TermLabel, qtbot: QtBot) -> None:
    heard = Hearing(label.window())
    for found, rects in label.places():
        spot = rects[0].center().toPoint()
        qtbot.mouseClick(label, Qt.MouseButton.LeftButton, pos=spot)
        assert heard.asked[-1] == found.term.name
    count = len(heard.asked)
    qtbot.mouseClick(label, Qt.MouseButton.LeftButton, pos=QPoint(label.width() - 1, 1))
    assert len(heard.asked) == count


def test_hovering_tells_in_two_sentences(label: TermLabel, qtbot: QtBot) -> None:
    found, rects = label.places()[0]
    qtbot.mouseMove(label, rects[0].center().toPoint())
    assert label.toolTip() == found.term.text


def test_another_text_has_other_places(label: TermLabel) -> None:
    before = label.places()
    label.setText("Nothing here.")
    assert before
    assert not label.places()


@pytest.mark.parametrize("zoom", [12, 24, 36])
def test_in_any_size_they_stand_right(label: TermLabel, zoom: int) -> None:
    font = label.font()
    font.setPixelSize(zoom)
    label.setFont(font)
    label.resize(240 * zoom // 12, label.heightForWidth(240 * zoom // 12) + 7)
    label.window().resize(label.size())
    assert all(ink(label, rect) for _, rects in label.places() for rect in rects)


def gap_is_free(label: TermLabel | ElidedTermLabel, rect: QRectF) -> bool:
    """No letter in the space before a word, nor in the one behind it."""
    space = label.fontMetrics().horizontalAdvance(" ")
    middle = space * 0.3, rect.top(), space * 0.4, rect.height()  # letters lean out a little
    before = QRectF(*middle).translated(rect.left() - space, 0)
    behind = QRectF(*middle).translated(rect.right(), 0)
    return not any(ink(label, gap) for gap in (before, behind))


@pytest.mark.parametrize("size_px", [12, 24, 36])
@pytest.mark.parametrize("kind", ["plain", "right", "selectable", "elided", "margins", "bold"])
def test_every_kind_of_label_has_them_where_it_draws_them(
    parent: QWidget, kind: str, size_px: int
) -> None:
    text = "of a logit and the KV cache as"
    label = ElidedTermLabel(text, parent) if kind == "elided" else TermLabel(text, parent)
    font = label.font()
    font.setPixelSize(size_px)
    font.setBold(kind == "bold")
    label.setFont(font)
    if kind == "right":
        label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    if kind == "selectable":
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if kind == "margins":
        label.setContentsMargins(14, 3, 0, 0)
    parent.resize(900, 100)
    label.setGeometry(0, 0, 880, 61)
    label.show()
    places = label.places()
    assert [found.term.name for found, _ in places] == ["logit", "KV cache"]
    for _, (rect,) in places:
        assert ink(label, rect)
        assert gap_is_free(label, rect)


def test_a_selected_text_is_not_a_click(parent: QWidget, qtbot: QtBot) -> None:
    """A drag that selects ends over a term."""
    label = TermLabel("A softmax here", parent)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setGeometry(0, 0, 200, 20)
    label.show()
    heard = Hearing(label.window())
    ((_, (rect,)),) = label.places()
    label.setSelection(0, 4)
    qtbot.mouseRelease(label, Qt.MouseButton.LeftButton, pos=rect.center().toPoint())
    assert heard.asked == []
    qtbot.mouseClick(label, Qt.MouseButton.LeftButton, pos=rect.center().toPoint())
    assert heard.asked == ["softmax"]
