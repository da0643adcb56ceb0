"""The glossary in the whole window: every term is shown alive, and is found where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QPushButton, QTableView, QWidget

from app.chat.settings.sampler_links import added, with_stage
from app.chat.settings.settings import SELECTING
from app.chat.tour.chapters import Term, glossary
from app.strict_reading import snake
from ui.section.kinds import KINDS
from ui.section.panel_terms import terms_of
from ui.section.rooms import RoomsPanel
from ui.section.sampling.stage_words import WORDS
from ui.section.term_label import TermLabel, Terms
from ui.section.tokens.model import ENTROPY
from ui.tour.glossary_card import GlossaryCard
from ui.tour.showing import NEEDS_MODEL, NEEDS_REPLY
from ui.windows.beside import WindowBeside
from ui.windows.glossary_window import GlossaryWindow

LEFT = Qt.MouseButton.LeftButton
SCRIPT: dict[str, Any] = {
    "load": {"ms": 5},
    "replies": [{"text": "It is Paris, of course."}],
}
STAGES = {f"stage_{snake(kind.__name__)}": kind for kind in WORDS}


def term_called(name: str) -> Term:
    return next(term for term in glossary() if term.name == name)


def put_stage(person: Any, kind: type[Any]) -> None:
    """Into the chain of the open chat, if it isn't there."""
    chain = person.app.desk.chain
    links = chain.links()
    if issubclass(kind, SELECTING):
        chain.put(with_stage(links, len(links) - 1, kind()))
    elif not any(isinstance(link.stage, kind) for link in links):
        chain.put(added(links, kind())[0])


def say(person: Any) -> None:
    person.wait_ready()
    person.send("Which city?")
    person.wait_ended()


def show_me(person: Any, term: Term) -> GlossaryWindow:
    """As in the glossary's window, where its sentence stands."""
    window = person.window.lazy.glossary()._window()
    window.open(term)
    QTest.mouseClick(window.show_button, LEFT)
    return window


def outlined(person: Any) -> QWidget | None:
    found = person.window.findChildren(QWidget, "shown_outline")
    return found[-1].parentWidget() if found else None


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param(tuple({term.show: term for term in glossary()}.values()), id="each spot"),
        pytest.param(glossary(), id="all", marks=pytest.mark.soak),
    ],
)
def test_every_term_is_shown_alive(open_window: Any, terms: Sequence[Term]) -> None:
    """Terms of one spot are shown alike."""
    person = open_window(SCRIPT)
    say(person)
    for term in terms:
        if term.show.widget in STAGES:
            put_stage(person, STAGES[term.show.widget])
        window = show_me(person, term)
        person.wait(
            lambda term=term: (
                (found := outlined(person)) is not None
                and found.objectName() == term.show.widget
                and found.isVisible()
            )
        )
        assert window.sentence.text() == "", term.name


def test_what_has_no_room_is_shown_by_the_menu_that_has_it(open_window: Any) -> None:
    person = open_window(SCRIPT)
    say(person)
    person.window.resize(900, 600)
    person.app.desk.settings.set("zoom_percent", 300)
    button = person.window.findChild(QWidget, "step_button")
    person.wait(lambda: not button.isVisible())
    window = show_me(person, term_called("step mode"))
    person.wait(lambda: outlined(person) is not None)
    assert outlined(person).objectName() == "chat_menu_button"
    assert window.sentence.text() == ""


def test_what_cannot_be_shown_says_what_to_do(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    for name, sentence in (
        ("attention", NEEDS_REPLY),
        ("XTC", term_called("XTC").otherwise),
        ("prefill", NEEDS_REPLY),
    ):
        window = show_me(person, term_called(name))
        person.wait(window.sentence.text)
        assert window.sentence.text() == sentence, name


def test_without_a_model_one_is_asked_for(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.app.desk.loader.unload()
    person.wait(lambda: person.app.desk.loader.state.loaded is None)
    window = show_me(person, term_called("attention"))
    person.wait(window.sentence.text)
    assert window.sentence.text() == NEEDS_MODEL


def rooms_of(person: Any) -> Any:
    """Every panel and room, on screen."""
    section = person.window.section_acts.section()
    for kind in KINDS:
        section.show_panel(kind.title)
        panel = section.panel()
        for at in range(panel.rooms.count()) if isinstance(panel, RoomsPanel) else (0,):
            if isinstance(panel, RoomsPanel):
                panel.rooms.setCurrentIndex(at)
            QApplication.processEvents()
            yield panel


@pytest.mark.soak
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_underlined_word_opens_its_term(open_window: Any, theme: str) -> None:
    """In each panel at each zoom; and right after the text has changed, before it is painted."""
    person = open_window(SCRIPT)
    say(person)
    person.window.resize(1440, 900)
    person.app.desk.settings.set("theme", theme)
    person.window.action_registry.run("panel_tokens")
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces))
    looking.select(1)
    n_asked = n_changed = 0
    for zoom in (100, 200, 300):
        person.app.desk.settings.set("zoom_percent", zoom)
        QApplication.processEvents()
        for panel in rooms_of(person):
            for label in panel.findChildren(Terms):
                if not label.isVisible():
                    continue
                for found, rects in label.places():
                    assert label.seen_text()[found.first : found.end] in shown_words(found.term)
                    QTest.mouseClick(label, LEFT, pos=rects[0].center().toPoint())
                    card = person.window.lazy.glossary().card
                    assert card.isVisible()
                    assert card.term is found.term
                    assert person.window.rect().contains(card.geometry())
                    n_asked += 1
                    card.dismiss()
            label = next((each for each in panel.findChildren(Terms) if each.isVisible()), None)
            if label is not None:
                before = label.text()
                label.setText("A softmax.")
                places = {found.term.name: rects for found, rects in label.places()}
                if "softmax" in places:  # else another label of the card has it, or it is cut
                    QTest.mouseClick(label, LEFT, pos=places["softmax"][0].center().toPoint())
                    assert person.window.lazy.glossary().card.term.name == "softmax"
                    person.window.lazy.glossary().card.dismiss()
                    n_changed += 1
                label.setText(before)
    assert n_asked > 100
    assert n_changed > 10


def shown_words(term: Term) -> set[str]:
    return {shown for word in term.words for shown in (word, word[0].upper() + word[1:])}


def test_no_term_is_underlined_twice_in_a_card(open_window: Any) -> None:
    person = open_window(SCRIPT)
    say(person)
    person.window.action_registry.run("panel_sampling")
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces))
    looking.select(1)
    for panel in rooms_of(person):
        marked: dict[int, list[str]] = {}
        for label in panel.findChildren(Terms):
            if label.isVisible():
                names = [found.term.name for found, _ in label.places()]
                marked.setdefault(id(label._card), []).extend(names)
        assert all(len(set(names)) == len(names) for names in marked.values())


def test_the_keyboard_alone_reads_the_terms_of_a_panel(open_window: Any) -> None:
    person = open_window(SCRIPT)
    say(person)
    person.window.action_registry.run("panel_cache")
    panel = person.find(QWidget, "panel_cache")
    person.wait(lambda: term_called("prefill") in terms_of(panel))
    QTest.keyClick(person.window, Qt.Key.Key_F1, Qt.KeyboardModifier.ShiftModifier)
    window = person.window.lazy.glossary().window
    assert window.isVisible()
    assert window.scope.tabText(window.scope.currentIndex()) == "Cache panel"
    names = [window.list.item(row).text() for row in range(window.list.count())]
    assert {"cell", "prefill", "flash attention"} <= set(names)
    assert len(names) < len(glossary())
    first = window.term
    QTest.keyClick(window.search, Qt.Key.Key_Down)
    assert window.term is not first
    assert window.search.accessibleDescription().startswith(f"{window.term.name}: ")
    QTest.keyClicks(window.search, "prefill")
    assert window.term.name == "prefill"
    QTest.keyClick(window.search, Qt.Key.Key_Return)
    person.wait(lambda: (found := outlined(person)) is not None and found.objectName())
    assert outlined(person).objectName() == "time_line"
    window.activateWindow()
    person.wait(window.isActiveWindow)
    QTest.keyClick(window.search, Qt.Key.Key_Escape)
    person.wait(lambda: not window.isVisible())


def test_escape_closes_the_entry_and_the_reply_goes_on(open_window: Any) -> None:
    person = open_window({"load": {"ms": 5}, "replies": [{"text": "Oh. " * 400, "ms": 5}]})
    person.wait_ready()
    person.send("Which city?")
    person.wait_growing()
    person.window.action_registry.run("panel_cache")
    label = next(
        each
        for each in person.window.findChildren(Terms)
        if each.isVisible() and each.places() and not each.visibleRegion().isEmpty()
    )
    found, rects = label.places()[0]
    focus = QApplication.focusWidget()
    QTest.mouseClick(label, LEFT, pos=rects[0].center().toPoint())
    card = person.find(GlossaryCard, "glossary_card")
    assert card.isVisible()
    assert card.findChild(QLabel, "glossary_card_text").text() == found.term.text
    assert QApplication.focusWidget() is card.findChild(QPushButton, "glossary_card_show")
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert not card.isVisible()
    assert person.app.desk.replies.is_generating
    assert QApplication.focusWidget() is focus
    person.app.desk.replies.stop()
    person.wait_ended()


def test_a_word_in_the_glossary_itself_leads_on(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    person.window.action_registry.run("glossary")
    window = person.window.lazy.glossary().window
    window.choose(term_called("softmax"))
    QApplication.processEvents()
    (rects,) = [rects for found, rects in window.text.places() if found.term.name == "probability"]
    QTest.mouseClick(window.text, LEFT, pos=rects[0].center().toPoint())
    assert window.term is term_called("probability")
    assert person.window.lazy.glossary().card is None


def test_a_heading_has_its_entry(open_window: Any) -> None:
    person = open_window(SCRIPT)
    say(person)
    person.window.resize(1440, 900)
    person.window.action_registry.run("panel_tokens")
    table = person.find(QTableView, "token_table")
    header = table.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(ENTROPY) + 8, header.height() // 2)
    header.customContextMenuRequested.emit(place)
    menu = person.find(QMenu, "heading_menu")
    QTest.keyClick(menu, Qt.Key.Key_Down)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    card = person.find(GlossaryCard, "glossary_card")
    assert card.term is term_called("entropy")
    heading = QRect(header.mapTo(person.window, QPoint()), header.size())
    assert not card.geometry().intersects(heading)


def test_nothing_of_it_is_made_before_it_is_asked_for(open_window: Any) -> None:
    person = open_window(SCRIPT)
    person.wait_ready()
    assert person.window.lazy._glossary is None
    assert person.window.findChild(GlossaryCard) is None


def test_a_window_beside_has_the_entry_in_itself(open_window: Any) -> None:
    """Escape closes the entry there, and not that window; Show me goes to the main one."""
    person = open_window(SCRIPT)
    say(person)
    beside = WindowBeside(person.window._theme, "some_window", "Some", person.window)
    label = TermLabel("The KV cache", beside)
    beside.resize(600, 400)
    beside.come_forward()
    person.wait(beside.isActiveWindow)
    ((_, rects),) = label.places()
    spot = rects[0].center().toPoint()
    QTest.mouseClick(label, LEFT, pos=spot)
    card = person.window.lazy.glossary().card
    assert card.parentWidget() is beside
    QTest.keyClick(card.show_button, Qt.Key.Key_Escape)
    assert not card.isVisible()
    assert beside.isVisible()
    QTest.mouseClick(label, LEFT, pos=spot)
    QTest.mouseClick(card.show_button, LEFT)
    person.wait(lambda: (found := outlined(person)) is not None and found.isVisible())
    assert outlined(person).objectName() == "cache_map"
    person.wait(person.window.isActiveWindow)
    assert not card.isVisible()
    beside.setParent(None)
    beside.deleteLater()
    person.wait(lambda: person.window.lazy.glossary().card is None)
