"""How far an import is, with a way to give it up. Shown where it takes longer than a moment."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.look.theme import Theme

WIDTH_PX = 380


class ImportProgress(QDialog):
    """Beside the window, which goes on. Closing it is no cancelling: the import goes on too."""

    cancelled = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("import_progress")
        self.setWindowTitle("Importing chats")
        self.setAccessibleName("Importing chats")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)  # somebody may be typing
        self.words = QLabel(self)
        self.words.setObjectName("import_words")
        self.bar = QProgressBar(self)
        self.bar.setObjectName("import_bar")
        self.bar.setAccessibleName("Messages imported")
        self.bar.setTextVisible(False)
        self.cancel = QPushButton("Cancel the import", self)
        self.cancel.setObjectName("cancel_import_button")
        self.cancel.setAccessibleName("Cancel the import; nothing is added")
        self.cancel.clicked.connect(self._on_cancel)
        self._row = QHBoxLayout()
        self._row.addStretch(1)
        self._row.addWidget(self.cancel)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.words)
        self._column.addWidget(self.bar)
        self._column.addLayout(self._row)
        theme.changed.connect(self._fit)
        self._fit()

    def show_progress(self, done: int, total: int) -> None:
        self.words.setText(f"{done:,} of {total:,} messages")
        self.bar.setRange(0, max(total, 1))
        self.bar.setValue(done)

    def _on_cancel(self) -> None:
        self.cancel.setEnabled(False)
        self.words.setText("Taking back what was added …")
        self.cancelled.emit()

    def _fit(self) -> None:
        px = self._theme.px
        self._column.setContentsMargins(px(20), px(16), px(20), px(16))
        self._column.setSpacing(px(10))
        self.setMinimumWidth(px(WIDTH_PX))
