"""What is looked at: which reply, which token, and what is read for it, when."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from made_traces import trace_of
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import (
    ConversationOpened,
    EngineStateChanged,
    MessageAdded,
    MessageChanged,
    PathChanged,
    TokenRecorded,
    TokensTakenBack,
    TraceRead,
    VocabularyRead,
)
from app.chat.replies.cut_versions import CUTS, CutVersion, as_recorded
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.messages import TokenTrace
from app.insight.trace.table import TraceTable
from models.records import Message, MessageCounts, MessageState, Role
from ui.section.looking import (
    NO_REPLY,
    NO_TOKEN_YET,
    NO_TOKENS,
    NOT_A_REPLY,
    READING,
    Looking,
)

Ask = Callable[..., tuple[Message, ...]]
PIECES = (b"Par", b"is", b".")


def open_chat(desk: FakeDesk, bridge: FakeBridge, messages: tuple[Message, ...]) -> None:
    desk.shelf.path = messages
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), messages))


def test_nothing_is_read_before_somebody_looks(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    assert (looking.message, looking.sentence) == (None, NO_REPLY)
    open_chat(desk, bridge, ask())
    assert looking.message == desk.shelf.path[1]
    assert not desk.calls
    looking.set_awake(True)
    assert desk.called("growing.read_trace") == [("m2",)]
    assert desk.called("words.read") == [()]
    assert looking.sentence == READING


def test_a_stored_trace_arrives(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask, qtbot: QtBot
) -> None:
    open_chat(desk, bridge, ask())
    looking.set_awake(True)
    bridge.emit_event(TraceRead("another", trace_of(PIECES)))
    assert not looking.traces
    with qtbot.waitSignal(looking.trace_changed):
        bridge.emit_event(TraceRead("m2", trace_of(PIECES)))
    assert [token.piece for token in looking.traces] == list(PIECES)
    assert looking.sentence == ""


def test_how_many_tokens_there_are_is_known_of_the_weights_that_wrote_it(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    assert looking.n_vocab is None
    open_chat(desk, bridge, ask())
    for fast_hash, n_vocab in (("w1", 1000), ("w2", None), ("", None)):
        desk.loader.state = EngineStateChanged(
            "ready", loaded=loaded(n_vocab=1000, fast_hash=fast_hash)
        )
        assert looking.n_vocab == n_vocab
    desk.words.of = lambda _hash: range(7)
    assert looking.n_vocab == 7, "its words are kept when the weights go"


def test_what_could_not_be_read_is_said(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    open_chat(desk, bridge, ask())
    looking.set_awake(True)
    bridge.emit_event(TraceRead("m2", (), "Nothing was recorded."))
    assert (looking.traces, looking.sentence) == ((), "Nothing was recorded.")


def test_a_token_is_chosen_by_its_place_and_by_steps(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    open_chat(desk, bridge, ask())
    looking.set_awake(True)
    looking.step(1)
    assert looking.index is None, "there is nothing to step through yet"
    bridge.emit_event(TraceRead("m2", trace_of(PIECES)))
    changes: list[int | None] = []
    looking.token_changed.connect(lambda: changes.append(looking.index))
    looking.step(1)
    looking.step(1)
    looking.step(5)
    looking.step(1)
    looking.step(-9)
    looking.select(99)
    looking.step(-1)
    assert changes == [0, 1, 2, 0, None, 0]
    assert looking.token == looking.traces[0]
    looking.go_to_most_uncertain()
    assert looking.index == 2


def test_to_the_most_uncertain_token_no_token_of_a_growing_reply_is_made(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 64 candidates each that takes a tenth of a second at 16,384 tokens."""
    table, made = TraceTable(trace_of(PIECES)), list[int]()
    open_chat(desk, bridge, ask(state=MessageState.STREAMING))
    desk.growing.trace_of = lambda _id: table
    looking.set_awake(True)
    make = TraceTable._token
    monkeypatch.setattr(TraceTable, "_token", lambda t, at: (made.append(at), make(t, at))[1])
    looking.go_to_most_uncertain()
    assert (looking.index, made) == (2, [])


def test_a_token_that_is_chosen_before_the_trace_is_here_is_chosen_then(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    open_chat(desk, bridge, ask())
    looking.set_awake(True)
    looking.look_at("m2", 1)
    assert looking.index is None
    bridge.emit_event(TraceRead("m2", trace_of(PIECES)))
    assert looking.index == 1
    looking.look_at("m2", 2)
    assert looking.index == 2


def test_a_message_without_drawn_tokens_says_so(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    open_chat(desk, bridge, ask())
    looking.set_awake(True)
    looking.look_at("m1")
    assert (looking.message, looking.sentence) == (desk.shelf.path[0], NOT_A_REPLY)
    looking.look_at("gone")
    assert looking.message == desk.shelf.path[0]


def growing(desk: FakeDesk, bridge: FakeBridge, looking: Looking, ask: Ask) -> TraceTable:
    """A reply begins while the section is open."""
    table = TraceTable()
    messages = ask(state=MessageState.STREAMING)
    open_chat(desk, bridge, messages[:1])
    looking.set_awake(True)
    desk.shelf.path = messages
    desk.growing.trace_of = lambda message_id: table if message_id == "m2" else None
    bridge.emit_event(MessageAdded(messages[1]))
    return table


def arrive(bridge: FakeBridge, table: TraceTable, token: TokenTrace) -> None:
    table.append(token)
    bridge.emit_event(TokenRecorded("c1", "m2", token, 10))


def test_the_newest_reply_is_followed_as_it_grows_and_said_at_most_ten_times_a_second(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask, qtbot: QtBot
) -> None:
    table = growing(desk, bridge, looking, ask)
    assert looking.is_growing
    assert looking.traces is table
    said: list[int] = []
    looking.trace_changed.connect(lambda: said.append(len(looking.traces)))
    for token in trace_of([b"x"] * 50):
        arrive(bridge, table, token)
    assert not said
    qtbot.waitUntil(lambda: bool(said))
    assert said == [50]
    ended = dataclasses.replace(desk.shelf.path[1], state=MessageState.COMPLETE)
    bridge.emit_event(MessageChanged(ended))
    assert (looking.is_growing, len(looking.traces)) == (False, 50)
    assert looking.message == ended


def test_the_token_that_was_chosen_to_branch_is_looked_at_when_it_is_there(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    """Also of an old reply, which was looked at instead of the newest; elsewhere nothing is."""
    tokens = trace_of((b"Par", b"is", b"."))
    for given, index in (
        ({"tokens": 1, "traced": 1, "chosen": [7]}, 1),
        ({"tokens": 0, "traced": 0, "chosen": [7]}, 0),
        ({"tokens": 2}, None),
        (None, None),
    ):
        table = TraceTable(tokens[:index] if index else [])
        open_chat(desk, bridge, ask())
        looking.set_awake(True)
        bridge.emit_event(TraceRead("m2", tokens))
        looking.select(2)
        new = message(
            3, Role.ASSISTANT, "", state=MessageState.STREAMING, settings={"given": given}
        )
        desk.growing.trace_of = {"m3": table}.get
        desk.shelf.path = (desk.shelf.path[0], dataclasses.replace(new, parent_id="m1"))
        bridge.emit_event(PathChanged("c1", desk.shelf.path))
        assert (looking.message, looking.index) == (desk.shelf.path[1], None)
        shown: list[int] = []
        looking.token_changed.connect(lambda shown=shown: shown.append(len(looking.traces)))
        for token in tokens[len(table) :]:
            table.append(token)
            bridge.emit_event(TokenRecorded("c1", "m3", token, 10))
        assert looking.index == index
        assert shown == ([] if index is None else [index + 1]), "at once, and once"
    looking.select(None)
    arrive(bridge, table, tokens[0])
    assert looking.index is None


def test_where_there_is_no_token_nobody_is_told_to_choose_one(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    """While the prompt is read, of a reply that ended before its first token, and of an old one."""
    table = growing(desk, bridge, looking, ask)
    assert looking.sentence == NO_TOKEN_YET
    (token,) = trace_of([b"x"])
    arrive(bridge, table, token)
    assert looking.sentence == ""
    table.truncate(0)
    ended = dataclasses.replace(desk.shelf.path[1], state=MessageState.COMPLETE)
    bridge.emit_event(MessageChanged(ended))
    assert looking.sentence == NO_TOKENS
    desk.growing.trace_of = lambda _message_id: None
    for content, generated, sentence in (
        ("Paris", 0, NO_TOKENS),
        ("", None, NO_TOKENS),
        ("Paris", None, "It was not recorded."),
        ("Paris", 3, "It was not recorded."),
    ):
        old = dataclasses.replace(ended, content=content, counts=MessageCounts(generated=generated))
        open_chat(desk, bridge, (desk.shelf.path[0], old))
        bridge.emit_event(TraceRead("m2", (), "It was not recorded."))
        assert looking.sentence == sentence


def test_of_versions_with_cuts_the_token_is_looked_at_from_which_on_they_are_cut(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    """While one grows, and where one takes the place of another; an opened chat has no choice."""

    def version(number: int, state: MessageState) -> Message:
        cut = as_recorded(CutVersion([Cut("ffn", 2)], index=1))
        made = message(number, Role.ASSISTANT, "Paris.", state=state, settings={CUTS: cut})
        return dataclasses.replace(made, parent_id="m1")

    tokens = trace_of(PIECES)
    looking.set_awake(True)
    growing = version(3, MessageState.STREAMING)
    desk.growing.trace_of = {"m3": TraceTable(tokens)}.get
    open_chat(desk, bridge, (*ask()[:1], growing))
    assert looking.index == 1
    stored = version(4, MessageState.COMPLETE)
    desk.shelf.path = (desk.shelf.path[0], stored)
    bridge.emit_event(PathChanged("c1", desk.shelf.path))
    bridge.emit_event(TraceRead("m4", tokens))
    assert (looking.message, looking.index) == (stored, 1)
    open_chat(desk, bridge, desk.shelf.path)
    bridge.emit_event(TraceRead("m4", tokens))
    assert looking.index is None


def test_tokens_that_are_taken_back_are_not_chosen_any_more(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    table = growing(desk, bridge, looking, ask)
    for token in trace_of(PIECES):
        arrive(bridge, table, token)
    looking.select(2)
    table.truncate(1)
    bridge.emit_event(TokensTakenBack("c1", "m2", 2))
    assert looking.index is None
    looking.select(0)
    bridge.emit_event(TokensTakenBack("c1", "m2", 0))
    assert looking.index == 0


def test_asleep_it_costs_nothing_and_awake_it_has_what_it_missed(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask, qtbot: QtBot
) -> None:
    table = growing(desk, bridge, looking, ask)
    looking.set_awake(False)
    said: list[int] = []
    looking.trace_changed.connect(lambda: said.append(len(looking.traces)))
    for token in trace_of(PIECES):
        arrive(bridge, table, token)
    qtbot.wait(150)
    assert not said
    looking.set_awake(True)
    assert len(looking.traces) == 3


def test_a_chosen_reply_stays_while_a_newer_one_grows_and_goes_with_its_branch(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask
) -> None:
    first = ask()
    later = (*first, message(3, Role.USER, "And?"), message(4, Role.ASSISTANT, "Lyon"))
    open_chat(desk, bridge, later)
    looking.set_awake(True)
    looking.look_at("m2")
    newer = message(6, Role.ASSISTANT, "", state=MessageState.STREAMING)
    desk.shelf.path = (*later, message(5, Role.USER, "And?"), newer)
    bridge.emit_event(MessageAdded(newer))
    assert looking.message == first[1]
    bridge.emit_event(PathChanged("c1", desk.shelf.path))
    assert looking.message == first[1]
    desk.shelf.path = later[:1]
    bridge.emit_event(PathChanged("c1", desk.shelf.path))
    assert looking.message is None
    desk.shelf.path = later
    bridge.emit_event(PathChanged("c1", desk.shelf.path))
    assert looking.message == later[-1], "and from there on the newest is followed"


def test_words_are_asked_for_again_when_other_weights_are_there(
    looking: Looking, desk: FakeDesk, bridge: FakeBridge, ask: Ask, qtbot: QtBot
) -> None:
    open_chat(desk, bridge, ask())
    bridge.emit_event(EngineStateChanged("ready"))
    assert not desk.called("words.read")
    looking.set_awake(True)
    bridge.emit_event(EngineStateChanged("ready"))
    assert len(desk.called("words.read")) == 2
    with qtbot.waitSignal(looking.words_changed):
        bridge.emit_event(VocabularyRead("w1"))
