"""Settings → Server: its switch, where it listens, its key, and what it bears."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QHideEvent
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app.chat.events import Noticed, ServerChanged, SettingsChanged
from app.chat.settings.settings import Settings
from ui.look.theme import Theme
from ui.settings.fields import Field, LineField, NumberField, SwitchField
from ui.settings.rows import Page, SettingRow
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button
from ui.windows.server.words import base_url, state_words

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

MakeRow = Callable[[str, str, str, Field], SettingRow]

WORDS: Final = (
    "Other programs can use the loaded model through OpenAI's and Anthropic's APIs, alongside "
    "your chats. Messages you type come first."
)
NO_KEY: Final = "No key. Only programs on this computer can connect."
HAS_KEY: Final = "Clients must send the key."
NEW_KEY: Final = "Clients must send the new key. Copy it now; it isn't shown again."


class ServerPage(Page):
    """`requests_wanted`: the log of requests is."""

    requests_wanted = Signal()

    def __init__(
        self,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        row: MakeRow,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(theme, "server", parent)
        self._desk = desk
        self._bridge = bridge
        self.state_label = plain_label("", self, "small", name="server_page_state", wraps=True)
        self.state_label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.copy_button = push_button(
            "Copy address",
            self,
            "copy_address_button",
            spoken="Copy the server's address",
            act=self._on_copy,
        )
        self.requests_button = push_button(
            "Requests…",
            self,
            "show_requests_button",
            spoken="Server requests",
            act=self.requests_wanted,
        )
        self.add_card(
            plain_label(WORDS, self, "small", wraps=True),
            row("server_on", "Server", "Also starts with Cutaway.", SwitchField(theme, self)),
            self.state_label,
            self._lined(self.copy_button, self.requests_button),
        )
        usual = Settings()
        self.add_card(
            row(
                "server_port",
                "Port",
                f"{usual.server_port} unless you change it. 0: any free port.",
                NumberField(is_whole=True),
            ),
            row(
                "server_address",
                "Address",
                "127.0.0.1: this computer only. 0.0.0.0: your network too, which needs a key.",
                LineField(),
            ),
            self._key_part(),
        )
        self.add_card(
            row(
                "server_names",
                "Other model names",
                "For programs that can't send “default”, like “gpt-4o-mini, gpt-4o”. *: any name.",
                LineField(),
            ),
            row(
                "server_origins",
                "Web pages",
                "Origins of pages that may use it, like http://localhost:3000. Empty: none.",
                LineField(),
            ),
            row(
                "server_loads",
                "Load the model when asked",
                "If none is loaded, a request loads the last one. Off: it's refused.",
                SwitchField(theme, self),
            ),
            row(
                "server_max_requests",
                "Waiting requests",
                "More than this are refused until others have finished.",
                NumberField(is_whole=True, step=8),
            ),
            row(
                "server_max_mb",
                "Size of a request",
                "Megabytes at most.",
                NumberField(is_whole=True),
            ),
            row(
                "server_max_minutes",
                "Time for a request",
                "Minutes until a reply is cut off. 0: no limit.",
                NumberField(is_whole=True, step=5),
            ),
        )
        bridge.on(ServerChanged, self._show)
        bridge.on(SettingsChanged, self._show)
        self._show()

    def _lined(self, *widgets: QWidget) -> QWidget:
        """Side by side where there is room."""
        box = QWidget(self)
        row = FlowLayout(box)
        for widget in widgets:
            row.addWidget(widget)
        self._theme.space(row, 8, margins=0)
        return box

    def _key_part(self) -> QWidget:
        box = QWidget(self)
        self.key_words = plain_label("", box, "small", name="server_key_words", wraps=True)
        self.key_line = QLineEdit(box)
        self.key_line.setObjectName("server_key")
        self.key_line.setAccessibleName("The server's new key")
        self.key_line.setReadOnly(True)
        self.key_line.hide()
        self.make_button = push_button(
            "New key", box, "new_server_key_button", act=self._on_make, spoken="Make a new key"
        )
        self.copy_key_button = push_button(
            "Copy key",
            box,
            "copy_server_key_button",
            spoken="Copy the server's key",
            act=self._on_copy_key,
        )
        self.remove_button = push_button(
            "Remove key",
            box,
            "remove_server_key_button",
            spoken="Remove the server's key",
            act=self._on_remove,
        )
        buttons = FlowLayout()
        for button in (self.make_button, self.copy_key_button, self.remove_button):
            buttons.addWidget(button)
        column = QVBoxLayout(box)
        column.addWidget(plain_label("Key", box))
        column.addWidget(self.key_words)
        column.addWidget(self.key_line)
        column.addLayout(buttons)
        self._theme.space(column, 6, margins=0)
        self._theme.space(buttons, 8)
        return box

    # --- showing --------------------------------------------------------------------------------

    def _show(self) -> None:
        server, settings = self._desk.server, self._desk.settings.now
        self.state_label.setText(state_words(server.state))
        self.copy_button.setEnabled(bool(server.state.url))
        has_key = bool(server.key) or settings.server_key_kept
        is_new = not self.key_line.isHidden()
        self.key_words.setText((NEW_KEY if is_new else HAS_KEY) if has_key else NO_KEY)
        self.copy_key_button.setEnabled(has_key)
        self.remove_button.setEnabled(has_key)

    def hideEvent(self, event: QHideEvent) -> None:
        """A new key was to be seen once."""
        super().hideEvent(event)
        self.key_line.hide()
        self.key_line.clear()
        self._show()

    # --- acts -----------------------------------------------------------------------------------

    def _on_copy(self) -> None:
        self._copy(base_url(self._desk.server.state.url), "the server's address")

    def _on_make(self) -> None:
        def show() -> None:
            if self.isVisible():
                self.key_line.setText(self._desk.server.key)
                self.key_line.show()
                self.key_line.setFocus()
                self.key_line.selectAll()
            self._show()

        self._desk.server.make_key(show)

    def _on_copy_key(self) -> None:
        def copy() -> None:
            if self._desk.server.key:
                self._copy(self._desk.server.key, "the server's key")

        self._desk.server.read_key(copy)

    def _on_remove(self) -> None:
        def gone() -> None:
            self.key_line.hide()
            self.key_line.clear()
            self._show()

        self._desk.server.remove_key(gone)

    def _copy(self, text: str, what: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._bridge.emit_event(Noticed("info", f"Copied {what}."))
