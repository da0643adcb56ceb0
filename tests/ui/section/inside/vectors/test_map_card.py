"""Words of one's own on a map: what is left out, what is lost, and who is next to whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_embedding import CAT, DOG, KING, MAN, QUEEN, WOMAN, WORDS, EmbeddingByHand
from made_inside import AnsweredByHand
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.inside.vectors import map_card
from ui.section.inside.vectors.map_card import STARTING, TOO_FEW, MapCard, words_in
from ui.section.looking import Looking

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def card(embedding: EmbeddingByHand, show_card: Any) -> MapCard:
    """Closed, beside the reply's first token."""
    return show_card(MapCard, 600)


def type_in(card: MapCard, words: str, qtbot: QtBot) -> None:
    card.text.setFocus()
    card.text.selectAll()
    QTest.keyClicks(card.text, words)
    qtbot.waitUntil(lambda: not card._rest.isActive())


def place(card: MapCard, word: str) -> QPoint:
    return card.map.place_of(card.map.words.index(word)).toPoint()


def cosine_order(rows: np.ndarray, token_id: int, others: list[int]) -> list[int]:
    centred = rows - rows.mean(axis=0)
    units = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return sorted(others, key=lambda other: -float(units[other] @ units[token_id]))


def test_it_asks_nothing_before_it_is_opened(card: MapCard, embedding: EmbeddingByHand) -> None:
    assert embedding.asked == []
    QTest.mouseClick(card.fold_button, LEFT)
    known = [WORDS[word][0] for word in words_in(STARTING) if word in WORDS]
    assert embedding.asked[-1] == ("map", tuple(known))
    assert card.map.map is None
    embedding.answer("map")
    assert card.placed is not None
    assert card.map.map is card.placed.map
    assert len(card.map.words) == len(known)


def test_words_are_laid_out_and_those_of_several_tokens_left_out(
    card: MapCard, embedding: EmbeddingByHand, qtbot: QtBot
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    embedding.answer("map")
    type_in(card, "dog, cat king strawberry queen man woman", qtbot)
    assert embedding.asked[-1] == ("map", (DOG, CAT, KING, QUEEN, MAN, WOMAN))
    assert card.left_out.text() == "Not one token here, so left out: “strawberry” (2 tokens)."
    embedding.answer("map")
    assert card.map.words == ("dog", "cat", "king", "queen", "man", "woman")
    assert card.placed is not None
    found = card.placed.map
    assert f"The axes show {100 * found.variance.sum():.0f}% of the variance" in card.words.text()
    # what is near on the map is near in the picture: one scale for both axes
    spots = np.array([[p.x(), -p.y()] for p in map(card.map.place_of, range(6))])
    ratio = np.ptp(spots, axis=0) / np.ptp(found.points, axis=0)
    assert ratio[0] == pytest.approx(ratio[1])
    QTest.mouseClick(card.reset, LEFT)
    assert card.text.toPlainText() == STARTING
    assert not card.reset.isVisible()


def test_a_word_that_is_clicked_shows_its_neighbours(
    card: MapCard, embedding: EmbeddingByHand, qtbot: QtBot
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    type_in(card, "dog cat king queen man woman cow red", qtbot)
    embedding.answer("map")
    lost = card.words.text()
    QTest.mouseClick(card.map, LEFT, pos=place(card, "queen"))
    assert card.map.chosen == 3
    others = [WORDS[word][0] for word in card.map.words if word != "queen"]
    nearest = cosine_order(embedding.rows, QUEEN, others)[:5]
    names = {ids[0]: word for word, ids in WORDS.items()}
    listed = ", ".join(f"“{names[token_id]}”" for token_id in nearest)
    assert card.words.text().startswith(f"“queen” is nearest to {listed}. ")
    apart = [
        float(np.hypot(*(place(card, "queen") - place(card, names[i])).toTuple())) for i in others
    ]
    near = {others[at] for at in np.argsort(apart)[:5]}
    assert f"{len(near & set(nearest))} of 5 are also nearest on the map" in card.words.text()
    QTest.keyClick(card.map, Qt.Key.Key_Right)
    assert card.words.text().startswith("“man” is nearest to ")
    QTest.mouseClick(card.map, LEFT, pos=place(card, "man"))
    assert (card.map.chosen, card.words.text()) == (None, lost)


def test_hover_names_a_point(card: MapCard, embedding: EmbeddingByHand, qtbot: QtBot) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    embedding.answer("map")
    at = place(card, "king")
    event = QHelpEvent(QEvent.Type.ToolTip, at, card.map.mapToGlobal(at))
    QApplication.sendEvent(card.map, event)
    assert QToolTip.text().startswith("“king” is nearest to ")
    qtbot.mouseMove(card.map, at)
    assert card.map.hovered == card.map.words.index("king")


def test_with_fewer_than_two_words_there_is_no_map(
    card: MapCard, embedding: EmbeddingByHand, qtbot: QtBot
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    embedding.answer("map")
    type_in(card, "dog strawberry", qtbot)
    assert card.words.text() == TOO_FEW
    assert not card.map.isVisible()
    type_in(card, "dog cat", qtbot)
    embedding.answer("map")
    assert card.map.isVisible()


def test_of_many_words_that_are_left_out_some_are_named(
    card: MapCard, embedding: EmbeddingByHand, qtbot: QtBot
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    type_in(card, "dog cat strawberry u v w x y z", qtbot)
    assert card.left_out.text() == (
        "Not one token here, so left out: “strawberry” (2 tokens), “u” (0 tokens), "
        "“v” (0 tokens), “w” (0 tokens), “x” (0 tokens) and 2 more."
    )


def test_more_words_than_can_be_seen_are_cut(
    card: MapCard, embedding: EmbeddingByHand, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_card, "MOST", 3)
    QTest.mouseClick(card.fold_button, LEFT)
    type_in(card, "dog cat king queen", qtbot)
    assert embedding.asked[-1] == ("map", (DOG, CAT, KING))
    assert card.left_out.text() == "Only the first 3 words are shown."


def test_a_map_of_words_that_are_typed_no_more_is_dropped(
    card: MapCard, embedding: EmbeddingByHand, qtbot: QtBot
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    late = embedding.late_answer("map")
    embedding.has_words_at_once = False
    type_in(card, "man woman strawberry", qtbot)
    late()
    assert card.placed is None
    waiting, embedding.waiting_words = embedding.waiting_words, []
    type_in(card, "king queen", qtbot)
    for give in waiting:
        give()
    asked = [about for kind, about in embedding.asked if kind == "map"]
    assert asked[1:] == [(KING, QUEEN)], "nothing of the words before"


def test_what_fails_is_said_and_asked_again(
    card: MapCard, embedding: EmbeddingByHand, looking: Looking, inside: AnsweredByHand
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    embedding.fail("map", "These words couldn't be laid out.")
    assert card.words.text() == "These words couldn't be laid out."
    looking.select(1)
    inside.answer()
    assert embedding.is_asked("map")


@pytest.mark.parametrize(("zoom", "mode"), [(100, "dark"), (200, "light")])
def test_it_is_painted_in_every_theme(
    card: MapCard, embedding: EmbeddingByHand, theme: Theme, zoom: int, mode: str
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    embedding.answer("map")
    theme.set_zoom(zoom)
    theme.set_mode(mode)
    card.resize(376 * zoom // 100, 900)
    QTest.mouseClick(card.map, LEFT, pos=place(card, "dog"))
    image = card.map.grab().toImage()
    assert image.pixelColor(place(card, "dog")).name() == theme.colors.accent
