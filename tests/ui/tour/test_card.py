"""The tour's card: what it says, the guess before it, its keys, and that all of it can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from own_look import kept_look
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.tour.card import Shown, TourCard

Key = Qt.Key
STEP = Shown(
    chapter=1,
    step=0,
    n_steps=3,
    see="A token becomes a list of numbers, its vector.",
    why="Learned in training, together they say what the token is like.",
    try_="Go to another token and watch the strip.",
)
GUESS = replace(STEP, ask="How many numbers stand for a single token?", answer="576")


@pytest.fixture(scope="module", autouse=True)
def dressed(qapp: QApplication) -> Iterator[None]:
    with kept_look(qapp):
        Theme("light").apply_to(qapp)
        yield


@pytest.fixture
def card(qtbot: QtBot, theme: Theme) -> TourCard:
    window = QWidget()
    QVBoxLayout(window)
    qtbot.addWidget(window)
    window.resize(700, 600)
    made = TourCard(theme, ["From text to tokens", "Numbers with a place"], window)
    made.show_step(STEP)
    made.resize(made.wanted_size())
    made.show()
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    made.next_button.setFocus()
    return made


def press(key: Qt.Key) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, key)


def test_it_says_where_one_is_and_what_is_seen(card: TourCard) -> None:
    assert card.chapter_button.text() == "2. Numbers with a place ▾"
    assert card.where.text() == "1 of 3"
    assert card.words() == (
        "A token becomes a list of numbers, its vector. Learned in training, together they say "
        "what the token is like. Try: Go to another token and watch the strip."
    )
    assert card.done.isHidden()
    assert card.lack.isHidden()


def test_what_came_of_it_is_told_below(card: TourCard) -> None:
    card.show_step(replace(STEP, done="Another token has other numbers."))
    assert card.done.text() == "✓ Another token has other numbers."
    assert card.done.isVisible()


def test_why_nothing_can_be_seen_is_told(card: TourCard) -> None:
    card.show_step(replace(STEP, lack="No model is loaded."))
    assert card.lack.text() == "No model is loaded."
    assert card.lack.isVisible()


def test_a_number_is_guessed_before_it_is_shown(card: TourCard, qtbot: QtBot) -> None:
    card.show_step(GUESS)
    assert card.is_asking
    assert card.words() == GUESS.ask
    assert card.next_button.text() == "Show"
    card.guess.setFocus()
    QTest.keyClicks(card.guess, "500")
    press(Key.Key_Return)
    assert card.ask.text() == "It is 576. You guessed 500."
    assert card.see.isVisible()
    assert card.next_button.text() == "Next"
    assert card.next_button.hasFocus()


def test_without_a_guess_the_number_is_shown_too(card: TourCard) -> None:
    card.show_step(GUESS)
    card.reveal()
    assert not card.is_asking
    assert card.ask.isHidden()
    assert card.see.text() == STEP.see


def test_it_is_asked_for_before_it_is_known_and_told_when_it_is(card: TourCard) -> None:
    card.show_step(replace(GUESS, answer=""))
    assert card.is_asking
    card.guess.setFocus()
    QTest.keyClicks(card.guess, "500")
    press(Key.Key_Return)
    assert card.ask.text() == "You guessed 500."
    assert card.see.isVisible()
    card.show_step(GUESS)
    assert card.ask.text() == "It is 576. You guessed 500."


def test_a_number_that_nobody_can_know_is_not_asked_for(card: TourCard) -> None:
    card.show_step(replace(GUESS, answer="", lack="No model is loaded."))
    assert not card.is_asking
    assert card.see.isVisible()


def test_whoever_has_done_it_is_asked_no_more(card: TourCard) -> None:
    card.show_step(replace(GUESS, done="Done."))
    assert not card.is_asking
    assert card.done.isVisible()


def test_more_that_is_known_takes_no_guess_away(card: TourCard) -> None:
    card.show_step(GUESS)
    card.guess.setText("500")
    card.show_step(replace(GUESS, see="It has 576 of them."))
    assert card.guess.text() == "500"
    assert card.is_asking
    card.show_step(replace(GUESS, step=1))
    assert card.guess.text() == ""


def test_enter_goes_on_and_escape_leaves(card: TourCard, qtbot: QtBot) -> None:
    with qtbot.waitSignal(card.next_wanted):
        press(Key.Key_Return)
    with qtbot.waitSignal(card.leave_wanted):
        press(Key.Key_Escape)
    card.show_step(GUESS)
    card.guess.setFocus()
    with qtbot.waitSignal(card.next_wanted):
        press(Key.Key_Enter)  # nothing is guessed
    with qtbot.waitSignal(card.leave_wanted):
        press(Key.Key_Escape)
    card.back_button.setFocus()
    with qtbot.assertNotEmitted(card.next_wanted), qtbot.waitSignal(card.back_wanted):
        press(Key.Key_Return)


def test_tab_goes_as_the_eye_does(card: TourCard) -> None:
    seen = []
    for _ in range(5):
        focus = QApplication.focusWidget()
        assert focus is not None
        seen.append(focus.objectName())
        press(Key.Key_Tab)
    assert seen == ["tour_next", "tour_back", "tour_again", "tour_chapters", "tour_close"]


def test_the_first_step_has_none_before_it(card: TourCard) -> None:
    card.show_step(replace(STEP, is_first=True))
    assert not card.back_button.isEnabled()
    card.show_step(replace(STEP, is_last=True))
    assert card.back_button.isEnabled()
    assert card.next_button.text() == "Finish"


def test_a_page_is_offered_at_the_end_where_it_can_be_made(card: TourCard) -> None:
    card.show_step(replace(STEP, is_last=True))
    assert card.page_button.isHidden()
    card.has_page = True
    card.show_step(replace(STEP, is_last=True))
    assert not card.page_button.isHidden()
    card.show_step(STEP)
    assert card.page_button.isHidden()


def test_any_chapter_is_a_click_away(card: TourCard, qtbot: QtBot) -> None:
    QTest.mouseClick(card.chapter_button, Qt.MouseButton.LeftButton)
    menu = card.findChild(QMenu, "tour_chapter_menu")
    assert menu is not None
    entries = menu.actions()
    assert [entry.text() for entry in entries] == [
        "1. From text to tokens",
        "2. Numbers with a place",
    ]
    assert [entry.isChecked() for entry in entries] == [False, True]
    with qtbot.waitSignal(card.chapter_wanted) as heard:
        entries[0].trigger()
    assert heard.args == [0]
    menu.close()


def test_a_screen_reader_says_the_words_with_the_button(card: TourCard) -> None:
    assert card.accessibleName() == "Follow one token"
    assert card.accessibleDescription() == card.words()
    assert card.next_button.accessibleDescription() == card.words()
    card.show_step(replace(STEP, done="It has."))
    assert card.next_button.accessibleDescription().endswith("✓ It has.")


@pytest.mark.parametrize("zoom", [80, 100, 200, 300])
@pytest.mark.parametrize("width", [0, 880])
def test_all_words_have_room_in_the_size_that_is_wanted(
    card: TourCard, theme: Theme, zoom: int, width: int
) -> None:
    theme.set_zoom(zoom)
    card.show_step(replace(STEP, done="Another token has other numbers.", lack="No model."))
    card.resize(card.wanted_size(width))
    card.layout().activate()
    card.inside.layout().activate()
    for label in (card.see, card.why, card.try_, card.done, card.lack):
        assert label.height() >= label.heightForWidth(label.width()), label.objectName()
    assert card.inside.height() <= card._area.viewport().height()


def test_words_that_do_not_fit_are_scrolled_by_key(card: TourCard) -> None:
    card.show_step(replace(STEP, see="A long sentence. " * 60))
    card.resize(card.width(), card.least_height())
    card.layout().activate()
    bar = card._area.verticalScrollBar()
    press(Key.Key_PageDown)
    assert bar.value() > 0
    press(Key.Key_PageUp)
    assert bar.value() == 0


def test_a_scroll_bar_does_not_outlive_its_need(card: TourCard) -> None:
    """Nor where words of any length wrap otherwise beside it."""
    bar = card._area.verticalScrollBar()
    for n in range(1, 60):
        card.show_step(replace(STEP, see="A long sentence. " * 12 + "x" * n))
        wanted = card.wanted_size()
        card.stand_at(QRect(QPoint(), QSize(wanted.width(), card.least_height())))
        QApplication.processEvents()
        assert bar.isVisible()
        card.stand_at(QRect(QPoint(), wanted))
        QApplication.processEvents()
        assert not bar.isVisible()
