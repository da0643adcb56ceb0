"""How far an import is, with a way to give it up. Shown where it takes longer than a moment."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button

WIDTH_PX = 380


class ImportProgress(QDialog):
    """Beside the window, which goes on. Closing it is no cancelling: the import goes on too."""

    cancelled = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("import_progress")
        self.setWindowTitle("Importing chats")
        self.setAccessibleName("Importing chats")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)  # somebody may be typing
        self.words = plain_label("", self, name="import_words")
        self.bar = QProgressBar(self)
        self.bar.setObjectName("import_bar")
        self.bar.setAccessibleName("Messages imported")
        self.bar.setTextVisible(False)
        self.cancel = push_button(
            "Cancel the import",
            self,
            "cancel_import_button",
            spoken="Cancel the import without adding anything",
            act=self._on_cancel,
        )
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.cancel)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.words)
        self._column.addWidget(self.bar)
        self._column.addLayout(row)
        theme.space(self._column, 10, margins=(20, 16))
        theme.at_least(self, WIDTH_PX)

    def show_progress(self, done: int, total: int) -> None:
        self.words.setText(f"{done:,} of {total:,} messages")
        self.bar.setRange(0, max(total, 1))
        self.bar.setValue(done)

    def _on_cancel(self) -> None:
        self.cancel.setEnabled(False)
        self.words.setText("Undoing the import…")
        self.cancelled.emit()
