"""A line in the composer: why the model gets nothing of a picture, and what would do."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from ui.look.theme import Theme
from ui.widgets.elided import tip_text
from ui.widgets.kit import plain_label, push_button


class UnseenRow(QWidget):
    """Hidden where there is nothing to say."""

    asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("unseen_row")
        self._words = plain_label("", self, "small", name="unseen_words", wraps=True)
        self._words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.button = push_button("", self, "unseen_button", act=self.asked.emit)
        row = QHBoxLayout(self)
        row.addWidget(self._words, 1)
        row.addWidget(self.button)
        theme.space(row, 8, margins=0)
        theme.sheet(self._words, lambda theme: f"color: {theme.colors.warning};")
        self.hide()

    def show_words(self, sentence: str, button: str) -> None:
        # What to do stands on the button; a small window has no room to say it twice.
        shown = f"{sentence.partition('. ')[0].rstrip('.')}." if button and sentence else sentence
        self._words.setText(shown)
        self._words.setToolTip(tip_text(sentence) if shown != sentence else "")
        self._words.setAccessibleName(sentence)
        self.button.setText(button)
        self.button.setAccessibleName(button)
        self.button.setVisible(bool(button))
        self.setVisible(bool(sentence))
