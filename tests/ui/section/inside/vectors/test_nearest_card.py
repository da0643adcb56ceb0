"""Tokens that point the same way as the one that was read, or as a sum that is typed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from made_embedding import CAPITAL_KING, CAT, DOG, KING, MAN, QUEEN, WOMAN, EmbeddingByHand
from made_inside import AnsweredByHand
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot
from shown_numbers import numbers_in

from ui.look.theme import Theme
from ui.section.inside.vectors.embedding_card import EmbeddingCard
from ui.section.inside.vectors.nearest_card import NearestCard
from ui.section.inside.view import InsideView
from ui.section.looking import Looking
from ui.section.panel import Tools

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def card(looking: Looking, embedding: EmbeddingByHand, show_card: Any) -> NearestCard:
    """Closed, beside the reply's first token."""
    return show_card(NearestCard, 600)


def type_in(card: NearestCard, *words: str) -> None:
    for field, word in zip(card.fields, words, strict=False):
        field.setFocus()
        field.selectAll()
        QTest.keyClicks(field, word) if word else QTest.keyClick(field, Qt.Key.Key_Delete)
    QTest.keyClick(card.fields[0], Qt.Key.Key_Return)


def own_token(card: NearestCard) -> int:
    assert card.view.text is not None
    assert card.view.place is not None
    return card.view.text.ids[card.view.place]


def hint(card: NearestCard, row: int) -> str:
    place = card.table.rect_of(row).center().toPoint()
    event = QHelpEvent(QEvent.Type.ToolTip, place, card.table.mapToGlobal(place))
    QApplication.sendEvent(card.table, event)
    return QToolTip.text()


def centred_cosines(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """`wanted` is a sum of centred rows."""
    centred = rows - rows.mean(axis=0)
    return centred @ wanted / np.linalg.norm(centred, axis=1) / np.linalg.norm(wanted)


def test_it_asks_nothing_before_it_is_opened_nor_before_all_else_is_known(
    card: NearestCard, embedding: EmbeddingByHand, looking: Looking, inside: AnsweredByHand
) -> None:
    assert embedding.asked == []
    looking.select(1)
    inside.answer(is_whole=False)
    QTest.mouseClick(card.fold_button, LEFT)
    assert embedding.asked == []
    inside.answer()
    assert embedding.asked == [("nearest", ((own_token(card), 1.0),))]


def test_with_nothing_typed_it_is_about_the_token_that_was_read(
    card: NearestCard, embedding: EmbeddingByHand, looking: Looking, inside: AnsweredByHand
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    embedding.progress(1, 4)
    assert card.words.text().endswith("25%")
    embedding.answer("nearest")
    own = own_token(card)
    cosines = centred_cosines(embedding.rows, (embedding.rows - embedding.rows.mean(axis=0))[own])
    first = card.table.found[0]
    assert (first.token_ids[0], first.is_input) == (own, True)
    assert card.table.best is None
    shown = [each.cosine for each in card.table.found]
    assert shown == pytest.approx(np.sort(cosines)[::-1][: len(shown)], abs=1e-5)
    looking.select(1)
    inside.answer()
    assert card.table.found == ()
    assert embedding.asked[-1] == ("nearest", ((own_token(card), 1.0),))


def test_a_sum_keeps_its_inputs_in_the_ranking_and_marks_them(
    card: NearestCard, embedding: EmbeddingByHand
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    type_in(card, "king", "man", "woman")
    assert embedding.asked[-1] == ("nearest", ((KING, 1.0), (MAN, -1.0), (WOMAN, 1.0)))
    embedding.answer("nearest")
    by_word = {token_id: each for each in card.table.found for token_id in each.token_ids}
    assert by_word[KING].is_input
    assert by_word[CAPITAL_KING] is by_word[KING], "a spelling of an input"
    assert card.table.best is by_word[QUEEN]
    assert card.words.text() == "“·king” − “·man” + “·woman” → “·queen”"
    centred = embedding.rows - embedding.rows.mean(axis=0)
    cosines = centred_cosines(embedding.rows, centred[KING] - centred[MAN] + centred[WOMAN])
    rank = int((cosines > cosines[MAN]).sum()) + 1
    told = next(each for each in card.note.text().split("“") if each.startswith("·man”"))
    assert cosines[MAN] < 0, "a number above zero proves less"
    assert numbers_in(told) == pytest.approx([rank, cosines[MAN]], abs=0.006)
    row = card.table.found.index(by_word[KING])
    assert hint(card, row).splitlines()[1:] == ["also spelled “·king”", "one of the inputs"]


def test_pieces_of_characters_are_no_spellings_of_each_other(
    card: NearestCard, embedding: EmbeddingByHand
) -> None:
    for token_id in (100, 101, 102):
        embedding.rows[token_id] = embedding.rows[DOG] + 0.01 * token_id
    QTest.mouseClick(card.fold_button, LEFT)
    type_in(card, "dog")
    embedding.answer("nearest")
    found = [each.token_ids for each in card.table.found[:4]]
    assert sorted(found) == [(DOG,), (100,), (101,), (102,)]


def test_a_word_of_several_tokens_says_so(card: NearestCard, embedding: EmbeddingByHand) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    n_asked = sum(kind == "nearest" for kind, _ in embedding.asked)
    type_in(card, "strawberry")
    assert card.words.text() == (
        "“strawberry” is 2 tokens here (“·straw”, “berry”), so it has no vector of its own."
    )
    assert sum(kind == "nearest" for kind, _ in embedding.asked) == n_asked
    type_in(card, "dog")
    assert embedding.asked[-1] == ("nearest", ((DOG, 1.0),))


def test_what_is_typed_is_asked_after_a_rest_and_stays_from_token_to_token(
    card: NearestCard,
    embedding: EmbeddingByHand,
    looking: Looking,
    inside: AnsweredByHand,
    qtbot: QtBot,
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    QTest.keyClicks(card.fields[0], "cat")
    qtbot.waitUntil(lambda: embedding.asked[-1] == ("nearest", ((CAT, 1.0),)))
    embedding.answer("nearest")
    n_asked, found = len(embedding.asked), card.table.found
    looking.select(2)
    inside.answer()
    assert (len(embedding.asked), card.table.found) == (n_asked, found)
    QTest.mouseClick(card.clear, LEFT)
    assert embedding.asked[-1] == ("nearest", ((own_token(card), 1.0),))
    assert card.fields[0].hasFocus()
    QTest.mouseClick(card.example, LEFT)
    assert embedding.asked[-1] == ("nearest", ((KING, 1.0), (MAN, -1.0), (WOMAN, 1.0)))


def test_an_answer_about_what_is_typed_no_more_is_dropped(
    card: NearestCard, embedding: EmbeddingByHand
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    late = embedding.late_answer("nearest")
    embedding.has_words_at_once = False
    type_in(card, "dog")
    late()
    assert card.table.found == ()
    type_in(card, "cat")
    old, new = embedding.waiting_words
    new()
    assert embedding.asked[-1] == ("nearest", ((CAT, 1.0),))
    late = embedding.late_answer("nearest")
    old()
    assert not embedding.is_asked("nearest")
    type_in(card, "king")
    late()
    assert card.table.found == ()


def test_whoever_goes_on_does_not_wait_for_the_token_before(
    card: NearestCard, embedding: EmbeddingByHand, looking: Looking, inside: AnsweredByHand
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    assert embedding.is_asked("nearest")
    looking.select(1)
    assert not embedding.is_asked("nearest")
    inside.answer()
    assert embedding.is_asked("nearest")
    type_in(card, "king")
    looking.select(2)
    assert embedding.is_asked("nearest"), "what was typed is no matter of the token"


def test_a_failure_is_said_and_asked_again_at_the_next_token(
    card: NearestCard, embedding: EmbeddingByHand, looking: Looking, inside: AnsweredByHand
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    embedding.fail("nearest", "This file has no embedding matrix.")
    assert card.words.text() == "This file has no embedding matrix."
    looking.select(1)
    inside.answer()
    assert embedding.is_asked("nearest")


@pytest.mark.parametrize(("zoom", "mode"), [(100, "dark"), (200, "light")])
def test_it_is_painted_in_every_theme(
    card: NearestCard, embedding: EmbeddingByHand, theme: Theme, zoom: int, mode: str
) -> None:
    QTest.mouseClick(card.fold_button, LEFT)
    type_in(card, "king", "man", "woman")
    embedding.answer("nearest")
    theme.set_zoom(zoom)
    theme.set_mode(mode)
    card.resize(376 * zoom // 100, 900)
    image = card.table.grab().toImage()
    row = next(at for at, each in enumerate(card.table.found) if each.is_input)
    middle = round(card.table.rect_of(row).center().y())
    pixels = {image.pixelColor(x, middle).name() for x in range(image.width())}
    assert theme.colors.second in pixels, "the bar of an input"


# --- the vector's length -----------------------------------------------------------------------


@pytest.fixture
def first_card(
    view: InsideView, tools: Tools, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> EmbeddingCard:
    made = EmbeddingCard(tools, view)
    qtbot.addWidget(made)
    made.show()
    made.set_active(True)
    view.set_awake(True)
    looking.select(0)
    return made


def test_what_a_length_means_is_asked_once_all_else_is_known(
    first_card: EmbeddingCard, embedding: EmbeddingByHand, inside: AnsweredByHand, looking: Looking
) -> None:
    inside.answer(is_whole=False)
    assert embedding.asked == []
    inside.answer()
    assert [kind for kind, _ in embedding.asked] == ["facts", "read"]
    embedding.answer("facts")
    lengths = np.percentile(np.linalg.norm(embedding.rows, axis=1), [1, 99])
    assert (
        "98% of all vectors are {:.2f} to {:.2f} long".format(*lengths) in first_card.words.text()
    )


def test_where_all_are_of_one_length_that_is_said(
    first_card: EmbeddingCard, embedding: EmbeddingByHand, inside: AnsweredByHand
) -> None:
    embedding.rows /= np.linalg.norm(embedding.rows, axis=1, keepdims=True)
    inside.answer()
    embedding.answer("facts")
    assert first_card.words.text().endswith("so length says nothing here.")


@pytest.mark.parametrize("scale", [1.0, 25.3])
def test_a_row_that_is_scaled_on_its_way_in_says_by_how_much(
    first_card: EmbeddingCard, embedding: EmbeddingByHand, inside: AnsweredByHand, scale: float
) -> None:
    inside.answer()
    view = first_card.view
    assert view.seen is not None
    entered = np.asarray(view.seen.arrays["embedding"])
    token_id = embedding.asked[-1][1][0]
    embedding.rows[token_id] = entered / scale
    embedding.answer("read")
    length = np.linalg.norm(entered) / scale
    words = f"In the file it is {length:.2f} long; this model multiplies it by {scale:.2f}."
    assert (words in first_card.words.text()) == (scale != 1)


def test_lengths_that_come_for_another_token_are_dropped(
    first_card: EmbeddingCard, embedding: EmbeddingByHand, inside: AnsweredByHand, looking: Looking
) -> None:
    inside.answer()
    late = embedding.late_answer("read")
    looking.select(1)
    inside.answer()
    before = first_card.words.text()
    late()
    assert first_card.words.text() == before


def test_the_matrix_is_not_read_on_for_a_token_that_was_left(
    first_card: EmbeddingCard, embedding: EmbeddingByHand, inside: AnsweredByHand, looking: Looking
) -> None:
    inside.answer()
    looking.select(1)
    assert not embedding.is_asked("facts")
    inside.answer()
    embedding.answer("facts")
    looking.select(2)
    inside.answer()
    assert [kind for kind, _ in embedding.asked].count("read") == 3
