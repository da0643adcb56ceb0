"""The engine's log: what llama.cpp itself says, line by line, to read and to copy."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button

LINE_LIMIT = 5_000
MARKS = {"warning": "warning: ", "error": "error: "}


class LogView(QWidget):
    """Stays at the end while new lines come, unless the user has scrolled up."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._lines: list[tuple[str, str]] = []
        self.text = QPlainTextEdit(self)
        self.text.setObjectName("engine_log")
        self.text.setAccessibleName("Engine log")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setMaximumBlockCount(LINE_LIMIT)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setPlaceholderText("Nothing yet. The log fills when a model is loaded.")
        # A reader moves through it by keyboard too.
        self.text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.copy_button = push_button(
            "Copy all", self, "copy_log_button", spoken="Copy the entire log", act=self._on_copy
        )
        self._hint = plain_label(
            "Output of llama.cpp while it loads and runs.", self, "small", wraps=True
        )
        row = QHBoxLayout()
        row.addWidget(self._hint, 1)
        row.addWidget(self.copy_button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(row)
        self._column.addWidget(self.text, 1)
        theme.changed.connect(self._fit)
        theme.space(self._column, 8)
        theme.font(self.text, Theme.font_mono, 12)
        self._fit()

    def set_lines(self, lines: Iterable[tuple[str, str]]) -> None:
        self._lines = list(lines)[-LINE_LIMIT:]
        self.text.clear()
        for level, text in self._lines:
            self._write(level, text)
        self._to_end()

    def add_line(self, level: str, text: str) -> None:
        self._lines.append((level, text))
        del self._lines[:-LINE_LIMIT]
        bar = self.text.verticalScrollBar()
        was_at_end = bar.value() >= bar.maximum() - 2
        self._write(level, text)
        if was_at_end:
            self._to_end()

    def _write(self, level: str, text: str) -> None:
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if not self.text.document().isEmpty():
            cursor.insertBlock()
        cursor.insertText(MARKS.get(level, "") + text.rstrip("\n"), self._format(level))

    def _format(self, level: str) -> QTextCharFormat:
        colors = self._theme.colors
        color = {"error": colors.error, "warning": colors.warning, "debug": colors.dim}
        char_format = QTextCharFormat()
        char_format.setForeground(QColor(color.get(level, colors.ink)))
        return char_format

    def _to_end(self) -> None:
        bar = self.text.verticalScrollBar()
        bar.setValue(bar.maximum())

    def _fit(self) -> None:
        self.set_lines(self._lines)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())
        self.copy_button.setText("Copied")
