"""The tour in its window: offered once and quietly, reached by name, key and "?", begun with a
sentence where there is no reply."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from made_traces import trace_of
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from recording_desk import FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import ConversationOpened, EngineStateChanged, TraceRead
from app.chat.tour.chapters import chapters
from models.records import ConversationKind, Role
from ui.look.theme import Theme
from ui.shell.window import MainWindow
from ui.tour.start_card import LOADING, NO_MODEL, OFFER, SENTENCE, StartCard
from ui.tour.tour_acts import GROUP

Key = Qt.Key
Open = Callable[..., MainWindow]


@pytest.fixture
def window(open_window: Open, desk: FakeDesk) -> MainWindow:
    desk.growing.trace_of = lambda _id: None
    desk.words.of = lambda _hash: None
    desk.loader.loaded = None
    desk.loader.is_loading = False
    return open_window()


def press(key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, key, modifiers)


def start_card(window: MainWindow) -> StartCard:
    found = window.findChild(StartCard)
    assert found is not None
    return found


def line(window: MainWindow) -> QWidget:
    found = window.findChild(QWidget, "empty_tour_button")
    assert found is not None
    return found


def test_nothing_of_it_is_built_before_it_is_wanted(window: MainWindow) -> None:
    assert window.findChild(StartCard) is None
    assert window.findChild(QWidget, "tour_card") is None
    assert window.tour_acts._tour is None


def test_the_actions_are_in_a_group_of_their_own(window: MainWindow) -> None:
    titles = [action.title for action in window.action_registry if action.group == GROUP]
    wanted = ["Follow one token: the tour", "Tour: start again"]
    wanted += [f"Tour: {chapter.title}" for chapter in chapters()]
    assert [title for title in titles if title in wanted] == wanted
    assert window.action_registry["tour"].keys == ("F1",)


def test_a_quiet_line_offers_it_until_it_was_begun_once(window: MainWindow, desk: FakeDesk) -> None:
    window.chat.empty.show_new_chat("Smol")
    assert line(window).isVisible()
    window.chat.empty.show_no_weights("")
    assert not line(window).isVisible()
    window.chat.empty.show_new_chat("Smol")
    desk.settings.set("tour_at", "1/template")
    assert not line(window).isVisible()
    window.chat.empty.show_new_chat("Smol")
    assert not line(window).isVisible()


def test_without_a_model_it_says_what_to_do(window: MainWindow) -> None:
    press(Key.Key_F1)
    start = start_card(window)
    assert start.isVisible()
    assert start.words.text() == NO_MODEL
    assert not start.sentence.isVisible()
    assert start.model_button.hasFocus()


def test_in_an_empty_chat_a_sentence_is_offered(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    text = conversation(1, "Text", kind=ConversationKind.TEXT)
    desk.shelf.open_new_text = lambda: bridge.emit_event(ConversationOpened(text, ()))
    desk.text.is_whole, desk.text.text, desk.text.generated = True, "", ()
    desk.text.continuation = None
    desk.loader.state = EngineStateChanged("ready", loaded=loaded())
    window.chat.empty.show_new_chat("Smol")
    QTest.mouseClick(line(window), Qt.MouseButton.LeftButton)
    start = start_card(window)
    assert start.words.text() == OFFER
    assert start.sentence.hasFocus()
    assert start.sentence.text() == SENTENCE
    assert desk.settings.now.tour_at == "", "it is not begun yet"
    start.sentence.clear()
    assert not start.begin_button.isEnabled()
    QTest.keyClicks(start.sentence, "Once upon a time")
    press(Key.Key_Return)
    assert window.chat.body.currentWidget() is window.text_following.page
    assert desk.called("text.go_on") == [("Once upon a time", 16)]


def test_a_model_on_its_way_is_waited_for(window: MainWindow, desk: FakeDesk) -> None:
    desk.loader.state = EngineStateChanged("loading")
    press(Key.Key_F1)
    assert start_card(window).note.text() == LOADING
    assert start_card(window).begin_button.isVisible()


def test_escape_puts_it_away(window: MainWindow, desk: FakeDesk) -> None:
    desk.loader.state = EngineStateChanged("ready", loaded=loaded())
    before = QApplication.focusWidget()
    press(Key.Key_F1)
    press(Key.Key_Escape)
    assert not start_card(window).isVisible()
    assert QApplication.focusWidget() is before


@pytest.mark.parametrize(
    "zoom", [100, 300, *(pytest.param(zoom, marks=pytest.mark.soak) for zoom in (80, 200))]
)
@pytest.mark.parametrize(
    "size", [(480, 400), (1180, 780), pytest.param((900, 600), marks=pytest.mark.soak)]
)
def test_the_offer_is_inside_the_window(
    window: MainWindow, desk: FakeDesk, zoom: int, size: tuple[int, int]
) -> None:
    desk.loader.state = EngineStateChanged("ready", loaded=loaded())
    press(Key.Key_F1)
    window.resize(*size)
    desk.settings.set("zoom_percent", zoom)
    for _ in range(3):
        QApplication.processEvents()
    assert window.rect().contains(start_card(window).geometry())


# --- with a reply --------------------------------------------------------------------------------


@pytest.fixture
def replied(window: MainWindow, desk: FakeDesk, bridge: FakeBridge) -> MainWindow:
    desk.shelf.open = conversation(1, "Chat")
    desk.shelf.path = (
        message(1, Role.USER, "Which city?"),
        message(2, Role.ASSISTANT, "Paris", weights_hash="w1"),
    )
    bridge.emit_event(ConversationOpened(desk.shelf.open, desk.shelf.path))
    return window


def tell_trace(bridge: FakeBridge) -> None:
    bridge.emit_event(TraceRead("m2", tuple(trace_of([b" Paris", b",", b" of"]))))


def test_with_a_reply_it_begins_with_its_first_token(
    replied: MainWindow, desk: FakeDesk, bridge: FakeBridge, theme: Theme
) -> None:
    press(Key.Key_F1)
    assert replied.findChild(QWidget, "tour_card") is None, "the record is being read"
    tell_trace(bridge)
    tour = replied.tour_acts.tour()
    assert tour.place == (0, 0)
    assert replied.section_acts.looking().index == 0
    assert desk.settings.now.tour_at == "1/template"


def test_the_token_that_is_chosen_is_followed(
    replied: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    looking = replied.section_acts.looking()
    looking.set_awake(True)
    tell_trace(bridge)
    looking.select(2)
    desk.settings.set("tour_at", "2/embedding")
    press(Key.Key_F1)
    assert replied.tour_acts.tour().place == (1, 0)
    assert looking.index == 2


def test_a_token_that_is_only_visited_is_left_by_the_next_step(
    replied: MainWindow, bridge: FakeBridge
) -> None:
    press(Key.Key_F1)
    tell_trace(bridge)
    tour, looking = replied.tour_acts.tour(), replied.section_acts.looking()
    tour.go(0, 2)
    looking.select(1)
    assert not tour.step.returns
    tour.go(1, 0)
    assert looking.index == 1, "from here on it is followed"
    assert tour.step.returns
    looking.select(2)
    tour.go(1, 0)
    assert looking.index == 2
    tour.go(1, 1)
    assert looking.index == 1
    tour.go(2, 2)
    assert tour.step.returns
    looking.select_aside("·is · token 5 of the prompt")
    tour.go(3, 0)
    assert (looking.index, looking.aside) == (1, "")


def test_a_token_of_the_prompt_is_left_where_the_reply_is_followed(
    replied: MainWindow, bridge: FakeBridge
) -> None:
    press(Key.Key_F1)
    tell_trace(bridge)
    tour, looking = replied.tour_acts.tour(), replied.section_acts.looking()
    looking.select(2)
    tour.go(0, 1)
    looking.select_aside("·is · token 5 of the prompt")
    tour.go(0, 2)
    assert looking.index == 2


def test_the_key_leads_to_the_card_where_it_is_on_screen(
    replied: MainWindow, desk: FakeDesk, bridge: FakeBridge
) -> None:
    press(Key.Key_F1)
    tell_trace(bridge)
    tour = replied.tour_acts.tour()
    tour.go(0, 2)
    replied.chat.composer.focus()
    press(Key.Key_F1)
    assert tour.place == (0, 2)
    assert tour.card.next_button.hasFocus()
