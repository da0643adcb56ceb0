"""Inside, in the whole window: a token and the next one, enlarged and back, failures, unloading."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel

from app.chat.inspection.inside import GROWING, NOTHING_LOADED
from app.insight.inside.attention_matrix import N_PLACES
from ui.section.inside.layers.attention_card import AttentionCard
from ui.section.inside.layers.way_card import WayCard
from ui.section.inside.panel import InsidePanel
from ui.section.inside.vectors.map_card import MapCard
from ui.section.inside.vectors.nearest_card import NearestCard
from ui.section.inside.vectors.position_card import PositionCard
from ui.section.inside.view import CHOOSE

LEFT = Qt.MouseButton.LeftButton
SCRIPT: dict[str, Any] = {
    "load": {"ms": 5},
    "replies": [{"text": "It is Paris, of course."}, {"match": "long", "text": "Oh. " * 2000}],
}


class Looker:
    """Somebody who looks inside a reply."""

    def __init__(self, person: Any) -> None:
        self.person = person
        self.window = person.window
        person.wait_ready()
        person.send("Which city?")
        person.wait_ended()
        self.window.action_registry.run("panel_inside")
        self.panel = cast("InsidePanel", person.find(InsidePanel, "panel_inside"))
        self.looking = self.window.section_acts.looking()
        person.wait(lambda: len(self.looking.traces) and self.looking.words is not None)

    def wait_seen(self) -> None:
        view = self.panel.view
        self.person.wait(lambda: view.seen is not None and not view.is_waiting)

    def words(self) -> str:
        return self.label("inside_words")

    def label(self, name: str) -> str:
        found = self.panel.findChild(QLabel, name)
        assert found is not None
        return found.text() if found.isVisible() else ""


@pytest.fixture
def looker(open_window: Any) -> Looker:
    return Looker(open_window(SCRIPT))


def test_a_token_is_followed_and_then_the_next_one(looker: Looker) -> None:
    assert looker.label("inside_sentence") == CHOOSE
    looker.looking.select(2)
    looker.wait_seen()
    assert looker.words() == "“·is” → “·Paris”"
    way = next(card for card in looker.panel.cards if isinstance(card, WayCard))
    person = looker.person
    person.wait(lambda: way.layers.lens is not None)
    assert way.layers.n_rows == 4
    assert looker.panel.view.word(int(way.layers.lens.ids[-1, 0])) == "·Paris"  # type: ignore[union-attr]
    QTest.mouseClick(way.layers, LEFT, pos=way.layers.rect_of(3).center().toPoint())
    looker.panel.setFocus()
    QTest.keyClick(looker.panel, Qt.Key.Key_Right)
    person.wait(lambda: looker.words() == "“·Paris” → “,”")
    assert (looker.looking.index, looker.panel.view.layer, way.layers.chosen) == (3, 3, 3)
    for _ in range(4):
        QTest.keyClick(looker.panel, Qt.Key.Key_Left)
    person.wait(lambda: looker.words().endswith("→ “<|assistant|>”"))
    looker.wait_seen()
    assert looker.looking.index is None
    QTest.keyClick(looker.panel, Qt.Key.Key_Period, Qt.KeyboardModifier.AltModifier)
    person.wait(lambda: looker.words() == "“<|assistant|>” → “It”")


def test_a_head_is_seen_as_a_matrix_from_token_to_token(looker: Looker) -> None:
    """Each of its rows is the one that the words show when its token is selected."""
    looker.looking.select(2)
    looker.wait_seen()
    view, person = looker.panel.view, looker.person
    card = next(card for card in looker.panel.cards if isinstance(card, AttentionCard))
    matrix = card.matrix.picture
    QTest.mouseClick(card.grid, LEFT, pos=card.grid._cell(2, 1).center())
    QTest.mouseClick(card.form, LEFT, pos=card.form.tabRect(1).center())
    person.wait(lambda: matrix.isVisible() and not np.isnan(matrix.shares).any())
    assert (matrix.rows[-1], len(matrix.rows)) == ("·is", N_PLACES)  # the text is longer
    assert matrix.shares.sum(axis=1) == pytest.approx(1, abs=1e-5)
    first, shares = matrix.n_before, matrix.shares.copy()
    for row in range(1, 4):
        whole = card._whole[-N_PLACES:]
        assert np.array_equal(matrix.shares[-1, first:], whole)  # this token's own
        assert np.array_equal(shares[-row, first : first + N_PLACES + 1 - row], whole[row - 1 :])
        place = view.place
        QTest.mouseClick(matrix, LEFT, pos=matrix.cell(N_PLACES - 2, 0).center().toPoint())
        person.wait(lambda: view.place == place - 1 and not view.is_waiting)  # noqa: B023
        person.wait(lambda: not matrix.is_pending and not np.isnan(matrix.shares).any())


def test_it_is_enlarged_and_the_chat_comes_back(looker: Looker) -> None:
    window = looker.window
    looker.looking.select(2)
    looker.wait_seen()
    looker.panel.setFocus()
    QTest.keyClick(looker.panel, Qt.Key.Key_F9)
    assert not window.chat.isVisible()
    assert looker.panel.width() > 600
    assert QApplication.focusWidget() is looker.panel
    QTest.keyClick(looker.panel, Qt.Key.Key_F9)
    assert window.chat.isVisible()
    assert QApplication.focusWidget() is looker.panel
    assert looker.words() == "“·is” → “·Paris”"


def test_what_was_unloaded_meanwhile_is_said_and_loaded_again_it_is_there(looker: Looker) -> None:
    person = looker.person
    looker.looking.select(2)
    looker.wait_seen()
    path = person.app.desk.loader.path
    person.app.desk.loader.unload()
    person.wait(lambda: looker.label("inside_sentence") == NOTHING_LOADED)
    assert not looker.panel.column.isVisible()
    looker.looking.select(3)
    assert looker.label("inside_sentence") == NOTHING_LOADED
    person.app.desk.loader.load(path)
    person.wait(lambda: looker.words() == "“·Paris” → “,”")


def test_a_reply_that_is_written_is_looked_into_when_it_is_finished(looker: Looker) -> None:
    person = looker.person
    person.send("A long one")
    person.wait_growing(20)
    person.wait(lambda: looker.label("inside_sentence") == GROWING)
    person.app.desk.replies.stop()
    person.wait_ended()
    person.wait(lambda: looker.label("inside_sentence") == CHOOSE)
    looker.looking.select(1)
    looker.wait_seen()
    assert looker.words() == "“Oh” → “.”"


def test_a_failure_and_a_slow_answer_are_told(open_window: Any) -> None:
    fail = {"kind": "out_of_memory", "sentence": "Looking inside needs another 2 GB of memory."}
    looker = Looker(open_window({**SCRIPT, "inside": {"fail": fail}}))
    looker.looking.select(2)
    looker.person.wait(lambda: looker.label("inside_sentence") == fail["sentence"])
    assert looker.panel.again_button.isVisible()
    looker.looking.select(None)
    assert looker.label("inside_sentence") == CHOOSE


def test_one_need_not_wait(open_window: Any) -> None:
    looker = Looker(open_window({**SCRIPT, "inside": {"ms": 60_000, "chunks": 1000}}))
    looker.looking.select(2)
    person = looker.person
    person.wait(lambda: looker.panel.bar.isVisible() and looker.panel.bar.value() > 0)
    QTest.mouseClick(looker.panel.cancel_button, LEFT)
    assert looker.label("inside_sentence") == "Cancelled."
    person.send("Which city?")  # the engine is free again
    person.wait_ended()


def test_words_are_compared_laid_out_and_swapped(looker: Looker) -> None:
    """The made-up vocabulary has no word of the starting list: those of the chat are typed."""
    person, panel = looker.person, looker.panel
    looker.looking.select(3)
    looker.wait_seen()
    cards = {card.name: card for card in panel.cards}
    for card in panel.cards:
        card.set_open(card.name in ("nearest", "map", "position"))
    nearest = cast("NearestCard", cards["nearest"])
    person.wait(lambda: nearest.table.found)
    assert nearest.table.found[0].is_input, "a token is nearest to itself"
    QTest.keyClicks(nearest.fields[0], "Paris")
    QTest.keyClick(nearest.fields[0], Qt.Key.Key_Return)
    person.wait(lambda: nearest.table.found and "Paris" in nearest.words.text())
    laid_out = cast("MapCard", cards["map"])
    laid_out.text.setPlainText("Paris, is It course")
    person.wait(lambda: laid_out.placed is not None and len(laid_out.map.words) == 4)
    assert set(laid_out.map.words) == {"Paris", "is", "It", "course"}
    position = cast("PositionCard", cards["position"])
    person.wait(lambda: position.words.text().startswith("RoPE: all 8 dimensions"))
    person.wait(lambda: position.dials.isVisible() and not panel.view.is_waiting)
    assert position.swap.pair is not None
    QTest.mouseClick(position.swap.button, LEFT)
    person.wait(position.swap.table.isVisible)
    assert "bits (KL)" in position.swap.words.text()
