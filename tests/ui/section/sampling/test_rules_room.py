"""What binds every draw: set here, kept with the chat."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge
from sampling_desk import SamplingDesk

from app.engine.process.scripted.grammar import scripted_check
from app.engine.protocol.messages import CheckGrammar
from app.engine.protocol.remote_messages import EngineOffer, Lack
from ui.look.theme import Theme
from ui.section.looking import Looking
from ui.section.panel import Tools
from ui.section.sampling.rules_room import RulesRoom

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def desk(bridge: FakeBridge) -> SamplingDesk:
    desk = SamplingDesk(bridge)
    desk.questions.check_grammar = lambda grammar, schema, then, _failed, still: then(
        scripted_check(CheckGrammar(1, grammar, schema))
    )
    return desk


@pytest.fixture
def room(qtbot: QtBot, theme: Theme, desk: SamplingDesk, bridge: FakeBridge) -> RulesRoom:
    looking = Looking(desk, bridge)  # type: ignore[arg-type]
    room = RulesRoom(Tools(theme, looking, desk, bridge))  # type: ignore[arg-type]
    qtbot.addWidget(room)
    room.show()
    room.activateWindow()
    room.set_active(True)
    qtbot.waitUntil(room.isActiveWindow)
    return room


def type_into(room: RulesRoom, text: str) -> None:
    field = room.rules.least
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)


def test_lengths_and_bans_count_for_the_next_reply(room: RulesRoom, desk: SamplingDesk) -> None:
    type_into(room, "12")
    QTest.mouseClick(room.rules.ban_end, LEFT)
    room.rules.banned.setFocus()
    QTest.keyClicks(room.rules.banned, "delve")
    QTest.keyClick(room.rules.banned, Qt.Key.Key_Return)
    QTest.keyClicks(room.rules.banned, "a b")
    room.rules.least.setFocus()
    sampling = desk.levels.resolved().settings.sampling()
    assert (sampling.min_tokens, sampling.ban_end_token) == (12, True)
    assert sampling.banned_strings == ["delve", "a b"]
    assert "no effect" in room.rules.whence.text()
    assert "this chat" in room.rules.whence.text()


def test_a_wrong_number_gets_its_sentence_and_stays(room: RulesRoom, desk: SamplingDesk) -> None:
    type_into(room, "-1")
    assert room.rules.refusal.text().startswith(
        "The minimum number of tokens must be a whole number"
    )
    desk.put({"seed": 3})
    assert room.rules.least.text() == "-1"
    type_into(room, "3")
    assert room.rules.refusal.isHidden()
    assert desk.own["min_tokens"] == 3


def test_a_grammar_takes_the_place_of_a_schema(room: RulesRoom, desk: SamplingDesk) -> None:
    desk.put({"json_schema": '{"type": "null"}'})
    assert room.grammar.kind.value() == "json_schema"
    button = room.grammar.kind.findChild(QWidget, "choice_grammar")
    assert button is not None
    QTest.mouseClick(button, LEFT)
    room.grammar.text.setPlainText('root ::= "a"')
    room.grammar.check_now()
    settings = desk.levels.resolved().settings
    assert (settings.grammar, settings.json_schema) == ('root ::= "a"', "")


def test_a_room_that_is_not_shown_follows_nothing(room: RulesRoom, desk: SamplingDesk) -> None:
    room.set_active(False)
    desk.put({"min_tokens": 9})
    assert room.rules.least.text() == "0"
    room.set_active(True)
    assert room.rules.least.text() == "9"


def test_nothing_is_wider_than_a_narrow_section(room: RulesRoom, theme: Theme) -> None:
    for kind in ("none", "grammar", "json_schema"):
        room.grammar.kind.show_value(kind)
        room.grammar._arrange()
        assert room.area.body.minimumSizeHint().width() <= theme.px(266)


def test_rules_that_a_server_does_not_take_are_grey_with_the_reason(
    room: RulesRoom, desk: SamplingDesk, bridge: FakeBridge
) -> None:
    lacks = [Lack("grammar", "Box takes no grammar."), Lack("banned_strings", "Nor banned texts.")]
    desk.loader.remote = EngineOffer("e1", "Box", "openai", missing=lacks)
    bridge.emit_event(desk.loader.state)
    assert not room.rules.banned.isEnabled()
    assert room.rules.least.isEnabled()
    assert room.rules.away.text() == "Nor banned texts."
    kinds = {each.text(): each.isEnabled() for each in room.grammar.kind.findChildren(QPushButton)}
    assert kinds == {"None": True, "GBNF": False, "JSON schema": True}
    assert room.grammar.away.text() == "Box takes no grammar."
    desk.loader.remote = None
    bridge.emit_event(desk.loader.state)
    assert room.rules.banned.isEnabled()
    assert room.grammar.away.isHidden()
