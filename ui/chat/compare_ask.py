"""The question before several answers: how many, and what each has otherwise."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from app.chat.replies.replies import MAX_ANSWERS
from app.chat.settings.settings import MAX_SEED, Settings, checked
from app.refusal import Refusal
from ui.look.theme import Theme
from ui.widgets.combo import Combo
from ui.widgets.kit import plain_label, push_button

LEAST = 2


class AskSeveral(QDialog):
    """A row for each answer: its seed and its temperature. `asked` carries the list of changes."""

    asked = Signal(list)

    def __init__(self, theme: Theme, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._settings = settings
        self.setObjectName("several_answers_dialog")
        self.setWindowTitle("Generate several replies")
        self.count = Combo(theme, self)
        self.count.setMinimumContentsLength(2)
        self.count.setObjectName("answers_count")
        self.count.setAccessibleName("Number of replies")
        for number in range(LEAST, MAX_ANSWERS + 1):
            self.count.addItem(str(number), number)
        self.count.currentIndexChanged.connect(lambda _: self._show_rows())
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
        changes: dict[str, Any] = {}
        seed = self.seeds[number].text().strip()
        # One fixed seed for all would give the same answer as often as it is asked for.
        changes["seed"] = min(int(seed), MAX_SEED) if seed.isdecimal() else None
        typed = self.temperatures[number].text().strip().replace(",", ".")
        with suppress(ValueError, Refusal):
            if typed:
                changes["temperature"] = checked("temperature", float(typed))
        return changes

    def _add_head(self) -> None:
        for column, words in enumerate(("Reply", "Seed", "Temperature")):
            label = plain_label(words, self, "small")
            self._grid.addWidget(label, 0, column)

    def _add_row(self, number: int) -> None:
        label = QLabel(str(number + 1), self)
        seed = QLineEdit(self)
        seed.setObjectName(f"answer_seed_{number}")
        seed.setAccessibleName(f"Seed for reply {number + 1}")
        seed.setPlaceholderText("random")
        seed.setMaxLength(10)
        temperature = QLineEdit(self)
        temperature.setObjectName(f"answer_temperature_{number}")
        temperature.setAccessibleName(f"Temperature for reply {number + 1}")
        temperature.setPlaceholderText(f"{self._settings.temperature:g}")
        temperature.setMaxLength(6)
        temperature.setFixedWidth(self._theme.px(96))
        for column, widget in enumerate((label, seed, temperature)):
            self._grid.addWidget(widget, number + 1, column)
        self._numbers.append(label)
        self.seeds.append(seed)
        self.temperatures.append(temperature)

    def _arrange(self, buttons: QDialogButtonBox) -> None:
        px = self._theme.px
        words = plain_label(
            "All replies are generated at once, side by side. Use one; the others stay as "
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
        head.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(px(20), px(16), px(20), px(16))
        column.setSpacing(px(14))
        self._grid.setHorizontalSpacing(px(12))
        self._grid.setVerticalSpacing(px(8))
        self._grid.setColumnStretch(1, 1)
        column.addWidget(words)
        column.addLayout(head)
        column.addLayout(self._grid)
        column.addStretch(1)
        column.addWidget(buttons)
        self.setMinimumWidth(px(400))

    def _show_rows(self) -> None:
        count = self.count.currentData()
        for number in range(MAX_ANSWERS):
            for widget in (self._numbers[number], self.seeds[number], self.temperatures[number]):
                widget.setVisible(number < count)
        self.adjustSize()

    def _on_accepted(self) -> None:
        self.asked.emit(self.answers())
        self.accept()
