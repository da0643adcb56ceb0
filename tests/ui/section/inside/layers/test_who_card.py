"""Who wrote a token: what is listed adds up, and a click tests it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from made_inside import AnsweredByHand, _network
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeDesk
from shown_numbers import number_in, numbers_in

from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.inside_messages import AttributeToken, LookInside
from app.engine.protocol.messages import Tokens
from app.insight.inside.arrays import arrays_of
from app.insight.inside.wrote import Written, written_of
from ui.section.inside.layers.who_card import CAVEAT, WhoCard
from ui.section.looking import Looking


class Answers:
    """What `desk.inside` is asked for, to be answered when the test says so."""

    def __init__(self, desk: FakeDesk) -> None:
        self.asked: list[tuple[Any, ...]] = []
        desk.inside.attribute = self._attribute
        desk.inside.without = self._without

    def _attribute(
        self, text: Any, place: int, other: int | None, then: Any, failed: Any, *, still: Any
    ) -> None:
        target = text.ids[place + 1] if place + 1 < len(text) else None
        command = AttributeToken(0, text.ids[: place + 1].tolist(), target, other)

        def answer() -> None:
            then(written_of(_network().attribute(command, target)))

        self.asked.append((place, other, answer, failed, still))

    def _without(
        self, text: Any, place: int, cuts: list[Cut], then: Any, failed: Any, *, still: Any
    ) -> None:
        def answer() -> None:
            ids = text.ids[: place + 1].tolist()
            told = _network().look(LookInside(0, ids, ["logits"], cuts=cuts), None, {})
            then(arrays_of(told)["logits"])

        self.asked.append((place, cuts, answer, failed, still))

    def answer(self) -> None:
        _, _, answer, _, still = self.asked.pop(0)
        if still():
            answer()


@pytest.fixture
def answers(desk: FakeDesk) -> Answers:
    return Answers(desk)


@pytest.fixture
def card(show_card: Any, answers: Answers) -> WhoCard:
    made: WhoCard = show_card(WhoCard, 500)
    assert answers.asked == []  # closed it asks nothing
    made.set_open(True)
    return made


def written(card: WhoCard) -> Written:
    assert card.written is not None
    return card.written


def test_what_is_listed_adds_up_to_the_difference(card: WhoCard, answers: Answers) -> None:
    answers.answer()
    values = [value for _, value in card.table.entries]
    assert sum(values) == pytest.approx(written(card).difference, abs=1e-3)
    assert card.table.entries[-1][0] == "unexplained"
    assert abs(written(card).unexplained) < 1e-3
    shown = [abs(value) for _, value in card.table.entries[:-2]]
    assert shown == sorted(shown, reverse=True)
    assert card.other.text() == card.view.word(written(card).other)
    word = card.view.word(written(card).target)
    shown, figure = card.figure.text().rsplit(" ", 1)
    assert shown == f"“{word}”"
    assert figure[0] in "+−"
    assert number_in(figure) == pytest.approx(written(card).difference, abs=0.006)


def test_another_token_can_be_held_against_it(
    card: WhoCard, answers: Answers, desk: FakeDesk, qtbot: QtBot
) -> None:
    answers.answer()
    typed: list[tuple[str, Callable[[Tokens], None]]] = []
    desk.questions.tokenize = lambda text, then, failed, *, still, inside: typed.append(
        (text, then)
    )
    card.other.setText("·Rome")
    QTest.keyClick(card.other, Qt.Key.Key_Return)
    assert typed[0][0] == " Rome"
    typed[0][1](Tokens([7], [b" Rome"]))
    assert answers.asked[0][1] == 7
    answers.answer()
    assert written(card).other == 7
    card.other.setText("two words")
    QTest.keyClick(card.other, Qt.Key.Key_Return)
    typed[1][1](Tokens([7, 8], [b"two", b" words"]))
    assert card.sentence.text() == "“two words” is 2 tokens. Type one that is a single token."
    assert answers.asked == []
    card.other.clear()
    QTest.keyClick(card.other, Qt.Key.Key_Return)
    assert answers.asked[0][1] is None  # the runner-up again


def test_a_part_is_tested_beside_a_control(card: WhoCard, answers: Answers, qtbot: QtBot) -> None:
    answers.answer()
    found = written(card)
    row = next(
        at
        for at, each in enumerate(found.contributions[:12])
        if each.cut is not None and each.cut.kind == "head"
    )
    cut = found.contributions[row].cut
    assert cut is not None
    at = card.table.rect_of(row).center().toPoint()
    qtbot.mouseClick(card.table, Qt.MouseButton.LeftButton, pos=at)
    assert (card.view.layer, card.view.head) == (cut.layer, cut.index)
    card.test_button.setFocus()
    qtbot.keyClick(card.test_button, Qt.Key.Key_Space)
    assert card.focusWidget() is card.table  # and not in the next card
    assert answers.asked[0][1] == [cut]
    answers.answer()
    (control,) = answers.asked[0][1]
    assert (control.kind, control.layer) == (cut.kind, cut.layer)
    assert control.index != cut.index
    answers.answer()
    words = card.result.text()
    before, without, beside = words.split(" Without ")
    assert number_in(before) == pytest.approx(found.difference, abs=0.006)
    assert without.startswith(f"head {cut.index} of layer {cut.layer}: ")
    assert beside.startswith(f"head {control.index} of layer {cut.layer} (random control): ")
    assert words.endswith(CAVEAT)
    ids = text_of_card(card)
    logits = _logits(ids, [cut])
    left = logits[found.target] - logits[found.other]
    assert left < 0, "a number above zero proves less"
    assert numbers_in(without.split(": ")[1])[0] == pytest.approx(left, abs=0.006)


def text_of_card(card: WhoCard) -> list[int]:
    assert card.view.text is not None
    assert card.view.place is not None
    return card.view.text.ids[: card.view.place + 1].tolist()


def _logits(ids: list[int], cuts: list[Cut]) -> np.ndarray:
    told = _network().look(LookInside(0, ids, ["logits"], cuts=cuts), None, {})
    return np.asarray(arrays_of(told)["logits"])


def test_what_comes_for_a_token_that_was_left_is_dropped(
    card: WhoCard, answers: Answers, looking: Looking, inside: AnsweredByHand
) -> None:
    first = answers.asked.pop(0)
    looking.select(1)
    inside.answer()
    assert not first[4]()
    assert card.written is None
    answers.answer()
    assert card._key[1] == card.view.place


def test_a_token_that_was_typed_for_one_that_was_left_is_dropped(
    card: WhoCard, answers: Answers, desk: FakeDesk, looking: Looking, inside: AnsweredByHand
) -> None:
    answers.answer()
    asked: list[Callable[[], bool]] = []
    desk.questions.tokenize = lambda text, then, failed, *, still, inside: asked.append(still)
    card.other.setText("·Rome")
    QTest.keyClick(card.other, Qt.Key.Key_Return)
    assert asked[0]()
    looking.select(1)
    inside.answer()
    assert not asked[0]()


def test_the_result_of_a_test_of_another_part_is_dropped(
    card: WhoCard, answers: Answers, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    answers.answer()
    rows = [at for at, e in enumerate(written(card).contributions[:12]) if e.cut is not None]
    at = card.table.rect_of(rows[0]).center().toPoint()
    qtbot.mouseClick(card.table, Qt.MouseButton.LeftButton, pos=at)
    qtbot.mouseClick(card.test_button, Qt.MouseButton.LeftButton)
    late = answers.asked.pop(0)
    looking.select(1)
    inside.answer()
    assert not late[4]()
    assert card.result.isHidden()
    assert card.test_button.isEnabled()


def test_a_failure_is_a_sentence(card: WhoCard, answers: Answers) -> None:
    answers.asked[0][3]("This can't be told.")
    assert card.sentence.text() == "This can't be told."
    assert card.table.n_rows == 0


def test_what_belongs_to_no_single_part_cannot_be_tested(
    card: WhoCard, answers: Answers, qtbot: QtBot
) -> None:
    answers.answer()
    last = card.table.n_rows - 1
    at: QPoint = card.table.rect_of(last).center().toPoint()
    qtbot.mouseClick(card.table, Qt.MouseButton.LeftButton, pos=at)
    assert card.test_button.isHidden()


def test_of_a_made_up_text_all_parts_are_there(card: WhoCard, answers: Answers) -> None:
    answers.answer()
    kinds = {e.cut.kind for e in written(card).contributions if e.cut is not None}
    assert kinds == {"head", "ffn"}
    assert len(written(card).contributions) >= 4 * 4 + 4
