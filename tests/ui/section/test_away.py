"""A panel's place: the reason instead of a panel that a server tells nothing for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.chat.events import EngineStateChanged
from app.engine.protocol.remote_messages import EngineOffer, Lack
from models.records import Message
from ui.section.away import PanelPlace
from ui.section.looking import Looking
from ui.section.panel import Panel, Tools

LACKS = [Lack("cache", "Box doesn't tell."), Lack("inside", "Only here.")]
BOX = EngineOffer("e1", "Box", "vllm", "0.12", missing=LACKS)
BY_BOX = {"engine": {"id": "e1", "name": "Box", "kind": "vllm", "model": "m"}}


class OfEngine(Panel):
    ability = "cache"


class OfReply(Panel):
    ability = "inside"
    is_of_reply = True


@pytest.fixture
def place(qtbot: QtBot, tools: Tools) -> Callable[[type[Panel]], PanelPlace]:
    def build(kind: type[Panel]) -> PanelPlace:
        made = PanelPlace(tools, kind(tools))
        qtbot.addWidget(made)
        made.show()
        made.set_active(True)
        return made

    return build


def load(desk: FakeDesk, bridge: FakeBridge, offer: EngineOffer | None) -> None:
    desk.loader.remote = offer
    bridge.emit_event(EngineStateChanged("ready"))


def is_shown(place: PanelPlace) -> bool:
    """The panel is on screen and follows, or neither."""
    is_here = place.currentWidget() is place.room
    assert place._panel._is_active is is_here
    return is_here


def test_it_leaves_while_a_server_is_loaded_that_tells_nothing_for_it(
    place: Any, desk: FakeDesk, bridge: FakeBridge
) -> None:
    made = place(OfEngine)
    assert is_shown(made)
    load(desk, bridge, BOX)
    assert not is_shown(made)
    assert made.reason.text() == "Box doesn't tell."
    load(desk, bridge, EngineOffer("e1", "Box", "vllm"))
    assert is_shown(made)
    load(desk, bridge, BOX)
    load(desk, bridge, None)
    assert is_shown(made)


def test_of_a_reply_it_asks_who_wrote_it_and_not_only_what_is_loaded(
    place: Any,
    desk: FakeDesk,
    bridge: FakeBridge,
    looking: Looking,
    ask: Callable[..., tuple[Message, ...]],
) -> None:
    made = place(OfReply)
    desk.shelf.path = ask(settings=BY_BOX)
    looking.look_at("m2")
    assert not is_shown(made)
    assert "“Box” (vLLM) wrote this reply" in made.reason.text()
    load(desk, bridge, BOX)
    assert not is_shown(made)
    desk.shelf.path = ask(weights_name="SmolLM2 (included)")
    looking.look_at("m1")
    looking.look_at("m2")
    assert made.reason.text() == "Only here. Load “SmolLM2”, which wrote this reply."
    load(desk, bridge, None)
    assert is_shown(made)
