"""How a model knows the order of words: its waves, its dials, and two words that change places."""

from __future__ import annotations

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
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.engine.process.scripted.inside import D_HEAD, N_LAYER, ROPE_BASE
from app.engine.protocol.embedding_messages import Rotations
from app.engine.protocol.frames import Array
from app.insight.inside.position import Position
from models.records import Message
from ui.look.theme import Theme
from ui.section.inside.position_card import PositionCard
from ui.section.inside.view import InsideView
from ui.section.inside.word_swap import NO_WORDS, SAME
from ui.section.looking import Looking
from ui.section.panel import Tools

LEFT = Qt.MouseButton.LeftButton
PLACE = len(PROMPT) - 1


@pytest.fixture
def closed(
    embedding: EmbeddingByHand,
    looking: Looking,
    desk: FakeDesk,
    bridge: FakeBridge,
    reply: Message,
    tools: Tools,
    inside: AnsweredByHand,
    qtbot: QtBot,
) -> PositionCard:
    """Beside the reply's first token."""
    view = InsideView(looking, desk, bridge)  # type: ignore[arg-type]
    made = PositionCard(tools, view)
    view.setParent(made)
    qtbot.addWidget(made)
    made.resize(360, 700)
    made.show()
    qtbot.waitExposed(made)
    made.set_active(True)
    view.set_awake(True)
    looking.select(0)
    inside.answer()
    return made


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
    x, y = before[1]
    assert f"query: ({x:.3f}, {y:.3f}) → " in words


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
    off = float(card.note.text().split("within ")[1].split()[0])
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


def test_swapped_words_are_read_again_and_both_votes_stand_side_by_side(
    card: PositionCard, inside: AnsweredByHand
) -> None:
    ids = card.view.text.ids.tolist()  # type: ignore[union-attr]
    assert card.swap.pair == (1, 2)
    assert card.swap.hint.text().startswith("“The” and “·capital”.")
    QTest.mouseClick(card.swap.button, LEFT)
    assert card.swap.button.text() == "Cancel"
    assert inside.asked[-1] == (PLACE, ("logits",))
    swapped = [ids[0], ids[2], ids[1], *ids[3:]]
    assert inside.asked_ids == swapped
    inside.answer()
    assert card.swap.button.text() == "Swap"
    target = ids[PLACE + 1]
    found = []
    for each, shown in ((ids, card.swap.table.before), (swapped, card.swap.table.after)):
        logits = np.asarray(seen_of(each, PLACE).arrays["logits"], np.float64)
        shares = np.exp(logits) / np.exp(logits).sum()
        assert shown is not None
        best = np.argsort(-shares)[:5]
        assert [vote.token_id for vote in shown.rows[:5]] == best.tolist()
        assert [vote.probability for vote in shown.rows[:5]] == pytest.approx(
            shares[best], rel=1e-4
        )
        found.append(1 + int((shares > shares[target]).sum()))
    assert f"rank {found[0]:,} → {found[1]:,}" in card.swap.words.text()


def test_a_token_that_is_clicked_takes_the_place_of_the_nearer_one(
    card: PositionCard, inside: AnsweredByHand
) -> None:
    click(card, 3)
    assert card.swap.pair == (1, 3)
    click(card, 0)
    assert card.swap.pair == (0, 3)
    tinted = [token for token in range(4) if card.swap.text._look.tone(token) is not None]
    assert tinted == [0, 3]
    QTest.mouseClick(card.swap.button, LEFT)
    ids = card.view.text.ids.tolist()  # type: ignore[union-attr]
    assert inside.asked_ids[:4] == [ids[3], ids[1], ids[2], ids[0]]
    inside.answer()
    assert card.swap.table.isVisible()
    click(card, 1)
    assert not card.swap.table.isVisible(), "that is about other words"


def test_a_swap_that_comes_when_another_token_is_looked_at_is_dropped(
    card: PositionCard, inside: AnsweredByHand, looking: Looking
) -> None:
    QTest.mouseClick(card.swap.button, LEFT)
    late = inside.late_answer()
    looking.select(1)
    assert card.swap.button.text() == "Swap"
    late()
    inside.answer()
    assert not card.swap.table.isVisible()
    assert card.swap.words.text() == ""
    assert card.swap.button.isEnabled()


def test_a_swap_can_be_cancelled_and_its_failure_is_said(
    card: PositionCard, inside: AnsweredByHand
) -> None:
    QTest.mouseClick(card.swap.button, LEFT)
    inside.progress(1, 2)
    assert card.swap.words.text() == "Reading the swapped text… 50%"
    late = inside.late_answer()
    QTest.mouseClick(card.swap.button, LEFT)
    assert not inside.is_asked
    late()
    assert not card.swap.table.isVisible()
    QTest.mouseClick(card.swap.button, LEFT)
    inside.fail("Looking inside needs another 2 GB of memory.")
    assert card.swap.words.text() == "Looking inside needs another 2 GB of memory."
    assert card.swap.button.text() == "Swap"


def test_nothing_can_be_swapped_while_the_token_itself_is_asked_about(
    card: PositionCard, inside: AnsweredByHand, looking: Looking
) -> None:
    looking.select(1)
    assert not card.swap.button.isEnabled()
    inside.answer(is_whole=False)
    assert not card.swap.button.isEnabled()
    inside.answer()
    assert card.swap.button.isEnabled()


def test_the_same_token_twice_is_no_swap(card: PositionCard, looking: Looking) -> None:
    swap = card.swap
    assert swap._shown is not None
    text, place = swap._shown
    twice = text.ids[:]
    twice[2] = twice[1]
    swap._shown = (replace(text, ids=twice), place)
    swap._show()
    assert (swap.hint.text(), swap.button.isEnabled()) == (SAME, False)
    swap.pair = None
    swap._show()
    assert (swap.hint.text(), swap.button.isEnabled()) == (NO_WORDS, False)
    click(card, 2)
    assert (swap.hint.text(), swap.button.isEnabled()) == (NO_WORDS, False)
    click(card, 0)
    assert swap.pair == (0, 2)


@pytest.mark.parametrize(("zoom", "mode"), [(100, "dark"), (200, "light")])
def test_it_is_painted_in_every_theme(
    card: PositionCard, inside: AnsweredByHand, theme: Theme, zoom: int, mode: str
) -> None:
    QTest.mouseClick(card.swap.button, LEFT)
    inside.answer()
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
