"""The token view in the window: switched, remembered, and given what the desk knows of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from made_traces import trace_of
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QPushButton, QWidget
from recording_desk import FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import (
    ConversationOpened,
    EngineStateChanged,
    MessageChanged,
    TraceRead,
    VocabularyRead,
)
from app.engine.protocol.frames import Array
from app.engine.protocol.messages import Tokens, VocabularyTable
from app.engine.protocol.pieces import Pieces
from app.insight.trace.message_tokens import MessageTokens
from app.insight.trace.table import TraceTable
from models.records import Message, MessageState, Role
from ui.section.looking import Paint
from ui.shell.window import MainWindow
from ui.tokens.token_view_acts import KEPT_CUT, NOTHING_RECORDED, OTHER_WEIGHTS
from ui.transcript.tokens.document import LEVELS
from ui.transcript.tokens.mode import TokenMode

CONTROL = Qt.KeyboardModifier.ControlModifier
QUESTION = message(1, Role.USER, "Which city?")
REPLY = message(2, Role.ASSISTANT, "It is Paris", weights_hash="w1", token_ids=(1, 2, 3))
TRACES = trace_of([b"It", b" is", b" Paris"], [0.9, 0.99, 0.1])


@pytest.fixture
def words() -> Pieces:
    pieces = [f" w{number}".encode() for number in range(200)]
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    offsets = Array("u4", [201], b"".join(end.to_bytes(4, "little") for end in ends))
    return Pieces(VocabularyTable(offsets, b"".join(pieces), Array("i4", [200], bytes(800))))


@pytest.fixture
def answering(desk: FakeDesk, bridge: FakeBridge) -> FakeDesk:
    """A desk with weights, a question and a reply, which knows no trace until one is set."""
    desk.known_traces: dict[str, Any] = {}
    desk.known_words: dict[str, Pieces] = {}
    desk.growing.trace_of = lambda message_id: desk.known_traces.get(message_id)
    desk.words.of = lambda known: desk.known_words.get(known or "")
    desk.loader.state = EngineStateChanged("ready", "SmolLM2", loaded(fast_hash="w1"))
    desk.shelf.path = (QUESTION, REPLY)
    desk.shelf.open = conversation(1, "Paris")
    return desk


@pytest.fixture
def window(open_window: Callable[..., MainWindow], answering: FakeDesk) -> MainWindow:
    return open_window()


@pytest.fixture
def mode(window: MainWindow) -> TokenMode:
    return window.chat.transcript.tokens


def answer_cuts(desk: FakeDesk) -> None:
    """The engine cuts at spaces."""
    for text, then, _failed, _still in desk.called("questions.tokenize"):
        cut = text.replace(" ", "\0 ").split("\0")
        then(Tokens(list(range(len(cut))), [piece.encode() for piece in cut]))
    desk.calls = [call for call in desk.calls if call[0] != "questions.tokenize"]


def spelled(window: MainWindow, index: int) -> list[str]:
    body = window.chat.transcript.rows.item(index).tokens
    assert body is not None
    body.ensure(0, 1e6)
    return [one.shown for one in body.tokens.groups.spellings]


def test_key_and_button_switch_it_and_the_setting_remembers(
    window: MainWindow, desk: FakeDesk, mode: TokenMode, bridge: FakeBridge
) -> None:
    button = window.findChild(QPushButton, "token_view_toggle")
    assert button is not None
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    assert mode.is_on
    assert desk.settings.now.token_view
    assert button.isChecked()
    assert window.findChild(QWidget, "token_bar").isVisible()
    button.click()
    assert not mode.is_on
    assert not desk.settings.now.token_view
    assert not button.isChecked()
    assert not window.findChild(QWidget, "token_bar").isVisible()
    assert "toggle_token_view" in window.action_registry
    assert window.action_registry.collisions == []


def test_what_arrows_do_can_be_found_by_name_too(
    window: MainWindow, bridge: FakeBridge, mode: TokenMode, desk: FakeDesk
) -> None:
    registry = window.action_registry
    registry.run("token_next")
    assert not mode.is_on
    shown_trace(window, bridge)
    for name in ("token_next", "token_next", "token_below", "token_choose"):
        registry.run(name)
    bridge.emit_event(TraceRead("m2", TRACES))
    assert window.section_acts.looking().index is not None
    assert {registry[name].place for name in ("token_next", "token_choose")} == {
        "In the token view"
    }


def test_what_was_on_is_on_again(
    open_window: Callable[..., MainWindow], answering: FakeDesk
) -> None:
    answering.settings.now = replace(answering.settings.now, token_view=True, token_tint="entropy")
    window = open_window()
    assert window.chat.transcript.tokens.is_on
    picker = window.findChild(QComboBox, "token_tint_picker")
    assert picker.currentText() == "Entropy before samplers"


def test_a_reply_has_its_tokens_from_the_trace(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    assert desk.called("growing.read_trace") == [("m2",)] * len(desk.called("growing.read_trace"))
    assert desk.called("growing.read_trace")
    bridge.emit_event(TraceRead("m2", TRACES))
    assert spelled(window, 1) == ["It", "·is", "·Paris"]
    tokens = mode.tokens_of("m2")
    assert tokens is not None
    assert [tokens.place_of(at) for at in range(3)] == [0, 1, 2]


def test_a_question_is_cut_by_the_loaded_vocabulary_once(
    window: MainWindow, desk: FakeDesk, mode: TokenMode
) -> None:
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    assert [call[0] for call in desk.called("questions.tokenize")] == ["Which city?"]
    answer_cuts(desk)
    assert spelled(window, 0) == ["Which", "·city?"]
    tokens = mode.tokens_of("m1")
    assert tokens is not None
    assert tokens.are_tokens
    assert tokens.place_of(0) is None
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    assert desk.called("questions.tokenize") == []  # it is known
    assert spelled(window, 0) == ["Which", "·city?"]


def test_a_text_that_cannot_be_cut_stays_a_text(
    window: MainWindow, desk: FakeDesk, mode: TokenMode
) -> None:
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    ((_text, _then, failed, _still),) = desk.called("questions.tokenize")
    failed("The engine ended.")
    tokens = mode.tokens_of("m1")
    assert tokens is not None
    assert not tokens.are_tokens
    assert tokens.hint == "The engine ended."


def test_without_a_trace_the_ids_say_the_pieces_and_a_sentence_says_so(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode, words: Pieces
) -> None:
    desk.known_words["w1"] = words  # type: ignore[attr-defined]
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    bridge.emit_event(TraceRead("m2", (), "Nothing was recorded."))
    assert spelled(window, 1) == ["·w1", "·w2", "·w3"]
    tokens = mode.tokens_of("m2")
    assert tokens is not None
    assert tokens.note == NOTHING_RECORDED
    assert window.chat.transcript.rows.item(1).note == NOTHING_RECORDED


def test_ids_of_other_weights_stay_a_text_until_those_are_loaded(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode, words: Pieces
) -> None:
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    bridge.emit_event(TraceRead("m2", (), "Nothing was recorded."))
    assert window.chat.transcript.rows.item(1).note == OTHER_WEIGHTS
    assert "".join(spelled(window, 1)) == "It·is·Paris"
    desk.known_words["w1"] = words  # type: ignore[attr-defined]
    bridge.emit_event(VocabularyRead("w1"))
    bridge.emit_event(TraceRead("m2", (), "Nothing was recorded."))
    assert spelled(window, 1) == ["·w1", "·w2", "·w3"]


def test_without_weights_a_sentence_says_what_to_do(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    desk.loader.state = EngineStateChanged("stopped")
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    sentence = window.findChild(QWidget, "token_view_sentence")
    assert sentence.isVisible()
    assert "Load a model" in sentence.text()  # type: ignore[attr-defined]
    assert desk.called("questions.tokenize") == []
    assert "".join(spelled(window, 0)) == "Which·city?"
    desk.loader.state = EngineStateChanged("ready", "SmolLM2", loaded(fast_hash="w1"))
    bridge.emit_event(desk.loader.state)
    answer_cuts(desk)
    bridge.emit_event(TraceRead("m2", TRACES))
    assert not sentence.isVisible()
    assert spelled(window, 0) == ["Which", "·city?"]


def test_few_traces_are_read_at_once(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    many = tuple(
        replace(REPLY, id=f"r{number}", content="Short", parent_id=None) for number in range(40)
    )
    desk.shelf.path = many
    bridge.emit_event(ConversationOpened(conversation(2, "Many"), many))
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    asked = [
        call[0] for call in desk.called("growing.read_trace") if call[0] in {m.id for m in many}
    ]
    assert len(set(asked)) <= 4  # and one for what is looked at
    first = asked[-1]
    bridge.emit_event(TraceRead(first, TRACES))
    assert len(desk.called("growing.read_trace")) > len(asked)


def test_traces_of_a_chat_that_was_left_make_way(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    """Three that are on their way when the chat changes leave none of the new one unread."""

    def several(name: str) -> tuple[Message, ...]:
        return tuple(replace(REPLY, id=f"{name}{n}", content="A", parent_id=None) for n in range(6))

    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    for name in ("old", "new"):
        desk.shelf.path = several(name)
        opened = ConversationOpened(conversation(name == "new", name), desk.shelf.path)
        bridge.emit_event(opened)
        window.chat.transcript.settle()
    # The panels ask for the last reply by themselves; that one comes late.
    answered: set[str] = set()
    while waiting := [
        c[0] for c in desk.called("growing.read_trace") if c[0] not in answered | {"new5"}
    ]:
        answered.add(waiting[0])
        bridge.emit_event(TraceRead(waiting[0], TRACES))
    shown = {message.id for message in mode.messages_in_view()}
    assert len(shown) > 3
    assert shown - {"new5"} <= answered


def test_a_reply_grows_in_the_view_and_keeps_its_trace(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode, qtbot: Any
) -> None:
    table = TraceTable(TRACES[:1])
    growing = replace(REPLY, content="It", state=MessageState.STREAMING, token_ids=None)
    desk.known_traces["m2"] = table  # type: ignore[attr-defined]
    desk.shelf.path = (QUESTION, growing)
    bridge.emit_event(ConversationOpened(conversation(1, "Paris"), desk.shelf.path))
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    assert spelled(window, 1) == ["It"]
    for token in TRACES[1:]:
        table.append(token)
    window.chat.transcript.append_text("m2", " is Paris")
    qtbot.waitUntil(lambda: spelled(window, 1) == ["It", "·is", "·Paris"])
    del desk.known_traces["m2"]  # type: ignore[attr-defined]
    asked = len(desk.called("growing.read_trace"))
    bridge.emit_event(MessageChanged(REPLY))
    qtbot.waitUntil(lambda: not window.chat.transcript.is_update_due)
    assert spelled(window, 1) == ["It", "·is", "·Paris"]
    assert mode.tokens_of("m2").traces is table  # type: ignore[union-attr]
    assert len(desk.called("growing.read_trace")) == asked


def shown_trace(window: MainWindow, bridge: FakeBridge) -> None:
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    bridge.emit_event(TraceRead("m2", TRACES))


def test_the_chosen_token_is_the_one_that_all_panels_look_at(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    shown_trace(window, bridge)
    looking = window.section_acts.looking()
    mode.chosen.emit("m2", 2)
    bridge.emit_event(TraceRead("m2", TRACES))  # what the panels asked for
    assert (looking.message.id, looking.index) == ("m2", 2)  # type: ignore[union-attr]
    body = window.chat.transcript.rows.item(1).tokens
    assert body.tokens.chosen == 2  # type: ignore[union-attr]
    looking.select(0)
    assert body.tokens.chosen == 0  # type: ignore[union-attr]
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    looking.select(1)
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    bridge.emit_event(TraceRead("m2", TRACES))
    assert window.chat.transcript.rows.item(1).tokens.tokens.chosen == 1  # type: ignore[union-attr]


def test_the_way_to_the_most_uncertain_token(
    window: MainWindow, bridge: FakeBridge, mode: TokenMode
) -> None:
    shown_trace(window, bridge)
    QTest.keyClick(window, Qt.Key.Key_U, CONTROL)
    bridge.emit_event(TraceRead("m2", TRACES))
    assert window.section_acts.looking().index == 2  # of the largest entropy
    assert window.chat.transcript.rows.item(1).tokens.tokens.chosen == 2  # type: ignore[union-attr]


def test_the_tokens_go_to_the_clipboard_as_a_picture(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    shown_trace(window, bridge)
    window.findChild(QPushButton, "token_view_picture_button").click()
    image = QGuiApplication.clipboard().image()
    body = window.chat.transcript.rows.item(1).tokens
    assert body is not None
    assert image.width() == 2 * (round(body.width) + 2 * 24)
    assert image.height() > 2 * body.height
    colors = {image.pixelColor(x, y).name() for x in range(0, image.width(), 3)
              for y in range(0, image.height(), 3)}  # fmt: skip
    from ui.look.tints import tint_colors

    tints = tint_colors(window.chat.transcript.theme.colors)
    assert {tints[0].name(), tints[-2].name()} <= colors


def test_a_branch_is_the_desk_s_business(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    shown_trace(window, bridge)
    mode.branch_requested.emit("m2", 1, 77)
    assert desk.called("branches.at") == [("m2", 1, 77)]


def test_the_tint_is_remembered_and_shown(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    shown_trace(window, bridge)
    picker = window.findChild(QComboBox, "token_tint_picker")
    picker.activated.emit(picker.findData("time"))
    assert desk.settings.now.token_tint == "time"
    assert mode.tint == "time"
    body = window.chat.transcript.rows.item(1).tokens
    assert body.tokens.tint == "time"  # type: ignore[union-attr]
    assert window.token_view_acts.bar().legend.ends[1] == "3 × median (63 ms) or more"


def test_the_header_keeps_its_room_in_a_narrow_window(
    window: MainWindow, answering: FakeDesk, bridge: FakeBridge
) -> None:
    bridge.emit_event(answering.loader.state)
    header = window.chat.header
    for width in (480, 640, 900):
        window.resize(width, 500)
        QApplication.processEvents()
        assert header.tokens_button.geometry().right() <= header.width(), width
        assert header.weights_button.width() > 40
        assert header.title.width() > 30


def test_a_message_with_nothing_in_it_is_no_trouble(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode
) -> None:
    empty: tuple[Message, ...] = (
        replace(QUESTION, content=""),
        replace(REPLY, content="", token_ids=None, state=MessageState.FAILED, error="It failed."),
    )
    desk.shelf.path = empty
    bridge.emit_event(ConversationOpened(conversation(1, "Paris"), empty))
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    bridge.emit_event(TraceRead("m2", (), "Nothing was recorded."))
    window.chat.transcript.viewport().repaint()
    QTest.keyClick(window.chat.transcript, Qt.Key.Key_Right)
    assert mode.is_on


def test_what_is_kept_of_long_messages_is_bounded(window: MainWindow, mode: TokenMode) -> None:
    """Somebody scrolls through a chat of many pasted texts."""
    acts = window.token_view_acts
    long = Tokens(list(range(KEPT_CUT // 4)), [b" word"] * (KEPT_CUT // 4))
    for number in range(40):
        acts._on_cut(QUESTION, ("w1", f"text {number}"), long)
    assert [text for _, text in acts._cut] == [f"text {number}" for number in range(36, 40)]
    acts._on_cut(QUESTION, ("w1", "one"), Tokens(list(range(2 * KEPT_CUT)), [b"x"] * 2 * KEPT_CUT))
    assert [text for _, text in acts._cut] == ["one"]


def test_a_panel_can_paint_what_is_in_view_and_what_comes_into_view(
    window: MainWindow, desk: FakeDesk, bridge: FakeBridge, mode: TokenMode, words: Pieces
) -> None:
    desk.known_words["w1"] = words
    desk.known_traces[REPLY.id] = trace_of([b" w1", b" w2"])
    looking = window.section_acts.looking()
    asked: list[str] = []

    def of(message_id: str, tokens: MessageTokens) -> list[float]:
        asked.append(message_id)
        return [1.0] * len(tokens)

    looking.set_paint(Paint("Attention of “ is”", of))
    QTest.keyClick(window, Qt.Key.Key_T, CONTROL)
    answer_cuts(desk)
    document = mode.document_of(REPLY)
    document.take_changes()
    assert {document.level(group) for group in range(len(document.groups))} == {LEVELS - 1}
    assert REPLY.id in asked
    bar = window.token_view_acts.bar()
    assert bar.ends()[0] == "Attention of “ is”: little"
    looking.set_paint(None)
    assert bar.picker.isEnabled()
    assert {document.level(group) for group in range(len(document.groups))} != {LEVELS - 1}
