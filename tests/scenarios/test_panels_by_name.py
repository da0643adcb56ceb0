"""Every panel and every room of it is reached by its name, from the command palette, by keys."""

from __future__ import annotations

from functools import partial
from typing import Any

from PySide6.QtWidgets import QApplication

from ui.section.inside.panel import InsidePanel
from ui.section.kinds import KINDS
from ui.section.rooms import RoomsPanel
from ui.shell.palette_rows import Row, ranked
from ui.shell.section_acts import PLACES


def test_each_panel_and_room_has_a_name_and_gets_the_keyboard(open_window: Any) -> None:
    person = open_window({"load": {"ms": 5}, "replies": []})
    person.wait_ready()
    assert {panel for _, _, panel, _ in PLACES} == {kind.title for kind in KINDS}
    section = person.window.section_acts.section()
    for name, _title, panel, room in PLACES:
        person.window.action_registry.run(name)
        shown = section.panel()
        assert shown is not None
        assert shown.isVisible()
        assert shown.title == panel
        focus = QApplication.focusWidget()
        if isinstance(shown, RoomsPanel):
            titles = [shown.rooms.tabText(at) for at in range(shown.rooms.count())]
            assert shown.rooms.tabText(shown.rooms.currentIndex()) == room
            assert {room for _, _, each, room in PLACES if each == panel} == set(titles)
            assert focus is shown.rooms
        else:
            assert focus is (shown if isinstance(shown, InsidePanel) else section.tabs)
        assert person.app.desk.settings.now.section_panel == panel


def test_the_words_that_one_looks_for_find_it(open_window: Any) -> None:
    person = open_window({"load": {"ms": 5}, "replies": []})
    person.wait_ready()
    registry = person.window.action_registry
    rows = [Row(action.title, action.run) for action in registry]
    titles = ("What is the capital of France, and what is it known for?", "Grammars of Jena")
    chats = [(title, partial(Row, title, person.app.desk.shelf.open_new)) for title in titles]
    for words, wanted in (
        ("sampling", "panel_sampling"),
        ("grammar", "panel_grammar"),
        ("json schema", "panel_grammar"),
        ("logit bias", "panel_sampling"),
        ("what if", "panel_what_if"),
        ("vocabulary", "panel_vocabulary"),
        ("prefill", "panel_time"),
    ):
        assert ranked(words, rows, chats)[0].title == registry[wanted].title
