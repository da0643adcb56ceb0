"""The right column: its tabs, its line about the token, and that it sleeps while it is hidden."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_traces import trace_of
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation

from app.chat.events import ConversationOpened, TraceRead
from models.records import Message
from ui.look.theme import Theme
from ui.section.kinds import KINDS
from ui.section.looking import Looking
from ui.section.panel import Panel, PanelKind, Tools
from ui.section.section import Section

LOADED: list[str] = []


class Noting(Panel):
    """Writes down what it is told."""

    def __init__(self, tools: Tools, parent: object = None) -> None:
        self.told: list[str] = []
        super().__init__(tools, parent)  # type: ignore[arg-type]

    def _refresh_message(self) -> None:
        self.told.append("message")

    def _refresh_trace(self) -> None:
        self.told.append("trace")

    def _refresh_token(self) -> None:
        self.told.append("token")

    def _refresh_words(self) -> None:
        self.told.append("words")


class First(Noting):
    title = "First"


class Second(Noting):
    title = "Second"


def kind(panel: type[Panel]) -> PanelKind:
    def load() -> type[Panel]:
        LOADED.append(panel.title)
        return panel

    return PanelKind(panel.title, load)


@pytest.fixture
def section(tools: Tools, qtbot: QtBot) -> Section:
    LOADED.clear()
    built = Section(tools, (kind(First), kind(Second)))
    qtbot.addWidget(built)
    built.resize(400, 700)
    return built


def show(section: Section, qtbot: QtBot) -> Noting:
    section.show()
    qtbot.waitExposed(section)
    panel = section.panel()
    assert isinstance(panel, Noting)
    return panel


def test_a_panel_is_loaded_when_it_is_first_shown(section: Section, qtbot: QtBot) -> None:
    assert not LOADED
    first = show(section, qtbot)
    assert LOADED == ["First"]
    assert first.told == ["message", "trace", "token", "words"]
    section.show_panel("Second")
    section.show_panel("Unknown")
    assert LOADED == ["First", "Second"]
    assert isinstance(section.panel(), Second)
    section.show_panel("First")
    assert section.panel() is first
    assert LOADED == ["First", "Second"]


def test_whoever_follows_the_panels_hears_of_each_once(section: Section, qtbot: QtBot) -> None:
    built: list[Panel] = []
    section.panel_built.connect(built.append)
    first = show(section, qtbot)
    for title in ("Second", "First", "Second"):
        section.show_panel(title)
    assert built == [first, section.panel()] == section.built


def test_a_panel_leads_to_another_one(section: Section, qtbot: QtBot) -> None:
    first = show(section, qtbot)
    with qtbot.waitSignal(section.tab_changed) as told:
        first.panel_wanted.emit("Second", "")
    assert told.args == ["Second"]
    assert isinstance(section.panel(), Second)


def test_only_the_panel_on_screen_is_told(
    section: Section, looking: Looking, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    first = show(section, qtbot)
    section.show_panel("Second")
    second = section.panel()
    assert isinstance(second, Noting)
    first.told.clear()
    second.told.clear()
    looking.words_changed.emit()
    looking.trace_changed.emit()
    assert (first.told, second.told) == ([], ["words", "trace"])
    section.hide()
    looking.trace_changed.emit()
    assert second.told == ["words", "trace"]
    section.show()
    assert second.told[2:] == ["message", "trace", "token", "words"]


def test_the_line_above_says_which_token_it_is_about(
    section: Section,
    looking: Looking,
    desk: FakeDesk,
    bridge: FakeBridge,
    ask: Callable[..., tuple[Message, ...]],
    qtbot: QtBot,
) -> None:
    show(section, qtbot)
    assert section.name.text() == looking.sentence
    desk.shelf.path = ask()
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", trace_of([b" Par", b"is"], [0.773, 0.5])))
    assert section.name.text() == "2 tokens · choose one"
    bridge.emit_event(TraceRead("m2", trace_of([b" Par"])))
    assert section.name.text() == "1 token · choose one"
    bridge.emit_event(TraceRead("m2", trace_of([b" Par", b"is"], [0.773, 0.5])))
    looking.select(0)
    assert section.name.text() == "·Par · token 1 of the reply"
    bridge.emit_event(TraceRead("m2", trace_of([b" Par"], [0.00012])))
    assert section.name.text() == "·Par · token 1 of the reply"
    looking.select_aside("·is · token 2 of the prompt")
    assert section.name.text() == "·is · token 2 of the prompt"
    looking.select(None)
    assert section.name.text() == "1 token · choose one"


def test_one_goes_from_token_to_token_whatever_panel_is_shown(
    section: Section, tools: Tools, desk: FakeDesk, bridge: FakeBridge, qtbot: QtBot
) -> None:
    show(section, qtbot)
    before, after = section.previous_button, section.next_button
    assert (before.isEnabled(), after.isEnabled()) == (False, False)
    looking = tools.looking
    looking._show(trace_of([b"a", b"b"]), "")
    assert (before.isEnabled(), after.isEnabled()) == (False, True)
    after.click()
    assert looking.index == 0
    assert (before.isEnabled(), after.isEnabled()) == (False, True)
    after.click()
    assert looking.index == 1
    assert (before.isEnabled(), after.isEnabled()) == (True, False)
    before.click()
    assert looking.index == 0


def test_the_user_s_choice_of_a_tab_is_told_and_no_other(section: Section, qtbot: QtBot) -> None:
    told: list[str] = []
    section.tab_changed.connect(told.append)
    show(section, qtbot)
    section.show_panel("Second")
    assert not told
    section.tabs.tabBarClicked.emit(0)
    assert told == ["First"]
    with qtbot.waitSignal(section.hide_requested):
        section.close_button.click()


def test_nobody_looks_while_it_is_hidden(section: Section, desk: FakeDesk, qtbot: QtBot) -> None:
    assert not desk.called("words.read")
    show(section, qtbot)
    assert len(desk.called("words.read")) == 1


@pytest.mark.parametrize(("width", "zoom"), [(400, 100), (800, 200), (300, 100), (900, 300)])
def test_every_tab_is_in_view(
    tools: Tools, theme: Theme, qtbot: QtBot, width: int, zoom: int
) -> None:
    """At the usual width whole, at the least one cut, but none behind a button."""
    theme.set_zoom(zoom)
    section = Section(tools, tuple(PanelKind(each.title, lambda: First) for each in KINDS))
    qtbot.addWidget(section)
    section.resize(width, 700)
    show(section, qtbot)
    tabs = section.tabs
    qtbot.waitUntil(lambda: tabs.tabRect(0).width() > 0)
    for at, each in enumerate(KINDS):
        rect = tabs.tabRect(at)
        assert tabs.rect().contains(rect), each.title
        assert tabs.tabToolTip(at) == each.title
        if width >= 4 * zoom:
            assert tabs.fontMetrics().horizontalAdvance(each.title) + theme.px(12) <= rect.width()


def test_the_keyboard_goes_to_a_panel_that_has_keys_and_else_to_the_tabs(
    section: Section, qtbot: QtBot
) -> None:
    show(section, qtbot)
    section.enter("")
    assert section.focusWidget() is section.tabs
    panel = section.panel()
    assert panel is not None
    panel.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    section.enter("")
    assert section.focusWidget() is panel
    section.tabs.setFocus()
    section.take_keyboard()
    assert section.focusWidget() is panel
