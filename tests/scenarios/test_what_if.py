"""What if, in the whole window: values moved on a token, the same dice, and a branch from there."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.chat.settings.sampler_links import stages_of_reply
from app.chat.settings.settings import as_stored
from app.engine.protocol.stages import Dist, Temperature, Typical
from ui.section.sampling.live_card import REPLAYED, LiveCard
from ui.section.sampling.panel import SamplingPanel
from ui.section.sampling.what_if_card import TYPED, WhatIfCard

LEFT = Qt.MouseButton.LeftButton
TOKEN = {
    "text": "Paris",
    "probability": 0.75,
    "alternatives": [["Paris", 0.75], ["Lyon", 0.1875], ["Nice", 0.03]],
    "stages": [
        ["penalties", 264, 0.75],
        ["top-k", 264, 0.75],
        ["top-p", 3, 0.77],
        ["min-p", 2, 0.8],
        ["temperature", 2, 0.85],
        ["dist", 2, 0.85],
    ],
    "removed_by": [255, 255, 3],
    "uniform": 0.7,
}
TALK: dict[str, Any] = {"load": {"ms": 5}, "replies": [{"tokens": [TOKEN, {"text": "."}]}]}


@pytest.fixture
def person(open_window: Any) -> Any:
    """Somebody who looks at the first token of a reply, in the room of what-ifs."""
    person = open_window(TALK)
    person.wait_ready()
    for name, value in (("temperature", 0.8), ("top_k", 0), ("top_p", 0.95), ("min_p", 0.05)):
        person.app.desk.settings.set(name, value)
    person.send("Which city?")
    person.wait_ended()
    person.app.desk.settings.set("section_panel", "Sampling")
    person.window.section_acts.show(True)
    panel = person.find(SamplingPanel, "panel_sampling")
    person.wait(panel.isVisible)
    panel.enter("What if")
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces) == 2 and looking.words is not None)
    looking.select(0)
    return person


def test_values_that_are_moved_change_the_token_s_shares_and_then_the_chat(person: Any) -> None:
    card: LiveCard = person.find(LiveCard, "live_card")
    person.wait(lambda: [row.name for row in card.bars.rows[:3]] == ["Paris", "Lyon", "Nice"])
    assert [row.after for row in card.bars.rows[:3]] == ["85.0%", "15.0%", "cut: min-p"]
    card.values.sliders["temperature"].setValue(40)
    assert [row.after for row in card.bars.rows[:3]] == ["66.7%", "33.3%", "cut: min-p"]
    assert [row.is_hit for row in card.bars.rows[:2]] == [False, True]
    assert person.app.desk.levels.resolved().settings.temperature == 0.8
    QTest.mouseClick(card.use_button, LEFT)
    person.wait(lambda: person.app.desk.levels.resolved().settings.temperature == 2)
    # Of typical sampling the record doesn't tell; the script's engine leaves the token alone.
    person.app.desk.levels.change("chat", "chain", as_stored((Typical(0.5), Dist())))
    person.wait(lambda: card.caption.text().startswith(REPLAYED))
    assert [row.after for row in card.bars.rows] == ["100%", "0%"]


def test_what_is_moved_above_is_what_the_dice_begin_with(person: Any) -> None:
    """Until one types other values there, and as long as they are not put back."""
    live: LiveCard = person.find(LiveCard, "live_card")
    dice: WhatIfCard = person.find(WhatIfCard, "what_if_card")
    typed = dice.which.findChild(QWidget, f"choice_{TYPED}")
    assert typed is not None
    live.values.sliders["temperature"].setValue(30)
    QTest.mouseClick(typed, LEFT)
    assert dice.values.value("temperature") == 1.5
    assert "1.5" in dice.difference.text()
    QTest.mouseClick(live.back_button, LEFT)
    assert dice.values.value("temperature") == 0.8
    dice.values.sliders["temperature"].setValue(10)
    live.values.sliders["temperature"].setValue(30)
    assert dice.values.value("temperature") == 0.5


def test_the_same_dice_with_other_settings_lead_to_a_branch(person: Any) -> None:
    card: WhatIfCard = person.find(WhatIfCard, "what_if_card")
    typed = card.which.findChild(QWidget, f"choice_{TYPED}")
    assert typed is not None
    QTest.mouseClick(typed, LEFT)
    card.values.sliders["temperature"].setValue(40)
    QTest.mouseClick(card.ask_button, LEFT)
    person.wait(card.answer.isVisible)
    assert card.answer.text() == "Token 1 would have been “Lyon” instead of “Paris”."
    person.wait(lambda: not card.caption.visibleRegion().isEmpty())
    QTest.mouseClick(card.branch_button, LEFT)
    person.wait(lambda: person.app.desk.shelf.path[-1].content.startswith("Lyon"))
    person.wait_ended()
    reply = person.app.desk.shelf.path[-1]
    assert reply.content == "Lyon."
    # What is written behind the branch is drawn with what was asked about; the chat stays.
    assert Temperature(2.0) in stages_of_reply(reply.settings)
    assert person.app.desk.levels.resolved().settings.temperature == 0.8
