"""What counts as tried: what somebody did, in what is open, and nothing that happens by itself.

That each act is heard of from its own widget is shown by real keys and clicks in
`tests/scenarios/test_tour_walk.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from made_traces import trace_of
from PySide6.QtWidgets import QAbstractButton, QLineEdit, QPushButton, QSlider, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, message

from app.chat.events import (
    AnswersBegan,
    ConversationOpened,
    MessageChanged,
    PathChanged,
    SettingsChanged,
    TokenHeld,
    TraceRead,
)
from app.chat.replies.again import AGAIN
from app.chat.tour.chapters import chapters
from models.records import Message, MessageState, Role
from ui.section.looking import Looking
from ui.tour.acts import ACTS, Acts

PIECES = [b" Paris", b",", b" of"]


class Listener:
    def __init__(self, window: QWidget, looking: Looking, desk: FakeDesk, bridge: FakeBridge):
        self.desk, self.bridge, self.looking = desk, bridge, looking
        self.done: list[str] = []
        self.acts = Acts(window, looking, desk, bridge)  # type: ignore[arg-type]
        self.acts.done.connect(self.done.append)

    def open(self, *path: Message) -> None:
        self.desk.shelf.open = conversation(1, "Chat")
        self.desk.shelf.path = path
        self.bridge.emit_event(ConversationOpened(self.desk.shelf.open, path))
        self.bridge.emit_event(TraceRead(path[-1].id, tuple(trace_of(PIECES))))


def reply(number: int = 2, **fields: object) -> Message:
    return message(number, Role.ASSISTANT, "Paris, of", **fields)


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def listener(window: QWidget, desk: FakeDesk, bridge: FakeBridge) -> Listener:
    desk.growing.trace_of = lambda _id: None
    desk.words.of = lambda _hash: None
    looking = Looking(desk, bridge)  # type: ignore[arg-type]
    looking.set_awake(True)
    made = Listener(window, looking, desk, bridge)
    made.open(message(1, Role.USER, "Where?"), reply())
    return made


def test_every_act_of_the_texts_can_be_recognised(listener: Listener) -> None:
    asked = {step.act for chapter in chapters() for step in chapter.steps}
    asked |= {step.in_text().act for chapter in chapters() for step in chapter.steps}
    assert asked == set(ACTS)
    for act in ACTS:
        listener.acts.hear(act)
    listener.acts.hear("")
    assert listener.done == []


# --- the token -----------------------------------------------------------------------------------


def test_another_token_is_chosen(listener: Listener) -> None:
    listener.looking.select(0)
    listener.acts.hear("token_chosen")
    listener.looking.select(0)
    assert listener.done == []
    listener.looking.select(2)
    assert listener.done == ["token_chosen"]


def test_a_token_of_the_prompt_counts(listener: Listener) -> None:
    listener.looking.select(0)
    listener.acts.hear("token_chosen")
    listener.looking.select_aside("·is · token 5 of the prompt")
    assert listener.done == ["token_chosen"]


def test_where_none_was_chosen_the_first_choice_counts(listener: Listener) -> None:
    listener.acts.hear("token_chosen")
    listener.looking.select(1)
    assert listener.done == ["token_chosen"]


def test_no_token_is_none(listener: Listener) -> None:
    listener.looking.select(0)
    listener.acts.hear("token_chosen")
    listener.looking.select(None)
    assert listener.done == []


def test_another_reply_brings_its_own_token(listener: Listener) -> None:
    listener.looking.select(0)
    listener.acts.hear("token_chosen")
    listener.open(message(1, Role.USER, "Where?"), reply(4))
    assert listener.done == []


def test_a_branch_shows_the_token_at_which_it_begins(listener: Listener) -> None:
    listener.looking.select(0)
    listener.acts.hear("token_chosen")
    branch = reply(
        3,
        state=MessageState.STREAMING,
        settings={"given": {"tokens": 1, "traced": 1, "chosen": [7]}},
    )
    listener.desk.shelf.path = (message(1, Role.USER, "Where?"), branch)
    listener.bridge.emit_event(PathChanged("c1", listener.desk.shelf.path))
    listener.bridge.emit_event(TraceRead("m3", tuple(trace_of(PIECES))))
    listener.bridge.emit_event(MessageChanged(replace(branch, state=MessageState.COMPLETE)))
    listener.bridge.emit_event(TraceRead("m3", tuple(trace_of(PIECES))))
    assert listener.looking.index == 1
    assert listener.done == []
    listener.looking.select(2)
    assert listener.done == ["token_chosen"]


def test_what_is_no_longer_asked_for_is_not_told(listener: Listener) -> None:
    listener.acts.hear("token_chosen")
    listener.acts.hear("head_chosen")
    listener.looking.select(1)
    listener.acts.hear("")
    listener.looking.select(2)
    assert listener.done == []


# --- widgets -------------------------------------------------------------------------------------


def named(widget: QWidget, name: str) -> QWidget:
    widget.setObjectName(name)
    return widget


def test_merges_are_replayed_by_the_slider(listener: Listener, window: QWidget) -> None:
    slider = QSlider(window)
    slider.setObjectName("merge_slider")
    slider.setMaximum(9)
    listener.acts.hear("merges_replayed")
    slider.setValue(3)
    assert listener.done == ["merges_replayed"]


def test_a_sum_is_asked_by_the_example_or_by_a_word(
    listener: Listener, window: QWidget, qtbot: QtBot
) -> None:
    button = named(QPushButton("Example", window), "inside_nearest_example")
    minus = named(QLineEdit(window), "inside_nearest_b")
    assert isinstance(button, QAbstractButton)
    assert isinstance(minus, QLineEdit)
    listener.acts.hear("sum_asked")
    minus.setText("man")  # by the card
    assert listener.done == []
    qtbot.keyClicks(minus, "x")
    button.click()
    assert listener.done == ["sum_asked"] * 2


def test_a_switch_that_is_on_already_counts(listener: Listener, window: QWidget) -> None:
    switch = QPushButton(window)
    switch.setObjectName("inside_attention_sink")
    switch.setCheckable(True)
    listener.acts.hear("sink_hidden")
    switch.setChecked(True)
    switch.setChecked(False)
    assert listener.done == ["sink_hidden"]
    switch.setChecked(True)
    listener.done.clear()
    listener.acts.hear("sink_hidden")
    assert listener.done == ["sink_hidden"]


def test_a_widget_that_is_gone_is_no_trouble(listener: Listener, window: QWidget) -> None:
    slider = QSlider(window)
    slider.setObjectName("merge_slider")
    listener.acts.hear("merges_replayed")
    slider.setParent(None)
    del slider
    listener.acts.hear("merges_replayed")
    listener.acts.hear("")
    assert listener.done == []


# --- what the desk tells -------------------------------------------------------------------------

Tell = Callable[[str], object]
TOKEN = trace_of(PIECES)[0]
OF_THE_DESK: dict[str, Tell] = {
    "token_held": lambda chat: TokenHeld(chat, "m2", TOKEN),
    "several_begun": lambda chat: AnswersBegan(chat, "m1", (reply(),)),
    "text_rewritten": lambda chat: PathChanged(
        chat,
        (reply(3, sibling_index=1, state=MessageState.STREAMING, settings={"place": [0, 0]}),),
    ),
    "reply_rerun": lambda chat: MessageChanged(
        replace(reply(3), conversation_id=chat, settings={AGAIN: {"of": "m2"}})
    ),
}


@pytest.mark.parametrize("act", OF_THE_DESK)
def test_what_is_told_of_the_open_chat_counts(listener: Listener, act: str) -> None:
    for other in OF_THE_DESK:
        listener.acts.hear(other)
        if other != act:
            listener.bridge.emit_event(OF_THE_DESK[act]("c1"))  # type: ignore[arg-type]
    listener.acts.hear(act)
    listener.bridge.emit_event(OF_THE_DESK[act]("c2"))  # type: ignore[arg-type]
    assert listener.done == []
    listener.bridge.emit_event(OF_THE_DESK[act]("c1"))  # type: ignore[arg-type]
    assert listener.done == [act]


@pytest.mark.parametrize(
    "last",
    [
        message(1, Role.USER, "Where?"),
        reply(settings={"place": [0, 0]}, state=MessageState.STREAMING),  # the first continuation
        reply(sibling_index=1, state=MessageState.STREAMING),  # a chat's
        reply(sibling_index=1, settings={"place": [0, 0]}),  # one that is shown again
    ],
)
def test_a_text_is_written_anew_by_another_version_of_its_continuation(
    listener: Listener, last: Message
) -> None:
    listener.acts.hear("text_rewritten")
    listener.bridge.emit_event(PathChanged("c1", (last,)))
    listener.bridge.emit_event(PathChanged("c1", ()))
    assert listener.done == []


def test_a_reply_that_ends_repeats_none(listener: Listener) -> None:
    listener.acts.hear("reply_rerun")
    listener.bridge.emit_event(MessageChanged(reply(settings={})))
    assert listener.done == []


def test_the_token_view_is_switched_on(listener: Listener) -> None:
    listener.acts.hear("token_view_on")
    listener.bridge.emit_event(SettingsChanged(frozenset({"token_view"})))
    assert listener.done == []
    listener.desk.settings.set("token_view", True)
    assert listener.done == ["token_view_on"]
    listener.desk.settings.set("zoom_percent", 120)
    assert listener.done == ["token_view_on"]
    listener.acts.hear("token_view_on")
    assert listener.done == ["token_view_on"] * 2, "it is on already"
