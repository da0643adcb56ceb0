"""The panel: its head, its cards, what is said where there is nothing, and its keys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from made_embedding import EmbeddingByHand
from made_inside import PROMPT, AnsweredByHand
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QToolTip, QWidget
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk, loaded

from app.chat.events import EngineStateChanged, ReplyingChanged
from models.records import Message
from ui.look.theme import Theme
from ui.section.inside.card import NOT_HERE, InsideCard
from ui.section.inside.layers.cut_card import CutCard
from ui.section.inside.layers.lens_card import LensCard
from ui.section.inside.layers.way_card import WayCard
from ui.section.inside.panel import InsidePanel
from ui.section.inside.rows import PaintedRows
from ui.section.inside.token_cards import OF_PROMPT, SamplingCard
from ui.section.inside.vectors.map_card import MapCard
from ui.section.inside.vectors.nearest_card import NearestCard
from ui.section.inside.view import CHOOSE
from ui.section.inside.vote_cards import ProbabilitiesCard
from ui.section.looking import Looking
from ui.section.panel import Tools

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def panel(tools: Tools, reply: Message, inside: AnsweredByHand, qtbot: QtBot) -> InsidePanel:
    built = InsidePanel(tools)
    qtbot.addWidget(built)
    built.resize(376, 700)
    built.show()
    built.set_active(True)
    return built


@pytest.fixture
def seen(panel: InsidePanel, looking: Looking, inside: AnsweredByHand) -> InsidePanel:
    """The first token of the reply is looked at, and all of it is known."""
    looking.select(0)
    inside.answer()
    return panel


def card(panel: InsidePanel, name: str) -> InsideCard:
    return next(each for each in panel.cards if each.name == name)


def words(panel: InsidePanel, name: str) -> str:
    label = panel.findChild(QLabel, name)
    assert label is not None
    return label.text() if label.isVisible() else ""


def tooltip(rows: PaintedRows, row: int) -> str:
    place = rows.rect_of(row).center().toPoint()
    event = QHelpEvent(QEvent.Type.ToolTip, place, rows.mapToGlobal(place))
    QApplication.sendEvent(rows, event)
    return QToolTip.text()


def test_without_a_token_one_sentence_says_what_to_click(panel: InsidePanel) -> None:
    assert words(panel, "inside_sentence") == CHOOSE
    assert not panel.column.isVisible()
    assert not panel.again_button.isVisible()
    assert panel.sentence.y() < 40  # at the top, and not somewhere in the middle


def test_from_there_two_buttons_lead_on(
    panel: InsidePanel, looking: Looking, inside: AnsweredByHand, desk: FakeDesk
) -> None:
    QTest.mouseClick(panel.tokens_button, LEFT)
    assert desk.settings.now.token_view
    assert not panel.tokens_button.isVisible()
    QTest.keyClick(panel.first_button, Qt.Key.Key_Space)
    assert looking.index == 0
    inside.answer()
    assert not panel.first_button.isVisible()
    assert QApplication.focusWidget() is panel
    looking.select(None)
    assert panel.first_button.isVisible()
    assert not panel.tokens_button.isVisible()


def test_what_is_about_the_file_needs_no_token(
    panel: InsidePanel, desk: FakeDesk, looking: Looking, inside: AnsweredByHand
) -> None:
    desk.loader.loaded = SimpleNamespace(n_params=9)
    panel.view.seen_changed.emit()
    assert [each.name for each in panel.cards if each.isVisible()] == ["machine"]
    looking.select(0)
    inside.answer()
    assert all(each.isVisible() for each in panel.cards)


LACKS = {"attention": "This architecture has no attention.", "lens": "No stream."}


class Learning:
    """Weights that are loaded, and the questions about what their graph lacks."""

    def __init__(self, panel: InsidePanel, desk: FakeDesk, bridge: FakeBridge) -> None:
        self.asked: list[tuple[Any, Any]] = []
        self.panel, self.desk, self.bridge = panel, desk, bridge
        desk.inside.learn = lambda then, still: self.asked.append((then, still))
        self.load()

    def load(self) -> None:
        self.desk.loader.loaded = loaded()
        self.bridge.emit_event(EngineStateChanged("ready", "SmolLM2", self.desk.loader.loaded))

    def answer(self) -> None:
        then, still = self.asked.pop()
        if still():
            then(LACKS)

    def lacking(self) -> dict[str, str]:
        """Cards that are greyed out, and what they say."""
        return {
            each.name: each.figure.text()
            for each in self.panel.cards
            if each.isVisible() and not each.title.isEnabled()
        }


@pytest.fixture
def learning(panel: InsidePanel, desk: FakeDesk, bridge: FakeBridge) -> Learning:
    return Learning(panel, desk, bridge)


def test_what_the_graph_lacks_is_greyed_out_before_any_token_is_chosen(
    learning: Learning, qtbot: QtBot, looking: Looking, inside: AnsweredByHand
) -> None:
    panel = learning.panel
    qtbot.waitUntil(lambda: bool(learning.asked))
    assert learning.lacking() == {}
    learning.answer()
    assert words(panel, "inside_sentence") == CHOOSE
    assert inside.asked == []
    assert learning.lacking() == dict.fromkeys(("attention", "lens", "lens_map"), NOT_HERE)
    attention = card(panel, "attention")
    attention.set_open(True)
    assert words(panel, "inside_attention_reason") == LACKS["attention"]
    assert not attention.content.isVisible()
    looking.select(0)
    inside.answer(**LACKS)
    assert all(each.isVisible() for each in panel.cards)
    assert set(learning.lacking()) == {"attention", "lens", "lens_map"}
    learning.load()  # others, of which nothing is known yet
    assert panel.view.lacks == {}
    inside.answer()
    assert learning.lacking() == {}
    assert NOT_HERE not in [each.figure.text() for each in panel.cards]


@pytest.fixture
def writing(desk: FakeDesk) -> None:
    """A reply is being written before the panel is there."""
    desk.replies.is_generating = True


def test_it_is_learned_when_no_reply_is_written_and_the_panel_is_open(
    writing: None, learning: Learning, qtbot: QtBot, desk: FakeDesk
) -> None:
    view = learning.panel.view
    qtbot.waitUntil(lambda: not view._idle.isActive())
    assert learning.asked == []
    desk.replies.is_generating = False
    learning.bridge.emit_event(ReplyingChanged(frozenset()))
    qtbot.waitUntil(lambda: bool(learning.asked))
    learning.answer()
    learning.bridge.emit_event(ReplyingChanged(frozenset()))
    assert not view._idle.isActive()  # known
    learning.panel.set_active(False)
    learning.load()
    assert not view._idle.isActive()
    learning.panel.set_active(True)
    qtbot.waitUntil(lambda: bool(learning.asked))


def test_what_other_weights_lack_comes_too_late(learning: Learning, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: bool(learning.asked))
    learning.desk.loader.loaded = loaded()
    learning.answer()
    assert learning.lacking() == {}


def test_its_head_says_what_is_read_and_what_it_votes_for(seen: InsidePanel) -> None:
    assert words(seen, "inside_words") == "“·is” → “·Paris”"
    assert words(seen, "inside_place").startswith("Reads token 4 of 8, in the prompt")
    assert words(seen, "inside_sentence") == ""


def test_bars_are_shares_of_the_stream_and_hover_writes_the_formula(seen: InsidePanel) -> None:
    arrays = seen.view.seen.arrays  # type: ignore[union-attr]
    way = cast("WayCard", card(seen, "way"))
    assert way.is_open
    added, stream = (np.linalg.norm(arrays[name][2]) for name in ("attn_out", "residual"))
    line = next(x for x in tooltip(way.layers, 2).splitlines() if x.startswith("attention"))
    assert line == (
        f"attention: ‖what it adds‖ ÷ ‖stream‖ = {added:,.2f} ÷ {stream:,.2f} = "
        f"{100 * added / stream:.0f}%"
    )


def test_the_lens_says_from_which_layer_the_token_leads(seen: InsidePanel) -> None:
    arrays = seen.view.seen.arrays  # type: ignore[union-attr]
    leads = arrays["lens_ids"][:, 0] == 100
    assert leads[-1]
    first = max(np.flatnonzero(~leads), default=-1) + 1
    lens = cast("LensCard", card(seen, "lens"))
    assert lens.figure.text() == f"“ID 100” leads from layer {first}"
    lens.set_open(True)
    assert lens.check.text().startswith("The last row against the real logits")
    n = int(arrays["lens_target_ranks"][0, 0]) + 1
    assert tooltip(lens.layers, 0).splitlines()[-1] == f"“ID 100” has rank {n:,} here"


def test_probabilities_are_the_softmax_of_the_logits(seen: InsidePanel) -> None:
    logits = np.asarray(seen.view.seen.arrays["logits"], np.float64)  # type: ignore[union-attr]
    shares = np.exp(logits) / np.exp(logits).sum()
    found = cast("ProbabilitiesCard", card(seen, "probabilities"))
    found.set_open(True)
    votes = found.table.votes
    assert votes is not None
    best = np.argsort(-shares)[:10]
    assert [vote.token_id for vote in votes.rows] == best.tolist()
    np.testing.assert_allclose([vote.probability for vote in votes.rows], shares[best], rtol=1e-5)
    assert f"{shares[100]:.2%}" in found.note.text()
    assert "50.00%" in found.note.text()  # as the trace has it


def test_the_votes_are_those_of_the_token_that_is_looked_at(
    seen: InsidePanel, looking: Looking, inside: AnsweredByHand
) -> None:
    found = cast("ProbabilitiesCard", card(seen, "probabilities"))
    assert found.figure.text().startswith("“ID 100”")
    looking.select(1)
    inside.answer()
    assert found.figure.text().startswith("“ID 101”")


def test_a_layer_that_is_clicked_stays_chosen_from_token_to_token(
    seen: InsidePanel, looking: Looking, inside: AnsweredByHand
) -> None:
    way = cast("WayCard", card(seen, "way"))
    QTest.mouseClick(way.layers, LEFT, pos=way.layers.rect_of(1).center().toPoint())
    assert seen.view.layer == 1
    way.layers.setFocus()
    QTest.keyClick(way.layers, Qt.Key.Key_Down)
    assert seen.view.layer == 2
    QTest.keyClick(way.layers, Qt.Key.Key_Right)
    assert looking.index == 1
    inside.answer()
    assert (way.layers.chosen, seen.view.layer) == (2, 2)
    assert way.layers.hasFocus()
    QTest.keyClick(way.layers, Qt.Key.Key_Left)
    QTest.keyClick(way.layers, Qt.Key.Key_Left)
    inside.answer()
    assert seen.view.place == len(PROMPT) - 2
    QTest.mouseClick(way.layers, LEFT, pos=way.layers.rect_of(2).center().toPoint())
    assert seen.view.layer is None


def test_while_the_lens_is_on_its_way_no_other_token_s_stands_there(
    seen: InsidePanel, looking: Looking, inside: AnsweredByHand
) -> None:
    lens = cast("LensCard", card(seen, "lens"))
    lens.set_open(True)
    inside.answer()
    assert lens.check.text()
    looking.select(1)
    inside.answer(is_whole=False)
    assert lens.layers.is_pending
    assert not lens.check.text()
    assert lens.figure.text() == ""
    assert not cast("WayCard", card(seen, "way")).layers.is_pending
    inside.answer()
    assert not lens.layers.is_pending
    assert lens.check.text()


def test_what_a_file_lacks_says_why(
    panel: InsidePanel, looking: Looking, inside: AnsweredByHand
) -> None:
    looking.select(0)
    inside.answer(lens="No lens in this graph.", residual="No stream.", attn_out="No write.")
    way = card(panel, "way")
    assert (way.figure.text(), way.reason.text()) == (NOT_HERE, "No stream.")
    assert way.reason.isVisible()
    assert not way.content.isVisible()
    lens = card(panel, "lens")
    assert (lens.figure.text(), lens.reason.isVisible()) == (NOT_HERE, False)
    lens.set_open(True)
    assert lens.reason.text() == "No lens in this graph."


def test_of_a_prompt_s_token_nothing_was_drawn(seen: InsidePanel, inside: AnsweredByHand) -> None:
    QTest.keyClick(seen, Qt.Key.Key_Left)
    inside.answer()
    sampling = cast("SamplingCard", card(seen, "sampling"))
    sampling.set_open(True)
    assert sampling.note.text() == OF_PROMPT
    assert not sampling.link.isVisible()


def test_the_chain_is_one_click_away(seen: InsidePanel, qtbot: QtBot) -> None:
    sampling = cast("SamplingCard", card(seen, "sampling"))
    sampling.set_open(True)
    assert [cell[:2] for cell in sampling.stages.cells] == [
        ("before samplers", ""),
        ("top-k", "1 left"),
        ("dist", "1 left"),
    ]
    with qtbot.waitSignal(seen.panel_wanted) as wanted:
        QTest.mouseClick(sampling.link, LEFT)
    assert wanted.args == ["Sampling", "Chain"]


def test_a_card_opens_by_its_head_and_explains_itself(seen: InsidePanel) -> None:
    logits = card(seen, "logits")
    assert not logits.content.isVisible()
    QTest.mouseClick(logits, LEFT, pos=logits.title.geometry().center())
    assert logits.content.isVisible()
    assert not logits.help.isVisible()
    QTest.mouseClick(logits.help_button, LEFT)
    assert logits.help.isVisible()
    QTest.mouseClick(logits.fold_button, LEFT)
    assert not logits.content.isVisible()
    assert not logits.help.isVisible()


def test_a_long_text_says_how_far_it_is_and_can_be_cancelled(
    panel: InsidePanel, looking: Looking, inside: AnsweredByHand, qtbot: QtBot
) -> None:
    looking.select(0)
    assert not panel.cancel_button.isVisible()  # an answer in time would make it flicker
    qtbot.waitUntil(panel.cancel_button.isVisible)
    inside.progress(1, 3)
    assert (panel.bar.isVisible(), panel.bar.value(), panel.bar.maximum()) == (True, 1, 3)
    assert words(panel, "inside_progress_words").endswith("1 of 3 tokens")
    panel.cancel_button.setFocus()
    QTest.mouseClick(panel.cancel_button, LEFT)
    assert not panel.bar.isVisible()
    assert panel.again_button.text() == "Continue"
    assert QApplication.focusWidget() is panel
    QTest.mouseClick(panel.again_button, LEFT)
    inside.answer()
    assert (panel.view.seen is not None, words(panel, "inside_sentence")) == (True, "")


def test_a_failure_is_a_sentence(
    panel: InsidePanel, looking: Looking, inside: AnsweredByHand
) -> None:
    looking.select(0)
    inside.fail("Looking inside needs another 2 GB of memory.")
    assert words(panel, "inside_sentence") == "Looking inside needs another 2 GB of memory."
    assert panel.again_button.isVisible()
    assert not panel.column.isVisible()  # no empty cards
    looking.select(None)
    assert words(panel, "inside_sentence") == CHOOSE


@pytest.mark.parametrize(
    ("zoom", "mode"), [(100, "dark"), pytest.param(200, "light", marks=pytest.mark.soak)]
)
def test_all_cards_are_painted_in_every_theme(
    embedding: EmbeddingByHand,
    seen: InsidePanel,
    inside: AnsweredByHand,
    theme: Theme,
    zoom: int,
    mode: str,
) -> None:
    for each in seen.cards:
        each.set_open(True)
    embedding.answer("nearest")
    embedding.answer("map")
    embedding.answer("turn")
    inside.answer()
    theme.set_zoom(zoom)
    theme.set_mode(mode)
    seen.resize(376 * zoom // 100, 3000)
    filled = [rows for rows in seen.findChildren(PaintedRows) if rows.n_rows]
    assert len(filled) >= 5  # some have rows only when their own question is answered
    for rows in filled:
        image = rows.grab().toImage()
        pixels = {image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(3, 12)}
        assert len(pixels) > 2, rows.objectName()
    for child in seen.findChildren(QWidget):
        if child.isVisible() and child.parent() is not None:
            assert child.width() <= seen.width()


def test_asleep_it_computes_nothing(
    seen: InsidePanel, looking: Looking, inside: AnsweredByHand
) -> None:
    n_asked = len(inside.asked)
    seen.set_active(False)
    looking.select(2)
    assert len(inside.asked) == n_asked
    seen.set_active(True)
    assert len(inside.asked) == n_asked + 1


def test_arrow_keys_in_a_field_stay_there(
    embedding: EmbeddingByHand, seen: InsidePanel, looking: Looking
) -> None:
    fields = (
        cast("NearestCard", card(seen, "nearest")).fields[0],
        cast("MapCard", card(seen, "map")).text,
    )
    for name, field in zip(("nearest", "map"), fields, strict=True):
        card(seen, name).set_open(True)
        field.setFocus()
        for key in (Qt.Key.Key_End, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_Left):
            QTest.keyClick(field, key)
            QTest.keyClick(field, key, Qt.KeyboardModifier.ControlModifier)
        assert looking.index == 0
        assert not seen.view.is_waiting
    word_map = cast("MapCard", card(seen, "map")).map
    embedding.answer("map")
    word_map.setFocus()
    QTest.keyClick(word_map, Qt.Key.Key_Right)
    assert (looking.index, word_map.chosen) == (0, 0)


def test_of_rows_the_chosen_one_is_told_to_who_cannot_see_it(
    seen: InsidePanel, inside: AnsweredByHand
) -> None:
    lens = card(seen, "lens")
    assert isinstance(lens, LensCard)
    lens.set_open(True)
    seen.view.choose_layer(2)
    assert lens.layers.accessibleDescription() == lens.layers.words_of(2, 0)
    assert "Layer 2" in lens.layers.accessibleDescription()
    seen.view.choose_layer(None)
    assert lens.layers.accessibleDescription() == ""


def test_what_a_layer_is_for_is_explained_wherever_a_picture_needs_it(seen: InsidePanel) -> None:
    for name in ("attention", "lens_map"):
        shown = card(seen, name)
        shown.set_open(True)
        QTest.mouseClick(shown.help_button, LEFT)
        assert len(words(seen, f"inside_{name}_help")) > 80


def test_no_part_to_cut_makes_the_column_wider_than_the_panel(
    seen: InsidePanel, inside: AnsweredByHand
) -> None:
    """What is wider would lie below the scroll bar."""
    cut = card(seen, "cut")
    assert isinstance(cut, CutCard)
    cut.set_open(True)
    inside.answer()
    for at in range(cut.kind.count()):
        cut.kind.setCurrentIndex(at)
        seen.view.choose_head(3, 3)
        cut.add_button.click()
        QApplication.processEvents()
        assert seen.column.body.width() <= seen.column.viewport().width(), cut.kind.currentText()
