"""The lens at the last places of the text: a column each, asked for one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from made_inside import PROMPT, AnsweredByHand, seen_of
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from recording_desk import FakeDesk

from app.insight.inside.votes import lens_of
from ui.section.inside.layers.lens_map_card import N_PLACES, LensMapCard
from ui.section.looking import Looking


class Lenses:
    """`desk.inside.lens_at`, answered when the test says so."""

    def __init__(self, desk: FakeDesk) -> None:
        self.asked: list[tuple[int, Any, Any, Any]] = []
        desk.inside.lens_at = self._ask

    def _ask(self, text: Any, place: int, then: Any, failed: Any, *, still: Any) -> None:
        self.asked.append((place, lambda: then(seen_of(text.ids, place, ("lens",))), failed, still))

    def answer(self) -> int:
        place, answer, _, still = self.asked.pop(0)
        if still():
            answer()
        return place


@pytest.fixture
def lenses(desk: FakeDesk) -> Lenses:
    return Lenses(desk)


@pytest.fixture
def card(show_card: Any, lenses: Lenses) -> LensMapCard:
    made: LensMapCard = show_card(LensMapCard, 300, token=1)
    assert lenses.asked == []  # closed it asks nothing
    made.set_open(True)
    return made


def test_columns_come_one_by_one_this_token_s_first(card: LensMapCard, lenses: Lenses) -> None:
    place = len(PROMPT)
    assert card.map.places == list(range(place + 1))
    for expected in range(place, -1, -1):
        assert [each[0] for each in lenses.asked] == [expected]
        assert lenses.answer() == expected
        assert expected in card.map.columns
    assert lenses.asked == []
    assert card.view.text is not None
    lens = lens_of(seen_of(card.view.text.ids, place, ("lens",)).arrays)
    assert lens is not None
    shown = card.map.columns[place]
    assert (shown.ids == lens.ids).all()
    assert card.map.n_layer == len(lens)


def test_a_cell_tells_what_was_readable_and_where_the_next_token_stood(
    card: LensMapCard, lenses: Lenses
) -> None:
    lenses.answer()
    column = len(card.map.places) - 1
    lens = card.map.columns[card.map.places[column]]
    words = card.map.words_of(2, column)
    assert words.startswith("Layer 2 at “·Paris”")
    assert f"has rank {int(lens.ranks[2]):,}" in words  # type: ignore[index]
    assert card.map.words_of(0, 0) == "Token 1, “<s>”"  # not here yet
    center = card.map.cell(2, column).center()
    assert card.map.at(center) == (2, column)
    assert card.map.at(card.map.cell(-1, 0).center()) == (-1, 0)


def test_a_column_leads_to_its_place(
    card: LensMapCard, lenses: Lenses, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    lenses.answer()
    point = card.map.cell(1, 2).center().toPoint()
    qtbot.mouseClick(card.map, Qt.MouseButton.LeftButton, pos=point)
    inside.answer()
    assert card.view.place == 2


def test_columns_of_a_token_that_was_left_are_dropped(
    card: LensMapCard, lenses: Lenses, looking: Looking, inside: AnsweredByHand
) -> None:
    late = lenses.asked.pop(0)
    looking.select(2)
    inside.answer()
    assert not late[3]()
    assert lenses.asked[0][0] == len(PROMPT) + 1
    card.set_open(False)
    assert not lenses.asked[0][3]()
    lenses.asked.clear()
    card.set_open(True)
    assert lenses.asked[0][0] == len(PROMPT) + 1  # asked anew


def test_a_failure_is_a_sentence_and_asks_no_further(card: LensMapCard, lenses: Lenses) -> None:
    lenses.asked.pop(0)[2]("No room.")
    assert card.sentence.text() == "No room."
    assert card.sentence.isVisible()
    assert lenses.asked == []


def test_no_more_than_the_last_places_are_asked_for(
    card: LensMapCard, lenses: Lenses, looking: Looking, inside: AnsweredByHand
) -> None:
    looking.select(3)
    inside.answer()
    assert len(card.map.places) == min(N_PLACES, len(PROMPT) + 3)
