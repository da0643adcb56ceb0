"""The rooms of the sampling panel, in their order, and that only the one on screen follows."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge
from sampling_desk import SamplingDesk

from ui.look.theme import Theme
from ui.section.kinds import KINDS
from ui.section.looking import Looking
from ui.section.panel import Tools
from ui.section.sampling.adapters_room import AdaptersRoom
from ui.section.sampling.chain_room import ChainRoom
from ui.section.sampling.panel import SamplingPanel
from ui.section.sampling.rules_room import RulesRoom
from ui.section.sampling.what_if_room import WhatIfRoom


@pytest.fixture
def panel(qtbot: QtBot, theme: Theme, bridge: FakeBridge) -> SamplingPanel:
    desk = SamplingDesk(bridge)
    looking = Looking(desk, bridge)  # type: ignore[arg-type]
    panel = SamplingPanel(Tools(theme, looking, desk, bridge))  # type: ignore[arg-type]
    qtbot.addWidget(panel)
    panel.resize(276, 700)
    panel.show()
    panel.set_active(True)
    return panel


def test_sampling_comes_after_the_network_that_it_draws_from() -> None:
    assert [kind.title for kind in KINDS][:3] == ["Tokens", "Inside", "Sampling"]
    assert KINDS[2].load() is SamplingPanel


def test_the_rooms_stand_in_order(panel: SamplingPanel) -> None:
    titles = [panel.rooms.tabText(at) for at in range(panel.rooms.count())]
    assert titles == ["Chain", "What if", "Grammar, limits", "Adapters"]
    kinds = [type(panel.enter(title)) for title in titles]
    assert kinds == [ChainRoom, WhatIfRoom, RulesRoom, AdaptersRoom]
    assert panel.rooms.minimumSizeHint().width() <= panel.width()


def test_the_cards_of_what_if_follow_only_on_screen(panel: SamplingPanel) -> None:
    room = panel.enter("What if")
    assert isinstance(room, WhatIfRoom)
    assert room.live._is_active
    assert room.what_if._is_active
    panel.enter("Chain")
    assert not room.live._is_active
    assert not room.what_if._is_active
    panel.enter("What if")
    panel.set_active(False)
    assert not room.live._is_active


def test_no_room_is_wider_than_a_narrow_section(panel: SamplingPanel) -> None:
    for title in ("Chain", "What if", "Grammar, limits", "Adapters"):
        room = panel.enter(title)
        assert room.minimumSizeHint().width() <= panel.width()
        assert room.area.body.minimumSizeHint().width() <= room.area.viewport().width()  # type: ignore[attr-defined]
