"""How a model knows the order of words: its waves, its dials, and two words that change places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from made_embedding import EmbeddingByHand
from made_inside import PROMPT, AnsweredByHand, seen_of
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from recording_desk import FakeDesk
from shown_numbers import numbers_in

from app.chat.surroundings import Still
from app.engine.process.scripted.inside import D_HEAD, N_LAYER, ROPE_BASE
from app.engine.protocol.embedding_messages import Rotations
from app.engine.protocol.frames import Array
from app.insight.inside.exchange import compare, exchanged
from app.insight.inside.position import Position
from app.insight.inside.word_spans import Span
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.section.inside.vectors.position_card import PositionCard
from ui.section.inside.vectors.word_swap import NO_WORDS, STAYS
from ui.section.looking import Looking

LEFT = Qt.MouseButton.LeftButton
PLACE = len(PROMPT) - 1


@pytest.fixture
def closed(embedding: EmbeddingByHand, show_card: Any) -> PositionCard:
    """Beside the reply's first token."""
    return show_card(PositionCard, 700)


@pytest.fixture
def order(desk: FakeDesk) -> OrderByHand:
    return OrderByHand(desk)


@pytest.fixture
def card(closed: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand) -> PositionCard:
    """Open, and all of it known."""
    QTest.mouseClick(closed.fold_button, LEFT)
    inside.answer()
    embedding.answer("turn")
    return closed


def hint(widget: QWidget, at: QPointF) -> str:
    place = at.toPoint()
    event = QHelpEvent(QEvent.Type.ToolTip, place, widget.mapToGlobal(place))
    QApplication.sendEvent(widget, event)
    return QToolTip.text()


def angle(pair: int, position: int = PLACE) -> float:
    """In degrees, by the formula of the paper."""
    return float(np.degrees(position * ROPE_BASE ** (-2 * pair / D_HEAD)))


def click(card: PositionCard, token: int) -> None:
    text = card.swap.text
    rect = text.rects(token)[0]
    QTest.mouseClick(text.viewport(), LEFT, pos=rect.center().toPoint())


def arrays(card: PositionCard) -> dict[str, np.ndarray]:
    assert card.view.seen is not None
    return {name: np.asarray(values) for name, values in card.view.seen.arrays.items()}


# --- how it is done ------------------------------------------------------------------------------


def test_it_asks_nothing_before_it_is_opened(
    closed: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand
) -> None:
    assert embedding.asked == []
    assert "q_before" not in inside.asked[-1][1]
    QTest.mouseClick(closed.fold_button, LEFT)
    assert embedding.asked == [("turn", None)]
    assert {"q_before", "q_after", "k_after"} <= set(inside.asked[-1][1])


def test_how_this_file_does_it_is_one_line(card: PositionCard) -> None:
    assert card.words.text() == (
        "RoPE: all 8 dimensions of a head in 4 pairs, no scaling, base 100."
    )
    assert card.figure.text() == f"position {PLACE}"


def test_layers_with_a_window_of_their_own_are_told_apart(
    closed: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand, desk: FakeDesk
) -> None:
    desk.headers.position = lambda path, then, failed, *, still: then(Position("rope", window=512))
    desk.loader.loaded = SimpleNamespace(path="some.gguf")
    whole = embedding.told.rotations[0]
    local = replace_struct(whole, layers=[0, 1, 3], freq_base=10_000.0, is_window=True)
    other = replace_struct(whole, layers=[2], freq_base=1e6)
    embedding.told = Rotations([local, other], N_LAYER)
    QTest.mouseClick(closed.fold_button, LEFT)
    inside.answer()
    embedding.answer("turn")
    assert closed.words.text().splitlines() == [
        "RoPE: all 8 dimensions of a head in 4 pairs, no scaling.",
        "Layers 0–1, 3: base 10,000, window of 512 tokens.",
        "Layer 2: base 1,000,000.",
    ]
    assert closed.waves.rope is not None
    assert closed.waves.rope.base == 10_000
    closed.view.choose_layer(2)
    assert closed.waves.rope.base == 1e6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"freq_scale": 0.25}, "positions ÷ 4"),
        ({"freq_scale": 0.25, "ext_factor": 1.0}, "YaRN × 4"),
        ({"factors": Array.of("f4", [1, 1, 2, 4])}, "slow pairs slowed down (a factor each)"),
        ({"n_dims": 4}, "4 of 8 dimensions of a head in 2 pairs"),
    ],
)
def test_scaling_is_said(
    closed: PositionCard,
    embedding: EmbeddingByHand,
    inside: AnsweredByHand,
    change: dict[str, Any],
    words: str,
) -> None:
    embedding.told = Rotations([replace_struct(embedding.told.rotations[0], **change)], N_LAYER)
    QTest.mouseClick(closed.fold_button, LEFT)
    inside.answer()
    embedding.answer("turn")
    assert words in closed.words.text()


def test_a_model_that_rotates_nothing_says_how_it_does_it(
    closed: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand, desk: FakeDesk
) -> None:
    embedding.told = Rotations([], N_LAYER, "This architecture doesn't rotate.")
    desk.headers.position = lambda path, then, failed, *, still: then(Position("learned"))
    desk.loader.loaded = SimpleNamespace(path="gpt2.gguf")
    QTest.mouseClick(closed.fold_button, LEFT)
    embedding.answer("turn")
    inside.answer(q_before="No.", q_after="No.", k_after="No.")
    assert closed.words.text() == Position("learned").sentence
    assert not closed.waves.isVisible()
    assert not closed.dials.isVisible()
    assert closed.swap.button.isEnabled(), "order counts here, too"


def test_how_other_weights_do_it_is_dropped(
    closed: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand, desk: FakeDesk
) -> None:
    QTest.mouseClick(closed.fold_button, LEFT)
    late = embedding.late_answer("turn")
    desk.loader.loaded = SimpleNamespace(path="other.gguf")
    inside.answer()
    late()
    assert closed.words.text() == "Reading how layers rotate…"
    embedding.answer("turn")
    assert closed.words.text().startswith("RoPE")


def test_a_failure_is_a_sentence_and_asked_again(
    closed: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand
) -> None:
    QTest.mouseClick(closed.fold_button, LEFT)
    embedding.fail("turn", "This file can no longer be read.")
    assert closed.words.text() == "This file can no longer be read."
    inside.answer()
    assert embedding.is_asked("turn")


# --- waves and dials -----------------------------------------------------------------------------


def test_the_waves_mark_this_token_and_hover_tells_how_long_they_are(card: PositionCard) -> None:
    view = card.waves
    assert (view.position, view.n_positions) == (PLACE, 128)
    row = view.height() / (D_HEAD // 2)
    for pair in range(D_HEAD // 2):
        words = hint(view, QPointF(view.x_of(50), (pair + 0.5) * row))
        long = 2 * np.pi * ROPE_BASE ** (2 * pair / D_HEAD)
        assert f"comes round every {long:,.1f} tokens" in words
        assert f"at position 50: {angle(pair, 50):,.1f}°" in words
    image = view.grab().toImage()
    top = image.pixelColor(round(view.x_of(PLACE)), 0).name()
    assert top == card._tools.theme.colors.ink


def test_dials_show_query_and_key_before_and_after(card: PositionCard) -> None:
    card.view.choose_head(2, 3)
    found = arrays(card)
    (name, before, after), (key_name, key_before, key_after) = card.dials.rows
    assert (name, key_name) == ("query", "key")
    half = D_HEAD // 2
    for hands, vector in (
        (before, found["q_before"][2, 3]),
        (after, found["q_after"][2, 3]),
        (key_after, found["k_after"][2, 1]),
    ):
        assert hands == pytest.approx(np.stack([vector[:half], vector[half:]], axis=1), abs=1e-5)
    turns = np.radians([angle(pair) for pair in range(half)])
    spin = np.exp(1j * turns)
    for one, other in ((before, after), (key_before, key_after)):
        x, y = (hands[:, 0] + 1j * hands[:, 1] for hands in (one, other))
        assert x * spin == pytest.approx(y, abs=1e-4)
    assert card.dials.accessibleDescription().startswith(f"pair 0 turned by {angle(0):.0f}°")
    words = hint(card.dials, card.dials.dial(0, 1).center())
    assert f"= {angle(1):,.1f}°" in words
    (line,) = [line for line in words.splitlines() if line.startswith("query: ")]
    assert (before[1] < 0).any(), "numbers above zero prove less"
    assert numbers_in(line) == pytest.approx([*before[1], *after[1]], abs=6e-4)


def test_layer_and_head_are_chosen_for_all_cards(card: PositionCard) -> None:
    assert (card.view.layer, card.view.head) == (None, None)
    card.layer_box.setFocus()
    QTest.keyClick(card.layer_box, Qt.Key.Key_Down)
    QTest.keyClick(card.head_box, Qt.Key.Key_End)
    assert (card.view.layer, card.view.head) == (1, 3)
    query = arrays(card)["q_before"][1, 3]
    assert card.dials.rows[0][1][0] == pytest.approx(query[[0, D_HEAD // 2]])
    card.view.choose_head(3, 1)
    assert (card.layer_box.currentIndex(), card.head_box.currentIndex()) == (3, 1)


def test_the_formula_is_held_against_the_model(
    card: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand
) -> None:
    off = numbers_in(card.note.text().split("within ")[1])[0]
    assert off < 1e-5


def test_without_queries_the_reason_is_said(
    closed: PositionCard, embedding: EmbeddingByHand, inside: AnsweredByHand
) -> None:
    QTest.mouseClick(closed.fold_button, LEFT)
    embedding.answer("turn")
    inside.answer(q_before="Queries aren't offered.")
    assert closed.note.text() == "Queries aren't offered."
    assert not closed.dials.isVisible()
    assert closed.waves.isVisible()


# --- two words change places ---------------------------------------------------------------------


class OrderByHand:
    """Stands for `desk.word_order`: a question waits until the test answers it."""

    def __init__(self, desk: FakeDesk) -> None:
        self.asked: list[tuple[list[int], Span, Span]] = []
        self.n_stopped = 0
        self._open: tuple[Any, ...] = ()
        desk.word_order.ask = self._ask
        desk.word_order.stop = self._stop

    def _ask(
        self,
        token_ids: list[int],
        one: Span,
        other: Span,
        then: Any,
        failed: Any,
        progress: Any,
        *,
        adapters: Any = None,
        still: Still,
    ) -> None:
        self.asked.append((token_ids, one, other))
        self._open = (then, failed, progress, still)

    def _stop(self) -> None:
        self.n_stopped += 1

    def late_answer(self) -> Callable[[], None]:
        """To what is asked now, to be given later: what the made-up network votes."""
        (ids, one, other), (then, _, _, still) = self.asked[-1], self._open
        votes = [
            np.asarray(seen_of(each, len(each) - 1).arrays["logits"])
            for each in (ids, exchanged(ids, one, other))
        ]
        found = compare(*votes)
        return lambda: then(found) if still() else None

    def answer(self) -> None:
        self.late_answer()()

    def fail(self, sentence: str) -> None:
        self._open[1](sentence)

    def progress(self, done: int, total: int) -> None:
        self._open[2](done, total)


def shares_of(ids: list[int]) -> np.ndarray:
    logits = np.asarray(seen_of(ids, len(ids) - 1).arrays["logits"], np.float64)
    shares: np.ndarray = np.exp(logits) / np.exp(logits).sum()
    return shares


def test_swapped_words_are_read_again_and_both_votes_stand_side_by_side(
    card: PositionCard, order: OrderByHand
) -> None:
    ids = card.view.text.ids.tolist()[: PLACE + 1]  # type: ignore[union-attr]
    assert card.swap.hint.text().startswith("“The” and “·capital”.")
    QTest.mouseClick(card.swap.button, LEFT)
    assert card.swap.button.text() == "Cancel"
    assert order.asked == [(ids, (1, 2), (2, 3))]
    order.answer()
    assert card.swap.button.text() == "Swap"
    before, after = shares_of(ids), shares_of([ids[0], ids[2], ids[1], ids[3]])
    for name, shares in (("Before", before), ("Swapped", after)):
        best = np.argsort(-shares)[:5]
        shown = card.swap.table.columns[name]
        assert [token_id for token_id, _ in shown] == best.tolist()
        assert [share for _, share in shown] == pytest.approx(shares[best], rel=1e-4)
        at = QPointF(card.swap.table.width() * (0.2 if name == "Before" else 0.8), 0)
        at.setY(card.swap.table.rect_of(1).center().y())
        assert hint(card.swap.table, at).endswith(f"{shares[best[0]]:.4%}")
    bits = float((before * np.log2(before / after)).sum())
    assert f"the votes differ by {bits:.2f} bits" in card.swap.words.text()


def test_the_chosen_token_s_probability_before_and_after(
    card: PositionCard, order: OrderByHand
) -> None:
    QTest.mouseClick(card.swap.button, LEFT)
    found = compare(np.log([0.5, 0.25, 0.25]), np.log([0.25, 0.5, 0.25]))
    target = card.view.target
    told = replace(found, token_ids=np.array([7, target, 8], np.int32))
    order._open[0](told)
    at_1 = (float(told.before[1]), float(told.after[1]))
    assert at_1 == pytest.approx((0.25, 0.5))
    word = f"“{card.view.word(target)}”"  # type: ignore[arg-type]
    assert card.swap.words.text().startswith(f"{word}: 25% → 50%. Same tokens in other positions: ")
    click(card, 0)
    QTest.mouseClick(card.swap.button, LEFT)
    order._open[0](replace(found, token_ids=np.array([7, 9, 8], np.int32)))
    assert card.swap.words.text().startswith(f"{word} isn’t among the top tokens of either. ")


def test_a_word_that_is_clicked_takes_the_place_of_the_nearer_one(
    card: PositionCard, order: OrderByHand, looking: Looking, inside: AnsweredByHand
) -> None:
    looking.select(1)
    inside.answer()
    assert card.swap.pair == ((1, 2), (2, 3))
    click(card, 3)
    assert card.swap.pair == ((1, 2), (3, 4))
    click(card, 0)
    assert card.swap.pair == ((0, 1), (3, 4))
    tinted = [token for token in range(5) if card.swap.text._look.tone(token) is not None]
    assert tinted == [0, 3]
    QTest.mouseClick(card.swap.button, LEFT)
    assert order.asked[-1][1:] == ((0, 1), (3, 4))
    order.answer()
    assert card.swap.table.isVisible()
    click(card, 1)
    assert not card.swap.table.isVisible(), "that is about other words"
    assert card.swap.pair == ((1, 2), (3, 4))
    looking.select(2)
    inside.answer()
    assert card.swap.pair == ((1, 2), (3, 4)), "what was chosen stays from token to token"
    looking.select(0)
    inside.answer()
    assert card.swap.pair == ((1, 2), (2, 3)), "the fourth is the last one here"


def test_the_last_word_stays_where_it_is(card: PositionCard, order: OrderByHand) -> None:
    click(card, PLACE)
    assert card.swap.hint.text() == STAYS
    assert card.swap.pair == ((1, 2), (2, 3))


def test_another_theme_marks_the_words_to_swap_in_its_own_colour(
    card: PositionCard, theme: Theme
) -> None:
    for mode in ("dark", "light", "dark"):
        theme.set_mode(mode)
        shown = {
            color.name()
            for token in range(5)
            if (color := card.swap.text._look.tone(token)) is not None
        }
        assert shown == {tint_colors(theme.colors)[-1].name()}


def test_a_swap_that_comes_when_another_token_is_looked_at_is_dropped(
    card: PositionCard, order: OrderByHand, inside: AnsweredByHand, looking: Looking
) -> None:
    QTest.mouseClick(card.swap.button, LEFT)
    late = order.late_answer()
    looking.select(1)
    inside.answer()
    assert order.n_stopped == 1
    assert card.swap.button.text() == "Swap"
    late()
    assert not card.swap.table.isVisible()
    assert card.swap.words.text() == ""


def test_a_swap_can_be_cancelled_and_its_failure_is_said(
    card: PositionCard, order: OrderByHand
) -> None:
    QTest.mouseClick(card.swap.button, LEFT)
    order.progress(1, 2)
    assert card.swap.words.text() == "Reading both texts… 50%"
    late = order.late_answer()
    QTest.mouseClick(card.swap.button, LEFT)
    assert order.n_stopped == 1
    late()
    assert not card.swap.table.isVisible()
    QTest.mouseClick(card.swap.button, LEFT)
    order.fail("Looking inside needs another 2 GB of memory.")
    assert card.swap.words.text() == "Looking inside needs another 2 GB of memory."
    assert card.swap.button.text() == "Swap"


def test_without_two_words_there_is_nothing_to_swap(
    card: PositionCard, inside: AnsweredByHand
) -> None:
    card.view.step(-2)
    inside.answer()
    assert card.view.place == PLACE - 2
    assert (card.swap.hint.text(), card.swap.button.isEnabled()) == (NO_WORDS, False)
    click(card, 0)
    assert not card.swap.button.isEnabled()


@pytest.mark.parametrize(("zoom", "mode"), [(100, "dark"), (200, "light")])
def test_it_is_painted_in_every_theme(
    card: PositionCard, order: OrderByHand, theme: Theme, zoom: int, mode: str
) -> None:
    QTest.mouseClick(card.swap.button, LEFT)
    order.answer()
    theme.set_zoom(zoom)
    theme.set_mode(mode)
    card.resize(376 * zoom // 100, 1600)
    QApplication.processEvents()
    for widget in (card.waves, card.dials, card.swap.table):
        image = widget.grab().toImage()
        pixels = {
            image.pixel(x, y)
            for x in range(0, image.width(), 3)
            for y in range(0, image.height(), 3)
        }
        assert len(pixels) > 3, widget.objectName()
    middle = card.dials.dial(0, 0)
    assert middle.width() > 12
    last = card.dials.dial(1, len(card.dials.pairs) - 1)
    assert card.dials.rect().contains(last.toAlignedRect().adjusted(0, 0, 0, 1))
    assert card.dials.mapTo(card, QPoint(card.dials.width(), 0)).x() <= card.width()


def replace_struct(told: Any, **changes: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(told, **changes)
