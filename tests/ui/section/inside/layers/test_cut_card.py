"""What is to be cut is gathered from the panel's layer and head, and asked for as versions."""

from __future__ import annotations

from typing import Any

import pytest
from made_inside import AnsweredByHand
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from recording_desk import FakeDesk

from app.engine.protocol.cut_messages import Cut
from models.records import Message
from ui.section.inside.layers.cut_card import CHOOSE, KINDS, NOT_HERE, TAKES, CutCard
from ui.section.looking import Looking


@pytest.fixture
def card(show_card: Any, inside: AnsweredByHand) -> CutCard:
    made: CutCard = show_card(CutCard, 300, token=1)
    made.set_open(True)
    inside.answer()  # attention and keys, which it wants besides
    return made


def click(qtbot: QtBot, widget: object) -> None:
    qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)  # type: ignore[arg-type]


def pick(card: CutCard, kind: str) -> None:
    card.kind.setCurrentIndex(list(KINDS).index(kind))  # type: ignore[arg-type]


def test_parts_are_added_and_removed_and_written_without(
    card: CutCard, desk: FakeDesk, reply: Message, qtbot: QtBot
) -> None:
    assert card.sentence.text() == CHOOSE
    assert not card.add_button.isEnabled()
    assert not card.write_button.isEnabled()
    card.view.choose_head(2, 3)
    assert card.add_button.text() == "Add head 3 of layer 2"
    click(qtbot, card.add_button)
    assert not card.add_button.isEnabled()  # it is in already
    pick(card, "kv_head")
    click(qtbot, card.add_button)
    pick(card, "ffn")
    click(qtbot, card.add_button)
    assert card.parts == [Cut("head", 2, 3), Cut("kv_head", 2, 1), Cut("ffn", 2)]
    assert card.figure.text() == "3 parts"
    at = card.table.rect_of(1).center().toPoint()
    qtbot.mouseClick(card.table, Qt.MouseButton.LeftButton, pos=at)
    assert card.parts == [Cut("head", 2, 3), Cut("ffn", 2)]
    click(qtbot, card.write_button)
    assert desk.called("cuts.run") == [(reply.id, 1, [Cut("head", 2, 3), Cut("ffn", 2)], "mean")]
    card.mode.setCurrentIndex(1)
    click(qtbot, card.write_button)
    assert desk.called("cuts.run")[1][3] == "zero"
    click(qtbot, card.clear_button)
    assert (card.parts, card.sentence.text()) == ([], CHOOSE)


def test_what_it_takes_is_said_before_the_button_is_pressed(
    card: CutCard, desk: FakeDesk, reply: Message, qtbot: QtBot
) -> None:
    asked: list[tuple[str, int]] = []

    def takes(message_id: str, n_before: int) -> int:
        asked.append((message_id, n_before))
        return 62_000_000

    desk.cuts.takes_bytes = takes
    card.choose(Cut("ffn", 2))
    assert card.sentence.text() == TAKES.format(size="62 MB")
    assert asked[-1] == (reply.id, card.view.place + 1)  # type: ignore[operator]
    desk.cuts.takes_bytes = lambda _message_id, _n_before: 0  # nobody can tell
    card.choose(Cut("ffn", 1))
    assert card.sentence.text() == ""


def test_a_layer_needs_no_head(card: CutCard) -> None:
    card.view.choose_layer(1)
    assert not card.add_button.isEnabled()  # a head is asked for
    for kind, words in (("attention", "attention of layer 1"), ("layer", "layer 1")):
        pick(card, kind)
        assert card.add_button.isEnabled()
        assert card.add_button.text() == f"Add {words}"


def test_the_prompt_is_not_written_again(
    card: CutCard, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    card.view.choose_head(0, 0)
    click(qtbot, card.add_button)
    card.view.go_to(1)
    inside.answer()
    assert not card.write_button.isEnabled()
    assert card.sentence.text() == NOT_HERE


def test_parts_stay_from_token_to_token(
    card: CutCard, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    card.view.choose_head(0, 0)
    click(qtbot, card.add_button)
    looking.select(2)
    inside.answer()
    assert card.parts == [Cut("head", 0, 0)]
    assert card.write_button.isEnabled()
