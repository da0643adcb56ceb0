"""The hub's address and the token for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import HubState, HubTrouble
from app.hub.token import STILL_THERE, THIS_RUN_ONLY
from ui.library.local.words import one_line
from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.chat.desk import Desk

SIZE_PX = (520, 420)
TOKEN_WORDS: Final = (
    "Gated and private models need a token from your account; read access is enough. It is "
    "stored in the system keyring and sent only to {host}."
)
ADDRESS_WORDS: Final = (
    "Use another address for a mirror or your own hub. Each address has its own token."
)
ASKING: Final = "Checking with the hub…"


class HubDialog(QDialog):
    """Each button counts at once. `token_changed`: what was refused may be open now."""

    token_changed = Signal()

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self.setObjectName("hub_dialog")
        self.setWindowTitle("Hub: token and address")
        self._make_token()
        self._make_address()
        self.close_button = push_button("Done", self, "hub_done_button", act=self.accept)
        # Return in a field is for what is typed there; what comes of it is to be read.
        for button in (self.use_button, self.forget_button, self.set_button, self.close_button):
            button.setAutoDefault(False)
        self._build()
        self.destroyed.connect(desk.hub.follow(self._on_state))
        theme.space(self._column, 8, margins=16)
        for row in (self._token_row, self._address_row, self._foot):
            theme.space(row, 8)
        self._show_state(desk.hub.state)
        self.address.setText(desk.settings.now.hub_endpoint)
        ZoomedSize(self, theme, SIZE_PX)

    # --- building -------------------------------------------------------------------------------

    def _make_token(self) -> None:
        self._token_title = plain_label("Token", self, "title", wraps=True)
        self._token_words = plain_label("", self, "dim", wraps=True)
        self.token = QLineEdit(self)
        self.token.setObjectName("hub_token")
        self.token.setAccessibleName("Token")
        self.token.setPlaceholderText("hf_…")
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.token.setInputMethodHints(
            Qt.InputMethodHint.ImhHiddenText | Qt.InputMethodHint.ImhSensitiveData
        )
        self.use_button = push_button("Save token", self, "use_token_button")
        self.forget_button = push_button("Remove token", self, "forget_token_button")
        self.token_sentence = plain_label("", self, "dim", name="token_sentence", wraps=True)
        self.token.returnPressed.connect(self._use_token)
        self.use_button.clicked.connect(self._use_token)
        self.forget_button.clicked.connect(self._forget_token)

    def _make_address(self) -> None:
        self._address_title = plain_label("Address", self, "title", wraps=True)
        self._address_words = plain_label(ADDRESS_WORDS, self, "dim", wraps=True)
        self.address = QLineEdit(self)
        self.address.setObjectName("hub_endpoint")
        self.address.setAccessibleName("Hub address")
        self.set_button = push_button("Save address", self, "use_address_button")
        self.address_sentence = plain_label("", self, "dim", name="address_sentence", wraps=True)
        self.address.returnPressed.connect(self._use_address)
        self.set_button.clicked.connect(self._use_address)

    def _build(self) -> None:
        self._token_row, self._address_row, self._foot = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        self._token_row.addWidget(self.token, 1)
        self._token_row.addWidget(self.use_button)
        self._token_row.addWidget(self.forget_button)
        self._address_row.addWidget(self.address, 1)
        self._address_row.addWidget(self.set_button)
        self._foot.addStretch(1)
        self._foot.addWidget(self.close_button)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._token_title)
        self._column.addWidget(self._token_words)
        self._column.addLayout(self._token_row)
        self._column.addWidget(self.token_sentence)
        self._column.addSpacing(8)
        self._column.addWidget(self._address_title)
        self._column.addWidget(self._address_words)
        self._column.addLayout(self._address_row)
        self._column.addWidget(self.address_sentence)
        self._column.addStretch(1)
        self._column.addLayout(self._foot)

    # --- acts -----------------------------------------------------------------------------------

    def _use_token(self) -> None:
        self._say(self.token_sentence, ASKING)
        self._enable(is_on=False)
        self._desk.hub.set_token(self.token.text(), self._on_token, self._on_token_trouble)

    def _on_token(self, sentence: str) -> None:
        self.token.clear()
        self._enable(is_on=True)
        self._say(self.token_sentence, sentence)
        self.token_changed.emit()

    def _on_token_trouble(self, trouble: HubTrouble) -> None:
        self._enable(is_on=True)
        self._say(self.token_sentence, trouble.sentence, is_error=True)
        self.token.setFocus()

    def _forget_token(self) -> None:
        self._enable(is_on=False)
        self._desk.hub.forget_token(self._on_forgotten)

    def _on_forgotten(self, is_gone: bool) -> None:
        self._enable(is_on=True)
        self._say(
            self.token_sentence, "Token removed." if is_gone else STILL_THERE,
            is_error=not is_gone,
        )  # fmt: skip
        self.token_changed.emit()

    def _use_address(self) -> None:
        self._say(self.address_sentence, ASKING)
        self._enable(is_on=False)
        self._desk.hub.set_endpoint(self.address.text(), self._on_address, self._on_address_trouble)

    def _on_address(self, sentence: str) -> None:
        self._enable(is_on=True)
        self.address.setText(self._desk.settings.now.hub_endpoint)
        self._say(self.address_sentence, sentence)
        self._say(self.token_sentence, "")
        self.token_changed.emit()

    def _on_address_trouble(self, trouble: HubTrouble) -> None:
        self._enable(is_on=True)
        words = f"{trouble.sentence} The address is still {self._desk.hub.state.host}."
        self._say(self.address_sentence, words, is_error=True)
        self.address.setFocus()

    def _enable(self, *, is_on: bool) -> None:
        for button in (self.use_button, self.set_button):
            button.setEnabled(is_on)
        self.forget_button.setEnabled(is_on and self._desk.hub.state.token_where != "none")

    # --- following ------------------------------------------------------------------------------

    def _on_state(self, state: HubState) -> None:
        self._show_state(state)

    def _show_state(self, state: HubState) -> None:
        self._token_words.setText(TOKEN_WORDS.format(host=state.host))
        self.forget_button.setEnabled(state.token_where != "none")
        self.address.setPlaceholderText(state.endpoint)
        if not self.token_sentence.text():
            if state.is_token_refused:
                words = f"{state.host} rejected the saved token. Enter a new one."
                self._say(self.token_sentence, words, is_error=True)
            elif state.token_where == "this run":
                self._say(self.token_sentence, THIS_RUN_ONLY)
            elif state.token_where == "keyring":
                self._say(self.token_sentence, "A token is saved in the keyring.")

    def _say(self, label: QLabel, sentence: str, *, is_error: bool = False) -> None:
        label.setProperty("kind", "error" if is_error else "dim")
        label.style().unpolish(label)
        label.style().polish(label)
        label.setText(one_line(sentence))
