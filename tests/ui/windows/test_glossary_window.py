"""All terms in one window: searched, read and shown by keys alone."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.tour.chapters import Term, glossary
from ui.look.theme import Theme
from ui.windows.glossary_window import ALL, NOTHING, GlossaryWindow, matching

Key = Qt.Key


def term_called(name: str) -> Term:
    return next(term for term in glossary() if term.name == name)


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, theme: Theme) -> GlossaryWindow:
    theme.apply_to(qapp)
    made = GlossaryWindow(theme)
    qtbot.addWidget(made)
    made.open()
    qtbot.waitUntil(made.isActiveWindow)
    return made


def listed(window: GlossaryWindow) -> list[str]:
    return [window.list.item(row).text() for row in range(window.list.count())]


def test_it_lists_all_by_name_and_shows_the_first(window: GlossaryWindow) -> None:
    assert listed(window) == [term.name for term in glossary()]
    assert window.term is glossary()[0]
    assert window.text.text() == glossary()[0].text
    assert window.scope.isHidden()
    assert QApplication.focusWidget() is window.search


def test_names_come_before_other_words_and_words_before_texts() -> None:
    assert next(iter(matching("cache", glossary()))).name == "KV cache"
    assert next(iter(matching("  Soft ", glossary()))).name == "softmax"
    found = [term.name for term in matching("probabilities", glossary())]
    assert found[0] == "probability"
    assert "softmax" not in found[:1]
    assert "temperature" in found
    assert matching("zzz", glossary()) == []


def test_keys_alone(window: GlossaryWindow, qtbot: QtBot) -> None:
    QTest.keyClicks(window.search, "top-")
    assert listed(window)[:3] == ["top-k", "top-n-sigma", "top-p"]
    QTest.keyClick(window.search, Key.Key_Down)
    assert window.name.text() == "top-n-sigma"
    QTest.keyClick(window.search, Key.Key_Up)
    with qtbot.waitSignal(window.show_wanted) as shown:
        QTest.keyClick(window.search, Key.Key_Return)
    assert shown.args == [term_called("top-k")]
    QTest.keyClick(window.search, Key.Key_Tab)
    QTest.keyClick(window.list, Key.Key_End)
    with qtbot.waitSignal(window.show_wanted) as shown:
        QTest.keyClick(window.list, Key.Key_Return)
    assert shown.args == [window.term]
    QTest.keyClick(window.list, Key.Key_Escape)
    assert not window.isVisible()


def test_what_is_not_found_is_said(window: GlossaryWindow) -> None:
    QTest.keyClicks(window.search, "zzz")
    assert window.name.text() == NOTHING
    assert not window.show_button.isEnabled()
    window.search.clear()
    assert window.show_button.isEnabled()


def test_a_reader_hears_name_and_text(window: GlossaryWindow) -> None:
    term = term_called("softmax")
    window.choose(term)
    assert window.search.accessibleDescription() == f"softmax: {term.text}"
    item = window.list.currentItem()
    assert item.text() == "softmax"
    assert item.data(Qt.ItemDataRole.AccessibleDescriptionRole) == term.text


def test_some_terms_are_one_key_from_all(window: GlossaryWindow) -> None:
    some = (term_called("cell"), term_called("prefill"))
    window.open(some=some, title="Cache panel")
    assert [window.scope.tabText(at) for at in (0, 1)] == [ALL, "Cache panel"]
    assert listed(window) == ["cell", "prefill"]
    window.scope.setFocus()
    QTest.keyClick(window.scope, Key.Key_Left)
    assert len(listed(window)) == len(glossary())
    assert window.term is some[0]
    window.scope.setCurrentIndex(1)
    window.choose(term_called("softmax"))  # clicked in a text
    assert window.term is term_called("softmax")
    assert window.scope.currentIndex() == 0
    window.open()
    assert window.scope.isHidden()


def test_an_underlined_word_is_found_in_the_text(window: GlossaryWindow) -> None:
    window.choose(term_called("softmax"))
    QApplication.processEvents()
    names = [found.term.name for found, _ in window.text.places()]
    assert "probability" in names
    assert "softmax" not in names


def test_other_names_stand_below_and_other_forms_do_not(window: GlossaryWindow) -> None:
    window.choose(term_called("KV cache"))
    assert window.also.text() == "Also: key-value cache"
    window.choose(term_called("token"))
    assert window.also.isHidden()


@pytest.mark.parametrize("zoom", [100, 200, 300])
def test_a_narrow_window_has_the_list_above(
    window: GlossaryWindow, theme: Theme, zoom: int
) -> None:
    theme.set_zoom(zoom)
    window.resize(theme.px(500), theme.px(400))
    QApplication.processEvents()
    assert window.card.geometry().top() > window._left.geometry().bottom()
    window.resize(theme.px(680), theme.px(400))
    QApplication.processEvents()
    assert window.card.geometry().left() > window._left.geometry().right()
