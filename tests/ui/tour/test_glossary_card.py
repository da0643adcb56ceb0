"""The entry of a term: beside its word, inside its window, and gone by Escape or a click."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chat.tour.chapters import Term, glossary
from ui.look.theme import Theme
from ui.section.term_label import ASKED, TermAsked
from ui.tour.glossary_card import GlossaryCard

LEFT = Qt.MouseButton.LeftButton
WORD = QRect(400, 300, 60, 16)


def term_called(name: str) -> Term:
    return next(term for term in glossary() if term.name == name)


class Host(QWidget):
    """A window with a field, which hears what is asked in it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.field = QLineEdit(self)
        column = QVBoxLayout(self)
        column.addWidget(self.field)
        column.addStretch(1)
        self.resize(900, 600)

    def customEvent(self, event: QEvent) -> None:
        if event.type() == ASKED:
            assert isinstance(event, TermAsked)
            event.accept()
            self.asked.append(event.term.name)


@pytest.fixture
def host(qtbot: QtBot, qapp: QApplication, theme: Theme) -> Host:
    theme.apply_to(qapp)
    made = Host()
    qtbot.addWidget(made)
    made.show()
    made.activateWindow()
    qtbot.waitUntil(made.isActiveWindow)
    made.field.setFocus()
    return made


@pytest.fixture
def card(host: Host, theme: Theme) -> GlossaryCard:
    made = GlossaryCard(theme, host)
    made.show_term(term_called("softmax"), WORD)
    return made


def test_it_says_the_term_in_its_two_sentences(card: GlossaryCard) -> None:
    term = term_called("softmax")
    assert card.isVisible()
    assert (card.name.text(), card.text.text()) == ("softmax", term.text)
    assert card.accessibleName() == f"softmax: {term.text}"
    assert card.sentence.isHidden()


def test_it_is_as_high_as_its_words(card: GlossaryCard) -> None:
    for term in glossary():
        card.show_term(term, WORD)
        QApplication.processEvents()
        assert card._area.viewport().height() == card.words.height()
        assert card.words.height() == card.text.heightForWidth(card.text.width())


def test_it_stands_below_its_word_and_above_where_that_is_at_the_end(
    card: GlossaryCard, host: Host
) -> None:
    assert card.geometry().top() > WORD.bottom()
    assert card.geometry().left() == WORD.left()
    low = QRect(400, 560, 60, 16)
    card.show_term(term_called("softmax"), low)
    assert card.geometry().bottom() < low.top()


@pytest.mark.parametrize("zoom", [100, 200, 300])
@pytest.mark.parametrize("size", [(480, 400), (900, 600)])
def test_it_is_inside_its_window_and_its_words_are_reached(
    card: GlossaryCard, host: Host, theme: Theme, zoom: int, size: tuple[int, int]
) -> None:
    theme.set_zoom(zoom)
    host.resize(*size)
    for word in (QRect(0, 0, 30, 12), QRect(size[0] - 30, size[1] - 12, 30, 12)):
        for name in ("softmax", "query, key and value", "speculative decoding"):
            card.show_term(term_called(name), word)
            QApplication.processEvents()
            assert host.rect().contains(card.geometry())
            area = card._area
            hidden = card.words.height() - area.viewport().height()
            assert hidden <= area.verticalScrollBar().maximum()
            # At 300 % in the least window no card of two sentences has room for them.
            assert hidden <= 0 or card.geometry().height() == host.height() - 2 * theme.px(8)


def test_escape_gives_the_keyboard_back(card: GlossaryCard, host: Host) -> None:
    assert QApplication.focusWidget() is card.show_button
    QTest.keyClick(card.show_button, Qt.Key.Key_Escape)
    assert not card.isVisible()
    assert QApplication.focusWidget() is host.field


def test_tab_goes_round_in_it(card: GlossaryCard) -> None:
    seen = []
    for _ in range(4):
        seen.append(QApplication.focusWidget())
        QTest.keyClick(seen[-1], Qt.Key.Key_Tab)
    assert seen == [card.show_button, card.close_button, card.all_button, card.show_button]
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Backtab)
    assert QApplication.focusWidget() is card.show_button


def test_a_click_elsewhere_closes_it_and_one_in_it_does_not(card: GlossaryCard, host: Host) -> None:
    QTest.mouseClick(card.name, LEFT)
    assert card.isVisible()
    QTest.mouseClick(host, LEFT, pos=QPoint(5, 590))
    assert not card.isVisible()


def test_the_close_button_closes_it(card: GlossaryCard) -> None:
    QTest.mouseClick(card.close_button, LEFT)
    assert not card.isVisible()


def test_other_terms_in_it_are_asked_for_and_its_own_is_not_marked(
    card: GlossaryCard, host: Host
) -> None:
    names = [found.term.name for found, _ in card.text.places()]
    assert "probability" in names
    assert "softmax" not in names
    (rects,) = [rects for found, rects in card.text.places() if found.term.name == "probability"]
    QTest.mouseClick(card.text, LEFT, pos=rects[0].center().toPoint())
    assert host.asked == ["probability"]
    place = card.geometry().topLeft()
    card.show_term(term_called("probability"))
    assert card.isVisible()
    assert card.geometry().topLeft() == place
    assert card.name.text() == "probability"


def test_its_buttons_are_about_its_term(card: GlossaryCard, qtbot: QtBot) -> None:
    with qtbot.waitSignal(card.show_wanted) as shown:
        QTest.keyClick(card.show_button, Qt.Key.Key_Space)
    assert shown.args == [term_called("softmax")]
    assert card.isVisible(), "until it is known whether it can be shown"
    with qtbot.waitSignal(card.all_wanted) as all_:
        QTest.mouseClick(card.all_button, LEFT)
    assert all_.args == [term_called("softmax")]
    assert not card.isVisible()


def test_what_to_do_first_stands_in_it_until_another_term_is_shown(card: GlossaryCard) -> None:
    height = card.height()
    card.say("Load a model to see it live.")
    assert card.sentence.isVisible()
    assert card.height() > height
    card.show_term(term_called("logit"))
    assert card.sentence.isHidden()


def test_nothing_listens_to_the_app_while_it_is_closed(
    card: GlossaryCard, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[QObject] = []
    card.dismiss()
    monkeypatch.setattr(card, "dismiss", lambda: heard.append(card))
    QTest.mouseClick(host, LEFT, pos=QPoint(5, 590))
    assert heard == []
