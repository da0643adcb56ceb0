"""What a prompt of a tool server asks for before it has a text."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app.tools.records import ServerPrompt
from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea
from ui.widgets.zoomed_size import ZoomedSize

SIZE_PX = (420, 300)


class PromptDialog(QDialog):
    """`given`: the arguments, all as text; those left empty that may be are left out."""

    given = Signal(dict)

    def __init__(self, theme: Theme, prompt: ServerPrompt, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._prompt = prompt
        self.setObjectName("prompt_dialog")
        self.setWindowTitle(prompt.title or prompt.name)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.fields: dict[str, QLineEdit] = {}
        body = QWidget()
        rows = QVBoxLayout(body)
        rows.addWidget(plain_label(prompt.description, body, "dim", wraps=True))
        for argument in prompt.arguments:
            name = argument.name if argument.is_required else f"{argument.name} (optional)"
            rows.addWidget(plain_label(name, body, "small"))
            field = QLineEdit(body)
            field.setAccessibleName(name)
            field.setPlaceholderText(argument.description[:120])
            field.textChanged.connect(self._settle)
            rows.addWidget(field)
            self.fields[argument.name] = field
        rows.addStretch(1)
        area = SteadyArea(self)
        area.setWidgetResizable(True)
        area.setWidget(body)
        body.setAutoFillBackground(False)
        area.viewport().setAutoFillBackground(False)
        self.insert_button = push_button(
            "Insert", self, "insert_prompt_button", kind="primary", act=self._give
        )
        self.insert_button.setDefault(True)
        cancel = push_button("Cancel", self, "cancel_prompt_button", act=self.reject)
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(cancel)
        foot.addWidget(self.insert_button)
        column = QVBoxLayout(self)
        column.addWidget(area, 1)
        column.addLayout(foot)
        theme.space(rows, 6, margins=0)
        theme.space(column, 10, margins=16)
        theme.space(foot, 8)
        self._settle()
        ZoomedSize(self, theme, SIZE_PX)

    def _settle(self) -> None:
        lacking = [a for a in self._prompt.arguments if a.is_required and not self._text(a.name)]
        self.insert_button.setEnabled(not lacking)

    def _text(self, name: str) -> str:
        return self.fields[name].text()

    def _give(self) -> None:
        self.given.emit({name: self._text(name) for name in self.fields if self._text(name)})
        self.accept()
