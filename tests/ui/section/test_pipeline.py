"""The line of the pipeline: each figure is the token's, each part leads to its panel."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest
from made_traces import trace_of
from PySide6.QtCore import QRect, Qt
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, conversation, loaded

from app.chat.events import ConversationOpened, EngineStateChanged, TraceRead
from app.engine.protocol.draft_messages import Rejected
from app.engine.protocol.messages import TokenTrace
from app.insight.tour.line import STAGES, UNKNOWN
from models.records import Message, MessageCounts
from ui.look.theme import Theme
from ui.section.inside.cards import CARDS
from ui.section.kinds import KINDS
from ui.section.looking import Looking
from ui.section.panel import Tools
from ui.section.pipeline import PipelineLine

Ask = Callable[..., tuple[Message, ...]]


@pytest.fixture
def line(tools: Tools, qtbot: QtBot) -> PipelineLine:
    made = PipelineLine(tools)
    qtbot.addWidget(made)
    tools.looking.set_awake(True)
    made.set_awake(True)
    made.resize(360, made.heightForWidth(360))
    made.show()
    return made


def ready(**fields: object) -> EngineStateChanged:
    return EngineStateChanged("ready", loaded=loaded(**fields))


def figures(line: PipelineLine) -> dict[str, str]:
    return {each.stage.name: each.figure for each in line.buttons if not each.isHidden()}


def look_at(
    desk: FakeDesk,
    bridge: FakeBridge,
    looking: Looking,
    ask: Ask,
    *traces: TokenTrace,
    **fields: object,
) -> None:
    counts = MessageCounts(prompt_tokens=39, generated=2, context_used=40)
    desk.shelf.path = ask(counts=counts, **fields)
    bridge.emit_event(ConversationOpened(conversation(1, "Chat"), desk.shelf.path))
    bridge.emit_event(TraceRead("m2", traces))
    looking.select(0)


def test_without_a_token_nothing_is_claimed(line: PipelineLine) -> None:
    assert set(figures(line).values()) == {UNKNOWN}


def test_each_part_tells_its_figure(
    line: PipelineLine, desk: FakeDesk, bridge: FakeBridge, looking: Looking, ask: Ask
) -> None:
    first, second = trace_of([b" Paris", b"."], [0.78, 0.5])
    desk.loader.state = ready(fast_hash="w1", n_embd=576, n_layer=30)
    first = msgspec.structs.replace(first, log_total=17.3 - math.log(0.78))
    look_at(desk, bridge, looking, ask, first, second)
    assert figures(line) == {
        "Prompt": "39 tokens",
        "Token": "·Paris",
        "ID": "100",
        "Vector": "576 numbers",
        "Position": "38",
        "Layers": "30",
        "Logit": "+17.3",
        "Probability": "78.0%",
        "Choice": "drawn 0.25",
        "Text": "6 bytes",
        "Loop": "2 times",
        "KV cache": "40 cells",
    }


def test_what_is_not_known_is_a_dash(
    line: PipelineLine, desk: FakeDesk, bridge: FakeBridge, looking: Looking, ask: Ask
) -> None:
    """Another model is loaded, and the record is older than the column."""
    desk.loader.state = ready(fast_hash="w2", n_embd=640, n_layer=18)
    look_at(desk, bridge, looking, ask, *trace_of([b" Paris"]))
    found = figures(line)
    assert {found[name] for name in ("Vector", "Layers", "Logit")} == {UNKNOWN}


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"uniform": None}, "greedy"), ({"uniform": None, "chosen": True}, "by hand")],
)
def test_a_choice_without_a_draw_is_named(
    line: PipelineLine,
    desk: FakeDesk,
    bridge: FakeBridge,
    looking: Looking,
    ask: Ask,
    changed: dict[str, object],
    said: str,
) -> None:
    (token,) = trace_of([b" Paris"])
    desk.loader.state = ready(fast_hash="w1")
    look_at(desk, bridge, looking, ask, msgspec.structs.replace(token, **changed))
    assert figures(line)["Choice"] == said


def test_a_token_of_a_beam_search_was_not_chosen_by_hand(
    line: PipelineLine, desk: FakeDesk, bridge: FakeBridge, looking: Looking, ask: Ask
) -> None:
    (token,) = trace_of([b" Paris"])
    desk.loader.state = ready(fast_hash="w1")
    chosen = msgspec.structs.replace(token, chosen=True, uniform=None)
    look_at(desk, bridge, looking, ask, chosen, settings={"beams": {"width": 4}})
    assert figures(line)["Choice"] == "beam"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"drafted": True}, "right"),
        ({"rejected": Rejected([7], [b" London"], -2.0)}, "wrong"),
        ({}, "none"),
    ],
)
def test_what_a_draft_had_told_is_said(
    line: PipelineLine,
    desk: FakeDesk,
    bridge: FakeBridge,
    looking: Looking,
    ask: Ask,
    changed: dict[str, object],
    said: str,
) -> None:
    (token,) = trace_of([b" Paris"])
    desk.loader.state = ready(fast_hash="w1")
    (plain,) = trace_of([b" Paris"])
    look_at(desk, bridge, looking, ask, plain)
    assert "Draft" not in figures(line)
    settings = {"draft_report": {"kind": "lookup"}} if said == "none" else {}
    token = msgspec.structs.replace(token, **changed)
    look_at(desk, bridge, looking, ask, token, settings=settings)
    assert figures(line)["Draft"] == said


def test_a_click_leads_to_the_panel(line: PipelineLine, qtbot: QtBot) -> None:
    for button in line.buttons:
        with qtbot.waitSignal(line.wanted) as heard:
            qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        assert heard.args == [button.stage.panel, button.stage.room]


def test_every_part_leads_somewhere_that_is_there(tools: Tools, qtbot: QtBot) -> None:
    titles = {kind.title for kind in KINDS}
    cards = {load().name for load in CARDS}
    for stage in STAGES:
        assert stage.panel in titles
        if stage.panel == "Inside":
            assert stage.room in cards
    assert {stage.panel for stage in STAGES} == titles


def test_what_is_open_is_lit(line: PipelineLine) -> None:
    line.show_open("Sampling")
    assert [each.stage.name for each in line.buttons if each.is_lit] == ["Choice"]
    line.show_open("Tokens")
    assert [each.stage.name for each in line.buttons if each.is_lit] == ["Token", "ID"]


@pytest.mark.parametrize("zoom", [100, 200, 300])
@pytest.mark.parametrize("width", [330, 520, 1200])
def test_all_parts_are_seen_whole(line: PipelineLine, theme: Theme, zoom: int, width: int) -> None:
    for button in line.buttons:
        button.show()
    theme.set_zoom(zoom)
    line.resize(width, line.heightForWidth(width))
    line.layout().activate()
    places = [button.geometry() for button in line.buttons]
    assert all(QRect(line.rect()).contains(place) for place in places)
    for at, place in enumerate(places):
        assert not any(place.intersects(other) for other in places[at + 1 :])
