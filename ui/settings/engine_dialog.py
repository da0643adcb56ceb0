"""Adding an engine, or changing one: its name, its address, its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app.chat.engines.engines import Standing
from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.chat.desk import Desk

SIZE_PX: Final = (460, 360)
WORDS: Final = (
    "A server that speaks OpenAI's protocol, like llama-server, vLLM or Ollama. Chats with its "
    "models are sent there."
)
KEY_WORDS: Final = "Kept in the system keyring, sent only to this address."
PLAIN_WORDS: Final = (
    "This address isn't encrypted (http): anyone on the way can read your chats and the key."
)


class EngineDialog(QDialog):
    """`standing`: the one to change; None: another one is added. It closes once that is done."""

    def __init__(
        self, desk: Desk, theme: Theme, standing: Standing | None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._id = standing.address.id if standing is not None else ""
        self.setObjectName("engine_dialog")
        self.setWindowTitle("Add an engine" if standing is None else "Change this engine")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.name = self._field("engine_name", "Name", "Name, like Workstation")
        self.url = self._field("engine_url", "Address", "Address, like http://localhost:8080")
        self.key = self._field("engine_key", "Key", "None needed")
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        hints = Qt.InputMethodHint
        self.key.setInputMethodHints(hints.ImhHiddenText | hints.ImhSensitiveData)
        if standing is not None:
            self.name.setText(standing.address.name)
            self.url.setText(standing.address.url)
            if standing.key != "none":
                self.key.setPlaceholderText("Saved; leave empty to keep it")
        self.sentence = plain_label("", self, "error", name="engine_sentence", wraps=True)
        self.plain = plain_label(PLAIN_WORDS, self, "caution", name="engine_plain", wraps=True)
        self.save_button = push_button(
            "Add" if standing is None else "Save",
            self,
            "save_engine_button",
            kind="primary",
            act=self._save,
        )
        self.cancel_button = push_button("Cancel", self, "cancel_engine_button", act=self.reject)
        self.save_button.setDefault(True)
        column = QVBoxLayout(self)
        column.addWidget(plain_label(WORDS, self, "dim", wraps=True))
        for field in (self.name, self.url, self.key):
            column.addWidget(plain_label(field.accessibleName(), self, "small"))
            column.addWidget(field)
        column.addWidget(plain_label(KEY_WORDS, self, "small", wraps=True))
        column.addWidget(self.plain)
        column.addWidget(self.sentence)
        column.addStretch(1)
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(self.cancel_button)
        foot.addWidget(self.save_button)
        column.addLayout(foot)
        for changed in (self.url.textChanged, self.key.textChanged):
            changed.connect(self._settle)
        self._has_key = standing is not None and standing.key != "none"
        self._settle()
        theme.space(column, 6, margins=16)
        theme.space(foot, 8)
        ZoomedSize(self, theme, SIZE_PX)

    def _field(self, name: str, spoken: str, placeholder: str) -> QLineEdit:
        field = QLineEdit(self)
        field.setObjectName(name)
        field.setAccessibleName(spoken)
        field.setPlaceholderText(placeholder)
        return field

    def _settle(self) -> None:
        self.sentence.setText("")
        self.sentence.hide()
        has_key = self._has_key or bool(self.key.text().strip())
        self.plain.setVisible(has_key and _is_readable_by_others(self.url.text()))

    def _save(self) -> None:
        engines, told = self._desk.engines, self._on_told
        name, url, key = self.name.text(), self.url.text(), self.key.text()
        if self._id:
            engines.change(self._id, name, url, key, told)
        else:
            engines.add(name, url, key, told)

    def _on_told(self, sentence: str) -> None:
        if not sentence:
            self.accept()
            return
        self.sentence.setText(sentence)
        self.sentence.show()
        at_name = "name" in sentence.lower() and "user name" not in sentence
        field = self.name if at_name else self.key if "key" in sentence.lower() else self.url
        field.setFocus()
        field.selectAll()


def _is_readable_by_others(text: str) -> bool:
    """Whether what is sent there goes over a network as it is."""
    from app.hub.address import checked_server, is_readable_by_others
    from app.refusal import Refusal

    try:
        return is_readable_by_others(checked_server(text))
    except Refusal:
        return False
