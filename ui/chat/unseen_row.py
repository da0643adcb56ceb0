"""A line in the composer: why the model gets nothing of a picture, and what would do."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from ui.look.theme import Theme
from ui.widgets.elided import tip_text
from ui.widgets.kit import plain_label, push_button

_FITS = (QEvent.Type.Resize, QEvent.Type.FontChange)


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
        self._words.installEventFilter(self)
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
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._words and event.type() in _FITS:
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        """The composer asks how high this is, not how high at a width."""
        self._words.setMinimumHeight(0)  # or that would be the answer
        self._words.setMinimumHeight(max(0, self._words.heightForWidth(self._words.width())))
