"""The machine's card: drawn of the file, opened by click and key, measured on a button."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gguf_writer import Shape, tiny_llama
from made_inside import AnsweredByHand
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot
from recording_desk import FakeBridge, FakeDesk

from app.engine.process.scripted.inside import MadeUpNetwork
from app.gguf.header import read_header
from app.insight.inside.machine import Machine, machine_of
from models.records import Message
from ui.section.inside.machine.card import NO_TEXT, MachineCard
from ui.section.inside.machine.drawing import MachineDrawing
from ui.section.inside.machine.rows import BlockRow, PartRow
from ui.section.inside.view import InsideView
from ui.section.looking import Looking
from ui.section.panel import Tools

LEFT = Qt.MouseButton.LeftButton
SMALL = Shape(n_embd=32, n_layer=4, n_ff=48, n_expert=5)


class ByHand:
    """Stands for `desk.machine`: what was asked waits."""

    def __init__(self, desk: FakeDesk, machine: Machine) -> None:
        self.machine = machine
        self.n_read = self.n_stopped = 0
        self.waits = False
        self.asked: list[tuple[str, list[int], tuple[Any, ...], Callable[[], bool]]] = []
        self.reading: list[tuple[Callable[[Machine], None], Callable[[], bool]]] = []
        desk.machine.read = self._read
        desk.machine.profile = self._ask("profile")
        desk.machine.compare_flash = self._ask("flash")
        desk.machine.stop = self._stop

    def _read(self, then: Any, failed: Any, *, still: Callable[[], bool]) -> None:
        self.n_read += 1
        self.reading.append((then, still))
        if not self.waits:
            then(self.machine)

    def _ask(self, name: str) -> Callable[..., None]:
        def ask(ids: list[int], *callbacks: Any, still: Callable[[], bool]) -> None:
            self.asked.append((name, list(ids), callbacks, still))

        return ask

    def _stop(self) -> None:
        self.n_stopped += 1

    def give(self, result: object) -> None:
        _name, _ids, (then, _failed, _progress), still = self.asked[-1]
        if still():
            then(result)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    tiny_llama(tmp_path / "tiny.gguf", shape=SMALL)
    return machine_of(read_header(tmp_path / "tiny.gguf"))


@pytest.fixture
def hand(desk: FakeDesk, machine: Machine, inside: AnsweredByHand) -> ByHand:
    desk.loader.loaded = SimpleNamespace(n_params=machine.n_params)
    return ByHand(desk, machine)


@pytest.fixture
def card(
    looking: Looking,
    desk: FakeDesk,
    bridge: FakeBridge,
    tools: Tools,
    reply: Message,
    hand: ByHand,
    qtbot: QtBot,
) -> MachineCard:
    """Open, on screen; no token is chosen."""
    view = InsideView(looking, desk, bridge)  # type: ignore[arg-type]
    made = MachineCard(tools, view)
    view.setParent(made)
    qtbot.addWidget(made)
    made.resize(360, 900)
    made.show()
    qtbot.waitExposed(made)
    made.set_active(True)
    view.set_awake(True)
    made.set_open(True)
    qtbot.waitUntil(lambda: made.drawing.height() == made.drawing.sizeHint().height())
    return made


@pytest.fixture
def seen(card: MachineCard, looking: Looking, inside: AnsweredByHand) -> MachineCard:
    """The first token of the reply is looked at."""
    looking.select(0)
    inside.answer()
    return card


def parts(drawing: MachineDrawing) -> list[str]:
    return [row.name for row in drawing.rows if isinstance(row, PartRow)]


def click(drawing: MachineDrawing, key: str) -> None:
    place = drawing.rect_of(key).topLeft() + QPointF(60, 6)
    QTest.mouseClick(drawing, LEFT, pos=place.toPoint())


def test_the_file_is_drawn_before_any_token_is_chosen(card: MachineCard, machine: Machine) -> None:
    assert card.figure.text().startswith(f"{machine.n_params / 1000:.0f}K parameters · ")
    assert [row.kind for row in card.drawing.rows if isinstance(row, BlockRow)] == [
        *("embedding", "attention", "ffn", "output_norm", "output")
    ]
    assert card.drawing.isVisible()
    assert not card.profile_button.isEnabled()
    assert card.profile_button.toolTip() == NO_TEXT


def test_it_is_read_when_it_is_opened_and_once(card: MachineCard, hand: ByHand) -> None:
    card.set_open(False)
    card.set_open(True)
    card.refresh()
    assert hand.n_read == 1


def test_closed_it_says_how_many_parameters_there_are(
    looking: Looking, bridge: FakeBridge, tools: Tools, desk: FakeDesk, hand: ByHand, qtbot: QtBot
) -> None:
    view = InsideView(looking, desk, bridge)  # type: ignore[arg-type]
    card = MachineCard(tools, view)
    view.setParent(card)
    qtbot.addWidget(card)
    card.set_active(True)
    assert card.figure.text() == f"{hand.machine.n_params / 1000:.0f}K parameters"
    assert hand.n_read == 0
    desk.loader.loaded = None
    card.refresh()
    assert card.figure.text() == ""
    assert not card.is_about_file


def test_a_click_opens_a_block_and_another_one_closes_it(card: MachineCard) -> None:
    drawing = card.drawing
    before = drawing.height()
    click(drawing, "layers 0 0")
    assert parts(drawing) == ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"]
    assert drawing.heightForWidth(drawing.width()) > before
    click(drawing, "layers 0 0")
    assert parts(drawing) == []
    QTest.mouseClick(drawing, LEFT, pos=QPoint(40, drawing.height() + 50))
    assert parts(drawing) == []


def test_keys_move_and_open(card: MachineCard) -> None:
    drawing = card.drawing
    drawing.setFocus()
    QTest.keyClick(drawing, Qt.Key.Key_Down)
    assert drawing.chosen == "embedding"
    QTest.keyClick(drawing, Qt.Key.Key_Down)
    QTest.keyClick(drawing, Qt.Key.Key_Down)
    assert drawing.chosen == "layers 0 1"
    assert drawing.accessibleDescription().startswith("Feed-forward: 2 of 5 experts")
    QTest.keyClick(drawing, Qt.Key.Key_Return)
    assert "ffn_gate_inp" in parts(drawing)
    QTest.keyClick(drawing, Qt.Key.Key_Space)
    assert parts(drawing) == []
    QTest.keyClick(drawing, Qt.Key.Key_End)
    assert drawing.chosen == "output"
    QTest.keyClick(drawing, Qt.Key.Key_Up)
    assert drawing.chosen == "output_norm"
    QTest.keyClick(drawing, Qt.Key.Key_Home)
    assert drawing.chosen == "embedding"


def test_boxes_are_as_wide_as_their_share(card: MachineCard) -> None:
    """Counted in the picture: columns of the box's own colour."""
    drawing = card.drawing
    image = drawing.grab().toImage()
    rows = [row for row in drawing.rows if isinstance(row, BlockRow) and row.share > 0.02]
    assert len(rows) >= 3
    scale, left = image.devicePixelRatio(), drawing._theme.px(18)
    room = drawing.width() - left
    for row in rows:
        rect = drawing.rect_of(row.key)
        y = round((rect.top() + drawing._theme.px(2)) * scale)  # above the words
        plane = image.pixelColor(image.width() - 2, y)
        colored = [
            x for x in range(round(left * scale), image.width()) if image.pixelColor(x, y) != plane
        ]
        assert len(colored) / scale == pytest.approx(row.share * room, abs=3), row.words


def test_a_header_that_claims_any_number_of_heads_is_drawn_without_squares(
    card: MachineCard, tmp_path: Path
) -> None:
    usual = card.drawing.rect_of("layers 0 0").height()
    counts = {f"llama.attention.head_count{end}": 2**31 - 1 for end in ("", "_kv")}
    counts["llama.expert_shared_count"] = 2**31 - 1
    tiny_llama(tmp_path / "odd.gguf", shape=SMALL, metadata=counts)
    card._take(machine_of(read_header(tmp_path / "odd.gguf")))
    assert card.drawing.rect_of("layers 0 0").height() < usual
    assert not card.drawing.grab().isNull()


def test_times_are_measured_on_the_text_up_to_the_token(
    seen: MachineCard, hand: ByHand, qtbot: QtBot
) -> None:
    qtbot.mouseClick(seen.profile_button, LEFT)
    ((name, ids, (_, _, progress), still),) = hand.asked
    assert seen.view.text is not None
    assert (name, ids) == ("profile", seen.view.text.ids[:4].tolist())
    assert still()
    assert seen.profile_button.text() == "Cancel"
    assert not seen.flash_button.isEnabled()
    progress(2, 3)
    assert seen.progress.text() == "Reading the text: 2 of 3 tokens"
    hand.give(MadeUpNetwork(9).profiled(4, 2))
    assert seen.profile_button.text() == "Time the blocks"
    assert not seen.progress.isVisible()
    assert seen.times.text() == (
        "Profiled at token 4: blocks 34.8 ms together, the step 34.8 ms cut behind each block, "
        "33.1 ms uncut. Medians of 7 runs, 2 threads."
    )
    (attention,) = [
        row for row in seen.drawing.rows if isinstance(row, BlockRow) and row.kind == "attention"
    ]
    assert attention.ms == 1 + 2 + 3 + 4


def test_flash_attention_is_compared_in_a_table(
    seen: MachineCard, hand: ByHand, qtbot: QtBot
) -> None:
    qtbot.mouseClick(seen.flash_button, LEFT)
    with qtbot.waitSignal(seen.measured) as told:
        hand.give(MadeUpNetwork(9).flash(4, 2))
    assert told.args == [seen.compared]
    cells = [label.text() for label in seen.flash.findChildren(QLabel)]
    assert cells[:9] == [
        *("Flash attention", "On", "Off"),
        *("Reading the last 3 tokens", "75 ms", "100 ms"),
        *("One step", "7.5 ms", "10 ms"),
    ]
    assert cells[9:12] == ["Compute buffer", "16.8 MB", "25.2 MB"]
    assert seen.flash_words.text() == "Medians behind 4 tokens. The scores differ by up to 0.12."


def test_a_measurement_is_cancelled_by_its_button(
    seen: MachineCard, hand: ByHand, qtbot: QtBot
) -> None:
    qtbot.mouseClick(seen.flash_button, LEFT)
    qtbot.mouseClick(seen.flash_button, LEFT)
    assert hand.n_stopped == 1
    assert not hand.asked[0][3](), "what still comes is dropped"
    assert seen.flash_button.text() == "Compare flash attention"
    assert seen.profile_button.isEnabled()


def test_a_refusal_is_said(seen: MachineCard, hand: ByHand, qtbot: QtBot) -> None:
    qtbot.mouseClick(seen.flash_button, LEFT)
    hand.asked[0][2][1]("A quantised V cache needs flash attention.")
    assert seen.progress.isVisible()
    assert seen.progress.text() == "A quantised V cache needs flash attention."
    assert seen.flash_button.isEnabled()


def test_what_comes_of_weights_that_are_loaded_no_more_is_dropped(
    seen: MachineCard, hand: ByHand, desk: FakeDesk, qtbot: QtBot
) -> None:
    hand.waits = True
    qtbot.mouseClick(seen.profile_button, LEFT)
    desk.loader.loaded = SimpleNamespace(n_params=0)
    hand.give(MadeUpNetwork(9).profiled(4, 2))
    assert seen.profiled is None
    assert not hand.reading[0][1]()
    seen.refresh()
    assert seen.machine is None
    assert seen.figure.text() == ""
    assert (hand.n_read, seen.profile_button.text()) == (2, "Time the blocks")
    then, still = hand.reading[1]
    assert still()
    then(hand.machine)
    assert seen.figure.text()


def test_experts_of_the_token_stand_by_layer(seen: MachineCard, qtbot: QtBot) -> None:
    view = seen.view
    assert {"experts", "expert_weights"} <= set(view._wants), "asked for where there are some"
    assert not seen.experts.isVisible()
    assert view.seen is not None
    experts = np.array([[3, 1], [0, 4], [-1, -1], [2, 3]], np.int32)
    weights = np.array([[0.75, 0.25], [0.5, 0.5], [np.nan, np.nan], [0.9, 0.1]], np.float32)
    arrays = {**view.seen.arrays, "experts": experts, "expert_weights": weights}
    view.seen = replace(view.seen, arrays=arrays)
    view.seen_changed.emit()
    assert seen.experts.isVisible()
    assert seen.experts.n_rows == 4
    assert seen.experts.words_of(0, 0) == "Layer 0: 3 (75%), 1 (25%)"
    assert seen.experts.words_of(2, 0) == "Layer 2: none"
    qtbot.waitUntil(lambda: seen.experts.height() > 0)
    image = seen.experts.grab().toImage()
    scale, px = image.devicePixelRatio(), seen.experts._theme.px
    room = seen.experts.width() * 0.55 - px(24)

    def color(expert: int, row: int) -> QColor:
        x, y = px(24) + room * (expert + 0.5) / 5, seen.experts.rect_of(row).center().y()
        return image.pixelColor(round(x * scale), round(y * scale))

    plane = color(0, 0)
    assert color(3, 0).saturation() > color(1, 0).saturation() > plane.saturation()
    assert {color(each, 2).name() for each in range(5)} == {plane.name()}


def test_parts_that_are_not_there_are_named(
    card: MachineCard, hand: ByHand, machine: Machine
) -> None:
    card._take(replace(machine, missing=("big-00002-of-00002.gguf",)))
    assert card.reason.isVisible()
    assert "big-00002-of-00002.gguf" in card.reason.text()
