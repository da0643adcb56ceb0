"""The bar above the composer while a message is read aloud: the sentence, pause, next, stop."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.widgets.elided import ElidedLabel
from ui.widgets.icon_button import IconButton


class AloudBar(QWidget):
    pause_wanted = Signal()
    next_wanted = Signal()
    stop_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("aloud_bar")
        self.setAccessibleName("Reading aloud")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        card = QFrame(self)
        card.setProperty("plane", "card")
        self.sentence = ElidedLabel("", card)
        self.sentence.setObjectName("aloud_sentence")
        self.pause_button = IconButton(theme, "pause", "Pause reading", parent=card)
        self.pause_button.setObjectName("pause_reading_button")
        self.next_button = IconButton(theme, "skip-forward", "Next sentence", parent=card)
        self.next_button.setObjectName("next_sentence_button")
        self.stop_button = IconButton(
            theme, "x", "Stop reading", hint="Stop reading (Esc)", parent=card
        )
        self.stop_button.setObjectName("stop_reading_button")
        self.pause_button.clicked.connect(self.pause_wanted)
        self.next_button.clicked.connect(self.next_wanted)
        self.stop_button.clicked.connect(self.stop_wanted)
        row = QHBoxLayout(card)
        row.addWidget(self.sentence, 1)
        for button in self.stops():
            row.addWidget(button)
        self._outer = QVBoxLayout(self)
        self._outer.addWidget(card)
        theme.space(row, 0, margins=(12, 2, 4, 2))

    def stops(self) -> list[QWidget]:
        """What Tab goes through, in this order."""
        return [self.pause_button, self.next_button, self.stop_button]

    def set_place(self, left: int, right: int, chat_height: int) -> None:
        """It stands under the transcript's column."""
        self._outer.setContentsMargins(left, self._theme.px(4), right, self._theme.px(4))

    def show_sentence(self, sentence: str, *, is_paused: bool) -> None:
        self.sentence.setText(sentence or "Reading aloud…")
        self.pause_button.show_icon("play" if is_paused else "pause")
        spoken = "Go on reading" if is_paused else "Pause reading"
        self.pause_button.setAccessibleName(spoken)
        self.pause_button.setToolTip(spoken)
