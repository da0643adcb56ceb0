"""What a tool server wrote beside the protocol: its own log, the last lines of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.widgets.kit import push_button
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.chat.desk import Desk

SIZE_PX = (560, 360)


class ToolLog(QDialog):
    def __init__(
        self, desk: Desk, theme: Theme, server_id: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._desk = desk
        self._server_id = server_id
        server = desk.tools.server(server_id)
        self.setObjectName("tool_log")
        self.setWindowTitle(f"Log of {server.name}" if server is not None else "Log")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Log")
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        theme.font(self.text, Theme.font_mono, 12)
        read = push_button("Read again", self, "read_log_button", act=self._read)
        close = push_button("Close", self, "close_log_button", act=self.accept)
        foot = QHBoxLayout()
        foot.addWidget(read)
        foot.addStretch(1)
        foot.addWidget(close)
        column = QVBoxLayout(self)
        column.addWidget(self.text, 1)
        column.addLayout(foot)
        theme.space(column, 10, margins=16)
        theme.space(foot, 8)
        ZoomedSize(self, theme, SIZE_PX)
        self._read()

    def _read(self) -> None:
        lines = self._desk.tools.log_of(self._server_id)
        self.text.setPlainText("\n".join(lines) or "Nothing was written.")
        bar = self.text.verticalScrollBar()
        bar.setValue(bar.maximum())
