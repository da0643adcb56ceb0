"""What was thrown away, and the way back. Built when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import TrashListed
from models.records import Conversation
from ui.theme import Theme

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk

SIZE_PX = (440, 420)


class TrashWindow(QWidget):
    """The list answers the desk's `TrashListed`; Return or the button brings a chat back."""

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self._desk = desk
        self._theme = theme
        self.setObjectName("trash_window")
        self.setAccessibleName("Trash")
        self.setWindowTitle("Trash")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._words = QLabel(self)
        self._words.setProperty("kind", "small")
        self._words.setWordWrap(True)
        self.list = QListWidget(self)
        self.list.setObjectName("trash_list")
        self.list.setAccessibleName("Deleted chats")
        self.restore_button = QPushButton("Restore", self)
        self.restore_button.setObjectName("restore_button")
        self.restore_button.setAccessibleName("Restore the chosen chat")
        self._build()
        self.list.itemActivated.connect(lambda _: self._on_restore())
        self.list.currentRowChanged.connect(self._on_row_changed)
        self.restore_button.clicked.connect(self._on_restore)
        for key in ("Esc", "Ctrl+W"):
            QShortcut(QKeySequence(key), self, self.close)
        bridge.trash_listed.connect(self._on_trash_listed)
        theme.changed.connect(self._fit)
        self._fit()
        self._show(())
        wanted = QSize(theme.px(SIZE_PX[0]), theme.px(SIZE_PX[1]))
        self.resize(wanted.boundedTo(self.screen().availableSize() * 0.9))

    def _build(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self._words, 1)
        row.addWidget(self.restore_button)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.list, 1)
        self._column.addLayout(row)

    def _fit(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(16), px(16), px(16), px(16))
        self._column.setSpacing(px(12))

    def open(self) -> None:
        self._desk.list_trash()
        self.show()
        self.raise_()
        self.activateWindow()
        self.list.setFocus(Qt.FocusReason.ActiveWindowFocusReason)

    def _on_trash_listed(self, event: TrashListed) -> None:
        self._show(event.conversations)

    def _show(self, conversations: tuple[Conversation, ...]) -> None:
        row = self.list.currentRow()
        self.list.clear()
        for conversation in conversations:
            item = QListWidgetItem(" ".join(conversation.title.split()), self.list)
            item.setData(Qt.ItemDataRole.UserRole, conversation.id)
            if conversation.trashed_at is not None:
                when = conversation.trashed_at.astimezone()
                item.setToolTip(f"Thrown away on {when:%Y-%m-%d %H:%M}")
        if conversations:
            self.list.setCurrentRow(max(0, min(row, len(conversations) - 1)))
        self._words.setText(
            "Return restores the chosen chat." if conversations else "The trash is empty."
        )
        self._on_row_changed(self.list.currentRow())

    def _on_row_changed(self, row: int) -> None:
        self.restore_button.setEnabled(row >= 0)

    def _on_restore(self) -> None:
        item = self.list.currentItem()
        if item is not None:
            self._desk.restore_conversation(str(item.data(Qt.ItemDataRole.UserRole)))
