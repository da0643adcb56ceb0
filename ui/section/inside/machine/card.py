"""*Machine*: the blocks of this file, where the time of a step goes, what flash attention is worth.

What the file says is drawn at once. Times and memory are measured when somebody asks, on the text
up to the token that is looked at, and say on how much of it.
"""

from __future__ import annotations

from statistics import median
from typing import Final

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QWidget

from app.amounts import bytes_words, count_words, ms_words, percent
from app.chat.inspection.inside import Seen
from app.engine.protocol.machine_messages import FlashCompared, FlashSide, StepProfiled
from app.insight.inside.machine import Machine
from ui.look.theme import Theme
from ui.section.card import small_label
from ui.section.inside.card import InsideCard
from ui.section.inside.machine.drawing import MachineDrawing
from ui.section.inside.machine.memory_line import MemoryLine
from ui.section.inside.machine.rows import rows_of
from ui.section.inside.rows import RIGHT, PaintedRows, elided
from ui.section.inside.view import InsideView
from ui.section.panel import Tools
from ui.section.term_label import term_label
from ui.widgets.kit import plain_label, push_button

HELP: Final = (
    "A token passes these blocks from top to bottom. The line on the left is the stream: one "
    "vector that every block reads and adds to. A box is as wide as its share of the model’s "
    "parameters, and each square in attention is a head. Click a block to see its tensors. Timing "
    "cuts the step behind each block, which slows it down, so the uncut step is shown beside it."
)
NO_TEXT: Final = "Select a token first: times depend on the text before it."
MISSING: Final = "Not found: {names}. Blocks in there are missing here."
READING: Final = "Reading the text: {done:,} of {total:,} tokens"
MEASURING: Final = "Measuring…"
EXPERTS: Final = "Experts this token passes, by layer"
_NUMBER_PX: Final = 24


class ExpertRows(PaintedRows):
    """A row for each layer: a cell for each expert, those that the token passes tinted by their
    weight."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(theme, "inside_machine_experts", parent)
        self.setAccessibleName(EXPERTS)
        self.experts = np.zeros((0, 0), np.int32)
        self.weights = np.zeros((0, 0), np.float32)
        self.n_expert = 0

    def show_experts(self, experts: object, weights: object, n_expert: int) -> None:
        """[n_layer, n_used] of both."""
        self.experts = np.asarray(experts, np.int32)
        self.weights = np.asarray(weights, np.float32)
        self.n_expert = n_expert
        self.set_rows(len(self.experts))
        self.setAccessibleDescription("\n".join(map(self._words, range(len(self.experts)))))

    def _words(self, row: int) -> str:
        used = [
            f"{expert} ({percent(float(weight))})"
            for expert, weight in zip(self.experts[row], self.weights[row], strict=True)
            if expert >= 0
        ]
        return f"Layer {row}: " + (", ".join(used) or "none")

    def words_of(self, row: int, x: float) -> str:
        return self._words(row)

    def paint_row(self, painter: QPainter, row: int, rect: QRectF) -> None:
        colors, px = self._theme.colors, self._theme.px
        painter.setPen(QColor(colors.dim))
        number = QRectF(rect.left(), rect.top(), px(_NUMBER_PX), rect.height())
        painter.drawText(number.adjusted(0, 0, -px(6), 0), RIGHT, str(row))
        room = QRectF(number.right(), rect.top() + px(3), 0, rect.height() - px(6))
        room.setRight(rect.left() + rect.width() * 0.55)
        width = room.width() / max(self.n_expert, 1)
        painter.fillRect(room, QColor(colors.hover))
        for expert, weight in zip(self.experts[row], self.weights[row], strict=True):
            if expert >= 0:
                color = QColor(colors.second)
                color.setAlphaF(min(0.3 + 0.7 * max(float(weight), 0.0), 1.0))
                cell = QRectF(room.left() + expert * width, room.top(), width, room.height())
                painter.fillRect(cell, color)
        painter.setPen(QColor(colors.ink))
        words = self._words(row).partition(": ")[2]
        elided(painter, rect.adjusted(room.right() + px(8), 0, 0, 0), words)


class MachineCard(InsideCard):
    title_words = "Machine"
    name = "machine"
    help_words = HELP

    def __init__(self, tools: Tools, view: InsideView, parent: QWidget | None = None) -> None:
        self.machine: Machine | None = None
        self.profiled: StepProfiled | None = None
        self.compared: FlashCompared | None = None
        self._read_of: object = None
        self._opened: frozenset[str] = frozenset()
        self._running: QPushButton | None = None
        self._drawn: tuple[object, ...] = (None, None, frozenset(), None)
        super().__init__(tools, view, parent)
        self.drawing = MachineDrawing(tools.theme, self.content)
        self.profile_button = push_button("Time the blocks", self.content, "inside_machine_profile")
        self.flash_button = push_button(
            "Compare flash attention", self.content, "inside_machine_flash"
        )
        self.progress = small_label("", self.content)
        self.progress.setObjectName("inside_machine_progress")
        self.memory = MemoryLine(tools, self.content)
        self.times = small_label("", self.content)
        self.times.setObjectName("inside_machine_times")
        self.flash = QWidget(self.content)
        self.flash.setObjectName("inside_machine_flash_table")
        self.flash_words = small_label("", self.content)
        self.flash_words.setObjectName("inside_machine_flash_words")
        self.experts_title = small_label(EXPERTS, self.content)
        self.experts = ExpertRows(tools.theme, self.content)
        self._lay_out()
        self.drawing.opened.connect(self._open)
        self.profile_button.clicked.connect(lambda _=False: self._measure(self.profile_button))
        self.flash_button.clicked.connect(lambda _=False: self._measure(self.flash_button))

    def _lay_out(self) -> None:
        theme = self._tools.theme
        buttons = QHBoxLayout()
        for button in (self.profile_button, self.flash_button):
            button.setAutoDefault(False)
            theme.font(button, Theme.font_small)
            buttons.addWidget(button)
        buttons.addStretch(1)
        theme.space(buttons, 6)
        self._cells = QGridLayout(self.flash)
        self._cells.setContentsMargins(0, 0, 0, 0)
        self._cells.setColumnStretch(3, 1)
        theme.space(self._cells, 4)
        self._cells.setHorizontalSpacing(theme.px(16))
        self._labels: dict[tuple[int, int], QLabel] = {}
        self.rows.addWidget(self.drawing)
        self.rows.addWidget(self.memory)
        self.rows.addWidget(self.times)
        self.rows.addLayout(buttons)
        for widget in (
            self.progress,
            self.flash,
            self.flash_words,
            self.experts_title,
            self.experts,
        ):
            self.rows.addWidget(widget)

    # --- what is shown --------------------------------------------------------------------------

    @property
    def is_about_file(self) -> bool:
        return self._tools.desk.loader.loaded is not None

    def refresh(self) -> None:
        """It is about the file, so nothing of a token need be there."""
        if not self._is_active:
            return
        loaded = self._tools.desk.loader.loaded
        if self._read_of is not loaded:
            self._forget()
        self.content.setVisible(self.is_open)
        if loaded is not None and self.is_open and self.machine is None:
            self._read()
        self._show()

    def _forget(self) -> None:
        """Other weights, or none."""
        self._read_of = self.machine = self.profiled = self.compared = None
        self._opened = frozenset()
        self._end("")
        self.reason.setVisible(False)

    def _read(self) -> None:
        loaded = self._tools.desk.loader.loaded
        if self._read_of is loaded:
            return
        self._read_of = loaded
        self._tools.desk.machine.read(
            self._take, self._fail, still=lambda: self._tools.desk.loader.loaded is loaded
        )

    def _take(self, machine: Machine) -> None:
        self.machine = machine
        if any(block.hidden is not None and block.hidden.n_expert for block in machine.blocks):
            self.view.want(("experts", "expert_weights"))
        self._show()

    def _fail(self, sentence: str) -> None:
        self.reason.setText(sentence)
        self.reason.setVisible(self.is_open)

    def _show(self) -> None:
        machine = self.machine
        drawn = (self._tools.desk.loader.loaded, machine, self._opened, self.profiled)
        if any(now is not before for now, before in zip(drawn, self._drawn, strict=True)):
            self._drawn = drawn
            self._draw()
        if not self.is_open:
            return
        has_text = self.view.text is not None and self.view.place is not None
        for button in (self.profile_button, self.flash_button):
            is_free = self._running is None and has_text and machine is not None
            button.setEnabled(button is self._running or is_free)
            button.setToolTip("" if has_text else NO_TEXT)
        self.progress.setVisible(bool(self.progress.text()))
        self._show_times()
        self._show_flash()
        self._show_experts()

    def _draw(self) -> None:
        """For many layers it takes some milliseconds, so only where something is another."""
        machine = self.machine
        if machine is None:
            loaded = self._tools.desk.loader.loaded
            n_params = 0 if loaded is None else loaded.n_params
            self.figure.set_text(f"{count_words(n_params)} parameters" if n_params else "")
            self.drawing.show_rows([])
            return
        self.figure.set_text(
            f"{count_words(machine.n_params)} parameters · {bytes_words(machine.size_bytes)} · "
            f"{machine.bits_per_weight:.1f} bits"
        )
        self.drawing.show_rows(rows_of(machine, self._opened, self.profiled))
        if machine.missing:
            self._fail(MISSING.format(names=", ".join(machine.missing)))

    def _show_times(self) -> None:
        found = self.profiled
        if found is not None:
            threads = f"{found.n_threads:,} thread{'s' * (found.n_threads > 1)}"
            of_layers = sum(map(sum, (found.attention, found.others, found.ffn)))
            blocks = found.prepare + found.embedding + of_layers + found.output
            self.times.setText(
                f"Profiled at token {found.n_tokens:,}: blocks {ms_words(blocks)} together, the "
                f"step {ms_words(found.total)} cut behind each block, {ms_words(found.plain)} "
                f"uncut. Medians of {found.n_runs:,} runs, {threads}."
            )
        self.times.setVisible(found is not None)

    def _show_flash(self) -> None:
        found = self.compared
        self.flash.setVisible(found is not None)
        self.flash_words.setVisible(found is not None)
        if found is None:
            return
        self._row(0, "Flash attention", "On", "Off")
        sides = (found.on, found.off)
        self._row(
            1,
            f"Reading the last {found.n_chunk:,} tokens",
            *(ms_words(median(side.chunk_ms)) for side in sides),
        )
        self._row(2, "One step", *(ms_words(median(side.step_ms)) for side in sides))
        self._row(3, "Compute buffer", *map(_buffer_words, sides))
        self._row(4, "Top token", *(f"“{self.view.word(side.top)}”" for side in sides))
        self.flash_words.setText(
            f"Medians behind {found.n_tokens:,} tokens. The scores differ by up to "
            f"{found.largest_difference:.2g}."
        )

    def _row(self, row: int, *words: str) -> None:
        for column, text in enumerate(words):
            label = self._labels.get((row, column))
            if label is None:
                make = plain_label if column else term_label
                label = make("", self.flash, "small")
                self._labels[row, column] = label
                side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
                self._cells.addWidget(label, row, column, side)
            label.setText(text)

    def _show_experts(self) -> None:
        seen = self.view.seen
        arrays = {} if seen is None else seen.arrays
        machine = self.machine
        has_any = machine is not None and "experts" in arrays and "expert_weights" in arrays
        self.experts.setVisible(has_any)
        self.experts_title.setVisible(has_any)
        if machine is not None and has_any:
            n_expert = max(
                (b.hidden.n_expert for b in machine.blocks if b.hidden is not None), default=0
            )
            self.experts.show_experts(arrays["experts"], arrays["expert_weights"], n_expert)

    def show_figure(self, seen: Seen | None) -> None: ...

    def _open(self, key: str) -> None:
        self._opened = self._opened ^ {key}
        self._show()

    # --- measuring ------------------------------------------------------------------------------

    def _measure(self, button: QPushButton) -> None:
        desk, view = self._tools.desk, self.view
        if self._running is button:
            desk.machine.stop()
            self._end("")
            self._show()
            return
        if view.text is None or view.place is None:
            return
        self._running = button
        button.setText("Cancel")
        self.progress.setText(MEASURING)
        loaded = desk.loader.loaded
        ids = view.text.ids[: view.place + 1].tolist()

        def still() -> bool:
            return desk.loader.loaded is loaded and self._running is button

        if button is self.profile_button:
            desk.machine.profile(
                ids, self._take_profile, self._end_badly, self._on_progress, still=still
            )
        else:
            desk.machine.compare_flash(
                ids, self._take_flash, self._end_badly, self._on_progress, still=still
            )
        self._show()

    def _on_progress(self, done: int, total: int) -> None:
        self.progress.setText(READING.format(done=done, total=total) if done < total else MEASURING)

    def _take_profile(self, found: StepProfiled) -> None:
        self.profiled = found
        self._end("")
        self._show()

    def _take_flash(self, found: FlashCompared) -> None:
        self.compared = found
        self._end("")
        self._show()
        self.measured.emit(found)

    def _end_badly(self, sentence: str) -> None:
        self._end(sentence)
        self._show()

    def _end(self, sentence: str) -> None:
        self._running = None
        self.profile_button.setText("Time the blocks")
        self.flash_button.setText("Compare flash attention")
        self.progress.setText(sentence)


def _buffer_words(side: FlashSide) -> str:
    return bytes_words(side.compute_bytes) if side.compute_bytes else "unknown"
