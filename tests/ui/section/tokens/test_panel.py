"""The Tokens panel: its rooms, the table that follows the reply, figures, filter and copies."""

from __future__ import annotations

import csv
import io
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from made_traces import trace_of
from made_words import BYTE, CONTROL, made_pieces
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, loaded
from squeezed import squeezed_headings

from app.chat.events import (
    ConversationOpened,
    EngineStateChanged,
    MessageAdded,
    TokenRecorded,
    TokensTakenBack,
    TraceRead,
    VocabularyRead,
)
from app.chat.settings.settings import Settings
from app.insight.trace.table import TraceTable
from models.records import Message, MessageState
from ui.look.fonts import MONO_FAMILY
from ui.look.theme import Theme
from ui.section.looking import NO_REPLY, Looking
from ui.section.panel import Tools
from ui.section.tokens.alternatives import CHOOSE
from ui.section.tokens.model import ID, PROBABILITY, TIME, TOKEN, TYPE
from ui.section.tokens.panel import ROOMS, TokensPanel
from ui.section.tokens.reply_tokens import CAPTION, LOW_PX, ReplyTokens
from ui.section.tokens.vocabulary_browser import VocabularyBrowser

Ask = Callable[..., tuple[Message, ...]]
PIECES = (b"Par", b"is", b" is", b".")


@pytest.fixture
def panel(tools: Tools, looking: Looking, qtbot: QtBot) -> Iterator[TokensPanel]:
    built = TokensPanel(tools)
    qtbot.addWidget(built)
    built.resize(396, 800)
    built.show()
    qtbot.waitExposed(built)
    looking.set_awake(True)
    built.set_active(True)
    yield built
    built.set_active(False)


@pytest.fixture
def room(panel: TokensPanel) -> ReplyTokens:
    found = panel.room()
    assert isinstance(found, ReplyTokens)
    return found


@pytest.fixture
def read(
    room: ReplyTokens, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> Callable[..., ReplyTokens]:
    """A reply of these pieces has been read from the database."""

    def build(*pieces: bytes, **fields: Any) -> ReplyTokens:
        desk.shelf.path = ask(**fields)
        bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
        bridge.emit_event(TraceRead("m2", trace_of(pieces or PIECES)))
        return room

    return build


def column(room: ReplyTokens, at: int) -> list[str]:
    model = room.model
    return [model.data(model.index(row, at)) for row in range(model.rowCount())]


def test_rooms_are_built_when_they_are_entered_and_only_one_follows(
    panel: TokensPanel, looking: Looking
) -> None:
    assert [panel.rooms.tabText(at) for at in range(3)] == [title for title, _ in ROOMS]
    assert len(panel._rooms) == 1
    first = panel.room()
    panel.rooms.setFocus()
    QTest.keyClick(panel.rooms, Qt.Key.Key_Right)
    assert panel.room().title == "Try a text"
    assert (first._is_active, panel.room()._is_active) == (False, True)
    panel.rooms.setCurrentIndex(2)
    assert panel.room().title == "Vocabulary"
    panel.set_active(False)
    assert not any(room._is_active for room in panel._rooms.values())
    panel.rooms.setCurrentIndex(0)
    assert panel.room() is first
    assert not first._is_active, "the panel is not on screen"


def test_before_there_is_a_reply_it_says_what_to_do(room: ReplyTokens) -> None:
    assert room.figures.text() == NO_REPLY
    assert not room.speed.isVisible()
    assert not room.copy_button.isEnabled()
    assert not room.uncertain_button.isEnabled()


def test_figures_say_their_units(read: Callable[..., ReplyTokens]) -> None:
    room = read()
    assert room.certainty.figure.text() == "4 tokens · perplexity 2.00"
    assert room.figures.text() == "mean log-probability −0.69 nats · mean entropy 2.50 bits"
    assert room.speed.figure.text() == "47.6 tokens/s"
    assert len(room.plot._speeds) == 3


def test_the_speed_of_a_branch_is_that_of_its_own_tokens(
    read: Callable[..., ReplyTokens],
) -> None:
    """20, 21 and 22 ms, 20 ms: of the last two one came after the branch's first."""
    room = read(settings={"given": {"tokens": 2, "traced": 2, "chosen": [102]}})
    assert room.certainty.figure.text() == "4 tokens · perplexity 2.00"
    assert room.speed.figure.text() == "50.0 tokens/s"
    assert len(room.plot._speeds) == 1


@pytest.mark.parametrize(
    ("taken_over", "sentence"),
    [(0, ""), (1, "The first token is from"), (2, "The first 2 tokens are from")],
)
def test_the_caption_says_which_tokens_are_of_the_version_that_was_branched(
    read: Callable[..., ReplyTokens], taken_over: int, sentence: str
) -> None:
    given = {"tokens": taken_over, "traced": taken_over, "chosen": [102]}
    caption = read(settings={"given": given}).caption.text()
    assert caption.startswith(CAPTION)
    assert (sentence in caption) if sentence else (caption == CAPTION)


def test_of_one_token_no_speed_is_told(read: Callable[..., ReplyTokens]) -> None:
    room = read(b"Par")
    assert room.certainty.figure.text() == "1 token · perplexity 2.00"
    assert not room.speed.isVisibleTo(room)
    assert read().speed.isVisibleTo(room)


def test_table_and_looking_choose_the_same_token(
    read: Callable[..., ReplyTokens], looking: Looking
) -> None:
    room = read()
    looking.select(2)
    assert room.table.currentIndex().row() == 2
    room.table.sortByColumn(TOKEN, Qt.SortOrder.DescendingOrder)
    assert column(room, TOKEN) == ["is", "Par", ".", "·is"]
    looking.select(0)
    assert room.table.currentIndex().row() == 1
    room.table.selectRow(0)
    assert looking.index == 1
    QTest.keyClick(room.table, Qt.Key.Key_Down)
    assert looking.index == 0
    looking.select(None)
    assert not room.table.selectionModel().hasSelection()


def test_columns_are_seen_whole_or_not_at_all(read: Callable[..., ReplyTokens]) -> None:
    table = read().table
    header, room = table.horizontalHeader(), table.viewport().width()
    ends = [header.sectionPosition(at) + header.sectionSize(at) for at in range(header.count())]
    assert room in ends[:-1], "the first ones fill it"
    assert ends[-1] > room, "and the others are behind"
    table.setColumnWidth(TOKEN, 40)
    table.resize(table.width() + 30, table.height())
    assert table.columnWidth(TOKEN) == 40, "what somebody has chosen stays"


@pytest.mark.parametrize(("family", "size_px"), [("", 14), (MONO_FAMILY, 14), ("", 24)])
def test_headings_are_whole_whatever_is_sorted_by_and_in_any_font(
    read: Callable[..., ReplyTokens], theme: Theme, qtbot: QtBot, family: str, size_px: int
) -> None:
    table = read().table
    theme.set_fonts(Settings(font_text=family, text_px=size_px))
    header = table.horizontalHeader()
    assert header.fontMetrics().height() == QFontMetrics(theme.font_small()).height()
    for column, order in itertools.product(range(header.count()), Qt.SortOrder):
        table.sortByColumn(column, order)
        assert squeezed_headings(table) == []


def test_the_number_of_the_last_token_is_whole(read: Callable[..., ReplyTokens]) -> None:
    for count in (9, 100, 1_000, 10_000):
        room = read(*[b"x"] * count)
        last = room.model.index(count - 1, 0)
        assert room.table.sizeHintForIndex(last).width() <= room.table.columnWidth(0), count


@pytest.mark.parametrize("count", [49_152, 262_144])
def test_the_largest_ids_are_whole(
    room: ReplyTokens,
    read: Callable[..., ReplyTokens],
    desk: FakeDesk,
    bridge: FakeBridge,
    count: int,
) -> None:
    words = made_pieces([b"x"] * count)
    desk.words.of = lambda _hash: words
    read()
    (token,) = trace_of([b"x"])
    token = msgspec.structs.replace(token, token_id=count - 1)
    bridge.emit_event(TraceRead("m2", (token,)))
    bridge.emit_event(VocabularyRead("w1"))
    cell = room.model.index(0, ID)
    assert room.model.data(cell) == str(count - 1)
    assert room.table.sizeHintForIndex(cell).width() <= room.table.columnWidth(ID)


def test_small_probabilities_are_whole(
    room: ReplyTokens, read: Callable[..., ReplyTokens], bridge: FakeBridge
) -> None:
    read()
    shares = (0.095 / 100, 0.012 / 100, 0.00012 / 100, 5e-7)
    bridge.emit_event(TraceRead("m2", trace_of([b"x"] * len(shares), shares)))
    for row in range(len(shares)):
        cell = room.model.index(row, PROBABILITY)
        assert room.table.sizeHintForIndex(cell).width() <= room.table.columnWidth(PROBABILITY), (
            room.model.data(cell)
        )


def test_what_is_sorted_is_read_from_its_beginning_or_from_the_chosen_token_on(
    read: Callable[..., ReplyTokens], looking: Looking
) -> None:
    room = read(*[b"x"] * 200)
    QApplication.processEvents()
    bar = room.table.verticalScrollBar()
    bar.setValue(bar.maximum())
    assert bar.value() > 0
    room.table.sortByColumn(ID, Qt.SortOrder.DescendingOrder)
    assert bar.value() == 0
    looking.select(3)
    room.table.sortByColumn(TIME, Qt.SortOrder.AscendingOrder)
    room.table.sortByColumn(TIME, Qt.SortOrder.DescendingOrder)
    chosen = room.table.visualRect(room.table.currentIndex())
    assert room.model.place_of(room.table.currentIndex().row()) == 3
    assert room.table.viewport().rect().contains(chosen)


def test_before_there_are_tokens_nobody_is_told_to_choose_one(
    room: ReplyTokens, read: Callable[..., ReplyTokens]
) -> None:
    assert room.alternatives.table.empty_words == ""
    assert read().alternatives.table.empty_words == CHOOSE


def test_a_filter_keeps_the_choice_and_shows_what_fits(
    read: Callable[..., ReplyTokens], looking: Looking
) -> None:
    room = read()
    looking.select(2)
    room.filter.setText("is")
    assert column(room, TOKEN) == ["is", "·is"]
    assert room.table.currentIndex().row() == 1
    room.filter.setText("103")
    assert column(room, TOKEN) == ["."]
    assert looking.index == 2
    assert not room.table.selectionModel().hasSelection()
    room.filter.clear()
    assert room.table.currentIndex().row() == 2


def test_the_most_uncertain_token_is_gone_to(
    read: Callable[..., ReplyTokens], looking: Looking, qtbot: QtBot
) -> None:
    room = read(*[b"x"] * 6)
    qtbot.mouseClick(room.uncertain_button, Qt.MouseButton.LeftButton)
    assert looking.index == 5


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def test_the_table_is_copied_as_it_stands_by_key_button_and_menu(
    read: Callable[..., ReplyTokens], qtbot: QtBot
) -> None:
    room = read()
    room.table.sortByColumn(TOKEN, Qt.SortOrder.AscendingOrder)
    for act in (
        lambda: QTest.keyClick(room.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier),
        room.copy_button.click,
        lambda: choose(room, "copy_table"),
    ):
        QGuiApplication.clipboard().clear()
        act()
        rows = list(csv.DictReader(io.StringIO(clipboard())))
        assert [row["Token"] for row in rows] == ["·is", ".", "Par", "is"]


def choose(room: ReplyTokens, name: str) -> None:
    room.table.menu_wanted.emit(room.table.rect().center())
    menu = room.findChild(QMenu, "token_menu")
    assert menu is not None
    action = next(each for each in menu.actions() if each.objectName() == name)
    action.trigger()
    menu.close()
    menu.deleteLater()


def test_the_text_of_one_token_is_copied(
    read: Callable[..., ReplyTokens], looking: Looking
) -> None:
    room = read()
    looking.select(2)
    choose(room, "copy_token")
    assert clipboard() == " is"


def test_a_token_is_looked_up_in_the_vocabulary(
    panel: TokensPanel,
    read: Callable[..., ReplyTokens],
    looking: Looking,
    desk: FakeDesk,
    bridge: FakeBridge,
) -> None:
    room = read()
    looking.select(2)
    words = made_pieces([b"x"] * 104)
    desk.words.of = lambda _hash: words
    desk.loader.state = EngineStateChanged("ready", "w", loaded(fast_hash="w1"))
    bridge.emit_event(VocabularyRead("w1"))
    choose(room, "show_in_vocabulary")
    browser = panel.room()
    assert isinstance(browser, VocabularyBrowser)
    assert browser.table.currentIndex().row() == looking.traces[2].token_id == 102


def test_types_come_with_the_words(
    read: Callable[..., ReplyTokens], desk: FakeDesk, bridge: FakeBridge
) -> None:
    room = read()
    assert column(room, TYPE) == [""] * 4
    words = made_pieces([b"x"] * 104, [4] * 101 + [CONTROL, BYTE])
    desk.words.of = lambda _hash: words
    bridge.emit_event(VocabularyRead("w1"))
    assert column(room, TYPE) == ["normal", "control", "byte", "normal"]


def test_signs_of_chosen_and_drafted_tokens_are_icons(
    room: ReplyTokens, looking: Looking, read: Callable[..., ReplyTokens], bridge: FakeBridge
) -> None:
    read()
    plain, *others = trace_of(PIECES)
    marked = msgspec.structs.replace(others[0], chosen=True)
    bridge.emit_event(TraceRead("m2", (plain, marked, others[1])))
    role = Qt.ItemDataRole.DecorationRole
    icons = [room.model.data(room.model.index(row, TOKEN), role) for row in range(3)]
    assert [icon is not None and not icon.isNull() for icon in icons] == [False, True, False]


@pytest.fixture
def growing(
    room: ReplyTokens, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> Callable[..., TraceTable]:
    """A reply that grows by these tokens."""
    table = TraceTable()

    def grow(*pieces: bytes) -> TraceTable:
        if not desk.shelf.path:
            messages = ask(state=MessageState.STREAMING)
            desk.shelf.path = messages[:1]
            opened = ConversationOpened(conversation(1, "Chat"), desk.shelf.path)
            bridge.emit_event(opened)
            desk.shelf.path = messages
            desk.growing.trace_of = lambda _id: table
            bridge.emit_event(MessageAdded(messages[1]))
        for token in trace_of(pieces):
            table.append(token)
            bridge.emit_event(TokenRecorded("c1", "m2", token, 10))
        return table

    return grow


def test_it_follows_a_reply_that_grows_and_what_is_taken_back(
    room: ReplyTokens,
    looking: Looking,
    growing: Callable[..., TraceTable],
    bridge: FakeBridge,
    qtbot: QtBot,
) -> None:
    growing(*PIECES[:3])
    qtbot.waitUntil(lambda: room.model.rowCount() == 3)
    table = growing(PIECES[3])
    qtbot.waitUntil(lambda: room.model.rowCount() == 4)
    assert room.certainty.figure.text() == "4 tokens · perplexity 2.00"
    table.truncate(2)
    bridge.emit_event(TokensTakenBack("c1", "m2", 2))
    assert column(room, TOKEN) == ["Par", "is"]
    assert room.certainty.figure.text() == "2 tokens · perplexity 2.00"


def test_the_end_stays_in_view_while_it_grows_unless_a_token_is_chosen(
    room: ReplyTokens, looking: Looking, growing: Callable[..., TraceTable], qtbot: QtBot
) -> None:
    growing(*[b"x"] * 100)
    bar = room.table.verticalScrollBar()
    qtbot.waitUntil(lambda: room.model.rowCount() == 100)
    assert bar.value() == bar.maximum() > 0
    looking.select(3)
    before = bar.value()
    growing(*[b"y"] * 50)
    qtbot.waitUntil(lambda: room.model.rowCount() == 150)
    assert bar.value() == before < bar.maximum()


REFRESHED_S = 0.005
N_TOKENS = 32_000


def test_a_refresh_at_32000_tokens_takes_less_than_five_milliseconds(
    room: ReplyTokens, looking: Looking, growing: Callable[..., TraceTable], qtbot: QtBot
) -> None:
    """Processor time of the window's thread: the median of ten refreshes by three tokens each."""
    table = growing(b"x")
    for token in trace_of([b"y%d" % at for at in range(1000)]) * (N_TOKENS // 1000):
        table.append(token)
    looking.trace_changed.emit()
    took = []
    for _ in range(10):
        for token in trace_of(PIECES[:3]):
            table.append(token)
        begun = time.thread_time()
        looking.trace_changed.emit()
        took.append(time.thread_time() - begun)
    assert room.model.rowCount() == len(table) > N_TOKENS
    assert sorted(took)[5] < REFRESHED_S


def test_where_it_is_low_the_table_comes_before_the_plot(
    panel: TokensPanel, read: Callable[..., ReplyTokens], qtbot: QtBot
) -> None:
    room = read()
    assert room.plot.isVisible()
    panel.resize(396, LOW_PX)
    assert not room.plot.isVisible()
    panel.resize(396, 800)
    assert room.plot.isVisible()
    qtbot.mouseClick(room.plot_button, Qt.MouseButton.LeftButton)
    assert not room.plot.isVisible()
    panel.resize(396, 900)
    assert not room.plot.isVisible(), "the user has said so"
    qtbot.mouseClick(room.plot_button, Qt.MouseButton.LeftButton)
    panel.resize(396, LOW_PX)
    assert room.plot.isVisible()


def test_everything_has_a_name_and_nothing_needs_more_room_than_300_pixels(
    panel: TokensPanel, room: ReplyTokens
) -> None:
    assert panel.objectName() == "panel_tokens"
    widgets = (
        panel.rooms,
        room.filter,
        room.table,
        room.copy_button,
        room.uncertain_button,
        room.plot_button,
        room.plot,
    )
    for widget in widgets:
        assert widget.objectName()
        assert widget.accessibleName()
    for at in range(3):
        panel.rooms.setCurrentIndex(at)
        assert panel.minimumSizeHint().width() <= 300
