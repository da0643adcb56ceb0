"""What is asked for which fact, and which answers count. Answers are given by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from made_embedding import EmbeddingByHand
from made_inside import PROMPT, AnsweredByHand
from made_traces import trace_of
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, loaded, message

from app.chat.events import ConversationOpened, EngineStateChanged, TraceRead
from app.chat.surroundings import Still
from app.engine.protocol.cache_messages import StepMeasured
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.embedding_messages import Rotations
from app.engine.protocol.machine_messages import FlashCompared, FlashSide
from app.insight.inside.position import ALIBI, Position
from app.insight.inside.wrote import Contribution, Written
from app.insight.tour.names import NAMES
from models.records import Message, MessageCounts, Role
from ui.look.theme import Theme
from ui.section.inside.panel import InsidePanel
from ui.section.looking import Looking
from ui.section.panel import Panel, Tools
from ui.tour.live_facts import ARRAYS, QUESTIONS, LiveFacts

PIECES = (b" Paris", b",", b" of")
HASH = "ab" * 16


class ByHand:
    """Answers what the desk is asked, when the test says so."""

    METHODS = (
        ("inside", "attribute"),
        ("headers", "position"),
        ("headers", "read"),
        ("headers", "fingerprint"),
        ("machine", "read"),
    )

    def __init__(self, desk: FakeDesk) -> None:
        self.asked: list[str] = []
        self._open: dict[str, tuple[Callable[[Any], None], Callable[[str], None], Still]] = {}
        for part, method in self.METHODS:
            name = f"{part}.{method}"
            setattr(getattr(desk, part), method, partial(self._ask, name))

    def _ask(self, name: str, *args: Any, still: Still) -> None:
        self.asked.append(name)
        self._open[name] = (args[-2], args[-1], still)

    def take(self, name: str) -> Callable[[Any], None]:
        """The answer to what is asked now, to be given later."""
        then, _failed, still = self._open.pop(name)
        return lambda found: then(found) if still() else None

    def give(self, name: str, found: Any) -> None:
        self.take(name)(found)

    def fail(self, name: str) -> None:
        self._open.pop(name)[1]("It failed.")


class Stage:
    """A reply that is looked at, with the weights that wrote it."""

    def __init__(self, desk: FakeDesk, bridge: FakeBridge) -> None:
        self.desk, self.bridge = desk, bridge
        self.inside = AnsweredByHand(desk)
        self.embedding = EmbeddingByHand(desk)
        self.hand = ByHand(desk)
        desk.growing.trace_of = lambda _id: None
        self.load(loaded(fast_hash="w1"))
        self.looking = Looking(desk, bridge)  # type: ignore[arg-type]
        self.facts = LiveFacts(self.looking, desk, bridge)  # type: ignore[arg-type]

    def load(self, weights: Any) -> None:
        self.desk.loader.loaded = weights
        self.desk.loader.state = EngineStateChanged("ready", loaded=weights)
        self.bridge.emit_event(self.desk.loader.state)

    def turn(self) -> None:
        """What has happened is asked about and told."""
        while self.facts._soon.isActive():
            QCoreApplication.processEvents()

    def show_reply(self, number: int = 2, token: int | None = 1) -> Message:
        counts = MessageCounts(prompt_tokens=len(PROMPT), generated=3, context_used=6)
        reply = message(number, Role.ASSISTANT, "Paris", weights_hash="w1", counts=counts, seed=7)
        self.desk.shelf.path = (message(1, Role.USER, "Which city?"), reply)
        self.looking.set_awake(True)
        self.bridge.emit_event(ConversationOpened(conversation(1, "Chat"), self.desk.shelf.path))
        self.bridge.emit_event(TraceRead(reply.id, trace_of(PIECES)))
        self.looking.select(token)
        self.turn()
        return reply

    def want(self, *names: str) -> None:
        self.facts.want(frozenset(names))
        self.turn()

    def text(self, name: str) -> str | None:
        self.turn()
        fact = self.facts.facts.get(name)
        return None if fact is None else fact.text


@pytest.fixture
def stage(desk: FakeDesk, bridge: FakeBridge, qapp: object) -> Stage:
    return Stage(desk, bridge)


WRITTEN = Written(
    101,
    12,
    1.0,
    1.0,
    (Contribution("head 3 of layer 2", 1.318, Cut("head", 2, 3)),),
    0.0,
    4,
    4,
    (),
    {},
)


def test_each_question_and_each_array_is_for_a_fact() -> None:
    assert set().union(*QUESTIONS.values()) | set(ARRAYS) <= set(NAMES)


def test_asleep_nothing_is_asked_and_nothing_is_said(stage: Stage, qtbot: QtBot) -> None:
    stage.show_reply()
    with qtbot.assertNotEmitted(stage.facts.changed, wait=1):
        stage.looking.select(0)
    assert stage.facts.facts == {}
    stage.want("top_head", "hash_now", "nearest", "n_pairs")
    stage.want()
    stage.hand.asked.clear()
    stage.embedding.asked.clear()
    stage.show_reply(4)
    assert stage.hand.asked == []
    assert stage.embedding.asked == []
    assert stage.facts.facts == {}


def test_what_needs_no_question_is_known_at_once(stage: Stage, qtbot: QtBot) -> None:
    stage.show_reply(token=0)
    with qtbot.waitSignal(stage.facts.changed):
        stage.facts.want(frozenset(("token", "n_params", "seed")))
    assert stage.text("token") == "·Paris"
    assert (stage.text("n_params"), stage.text("seed"), stage.text("nth")) == ("135M", "7", "1")
    assert stage.hand.asked == []
    with qtbot.waitSignal(stage.facts.changed):
        stage.looking.step(1)
    assert (stage.text("token"), stage.text("nth")) == (",", "2")


def test_without_a_token_the_reply_and_the_file_are_known(stage: Stage) -> None:
    stage.want("n_reply", "n_layer")
    assert (stage.text("n_reply"), stage.text("n_layer")) == (None, "30")
    stage.show_reply(token=None)
    assert (stage.text("n_reply"), stage.text("n_layer")) == ("3", "30")
    assert (stage.text("token"), stage.text("read")) == (None, None)


def test_of_other_weights_nothing_is_told_beside_the_reply(stage: Stage) -> None:
    stage.show_reply()
    stage.want("n_layer", "token", "n_pairs", "hash_now", "read")
    stage.embedding.answer("turn")
    stage.hand.give("headers.fingerprint", HASH)
    assert stage.text("hash_now") == "abababab"
    stage.load(loaded(fast_hash="w2"))
    assert {stage.text(name) for name in ("n_layer", "n_pairs", "hash_now", "kv_used")} == {None}
    assert stage.text("token") == ","


def test_each_question_is_asked_once_for_what_it_is_about(stage: Stage) -> None:
    stage.show_reply()
    stage.want("top_head", "ffn_share", "quantisation", "hash_now", "nearest", "n_pairs")
    assert sorted(stage.hand.asked) == [
        "headers.fingerprint",
        "headers.read",
        "inside.attribute",
        "machine.read",
    ]
    assert sorted(kind for kind, _ in stage.embedding.asked) == ["nearest", "turn"]
    stage.hand.asked.clear()
    stage.looking.trace_changed.emit()
    stage.turn()
    assert stage.hand.asked == []
    stage.looking.step(1)
    stage.looking.step(-1)
    stage.looking.step(1)
    stage.turn()
    assert stage.hand.asked == ["inside.attribute"], "for the last of these"


def test_what_fails_is_not_asked_again_and_not_said(stage: Stage) -> None:
    stage.show_reply()
    stage.want("top_head")
    stage.hand.fail("inside.attribute")
    stage.turn()
    stage.looking.trace_changed.emit()
    assert stage.text("top_head") is None
    assert stage.hand.asked == ["inside.attribute"]


def test_answers_become_facts(stage: Stage, qtbot: QtBot) -> None:
    stage.show_reply()
    stage.want("top_head", "nearest", "n_pairs", "read", "n_message_tokens")
    with qtbot.waitSignal(stage.facts.changed):
        stage.hand.give("inside.attribute", WRITTEN)
    stage.embedding.answer("nearest")
    stage.embedding.answer("turn")
    assert stage.text("read") == "·Paris"
    assert (stage.text("top_head"), stage.text("top_head_logits")) == (
        "head 3 of layer 2",
        "+1.32",
    )
    own = np.asarray(stage.embedding.rows, np.float64)
    centred = own - own.mean(axis=0)
    units = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    order = np.argsort(-(units @ units[100]))
    nearest = int(next(token for token in order if token != 100))
    assert stage.text("nearest") == f"·w{nearest}"
    assert stage.text("n_pairs") == str(stage.embedding.told.rotations[0].n_dims // 2)
    assert stage.text("n_message_tokens") == "4 tokens"


def test_a_file_that_does_not_rotate_says_what_its_header_says(stage: Stage) -> None:
    stage.embedding.told = Rotations([], 4, "Nothing is rotated.")
    stage.want("n_pairs", "position_otherwise")
    stage.embedding.answer("turn")
    assert stage.text("position_otherwise") is None, "the header may say it better"
    stage.hand.give("headers.position", Position("alibi"))
    assert (stage.text("position_otherwise"), stage.text("n_pairs")) == (ALIBI, None)


def test_a_header_that_cannot_be_read_leaves_the_word_to_the_engine(stage: Stage) -> None:
    stage.embedding.told = Rotations([], 4, "Nothing is rotated.")
    stage.want("position_otherwise")
    stage.embedding.answer("turn")
    stage.turn()
    stage.hand.fail("headers.position")
    assert stage.text("position_otherwise") == "Nothing is rotated."


# --- what comes too late ------------------------------------------------------------------------


@pytest.mark.parametrize("moves_on", ["token", "reply", "weights", "wish"])
def test_an_answer_about_anything_else_by_now_is_no_fact(stage: Stage, moves_on: str) -> None:
    stage.show_reply()
    stage.want("top_head", "other", "nearest", "hash_now", "n_pairs")
    late = {
        "top_head": partial(stage.hand.take("inside.attribute"), WRITTEN),
        "nearest": stage.embedding.late_answer("nearest"),
    }
    if moves_on in ("reply", "weights"):
        late["hash_now"] = partial(stage.hand.take("headers.fingerprint"), HASH)
    if moves_on == "weights":
        late["n_pairs"] = stage.embedding.late_answer("turn")
    if moves_on == "token":
        stage.looking.step(1)
        stage.turn()
    elif moves_on == "reply":
        stage.show_reply(4, token=None)
    elif moves_on == "weights":
        stage.load(loaded(fast_hash="w1", n_ctx=512))
        stage.turn()
    else:
        stage.want("n_layer")
    for give in late.values():
        give()
    assert [name for name in late if stage.text(name) is not None] == []


def test_the_text_of_a_reply_that_was_left_is_dropped(stage: Stage) -> None:
    stage.inside.gives_text = False
    stage.show_reply()
    stage.want("read", "n_message_tokens")
    stage.show_reply(4)
    waiting = stage.inside._read_for
    assert [still() for _give, still in waiting] == [False, True]
    stage.inside.give_text()
    assert stage.text("read") == "·Paris"


# --- what the panels know -----------------------------------------------------------------------


@pytest.fixture
def panel(stage: Stage, desk: FakeDesk, bridge: FakeBridge, theme: Theme, qtbot: QtBot) -> Any:
    """Of a reply whose second token is looked at; the panel is asked for nothing else."""
    tools = Tools(theme, stage.looking, desk, bridge)  # type: ignore[arg-type]
    made = InsidePanel(tools)
    qtbot.addWidget(made)
    stage.show_reply()
    stage.facts.take_panel(made)
    return made


def test_what_the_panel_has_seen_is_told_for_the_token_that_is_chosen(
    stage: Stage, panel: InsidePanel
) -> None:
    view = panel.view
    stage.want("read", "sink_share", "best", "layer_best", "chosen_head", "n_kv_head")
    view.set_awake(True)
    assert {"attention", "k_after", "lens", "logits"} <= set(stage.inside.asked[-1][1])
    assert (stage.text("sink_share"), stage.text("read")) == (None, "·Paris")
    stage.inside.answer()
    seen = view.seen
    assert seen is not None
    attention = np.asarray(seen.arrays["attention"], np.float64)
    assert stage.facts.facts["sink_share"].value == pytest.approx(attention[:, :, 0].mean())
    best = int(np.argmax(seen.arrays["logits"]))
    assert stage.text("best") == view.word(best)
    view.choose_head(2, 1)
    assert stage.text("chosen_head") == "Head 1 of layer 2"
    assert stage.text("layer_best") == view.word(int(seen.arrays["lens_ids"][2, 0]))
    stage.looking.step(1)
    assert stage.text("sink_share") is None, "it is that of the token before"
    assert stage.text("read") == ","
    stage.inside.answer()
    assert stage.text("sink_share") is not None


def test_the_panels_text_is_not_asked_for_again(stage: Stage, panel: InsidePanel) -> None:
    panel.view.set_awake(True)
    stage.inside.answer()
    n_read = len(stage.inside._read_for)
    stage.inside.gives_text = False
    stage.want("read", "top_head")
    assert len(stage.inside._read_for) == n_read
    assert stage.text("read") == "·Paris"
    assert stage.hand.asked == ["inside.attribute"]


def test_what_takes_long_waits_for_what_is_quick(stage: Stage, panel: InsidePanel) -> None:
    panel.view.set_awake(True)
    stage.want("top_head", "nearest")
    stage.inside.answer()
    stage.turn()
    stage.hand.asked.clear()
    stage.embedding.asked.clear()
    stage.looking.step(1)
    stage.turn()
    assert (stage.hand.asked, stage.embedding.asked) == ([], [])
    stage.inside.answer(is_whole=False)
    stage.turn()
    assert (stage.hand.asked, stage.embedding.asked) == ([], [])
    stage.inside.answer()
    stage.turn()
    assert stage.hand.asked == ["inside.attribute"]
    assert [kind for kind, _ in stage.embedding.asked] == ["nearest"]


def test_a_token_of_the_prompt_is_followed_where_the_panel_shows_it(
    stage: Stage, panel: InsidePanel
) -> None:
    stage.want("token", "read", "probability", "nth")
    panel.view.set_awake(True)
    stage.inside.answer()
    panel.view.go_to(2)
    stage.inside.answer()
    assert (stage.text("read"), stage.text("token"), stage.text("nth")) == (
        "·capital",
        "·is",
        None,
    )
    votes = panel.view.votes
    assert votes is not None
    own = votes.of(panel.view.target)
    assert own is not None
    assert stage.facts.facts["probability"].value == own.logprob


def test_measurements_are_told_for_their_chat_and_their_weights(
    stage: Stage, desk: FakeDesk, bridge: FakeBridge, theme: Theme, qtbot: QtBot
) -> None:
    panel = Panel(Tools(theme, stage.looking, desk, bridge))  # type: ignore[arg-type]
    qtbot.addWidget(panel)
    stage.show_reply()
    stage.want("cache_gain", "flash_on_time")
    stage.facts.take_panel(panel)
    side = FlashSide([1.0], [16.0], 0, 1)
    panel.measured.emit(StepMeasured(4, [18.0], [690.0], 1))
    panel.measured.emit(FlashCompared(4, 2, 1, side, side, 0.5))
    assert (stage.text("cache_gain"), stage.text("flash_on_time")) == ("38", "16 ms")
    first, desk.shelf.open = desk.shelf.open, conversation(9, "Another")
    stage.looking.message_changed.emit()
    assert (stage.text("cache_gain"), stage.text("flash_on_time")) == (None, "16 ms")
    desk.shelf.open = first
    stage.load(loaded(fast_hash="w1"))
    assert (stage.text("cache_gain"), stage.text("flash_on_time")) == (None, None)
