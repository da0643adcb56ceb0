"""The button that begins a chat."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from ui.look.theme import Theme
from ui.shell.keys import shown_key
from ui.widgets.kit import plain_label

NEW_CHAT_KEY = "Ctrl+N"


class NewChatButton(QPushButton):
    """Its words left, its key right."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("new_chat_button")
        self.setAccessibleName("New chat")
        self.setAccessibleDescription(f"Shortcut: {shown_key(NEW_CHAT_KEY)}")
        self._words = QLabel("New chat", self)
        self._key = plain_label(shown_key(NEW_CHAT_KEY), self, "dim")
        row = QHBoxLayout(self)
        for label in (self._words, self._key):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        row.addWidget(self._words)
        row.addStretch()
        row.addWidget(self._key)
        theme.space(row, margins=(12, 0))
        theme.size(self, height=38)
