"""The question before several answers: how many, and what each has otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from app.chat.replies.replies import MAX_ANSWERS, PRESET
from app.chat.replies.together import Together
from app.chat.settings.settings import MAX_SEED, Settings, checked
from app.refusal import Refusal
from models.records import Preset
from ui.look.theme import Theme
from ui.widgets.combo import Combo
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea

LEAST: Final = 2
HERE: Final = "This chat's settings"

Fits = Callable[[int], Together]
"""How many of so many answers fit at once."""


class AskSeveral(QDialog):
    """A row for each answer: its preset, its seed and its temperature. `asked` carries the list of
    changes. `fits` says how many are written at once; the rest waits."""

    asked = Signal(list)

    def __init__(
        self,
        theme: Theme,
        settings: Settings,
        parent: QWidget | None = None,
        *,
        presets: Sequence[Preset] = (),
        fits: Fits | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._settings = settings
        self._fits = fits
        self._presets = {preset.id: preset for preset in presets}
        self.setObjectName("several_answers_dialog")
        self.setWindowTitle("Generate several replies")
        self.count = Combo(theme, self)
        self.count.setMinimumContentsLength(2)
        self.count.setObjectName("answers_count")
        self.count.setAccessibleName("Number of replies")
        for number in range(LEAST, MAX_ANSWERS + 1):
            self.count.addItem(str(number), number)
        self.count.currentIndexChanged.connect(lambda _: self._show_rows())
        self.all_presets = self._preset_choice("answers_preset", "Preset for all replies")
        self.all_presets.currentIndexChanged.connect(self._take_preset)
        self.fit_words = plain_label("", self, "small", name="answers_fit", wraps=True)
        self.presets: list[Combo] = []
        self.seeds: list[QLineEdit] = []
        self.temperatures: list[QLineEdit] = []
        self._numbers: list[QLabel] = []
        self._grid = QGridLayout()
        self._add_head()
        for number in range(MAX_ANSWERS):
            self._add_row(number)
        buttons = QDialogButtonBox(self)
        self.ask = push_button("Generate", self, "answers_ask", kind="primary")
        self.ask.setDefault(True)
        buttons.addButton(self.ask, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        buttons.accepted.connect(self._on_accepted)
        buttons.rejected.connect(self.reject)
        self._arrange(buttons)
        self._show_rows()
        self.finished.connect(self.deleteLater)
        self.count.setFocus()

    def answers(self) -> list[dict[str, Any]]:
        """What each answer has otherwise than the chat."""
        return [self._changes(number) for number in range(self.count.currentData())]

    def _changes(self, number: int) -> dict[str, Any]:
        preset = self._presets.get(self.presets[number].currentData() or "")
        changes: dict[str, Any] = {}
        if preset is not None:
            changes |= {**preset.value, PRESET: preset.name}
        seed = self.seeds[number].text().strip()
        # One fixed seed for all would give the same answer as often as it is asked for.
        changes["seed"] = min(int(seed), MAX_SEED) if seed.isdecimal() else None
        typed = self.temperatures[number].text().strip().replace(",", ".")
        with suppress(ValueError, Refusal):
            if typed:
                changes["temperature"] = checked("temperature", float(typed))
        return changes

    def _preset_choice(self, name: str, spoken: str) -> Combo:
        choice = Combo(self._theme, self)
        choice.setObjectName(name)
        choice.setAccessibleName(spoken)
        choice.setMinimumContentsLength(15)
        choice.addItem(HERE, "")
        for preset in self._presets.values():
            choice.addItem(preset.name, preset.id)
        return choice

    def show_presets(self, presets: Sequence[Preset]) -> None:
        """They were read meanwhile; what is chosen stays chosen."""
        self._presets = {preset.id: preset for preset in presets}
        for choice in (self.all_presets, *self.presets):
            chosen = choice.currentData()
            was_blocked = choice.blockSignals(True)
            choice.clear()
            choice.addItem(HERE, "")
            for preset in presets:
                choice.addItem(preset.name, preset.id)
            choice.setCurrentIndex(max(choice.findData(chosen), 0))
            choice.blockSignals(was_blocked)
        self._show_rows()

    def _take_preset(self, index: int) -> None:
        for choice in self.presets:
            choice.setCurrentIndex(index)

    def _add_head(self) -> None:
        for column, words in enumerate(("Reply", "Preset", "Seed", "Temperature")):
            label = plain_label(words, self, "small")
            self._grid.addWidget(label, 0, column)

    def _add_row(self, number: int) -> None:
        label = QLabel(str(number + 1), self)
        seed = QLineEdit(self)
        seed.setObjectName(f"answer_seed_{number}")
        seed.setAccessibleName(f"Seed for reply {number + 1}")
        seed.setPlaceholderText("random")
        seed.setMaxLength(10)
        preset = self._preset_choice(f"answer_preset_{number}", f"Preset for reply {number + 1}")
        temperature = QLineEdit(self)
        temperature.setObjectName(f"answer_temperature_{number}")
        temperature.setAccessibleName(f"Temperature for reply {number + 1}")
        temperature.setPlaceholderText(f"{self._settings.temperature:g}")
        temperature.setMaxLength(6)
        self._theme.at_least(seed, 80)
        self._theme.at_least(temperature, 56)
        for column, widget in enumerate((label, preset, seed, temperature)):
            self._grid.addWidget(widget, number + 1, column)
        self._numbers.append(label)
        self.presets.append(preset)
        self.seeds.append(seed)
        self.temperatures.append(temperature)

    def _arrange(self, buttons: QDialogButtonBox) -> None:
        words = plain_label(
            "Generate several replies to this message side by side. Use one; the others stay as "
            "versions.",
            self,
            "dim",
            wraps=True,
        )
        head = QHBoxLayout()
        title = QLabel("How many", self)
        title.setBuddy(self.count)
        head.addWidget(title)
        head.addWidget(self.count)
        head.addWidget(self.all_presets)
        head.addStretch(1)
        column = QVBoxLayout(self)
        self._theme.space(column, 14, margins=(20, 16))
        self._theme.space(self._grid, (12, 8))
        self._grid.setColumnStretch(1, 2)
        self._grid.setColumnStretch(2, 1)
        column.addWidget(words)
        column.addLayout(head)
        column.addWidget(self._scrolling())
        column.addWidget(self.fit_words)
        column.addWidget(buttons)
        self._theme.at_least(self, 440)
        self._theme.changed.connect(self._fit_height)

    def _scrolling(self) -> QWidget:
        """Eight rows are higher than a small window at 200 %."""
        self._inside = inside = QWidget(self)
        inside.setLayout(self._grid)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._area = SteadyArea(self)
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setWidget(inside)
        self._area.viewport().setAutoFillBackground(False)
        inside.setAutoFillBackground(False)
        return self._area

    def _show_rows(self) -> None:
        count = self.count.currentData()
        for number in range(MAX_ANSWERS):
            for widgets in (self._numbers, self.presets, self.seeds, self.temperatures):
                widgets[number].setVisible(number < count)
        for choice in (self.all_presets, *self.presets[:count]):
            choice.setVisible(bool(self._presets))
        self.fit_words.setText("" if self._fits is None else self._fits(count).sentence)
        self.fit_words.setVisible(self._fits is not None)
        self._fit_height()

    def _fit_height(self) -> None:
        """All rows where the screen has room for them."""
        inside = self._inside
        self._grid.activate()
        wanted = inside.sizeHint().height() + self._theme.px(4)
        parent = self.parentWidget()
        room = (parent.window().height() if parent is not None else 800) - self._theme.px(260)
        self._area.setMinimumHeight(min(wanted, max(room, self._theme.px(96))))
        self._area.setMaximumHeight(wanted)
        self._area.setMinimumWidth(inside.minimumSizeHint().width() + self._theme.px(16))
        self.adjustSize()

    def _on_accepted(self) -> None:
        self.asked.emit(self.answers())
        self.accept()
