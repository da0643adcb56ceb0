"""Where the user writes how the reasoning of the next reply begins."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button

SIZE_PX = (460, 280)
WORDS = "The model continues from here. Used once, for the next reply in this chat."


class ReasoningStart(QDialog):
    """`written` carries the text; an empty one leaves the beginning to the model."""

    written = Signal(str)

    def __init__(self, theme: Theme, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._was = text
        self.setObjectName("reasoning_start_dialog")
        self.setWindowTitle("Start the reasoning yourself")
        label = plain_label("The reasoning starts with", self)
        self.text = QPlainTextEdit(self)
        self.text.setObjectName("reasoning_start")
        self.text.setAccessibleName("The reasoning starts with")
        self.text.setPlaceholderText("First, list what is known.")
        self.text.setTabChangesFocus(True)
        self.text.setPlainText(text)
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        label.setBuddy(self.text)
        words = plain_label(WORDS, self, "small", wraps=True)
        buttons = QDialogButtonBox(self)
        self.save = push_button("Save", self, "reasoning_start_save", kind="primary")
        self.save.setDefault(True)
        buttons.addButton(self.save, QDialogButtonBox.ButtonRole.AcceptRole)
        if text:
            clear = push_button("Remove", self, "reasoning_start_remove", act=self._on_removed)
            buttons.addButton(clear, QDialogButtonBox.ButtonRole.ResetRole)
        buttons.addButton(QDialogButtonBox.StandardButton.Cancel)
        buttons.accepted.connect(self._on_saved)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        px = theme.px
        column.setContentsMargins(px(20), px(16), px(20), px(16))
        column.setSpacing(px(10))
        for widget in (label, self.text, words, buttons):
            column.addWidget(widget)
        column.setStretchFactor(self.text, 1)
        theme.font(self.text, Theme.font_reply)
        width, height = map(px, SIZE_PX)
        if parent is not None:  # at a high zoom it would be wider than the window it is in front of
            width, height = min(width, parent.width() - px(16)), min(height, parent.height())
        self.resize(width, height)
        self.finished.connect(self.deleteLater)
        self.text.setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+Enter saves from inside the field."""
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._on_saved()
        else:
            super().keyPressEvent(event)

    def _on_saved(self) -> None:
        self.written.emit(self.text.toPlainText())
        self.accept()

    def _on_removed(self) -> None:
        self.written.emit("")
        self.accept()
