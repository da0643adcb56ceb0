"""Where the tour begins without a reply: a sentence is offered, or one writes one's own."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ui.look.theme import Theme
from ui.tour.card import WIDTH_PX
from ui.widgets.kit import plain_label, push_button

SENTENCE: Final = "The capital of France is"
OFFER: Final = (
    "The tour follows a single token through the model. Begin with this sentence or with your "
    "own: the model continues it."
)
LOADING: Final = "The model is loading. The tour begins as soon as it’s ready."
WRITING: Final = "The model continues your sentence…"
NOTHING: Final = "The model wrote nothing. Try another sentence."
NO_MODEL: Final = "The tour follows a token through a model, so it needs one first."


class StartCard(QFrame):
    """`begin_wanted`: with this sentence. `model_wanted`: there is none yet."""

    begin_wanted = Signal(str)
    leave_wanted = Signal()
    model_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("tour_start")
        self.setProperty("plane", "above")
        self.setAccessibleName("Follow one token")
        self.title = plain_label("Follow one token", self, "lead")
        self.words = plain_label(OFFER, self, name="tour_start_words", wraps=True)
        self.note = plain_label("", self, "small", name="tour_start_note", wraps=True)
        self.sentence = QLineEdit(SENTENCE, self)
        self.sentence.setObjectName("tour_sentence")
        self.sentence.setAccessibleName("Sentence to continue")
        self.leave_button = push_button(
            "Not now", self, "tour_not_now", kind="compact", act=self.leave_wanted
        )
        self.begin_button = push_button(
            "Begin", self, "tour_begin", kind="primary", act=self._begin
        )
        self.model_button = push_button(
            "Find a model…", self, "tour_find_model", kind="primary", act=self.model_wanted
        )
        foot = QHBoxLayout()
        foot.addStretch(1)
        for button in (self.leave_button, self.model_button, self.begin_button):
            button.setAutoDefault(False)
            foot.addWidget(button)
        self._column = QVBoxLayout(self)
        for widget in (self.title, self.words, self.sentence, self.note):
            self._column.addWidget(widget)
        self._column.addStretch(1)
        self._column.addLayout(foot)
        theme.space(self._column, 8, margins=12)
        theme.space(foot, 6)
        self.sentence.textChanged.connect(lambda text: self._allow(bool(text.strip())))
        self.hide()

    def offer(self, *, has_model: bool, note: str = "") -> None:
        self.words.setText(OFFER if has_model else NO_MODEL)
        self._say(note)
        self.sentence.setVisible(has_model)
        self.sentence.setEnabled(True)
        self.begin_button.setVisible(has_model)
        self.model_button.setVisible(not has_model)
        self._allow(bool(self.sentence.text().strip()))

    def wait(self, note: str) -> None:
        """The sentence is given; what comes of it takes a while."""
        self._say(note)
        self.leave_button.setFocus(Qt.FocusReason.OtherFocusReason)
        self.sentence.setEnabled(False)
        self._allow(False)

    def take_keyboard(self) -> None:
        widget = self.model_button if self.sentence.isHidden() else self.sentence
        widget.setFocus(Qt.FocusReason.OtherFocusReason)
        self.sentence.selectAll()

    def _say(self, note: str) -> None:
        self.note.setText(note)
        self.note.setVisible(bool(note))
        self.setAccessibleDescription(" ".join((self.words.text(), note)).strip())
        self.sentence.setAccessibleDescription(self.accessibleDescription())

    def _allow(self, is_allowed: bool) -> None:
        self.begin_button.setEnabled(is_allowed and self.sentence.isEnabled())

    def _begin(self) -> None:
        text = self.sentence.text().strip()
        if text and self.sentence.isEnabled():
            self.begin_wanted.emit(text)

    def wanted_size(self) -> QSize:
        width = self._theme.px(WIDTH_PX)
        self._column.invalidate()
        return QSize(width, self._column.heightForWidth(width))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        focus = self.focusWidget()
        if event.key() == Qt.Key.Key_Escape:
            self.leave_wanted.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if isinstance(focus, QPushButton):
                focus.click()
            else:
                self._begin()
        else:
            super().keyPressEvent(event)
