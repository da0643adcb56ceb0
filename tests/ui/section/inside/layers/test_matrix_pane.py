"""A head as a matrix: rows that come one by one, masks to be seen, formulas that give the share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_inside import PROMPT, AnsweredByHand, seen_of
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeDesk

from app.amounts import percent
from app.chat.inspection.inside import ROW_WANTED
from app.insight.inside.attention_matrix import Cell, HeadRow
from ui.look.theme import Theme
from ui.section.inside.layers.attention_card import AttentionCard
from ui.section.inside.layers.attention_matrix import MatrixView
from ui.section.inside.layers.matrix_pane import CHOOSE, NO_FORMULA, PLAIN, STRIPED
from ui.section.looking import Looking

WINDOW = 2


class Rows:
    """`desk.inside.row_at`, answered when the test says so: keys and queries of a little network
    whose shares are their softmax."""

    def __init__(self, desk: FakeDesk) -> None:
        self.asked: list[tuple[int, int, Callable[[HeadRow], None], Any, Callable[[], bool]]] = []
        self.n_stopped = 0
        self.window = 0
        chance = np.random.default_rng(3)
        self.queries = chance.standard_normal((20, 4, 16)).astype(np.float32)
        self.keys = chance.standard_normal((20, 2, 16)).astype(np.float32)
        desk.inside.row_at = self._ask
        desk.inside.stop_rows = self._stop

    def _ask(
        self, text: Any, place: int, layer: int, then: Any, failed: Any, *, still: Any
    ) -> None:
        self.asked.append((place, layer, then, failed, still))

    def _stop(self) -> None:
        self.n_stopped += 1

    def row(self, place: int, layer: int) -> HeadRow:
        """The shares differ from layer to layer by how large its queries are."""
        query = self.queries[place] * (layer + 1)
        keys = np.repeat(self.keys[: place + 1], 2, axis=1)
        powers = np.exp(np.einsum("hd,jhd->hj", query, keys).astype(np.float64) / 4)
        if self.window:
            powers[:, : max(place + 1 - self.window, 0)] = 0
        shares = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
        return HeadRow(shares, query, self.keys[place])

    def answer(self) -> int:
        place, layer, then, _, still = self.asked.pop(0)
        if still():
            then(self.row(place, layer))
        return place

    def answer_all(self) -> None:
        while self.asked:
            self.answer()


@pytest.fixture
def rows(desk: FakeDesk) -> Rows:
    return Rows(desk)


@pytest.fixture
def card(show_card: Any, rows: Rows) -> AttentionCard:
    """The chosen head of the reply's second token, as a matrix."""
    made: AttentionCard = show_card(AttentionCard, 900, token=1)
    give_attention(made, rows)
    assert rows.asked == []  # nothing is asked for the text
    made.view.choose_head(2, 1)
    assert rows.asked == []
    made.form.setCurrentIndex(1)
    return made


def give_attention(card: AttentionCard, rows: Rows) -> None:
    """What the card shows comes of the same network as the rows."""
    view = card.view
    assert view.seen is not None
    attention = np.stack([rows.row(view.seen.place, layer).shares for layer in range(4)])
    view.seen = replace(view.seen, arrays={**view.seen.arrays, "attention": attention})
    view.seen_changed.emit()


def picture(card: AttentionCard) -> MatrixView:
    return card.matrix.picture


def cell(card: AttentionCard, row: int, column: int) -> QPoint:
    return picture(card).cell(row, column).center().toPoint()


def test_rows_come_one_by_one_and_the_selected_token_s_is_there_at_once(
    card: AttentionCard, rows: Rows
) -> None:
    place = len(PROMPT)
    shown = picture(card)
    assert shown.isVisible()
    assert shown.shares[place] == pytest.approx(card._whole, abs=0)  # the row of the text
    assert np.isnan(shown.shares[:place]).all()
    for expected in range(place + 1):
        assert [(each[0], each[1]) for each in rows.asked] == [(expected, 2)]
        assert rows.answer() == expected
        assert np.array_equal(
            picture(card).shares[expected, : expected + 1], rows.row(expected, 2).shares[1]
        )
    assert rows.asked == []
    assert shown.shares.sum(axis=1) == pytest.approx(np.ones(place + 1), abs=1e-5)
    assert card.matrix.note.isHidden()


def test_in_place_of_the_text_which_comes_back(card: AttentionCard, rows: Rows) -> None:
    assert (card.text.isHidden(), card.matrix.isHidden()) == (True, False)
    card.form.setCurrentIndex(0)
    assert (card.text.isHidden(), card.matrix.isHidden()) == (False, True)
    assert not rows.asked[0][4]()
    assert rows.n_stopped == 1


def test_another_head_of_the_layer_asks_for_nothing_and_another_layer_does(
    card: AttentionCard, rows: Rows, qtbot: QtBot
) -> None:
    rows.answer_all()
    card.view.choose_head(2, 3)
    assert rows.asked == []
    assert np.array_equal(picture(card).shares[3, :4], rows.row(3, 2).shares[3])
    qtbot.mouseMove(card.grid, card.grid._cell(2, 0).center())  # hover to view
    assert np.array_equal(picture(card).shares[3, :4], rows.row(3, 2).shares[0])
    qtbot.mouseMove(card.grid, card.grid._cell(1, 0).center())
    assert rows.asked == []
    qtbot.mouseMove(card.grid, QPoint(1, 1))
    card.view.choose_layer(1)
    assert rows.asked[0][1] == 1
    rows.answer_all()
    card.view.choose_head(1, None)
    mean = rows.row(3, 1).shares.mean(axis=0)
    assert picture(card).shares[3, :4] == pytest.approx(mean, abs=1e-6)
    assert "Mean of the layer's heads" in picture(card)._words(3, 1)


def test_without_a_layer_it_says_what_to_click(card: AttentionCard, rows: Rows) -> None:
    still = rows.asked[0][4]
    card.view.choose_head(None, None)
    assert (card.matrix.note.text(), picture(card).isHidden()) == (CHOOSE, True)
    assert not still()


def test_a_cell_tells_the_formula_with_its_numbers(card: AttentionCard, rows: Rows) -> None:
    rows.answer_all()
    words = picture(card)._words(3, 1)
    row = rows.row(3, 2)
    product = float(row.query[1] @ rows.keys[1, 0])  # type: ignore[index]
    share = float(row.shares[1, 1])
    first, second, third = words.splitlines()
    assert first == f"“·is” looks at “The”: {percent(share)}"
    assert second == f"s = q · k ÷ √16 = {product:.2f} ÷ 4 = {product / 4:.3f}"
    found = re.fullmatch(r"e\^s ÷ Σ e\^s = e\^\((\S+) − (\S+)\) = (\S+)", third)
    assert found is not None
    score, total = (float(found[at].replace("−", "-")) for at in (1, 2))
    assert np.exp(score - total) == pytest.approx(share, abs=2e-3)
    assert found[3] == percent(share)


def test_switches_add_their_steps_to_the_formula(
    card: AttentionCard, rows: Rows, qtbot: QtBot
) -> None:
    rows.answer_all()
    assert card.view.seen is not None
    norms = card.view.seen.arrays["value_norms"][2, 1]
    plain = rows.row(3, 2).shares[1]
    weighted = plain * norms[:4] / (plain * norms[:4]).sum()
    qtbot.mouseClick(card.value_switch, Qt.MouseButton.LeftButton)
    assert picture(card).shares[3, :4] == pytest.approx(weighted, abs=1e-5)
    line = picture(card)._words(3, 2).splitlines()[-1]
    assert line.startswith(f"{percent(float(plain[2]))} · ‖v·W_O‖ {norms[2]:.3g} ÷ Σ ")
    assert line.endswith(f" = {percent(float(weighted[2]))}")
    qtbot.mouseClick(card.sink_switch, Qt.MouseButton.LeftButton)
    rest = weighted[2] / (1 - weighted[0])
    assert picture(card).shares[3, 2] == pytest.approx(rest, abs=1e-5)
    assert picture(card).shares[3, 0] == 0
    assert picture(card)._words(3, 2).splitlines()[-1] == (
        f"{percent(float(weighted[2]))} ÷ (100% − {percent(float(weighted[0]))} on the first token)"
        f" = {percent(float(rest))}"
    )


def test_where_the_formula_does_not_hold_that_is_said(card: AttentionCard, rows: Rows) -> None:
    made = rows.row
    rows.row = lambda place, layer: made(place, layer)._replace(  # type: ignore[method-assign]
        shares=np.full((4, place + 1), 1 / (place + 1), np.float32)
    )
    rows.answer_all()
    assert NO_FORMULA in picture(card)._words(3, 1)


def test_what_comes_later_and_what_a_window_hides_are_drawn_differently_from_nothing(
    card: AttentionCard, rows: Rows, theme: Theme
) -> None:
    rows.window = WINDOW
    give_attention(card, rows)
    card.view.choose_layer(3)
    rows.answer_all()
    shown = picture(card)
    assert shown.cells[3, :5].tolist() == [
        Cell.OUTSIDE,
        Cell.OUTSIDE,
        Cell.SEEN,
        Cell.SEEN,
        Cell.LATER,
    ]
    assert card.matrix.note.text() == STRIPED
    assert "is outside this layer's window for “·is”" in shown._words(3, 0)
    assert "comes after “·is”" in shown._words(3, 4)
    shares = shown.shares.copy()
    shares[3, 2] = 0.0
    shown.show_cells(shares, shown.cells, shown._words)
    image = shown.grab().toImage()

    def colors(column: int) -> set[str]:
        rect = shown.cell(3, column).adjusted(2, 2, -2, -2).toAlignedRect()
        ratio = image.devicePixelRatio()
        return {
            image.pixelColor(int(x * ratio), int(y * ratio)).name()
            for x in range(rect.left(), rect.right())
            for y in range(rect.top(), rect.bottom())
        }

    nothing, later, outside = colors(2), colors(4), colors(1)
    assert len(nothing) == len(later) == 1
    assert nothing != later
    assert len(outside) > 1, "stripes"


def test_values_that_a_window_hides_leave_plain_attention_and_that_is_said(
    card: AttentionCard, rows: Rows, qtbot: QtBot
) -> None:
    rows.window = WINDOW
    give_attention(card, rows)
    card.view.choose_layer(3)
    qtbot.mouseClick(card.value_switch, Qt.MouseButton.LeftButton)
    rows.answer_all()
    assert np.array_equal(picture(card).shares[3, :4], rows.row(3, 3).shares[1])
    assert card.matrix.note.text() == f"{STRIPED} {PLAIN}"


def test_a_row_that_is_clicked_selects_its_token(
    card: AttentionCard, rows: Rows, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    rows.answer_all()
    for point, place in (
        (cell(card, 2, 1), 2),
        (QPoint(3, cell(card, 1, 0).y()), 1),  # its word
    ):
        qtbot.mouseClick(picture(card), Qt.MouseButton.LeftButton, pos=point)
        inside.answer()
        assert card.view.place == place
        assert len(picture(card).rows) == place + 1


def test_keys_go_from_cell_to_cell_and_tell_them(
    card: AttentionCard, rows: Rows, inside: AnsweredByHand
) -> None:
    rows.answer_all()
    shown, last = picture(card), len(PROMPT)
    QTest.keyClick(shown, Qt.Key.Key_Left)
    assert shown.current == (last, last)
    QTest.keyClick(shown, Qt.Key.Key_Up)
    QTest.keyClick(shown, Qt.Key.Key_Left)
    QTest.keyClick(shown, Qt.Key.Key_Left)
    assert shown.current == (last - 1, last - 2)
    assert shown.accessibleDescription() == shown._words(last - 1, last - 2)
    QTest.keyClick(shown, Qt.Key.Key_Return)
    inside.answer()
    assert card.view.place == last - 1


def test_rows_of_a_token_that_was_left_are_dropped(
    card: AttentionCard, rows: Rows, looking: Looking, inside: AnsweredByHand
) -> None:
    late = rows.asked.pop(0)
    looking.select(2)
    inside.answer(is_whole=False)
    assert not late[4]()
    assert (rows.asked, picture(card).is_pending) == ([], True)  # the lens goes first
    looking.select(3)
    inside.answer()
    assert rows.asked[0][0] == 0
    assert len(picture(card).rows) == len(PROMPT) + 3
    card.set_open(False)
    assert not rows.asked[0][4]()
    rows.asked.clear()
    card.set_open(True)
    assert rows.asked[0][0] == 0  # asked anew
    card.set_active(False)
    assert not rows.asked[0][4]()


def test_a_blank_one_tells_and_chooses_nothing(
    card: AttentionCard, rows: Rows, looking: Looking, inside: AnsweredByHand
) -> None:
    rows.answer_all()
    shown, chosen = picture(card), []
    shown.row_chosen.connect(chosen.append)
    QTest.keyClick(shown, Qt.Key.Key_Left)
    assert shown.accessibleDescription()
    looking.select(2)
    inside.answer(is_whole=False)
    assert (shown.is_pending, shown.accessibleDescription()) == (True, "")
    QTest.keyClick(shown, Qt.Key.Key_Up)
    QTest.keyClick(shown, Qt.Key.Key_Return)
    at = cell(card, 1, 1)
    QTest.mouseClick(shown, Qt.MouseButton.LeftButton, pos=at)
    assert (shown.accessibleDescription(), shown.words_at(at.toPointF()), chosen) == ("", "", [])


def test_rows_of_weights_that_are_gone_are_dropped(
    card: AttentionCard, rows: Rows, desk: FakeDesk
) -> None:
    late = rows.asked.pop(0)
    desk.loader.loaded = "other"
    card.view.seen_changed.emit()
    assert not late[4]()


def test_a_failure_is_a_sentence_and_asks_no_further(card: AttentionCard, rows: Rows) -> None:
    rows.answer()
    rows.asked.pop(0)[3]("No room.")
    assert (card.matrix.note.text(), card.matrix.note.isVisible()) == ("No room.", True)
    assert rows.asked == []
    assert not np.isnan(picture(card).shares[0, 0])  # what came stays


def test_a_layer_without_attention_says_so(card: AttentionCard, rows: Rows) -> None:
    view = card.view
    assert view.seen is not None
    attention = view.seen.arrays["attention"].copy()
    attention[3] = np.nan
    view.seen = replace(view.seen, arrays={**view.seen.arrays, "attention": attention})
    view.choose_layer(3)
    rows.asked.pop(0)[3]("This layer has no attention.")
    assert card.matrix.note.text() == "This layer has no attention."
    assert np.isnan(picture(card).shares).all()


@pytest.mark.parametrize("n_rows", [1, 5, 32])
@pytest.mark.parametrize("width", [200, 340, 900])
def test_each_cell_has_a_place_of_its_own(
    theme: Theme, qtbot: QtBot, n_rows: int, width: int
) -> None:
    shown = MatrixView(theme)
    qtbot.addWidget(shown)
    n_before = 2 if n_rows == 32 else 0
    names = [str(at) for at in range(n_rows)]
    shown.show_labels(names, ["<s>", "…"][:n_before] + names, n_before)
    shown.resize(width, shown.heightForWidth(width))
    places = [(r, c) for r in range(n_rows) for c in range(n_rows + n_before)]
    assert [shown.at(shown.cell(*place).center()) for place in places] == places
    assert shown.cell(n_rows - 1, n_rows + n_before - 1).right() <= width
    assert shown.cell(n_rows - 1, 0).bottom() <= shown.height()


def test_what_the_card_asks_for_is_known_by_name() -> None:
    assert set(ROW_WANTED) <= set(seen_of([1, 2, 3], 2).arrays)
