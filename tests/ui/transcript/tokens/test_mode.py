"""The token view of a transcript by mouse and keys: switching, moving, choosing, finding."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from made_traces import trace_of
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QCursor, QGuiApplication, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import VocabularyTable
from app.engine.protocol.pieces import Pieces
from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.table import TraceTable
from models.records import Message, MessageState, Role
from ui.transcript.item import CONTENT
from ui.transcript.tokens.facts import Alternative
from ui.transcript.tokens.mode import FRAME_MS, KEPT_TOKENS, TokenMode
from ui.transcript.view import TranscriptView

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = [b"The", b" **capital**", b" is", b" Par", b"is", b".\n", b"A", b" city", b" of", b" light"]
SOURCE = b"".join(WORDS).decode()
QUESTION = Message("q", "c", None, Role.USER, "Which city?", NOW)
REPLY = Message("r", "c", "q", Role.ASSISTANT, SOURCE, NOW)
CONTROL = Qt.KeyboardModifier.ControlModifier
LEFT = Qt.MouseButton.LeftButton


def press(view: TranscriptView, key: Qt.Key, held=Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(view, key, held)


def in_view(view: TranscriptView, index: int, number: int) -> QPointF:
    """The middle of a token in the viewport."""
    item = view.rows.item(index)
    assert item.tokens is not None
    corner = item.section_rect(CONTENT).topLeft() + view.item_origin(index)
    return item.tokens.token_rect(number).center() + corner


def cursor(view: TranscriptView) -> tuple[int, int] | None:
    """Message and token that the keyboard's frame is painted around."""
    for index in range(len(view.rows)):
        tokens = view.rows.item(index).tokens
        if tokens is not None and tokens.tokens.cursor is not None:
            return index, tokens.tokens.cursor
    return None


@pytest.fixture
def tokens(view: TranscriptView, qtbot) -> TokenMode:
    """A question and a reply as tokens, the keyboard on the transcript."""
    view.set_conversation([QUESTION, REPLY])
    view.activateWindow()
    qtbot.waitUntil(view.isActiveWindow)
    view.setFocus(Qt.FocusReason.TabFocusReason)
    view.tokens.set_on(True)
    view.tokens.show(QUESTION, MessageTokens(before=[b"Which", b" city", b"?"]))
    view.tokens.show(REPLY, MessageTokens(traces=trace_of(WORDS)))
    return view.tokens


def test_tokens_stand_in_place_of_markdown_and_back(view: TranscriptView) -> None:
    view.set_conversation([QUESTION, REPLY])
    view.tokens.set_on(True)
    item = view.rows.item(1)
    assert item.tokens is not None
    assert item.tokens.document.source == SOURCE  # until its tokens are known: its text, raw
    view.tokens.show(REPLY, MessageTokens(traces=trace_of(WORDS)))
    assert view.rows.item(1).tokens.document.source == SOURCE
    assert len(view.rows.item(1).tokens.tokens.groups) == len(WORDS)
    view.tokens.set_on(False)
    assert view.rows.item(1).tokens is None
    assert view.rows.item(1).bodies() == [view.rows.item(1).content]


def test_what_is_in_view_is_asked_for_and_nothing_else(view: TranscriptView, qtbot) -> None:
    many = [replace(REPLY, id=f"r{i}", content="word " * 200) for i in range(40)]
    view.set_conversation(many)
    asked: list[list[str]] = []
    view.tokens.wanted.connect(lambda messages: asked.append([m.id for m in messages]))
    view.tokens.set_on(True)
    assert asked
    assert all(len(messages) <= 4 for messages in asked)
    assert "r39" in asked[-1]
    for message in many[-4:]:
        view.tokens.show(message, MessageTokens(traces=trace_of([b"word "] * 200)))
    asked.clear()
    view.verticalScrollBar().setValue(0)
    assert "r0" in asked[-1]
    assert "r39" not in asked[-1]


def test_many_that_are_known_at_once_are_shown_at_once(view: TranscriptView) -> None:
    view.resize(700, 4000)
    many = [replace(QUESTION, id=f"q{i}", content="Hi") for i in range(120)]
    view.set_conversation(many)
    view.tokens.wanted.connect(
        lambda messages: [view.tokens.show(m, MessageTokens(before=[b"H", b"i"])) for m in messages]
    )
    settled: list[int] = []
    view.settled.connect(lambda: settled.append(1))
    view.tokens.set_on(True)
    last = view.index_at(3990)
    first = view.index_at(0)
    assert first is not None
    assert last is not None
    assert last - first > 40
    for index in range(first, last + 1):
        assert view.rows.item(index).tokens.tokens.tokens.are_tokens, index
    assert len(settled) < 10


def test_reasoning_is_among_the_tokens_and_not_folded(view: TranscriptView) -> None:
    message = replace(REPLY, reasoning="Hm.", content="Paris")
    view.set_conversation([message])
    assert view.rows.item(0).actions(0, 1e6)[0].name == "toggle_reasoning"
    view.tokens.set_on(True)
    assert "toggle_reasoning" not in [a.name for a in view.rows.item(0).actions(0, 1e6)]
    view.tokens.show(message, MessageTokens(traces=trace_of([b"<think>", b"Hm.", b"Paris"])))
    assert view.rows.item(0).tokens.document.source == "<think>Hm.Paris"


# --- moving and choosing ------------------------------------------------------------------------


def test_arrows_move_from_token_to_token_and_into_other_messages(
    view: TranscriptView, tokens: TokenMode
) -> None:
    press(view, Qt.Key.Key_Home, CONTROL)
    assert cursor(view) == (0, 0)
    for wanted in [(0, 1), (0, 2), (1, 0), (1, 1)]:
        press(view, Qt.Key.Key_Right)
        assert cursor(view) == wanted
    for wanted in [(1, 0), (0, 2)]:
        press(view, Qt.Key.Key_Left)
        assert cursor(view) == wanted
    press(view, Qt.Key.Key_End)
    press(view, Qt.Key.Key_Right)
    press(view, Qt.Key.Key_End)
    assert cursor(view) == (1, len(WORDS) - 1)
    press(view, Qt.Key.Key_Right)  # there is nothing behind
    assert cursor(view) == (1, len(WORDS) - 1)
    press(view, Qt.Key.Key_Home)
    assert cursor(view) == (1, 0)


def test_up_and_down_move_by_lines(view: TranscriptView, tokens: TokenMode) -> None:
    press(view, Qt.Key.Key_Home, CONTROL)
    press(view, Qt.Key.Key_Down)
    assert cursor(view) is not None
    assert cursor(view)[0] == 1
    first = cursor(view)
    press(view, Qt.Key.Key_Down)
    assert cursor(view)[1] >= 6  # behind the line feed
    press(view, Qt.Key.Key_Up)
    assert cursor(view)[0] == 1
    assert cursor(view)[1] < 6
    press(view, Qt.Key.Key_Up)
    assert cursor(view)[0] == 0
    assert first is not None


def test_enter_and_click_choose_by_the_place_in_the_trace(
    view: TranscriptView, tokens: TokenMode, qtbot
) -> None:
    given = MessageTokens(before=[b"Given", b" words"], traces=trace_of(WORDS))
    tokens.show(REPLY, given)
    chosen: list[tuple[str, int]] = []
    tokens.chosen.connect(lambda message_id, place: chosen.append((message_id, place)))
    QTest.mouseClick(view.viewport(), LEFT, pos=in_view(view, 1, 5).toPoint())
    assert chosen == [("r", 3)]
    QTest.mouseClick(view.viewport(), LEFT, pos=in_view(view, 1, 1).toPoint())  # was not drawn
    QTest.mouseClick(view.viewport(), LEFT, pos=in_view(view, 0, 1).toPoint())
    assert chosen == [("r", 3)]
    tokens.select("r", 3)
    assert view.rows.item(1).tokens.tokens.chosen == 5
    press(view, Qt.Key.Key_Right)  # from the chosen one on
    press(view, Qt.Key.Key_Return)
    assert chosen == [("r", 3), ("r", 4)]
    tokens.select("r", None)
    assert view.rows.item(1).tokens.tokens.chosen is None


def test_the_token_under_the_keyboard_comes_into_view(view: TranscriptView, qtbot) -> None:
    long = replace(REPLY, content="word " * 3000)
    view.set_conversation([long])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    view.tokens.set_on(True)
    view.tokens.show(long, MessageTokens(traces=trace_of([b"word "] * 3000)))
    for number in (0, 2999, 1500, 40):
        view.tokens.show_place("r", number)
        point = in_view(view, 0, number)
        assert 0 < point.y() < view.viewport().height()
        assert cursor(view) == (0, number)


def test_letters_still_act_on_the_message_and_typing_goes_to_the_composer(
    view: TranscriptView, tokens: TokenMode
) -> None:
    acts: list[tuple[str, str]] = []
    view.act_requested.connect(lambda name, message_id: acts.append((name, message_id)))
    press(view, Qt.Key.Key_Home, CONTROL)
    press(view, Qt.Key.Key_E)
    assert acts == [("edit", "q")]
    view.keyboard.is_shown = False
    typed: list[str] = []
    view.typed.connect(typed.append)
    QTest.keyClicks(view, "hi")
    assert typed == ["h", "i"]


def test_control_and_arrows_step_through_versions(view: TranscriptView, tokens: TokenMode) -> None:
    view.change_message(replace(REPLY, sibling_index=1, sibling_count=3))
    press(view, Qt.Key.Key_End, CONTROL)
    steps: list[tuple[str, int]] = []
    view.version_step_requested.connect(lambda message_id, step: steps.append((message_id, step)))
    press(view, Qt.Key.Key_Left, CONTROL)
    press(view, Qt.Key.Key_Right, CONTROL)
    assert steps == [("r", -1), ("r", 1)]


# --- the card -----------------------------------------------------------------------------------


@pytest.fixture
def words() -> Pieces:
    pieces = [f" w{number}".encode() for number in range(200)]
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    offsets = Array("u4", [201], b"".join(end.to_bytes(4, "little") for end in ends))
    return Pieces(VocabularyTable(offsets, b"".join(pieces), Array("i4", [200], bytes(800))))


def move(view: TranscriptView, point: QPointF) -> None:
    event = QMouseEvent(
        QMouseEvent.Type.MouseMove,
        point,
        QPointF(view.viewport().mapToGlobal(point.toPoint())),
        Qt.MouseButton.NoButton,
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(view.viewport(), event)


def test_pointing_at_a_token_opens_its_card_and_leaving_closes_it(
    view: TranscriptView, tokens: TokenMode, words: Pieces, qtbot
) -> None:
    tokens.words_of = lambda _message: words
    move(view, in_view(view, 1, 3))
    card = tokens.card()
    qtbot.waitUntil(card.isVisible)
    assert card.piece.text() == "·Par"
    assert card.figures.text() == "ID 103 · 50.0% · rank 1 · entropy 4.00 bits"
    assert card.bytes.text() == "bytes 20 50 61 72"
    token = in_view(view, 1, 3).toPoint()
    assert not card.geometry().contains(view.viewport().mapTo(view.window(), token))
    assert view.window().rect().contains(card.geometry())
    QCursor.setPos(view.viewport().mapToGlobal(QPoint(2, 2)))  # it may be where the card is
    move(view, QPointF(2, 2))
    qtbot.waitUntil(lambda: not card.isVisible())


def test_the_card_is_reached_and_left_by_keyboard_and_branches(
    view: TranscriptView, tokens: TokenMode, words: Pieces, qtbot
) -> None:
    tokens.words_of = lambda _message: words
    tokens.may_branch = lambda _message: True
    press(view, Qt.Key.Key_End, CONTROL)
    card = tokens.card()
    assert card.isVisible()
    (link,) = card.links()  # the drawn one is none
    assert link.accessibleName() == "Branch here with ·w7"
    press(view, Qt.Key.Key_Tab)
    assert link.hasFocus()
    QTest.keyClick(link, Qt.Key.Key_Tab)
    assert view.hasFocus()
    assert card.isVisible()
    press(view, Qt.Key.Key_Tab)
    with qtbot.waitSignal(tokens.branch_requested) as asked:
        QTest.keyClick(link, Qt.Key.Key_Space)
    assert asked.args == ["r", len(WORDS) - 1, 7]
    assert not card.isVisible()
    assert view.hasFocus()


@pytest.mark.parametrize("share", [1.0, 0.123, 0.00099e-2, 0.00012e-2, 5e-7, 0.0])
def test_probabilities_in_the_card_are_whole(tokens: TokenMode, share: float) -> None:
    row = tokens.card().rows[1]
    row.show(Alternative(7, "·w7", share, is_drawn=False, may_branch=True))
    assert row.percent.sizeHint().width() <= row.percent.width(), row.percent.text()


def test_escape_closes_the_card_first(view: TranscriptView, tokens: TokenMode) -> None:
    press(view, Qt.Key.Key_Home, CONTROL)
    assert tokens.card().isVisible()
    press(view, Qt.Key.Key_Escape)
    assert not tokens.card().isVisible()


def test_the_card_goes_when_its_token_scrolls_away(view: TranscriptView, tokens: TokenMode) -> None:
    many = [replace(REPLY, id=f"r{i}") for i in range(30)]
    view.set_conversation(many)
    view.verticalScrollBar().setValue(0)
    press(view, Qt.Key.Key_Home, CONTROL)
    assert tokens.card().isVisible()
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum())
    assert not tokens.card().isVisible()


# --- what works as ever -------------------------------------------------------------------------


def test_copying_gives_the_text_of_the_tokens(view: TranscriptView, tokens: TokenMode) -> None:
    view.select_all()
    view.copy()
    copied = QGuiApplication.clipboard().text()
    assert copied.endswith(SOURCE)
    start, end = in_view(view, 1, 1).toPoint(), in_view(view, 1, 3).toPoint()
    QTest.mousePress(view.viewport(), LEFT, pos=start - QPoint(25, 0))
    move_held(view, end + QPoint(8, 0))
    QTest.mouseRelease(view.viewport(), LEFT, pos=end + QPoint(8, 0))
    assert view.selected_text() == " **capital** is Par"


def move_held(view: TranscriptView, point: QPoint) -> None:
    event = QMouseEvent(
        QMouseEvent.Type.MouseMove,
        QPointF(point),
        QPointF(view.viewport().mapToGlobal(point)),
        Qt.MouseButton.NoButton,
        LEFT,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(view.viewport(), event)


def test_find_looks_through_the_raw_text_and_marks_the_place(
    view: TranscriptView, tokens: TokenMode, qtbot
) -> None:
    finder = view.finder
    finder.search("**capital** is paris")
    qtbot.waitUntil(lambda: not finder.is_busy)
    assert finder.count == 1
    finder.search("city")
    qtbot.waitUntil(lambda: not finder.is_busy)
    assert finder.count == 2
    tokens.set_on(False)
    qtbot.waitUntil(lambda: not finder.is_busy)
    assert finder.count == 2
    finder.search("**capital**")
    qtbot.waitUntil(lambda: not finder.is_busy)
    assert finder.count == 0  # Markdown shows no stars


def test_a_widget_over_a_message_has_its_room(view: TranscriptView, tokens: TokenMode) -> None:
    height = view.rows.height(1)
    view.make_room("r", instead=300)
    assert view.rows.height(1) > 300
    view.make_room("r")
    assert view.rows.height(1) == height


@pytest.mark.parametrize(
    "share", [0.2, 0.9, *(pytest.param(share, marks=pytest.mark.soak) for share in (0.0, 0.5))]
)
def test_switching_keeps_what_is_read_in_view(view: TranscriptView, qtbot, share: float) -> None:
    """Numbered words say what stands at the upper edge."""
    words = [f"w{number}" for number in range(4000)]
    text = "".join(w + ("\n\n" if n % 50 == 49 else " ") for n, w in enumerate(words))
    pieces = [
        part.encode() for part in text.replace("\n\n", "\n\n\0").replace(" ", " \0").split("\0")
    ]
    long = replace(REPLY, content=text)
    before = [replace(QUESTION, id=f"q{i}") for i in range(5)]
    view.set_conversation([*before, long, replace(QUESTION, id="last", content="x\n" * 60)])
    view.tokens.wanted.connect(
        lambda messages: [
            view.tokens.show(m, MessageTokens(traces=trace_of(pieces)))
            for m in messages
            if m.id == "r"
        ]
    )
    bar = view.verticalScrollBar()
    wanted = view.rows.top(5) + share * view.rows.height(5)
    for _ in range(4):
        bar.setValue(round(wanted))
    read = number_at(view, qtbot)
    view.tokens.set_on(True)
    first = number_at(view, qtbot)
    assert abs(first - read) <= 60, (read, first)
    view.tokens.set_on(False)
    assert abs(number_at(view, qtbot) - read) <= 60


def number_at(view: TranscriptView, qtbot) -> int:
    """The number of the first word of the long message that is in view."""
    qtbot.waitUntil(lambda: not view.is_update_due)
    item = view.rows.item(5)
    top = max(-view.item_origin(5).y(), 0) + 30
    spot = item.spot_at(QPointF(2, top))
    segments = item.body(CONTENT).document.known_segments
    behind = "".join(s.text + "\n" for s in segments[spot[1] :])[spot[3] if spot[2] == 0 else 0 :]
    found = re.search(r"w(\d+)", behind)
    return int(found[1]) if found else -1


# --- growing ------------------------------------------------------------------------------------


def test_a_reply_grows_in_the_view_about_ten_times_a_second(
    view: TranscriptView, qtbot, monkeypatch
) -> None:
    growing = replace(REPLY, content="", state=MessageState.STREAMING)
    view.set_conversation([QUESTION, growing])
    table, traces = TraceTable(), trace_of([b" word"] * 300)
    view.tokens.set_on(True)
    view.tokens.show(growing, MessageTokens(traces=table))
    qtbot.waitUntil(lambda: not view.is_update_due)
    item, reads = view.rows.item(1), []
    read = item.read
    monkeypatch.setattr(item, "read", lambda: (reads.append(time.perf_counter()), read())[0])
    for at, token in enumerate(traces):
        table.append(token)
        view.append_text("r", " word")
        if at % 3 == 0:
            QTest.qWait(5)
    qtbot.waitUntil(lambda: view.rows.item(1).tokens.document.source == " word" * 300)
    assert len(reads) >= 3
    pauses = [later - earlier for earlier, later in pairwise(reads)]
    assert min(pauses) > 0.9 * FRAME_MS / 1000, pauses
    ended = replace(growing, content=" word" * 300, state=MessageState.COMPLETE)
    view.change_message(ended)
    assert view.rows.item(1).content.document.source == " word" * 300


def test_what_is_far_away_is_let_go_of(view: TranscriptView) -> None:
    size = KEPT_TOKENS // 4
    many = [replace(REPLY, id=f"r{i}", content="x\n" * 400) for i in range(8)]
    view.set_conversation(many)
    shown: list[str] = []

    def answer(messages: list[Message]) -> None:
        for message in messages:
            shown.append(message.id)
            view.tokens.show(message, MessageTokens(before=[b"word\n"] * size))

    view.tokens.wanted.connect(answer)
    view.tokens.set_on(True)
    for index in range(8):
        view.show_message(f"r{index}")
    kept = [i for i in range(8) if view.tokens.tokens_of(f"r{i}") is not None]
    assert 7 in kept
    assert len(kept) <= 5
    view.show_message("r0")  # and asked for again
    assert shown.count("r0") >= 2
    assert view.rows.item(0).tokens.tokens.tokens.are_tokens


def test_a_screen_reader_hears_messages_whole_and_tokens_one_by_one(
    view: TranscriptView, tokens: TokenMode
) -> None:
    listed = QAccessible.queryAccessibleInterface(view)
    item = listed.child(1)
    assert item.text(QAccessible.Text.Name) == f"Reply: {SOURCE}"
    press(view, Qt.Key.Key_End, CONTROL)
    press(view, Qt.Key.Key_Left)
    assert view.accessibleDescription() == (
        "·of. Token 9 of 10. ID 108 · 50.0% · rank 1 · entropy 2.00 bits"
    )
    assert item.state().focused


def test_of_a_token_that_was_taken_back_nothing_is_said(view: TranscriptView, qtbot) -> None:
    table = TraceTable(trace_of(WORDS))
    growing = replace(REPLY, state=MessageState.STREAMING)
    view.set_conversation([QUESTION, growing])
    view.setFocus(Qt.FocusReason.TabFocusReason)
    view.tokens.set_on(True)
    view.tokens.show(growing, MessageTokens(traces=table))
    last = in_view(view, 1, len(WORDS) - 1)
    view.tokens.hover(last)
    table.truncate(3)
    view.tokens._on_hovered()
    assert not view.tokens._is_card_open()
    view.tokens.select("r", len(WORDS) - 1)
    press(view, Qt.Key.Key_Left)
    assert cursor(view) is not None
    table.truncate(0)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Home, Qt.Key.Key_End):
        press(view, key)
    view.tokens.show_place("r", 7)
    view.tokens.show_place("gone", 0)
