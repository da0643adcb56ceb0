"""What the token looks at: painted on the words, head by head; hovered to view, clicked to stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from made_inside import PROMPT, AnsweredByHand
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from recording_desk import FakeDesk

from app.amounts import percent
from app.chat.inspection.inside import HeadNames
from app.engine.protocol.inside_messages import HEAD_SCORES
from app.engine.protocol.prompt_messages import ShownPart
from app.insight.trace.message_tokens import MessageTokens
from models.records import Message
from ui.look.theme import Theme
from ui.look.tints import tint_colors
from ui.section.inside.layers.attention_card import AttentionCard
from ui.section.inside.layers.head_grid import HeadGrid
from ui.section.inside.view import InsideView
from ui.section.looking import Looking
from ui.section.panel import Tools


@pytest.fixture
def card(show_card: Any) -> AttentionCard:
    """Open, on screen, beside the reply's first token."""
    return show_card(AttentionCard, 700)


def rows_of(card: AttentionCard) -> np.ndarray:
    assert card.view.seen is not None
    return np.asarray(card.view.seen.arrays["attention"])


def cell(grid: HeadGrid, layer: int, head: int) -> QPoint:
    return grid._cell(layer, head).center()


def tones(card: AttentionCard) -> list[float]:
    """How strongly each token is tinted, as an order: 0 for not at all."""
    tint = card.text._look.tone
    found = [tint(token) for token in range(len(PROMPT))]
    return [0.0 if color is None else color.saturationF() + 1 for color in found]


def test_another_theme_tints_the_words_in_its_own_colours(
    card: AttentionCard, theme: Theme
) -> None:
    for mode in ("dark", "light", "dark"):
        theme.set_mode(mode)
        tint = card.text._look.tone
        shown = {color.name() for token in range(len(PROMPT)) if (color := tint(token)) is not None}
        assert shown
        assert shown <= {color.name() for color in tint_colors(theme.colors)}


def test_at_first_the_words_show_the_mean_of_all_heads(card: AttentionCard) -> None:
    mean = rows_of(card).mean(axis=(0, 1))
    assert card._row == pytest.approx(mean, abs=1e-6)
    assert card._row.sum() == pytest.approx(1.0, abs=1e-4)
    assert card.words.text().startswith("Mean of all heads: ")
    strongest = card.view.piece(int(mean.argmax()))
    assert f"“{strongest}” {percent(float(mean.max()))}" in card.words.text()
    assert tones(card)[int(mean.argmax())] > 0


def test_a_head_is_seen_under_the_pointer_and_stays_when_clicked(
    card: AttentionCard, qtbot: QtBot
) -> None:
    rows, grid = rows_of(card), card.grid
    qtbot.mouseMove(grid, cell(grid, 2, 3))
    assert card._row == pytest.approx(rows[2, 3], abs=1e-6)
    assert card.words.text().startswith("Layer 2, head 3 (KV 1): ")
    qtbot.mouseMove(grid, QPoint(1, 1))
    assert card._row == pytest.approx(rows.mean(axis=(0, 1)), abs=1e-6)
    qtbot.mouseClick(grid, Qt.MouseButton.LeftButton, pos=cell(grid, 1, 0))
    qtbot.mouseMove(grid, QPoint(1, 1))
    assert (card.view.layer, card.view.head, grid.current) == (1, 0, (1, 0))
    assert card._row == pytest.approx(rows[1, 0], abs=1e-6)
    QTest.keyClick(grid, Qt.Key.Key_Right)
    QTest.keyClick(grid, Qt.Key.Key_Down)
    assert (card.view.layer, card.view.head) == (2, 1)
    for _ in range(9):
        QTest.keyClick(grid, Qt.Key.Key_Down)
    assert card.view.layer == grid.n_layer - 1
    qtbot.mouseClick(card.mean_button, Qt.MouseButton.LeftButton)
    assert (card.view.layer, card.view.head, grid.current) == (None, None, None)


def test_a_chosen_layer_alone_shows_the_mean_of_its_heads(card: AttentionCard) -> None:
    card.view.choose_layer(3)
    assert card._row == pytest.approx(rows_of(card)[3].mean(axis=0), abs=1e-6)
    assert card.words.text().startswith("Layer 3, mean of its heads: ")


def test_the_chosen_head_stays_from_token_to_token(
    card: AttentionCard, looking: Looking, inside: AnsweredByHand
) -> None:
    card.view.choose_head(2, 1)
    looking.select(1)
    inside.answer()
    assert (card.view.layer, card.view.head, card.grid.current) == (2, 1, (2, 1))
    assert card._row == pytest.approx(rows_of(card)[2, 1], abs=1e-6)
    assert len(card._row) == len(PROMPT) + 1


def test_without_the_first_token_the_rest_is_scaled_and_that_is_said(
    card: AttentionCard, qtbot: QtBot
) -> None:
    card.view.choose_head(1, 2)
    row = rows_of(card)[1, 2]
    assert f"first token {percent(float(row[0]))}" in card.words.text()
    qtbot.mouseClick(card.sink_switch, Qt.MouseButton.LeftButton)
    assert card._row[0] == 0
    assert card._row[1:] == pytest.approx(row[1:] / (1 - row[0]), abs=1e-5)
    assert (
        f"first token {percent(float(row[0]))}, hidden; the rest is scaled to 100%"
        in card.words.text()
    )
    assert tones(card)[0] == 0


def test_weighed_by_values_a_token_counts_as_much_as_it_brings(
    card: AttentionCard, qtbot: QtBot
) -> None:
    card.view.choose_head(1, 2)
    assert card.view.seen is not None
    sizes = rows_of(card)[1, 2] * card.view.seen.arrays["value_norms"][1, 2]
    qtbot.mouseClick(card.value_switch, Qt.MouseButton.LeftButton)
    assert card._row == pytest.approx(sizes / sizes.sum(), abs=1e-5)
    assert "weighted by values" in card.words.text()


def test_where_values_cannot_be_read_that_is_said(
    card: AttentionCard, looking: Looking, inside: AnsweredByHand
) -> None:
    looking.select(1)
    inside.answer(value_norms="The V cache is quantised.")
    assert not card.value_switch.isEnabled()
    assert card.value_label.toolTip() == "The V cache is quantised."


def test_a_token_under_the_pointer_tells_its_share(card: AttentionCard, qtbot: QtBot) -> None:
    card.view.choose_head(0, 0)
    qtbot.waitUntil(lambda: card.text.is_whole)
    rect = card.text.rects(1)[0]
    margin = card.text._margin
    qtbot.mouseMove(card.text.viewport(), rect.center().toPoint() + QPoint(margin, margin))
    share = rows_of(card)[0, 0, 1]
    assert card.words.text() == f"Layer 0, head 0 (KV 0): {share:.1%} on “{card.view.piece(1)}”"


def test_a_word_that_is_clicked_is_looked_at_next(
    card: AttentionCard, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: card.text.is_whole)
    margin = card.text._margin
    at = card.text.rects(2)[0].center().toPoint() + QPoint(margin, margin)
    qtbot.mouseClick(card.text.viewport(), Qt.MouseButton.LeftButton, pos=at)
    inside.answer()
    assert card.view.place == 2
    assert len(card.text._strip) == 3


def test_heads_get_names_with_their_scores(
    card: AttentionCard, desk: FakeDesk, qtbot: QtBot
) -> None:
    scores = np.zeros((4, 4, len(HEAD_SCORES)), np.float32)
    scores[2, 1, HEAD_SCORES.index("induction")] = 0.87
    given: list[Callable[[HeadNames], None]] = []
    desk.inside.name_heads = lambda then, failed, *, still: given.append(then)
    qtbot.mouseClick(card.name_button, Qt.MouseButton.LeftButton)
    assert not card.name_button.isEnabled()
    given[0](HeadNames(scores, 3, 101))
    assert card.name_button.isHidden()
    card.view.choose_head(2, 1)
    assert "induction 0.87" in card.words.text()
    card.view.choose_head(2, 2)
    assert "·" not in card.words.text().split(":")[0]


def test_each_message_has_its_share(
    card: AttentionCard, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    """The prompt of these tests is one text, and then comes the reply."""
    card.view.choose_head(1, 2)
    assert card.spans.isHidden()  # all falls on one text
    looking.select(2)
    inside.answer()
    row = rows_of(card)[1, 2]
    shares = [float(row[: len(PROMPT)].sum()), float(row[len(PROMPT) :].sum())]
    assert [each[0].split(":")[0] for each in card.spans.entries] == ["Text", "This reply"]
    assert [each[1] for each in card.spans.entries] == pytest.approx(shares, abs=1e-5)
    assert "The capital" in card.spans.entries[0][0]
    assert sum(shares) == pytest.approx(1.0, abs=1e-4)
    at = card.spans.rect_of(1).center().toPoint()
    qtbot.mouseClick(card.spans, Qt.MouseButton.LeftButton, pos=at)


def test_of_a_long_text_the_last_tokens_alone_can_be_shown(
    card: AttentionCard, qtbot: QtBot
) -> None:
    assert card.last.isHidden()  # a short text is shown whole
    view = card.view
    assert view.seen is not None
    assert view.text is not None
    n_tokens = len(PROMPT)
    card.last.setCurrentIndex(2)
    assert card.grid._rows.shape[2] == n_tokens
    assert card._first_shown(100) == 84
    card.last.setCurrentIndex(1)
    assert card._first_shown(100) == 36
    card.last.setCurrentIndex(0)
    assert card._first_shown(100) == 0


def test_measuring_that_fails_is_said_and_can_be_tried_again(
    card: AttentionCard, desk: FakeDesk, qtbot: QtBot
) -> None:
    desk.inside.name_heads = lambda then, failed, *, still: failed("No room.")
    qtbot.mouseClick(card.name_button, Qt.MouseButton.LeftButton)
    assert card.notes.text() == "No room."
    assert card.name_button.isEnabled()
    assert card.name_button.isVisible()


def test_names_that_come_when_other_weights_are_loaded_are_dropped(
    card: AttentionCard, desk: FakeDesk, qtbot: QtBot
) -> None:
    asked: list[tuple[Callable[[HeadNames], None], Callable[[], bool]]] = []
    desk.inside.name_heads = lambda then, failed, *, still: asked.append((then, still))
    desk.loader.loaded = "first"
    qtbot.mouseClick(card.name_button, Qt.MouseButton.LeftButton)
    (_, still) = asked[0]
    assert still()
    desk.loader.loaded = "other"
    assert not still()
    card.view.seen_changed.emit()  # and it can be asked anew
    assert card.name_button.isEnabled()
    assert card.name_button.text() == "Name heads"


def test_names_go_with_the_weights(card: AttentionCard, desk: FakeDesk, qtbot: QtBot) -> None:
    scores = np.full((4, 4, len(HEAD_SCORES)), 0.5, np.float32)
    desk.inside.name_heads = lambda then, failed, *, still: then(HeadNames(scores, 3, 101))
    desk.loader.loaded = "first"
    qtbot.mouseClick(card.name_button, Qt.MouseButton.LeftButton)
    assert card.name_button.isHidden()
    desk.loader.loaded = "other"
    card.view.choose_head(1, 1)
    assert "0.50" not in card.words.text()
    assert card.name_button.isVisible()


def test_what_a_window_hides_is_struck_and_said(card: AttentionCard) -> None:
    rows = rows_of(card).copy()
    rows[1, :, :2] = 0.0
    assert card.view.seen is not None
    arrays = {**card.view.seen.arrays, "attention": rows}
    card.view.seen = type(card.view.seen)(card.view.seen.place, None, arrays, {})
    card.view.choose_layer(1)
    assert "can't see the first 2 tokens" in card.notes.text()
    assert [card.text._look.is_struck(token) for token in range(4)] == [True, True, False, False]


def test_a_file_without_attention_says_why(
    view: InsideView, tools: Tools, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    made = AttentionCard(tools, view)
    qtbot.addWidget(made)
    made.show()
    made.set_active(True)
    view.set_awake(True)
    looking.select(0)
    inside.answer(attention="This architecture has no attention.")
    assert made.reason.text() == "This architecture has no attention."
    assert made.content.isHidden()


@pytest.mark.parametrize(("n_head", "n_kv_head"), [(9, 3), (4, 1), (8, 8), (32, 8)])
def test_each_head_has_a_place_of_its_own(
    theme: Theme, qtbot: QtBot, n_head: int, n_kv_head: int
) -> None:
    grid = HeadGrid(theme)
    qtbot.addWidget(grid)
    grid.resize(340, 200)
    grid.show_rows(np.full((5, n_head, 7), 1 / 7, np.float32), n_kv_head)
    grid.show()
    places = [(layer, head) for layer in range(5) for head in range(n_head)]
    assert [grid._at(cell(grid, *place)) for place in places] == places
    assert all(grid._cell(*place).right() < grid.width() for place in places)
    groups = [head // (n_head // n_kv_head) for head in range(n_head)]
    lefts = [grid._cell(0, head).left() for head in range(n_head)]
    wide = grid._cell(0, 0).width()
    for head in range(1, n_head):
        is_same = groups[head] == groups[head - 1]
        assert (lefts[head] - lefts[head - 1] == wide) == is_same


def test_nothing_that_a_head_looks_at_is_missed_in_a_long_text(theme: Theme, qtbot: QtBot) -> None:
    """One token of thousands, in a cell of a few pixels."""
    grid = HeadGrid(theme)
    qtbot.addWidget(grid)
    grid.resize(340, 60)
    rows = np.zeros((1, 2, 8000), np.float32)
    rows[0, 0, 5003] = 1.0
    grid.show_rows(rows, 2)
    image = grid._drawn()[0]
    colors = {image.pixelColor(x, 0).name() for x in range(image.width())}
    assert len(colors) == 2
    where = [image.pixelColor(x, 0).name() != theme.colors.card for x in range(image.width())]
    assert where.index(True) == 5003 * image.width() // 8000


# --- on the words of the chat -----------------------------------------------------------------


def painted(looking: Looking, message_id: str, tokens: MessageTokens) -> list[float]:
    assert looking.paint is not None
    return list(looking.paint.of(message_id, tokens))


def test_the_row_is_painted_on_the_chat_s_own_tokens(
    card: AttentionCard, looking: Looking, inside: AnsweredByHand, reply: Message
) -> None:
    looking.select(2)
    inside.answer()
    card.view.choose_head(1, 2)
    assert looking.paint is not None
    assert looking.paint.words == f"Attention of “{card.view.read_word}”"
    row = rows_of(card)[1, 2]
    tokens = MessageTokens(traces=looking.traces)
    found = painted(looking, reply.id, tokens)
    wanted = np.sqrt(row[len(PROMPT) :] / row.max())
    assert found[: len(wanted)] == pytest.approx(wanted.tolist(), abs=1e-5)
    assert found[len(wanted) :] == [0.0] * (len(tokens) - len(wanted))  # not seen from here
    assert painted(looking, "another message", tokens) == []


def test_closed_or_out_of_sight_it_paints_nothing(card: AttentionCard, looking: Looking) -> None:
    assert looking.paint is not None
    card.set_open(False)
    assert looking.paint is None
    card.set_open(True)
    assert looking.paint is not None
    card.set_active(False)
    assert looking.paint is None


def test_a_message_with_other_tokens_than_the_prompt_s_is_not_painted(
    card: AttentionCard, looking: Looking
) -> None:
    text = card.view.text
    assert text is not None
    part = ShownPart(1, 4, "user", "m1")
    text.prompt.parts = (part,)
    three = MessageTokens(before=(b"a", b"b", b"c"))
    assert len(painted(looking, "m1", three)) == 3
    assert painted(looking, "m1", MessageTokens(before=(b"ab", b"c"))) == []


def test_the_grid_tells_what_the_chosen_head_looks_at(card: AttentionCard) -> None:
    """To who cannot see it."""
    for head in ((1, 2), (2, 0)):
        card.view.choose_head(*head)
        assert card.grid.accessibleDescription() == card.words.text()
        assert f"Layer {head[0]}, head {head[1]}" in card.words.text()
