"""The sampling panel in the whole window: what is shown is what the next reply is drawn with."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QLineEdit, QPlainTextEdit, QWidget

from app.chat.settings.sampler_links import stages_of_reply
from app.engine.protocol.stages import (
    Dist,
    Dry,
    LogitBias,
    MinP,
    Penalties,
    Stage,
    Temperature,
    TopK,
    TopP,
)
from app.insight.trace.tokens_shown import visible
from ui.section.sampling.chain_room import CHOOSE, ChainRoom
from ui.section.sampling.evidence_view import EvidenceView
from ui.section.sampling.panel import SamplingPanel
from ui.section.sampling.rules_room import RulesRoom
from ui.section.sampling.sampler_chain import SamplerChain
from ui.section.sampling.stage_card import StageCard

Key = Qt.Key
LEFT = Qt.MouseButton.LeftButton
CONTROL = Qt.KeyboardModifier.ControlModifier
STAGES = [
    ["penalties", 264, 0.75],
    ["top-k", 2, 0.8],
    ["top-p", 2, 0.8],
    ["min-p", 2, 0.8],
    ["temperature", 2, 0.8],
    ["dist", 2, 0.8],
]
TOKEN = {
    "text": "Paris",
    "probability": 0.75,
    "alternatives": [["Paris", 0.75], ["Lyon", 0.1875], ["Nice", 0.03]],
    "stages": STAGES,
    "removed_by": [255, 255, 1],
    "uniform": 0.5,
}
TALK: dict[str, Any] = {"load": {"ms": 5}, "replies": [{"tokens": [TOKEN, {"text": "."}]}]}


@pytest.fixture
def person(open_window: Any) -> Any:
    person = open_window(TALK)
    person.wait_ready()
    return person


def panel_of(person: Any) -> SamplingPanel:
    person.app.desk.settings.set("section_panel", "Sampling")
    person.window.section_acts.show(True)
    panel = person.find(SamplingPanel, "panel_sampling")
    person.wait(panel.isVisible)
    return panel


def chain_of(person: Any) -> ChainRoom:
    room = panel_of(person).enter("Chain")
    assert isinstance(room, ChainRoom)
    return room


def rules_of(person: Any) -> RulesRoom:
    room = panel_of(person).enter("Grammar, limits")
    assert isinstance(room, RulesRoom)
    return room


def card(panel: QWidget, kind: type[Stage]) -> StageCard:
    chain = panel.findChild(SamplerChain, "sampler_chain")
    assert chain is not None
    return next(each for each in chain.cards if isinstance(each.link.stage, kind))


def type_into(field: QLineEdit, text: str) -> None:
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Key.Key_Return)


def shown(panel: ChainRoom) -> list[Stage]:
    """The stages that are on, as the cards say them by their fields, from above."""
    cards = sorted(panel.chain.cards, key=lambda each: each.geometry().top())
    stages = [each.link.stage for each in cards if each.switch.isChecked()]
    for each in cards:
        for attribute, field in each.fields.items():
            assert field.value() == getattr(each.link.stage, attribute)
    return stages


def test_the_next_reply_is_drawn_with_what_is_shown(person: Any) -> None:
    type_into(rules_of(person).rules.least, "1")
    panel = chain_of(person)
    type_into(card(panel, TopK).fields["k"], "7")
    QTest.mouseClick(card(panel, MinP).switch, LEFT)
    field = card(panel, Temperature).fields["t"]
    QTest.mousePress(field, LEFT, pos=QPoint(20, 8))
    QTest.mouseMove(field, QPoint(33, 8))
    QTest.mouseRelease(field, LEFT, pos=QPoint(33, 8))
    field.setFocus()
    QTest.keyClick(field, Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    QTest.keyClick(field, Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    {a.text(): a for a in panel.stages_menu().actions()}["DRY"].trigger()
    type_into(panel.findChild(QLineEdit, "seed_field"), "31")
    wanted = [Penalties(), Dry(), TopK(7), Temperature(0.4), TopP(), Dist()]
    person.wait(lambda: shown(panel) == wanted)
    person.send("Which city?")
    reply = person.wait_ended()
    assert list(stages_of_reply(reply.settings)) == wanted
    sampling = reply.settings["sampling"]
    assert (sampling["seed"], sampling["min_tokens"], reply.seed) == (31, 1, 31)
    # All of it is the chat's, and there again after another chat was looked at.
    first = person.app.desk.shelf.open.id
    person.app.desk.shelf.open_new()
    person.wait(lambda: card(panel, TopK).fields["k"].text() == "40")
    person.app.desk.shelf.open_stored(first)
    person.wait(lambda: card(panel, TopK).fields["k"].text() == "7")
    person.wait(lambda: shown(panel) == wanted)
    assert not card(panel, MinP).switch.isChecked()


def test_the_chosen_token_s_stages_stand_beside_the_chain(person: Any) -> None:
    panel = chain_of(person)
    person.send("Which city?")
    person.wait_ended()
    looking = person.window.section_acts.looking()
    person.wait(lambda: len(looking.traces) == 2 and looking.words is not None)
    assert len(looking.words) == 264  # as the script says of its first stage
    looking.select(0)
    view: EvidenceView = card(panel, TopK).evidence
    person.wait(view.isVisible)
    assert view.left.text() == "2 left"
    person.wait(lambda: view.bars.bars[0].name == "Paris")
    assert [round(bar.share or 0, 3) for bar in view.bars.bars] == [0.8, 0.2]
    last = panel.chain.cards[-1].evidence
    assert [segment.name for segment in last.mark.segments] == ["Paris", "Lyon"]
    type_into(card(panel, TopK).fields["k"], "9")
    person.wait(lambda: not view.isVisible())
    assert panel.which.isVisible()


def test_a_grammar_is_asked_of_the_engine_and_kept(person: Any) -> None:
    panel = rules_of(person)
    button = panel.grammar.findChild(QWidget, "choice_grammar")
    assert button is not None
    QTest.mouseClick(button, LEFT)
    text = panel.findChild(QPlainTextEdit, "grammar_text")
    assert text is not None
    QTest.keyClicks(text, 'root ::= "a" b')
    person.wait(lambda: "Undefined rule identifier 'b'" in panel.grammar.refusal.text())
    assert person.app.desk.levels.resolved().settings.grammar == ""
    QTest.keyClick(text, Key.Key_Backspace)
    person.wait(lambda: person.app.desk.levels.resolved().settings.grammar == 'root ::= "a" ')
    assert not panel.grammar.refusal.isVisible()


def test_a_stage_that_is_added_gets_the_keyboard_and_taken_out_gives_it_on(person: Any) -> None:
    panel = chain_of(person)
    acts = {a.text(): a for a in panel.stages_menu().actions()}
    acts["Top-p again"].trigger()
    first, second = [c for c in panel.chain.cards if isinstance(c.link.stage, TopP)]
    person.wait(second.fields["p"].hasFocus)
    type_into(first.fields["p"], "0.5")
    type_into(second.fields["p"], "7")
    assert second.refusal.isVisible()
    {a.text(): a for a in first.menu().actions()}["Remove"].trigger()
    left = [c for c in panel.chain.cards if isinstance(c.link.stage, TopP)]
    assert left == [second], "not the other card of its kind"
    assert second.fields["p"].text() == "7"
    assert second.handle.hasFocus()
    {a.text(): a for a in panel.chain.cards[-2].menu().actions()}["Remove"].trigger()
    assert panel.chain.cards[-1].stops()[0].hasFocus()


def test_a_bias_by_id_says_what_the_id_stands_for(person: Any) -> None:
    panel = chain_of(person)
    {a.text(): a for a in panel.stages_menu().actions()}["Logit bias"].trigger()
    editor = card(panel, LogitBias).bias
    assert editor is not None
    person.wait(editor.text.hasFocus)
    QTest.keyClicks(editor.text, "#65")
    QTest.keyClick(editor.text, Key.Key_Return)
    label = editor.findChild(QLabel, "bias_ids")
    assert label is not None
    loaded = person.app.desk.loader.state.loaded
    pieces = person.wait(lambda: person.app.desk.words.of(loaded.fast_hash))
    person.wait(lambda: label.text() == f"“{visible(pieces.piece(65))}”" != "“”")


def test_a_reply_that_is_written_shows_what_it_is_drawn_with(open_window: Any) -> None:
    growing = {"text": " again", "ms": 5, "repeat": 4000, "stages": STAGES}
    person = open_window({"load": {"ms": 5}, "replies": [{"tokens": [TOKEN, growing]}]})
    person.wait_ready()
    panel = chain_of(person)
    person.send("Which city?")
    person.wait_growing(20)
    person.wait(lambda: panel.note.text() == CHOOSE)
    panel._looking.select(0)
    person.wait(lambda: card(panel, TopK).evidence.isVisible())
    assert person.app.desk.replies.is_generating
    person.app.desk.replies.stop()
    person.wait_ended()
