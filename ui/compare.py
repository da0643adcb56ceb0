"""Versions side by side while they grow: read, stop one, pick one; the others stay as versions.

A column is a transcript of one message, so everything in it works as in the chat.
"""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from models.records import Message, MessageState
from ui.elided import ElidedLabel
from ui.icon_button import IconButton
from ui.theme import Theme
from ui.transcript import TranscriptView

LEAST_COLUMN_PX = 260
QUESTION_CHARS = 300


class AnswerColumn(QFrame):
    """One version: its number and settings, its text, and the button that picks it."""

    picked = Signal(str)
    stop_requested = Signal(str)

    def __init__(self, theme: Theme, message: Message, number: int) -> None:
        super().__init__()
        self._theme = theme
        self.message = message
        self.setObjectName("answer_column")
        self.setAccessibleName(f"Answer {number}")
        self.setProperty("plane", "card")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.title = QLabel(f"Version {number}")
        self.title.setProperty("kind", "title")
        self.facts = ElidedLabel("")
        self.facts.setProperty("kind", "small")
        self.view = TranscriptView(theme)
        self.view.setObjectName("answer_text")
        self.view.setAccessibleName(f"Answer {number}")
        self.view.rows.is_bare = True
        self.pick = QPushButton("Pick this one")
        self.pick.setObjectName("pick_button")
        self.pick.setAccessibleName(f"Pick answer {number}")
        self.pick.setToolTip(f"Key {number}")
        self.stop = QPushButton("Stop")
        self.stop.setObjectName("stop_answer_button")
        self.stop.setAccessibleName(f"Stop answer {number}")
        self.stop.setProperty("kind", "quiet")
        self.pick.clicked.connect(lambda: self.picked.emit(self.message.id))
        self.stop.clicked.connect(lambda: self.stop_requested.emit(self.message.id))
        self._arrange()
        self.view.set_conversation([_alone(message)])
        self._follow()

    def change_message(self, message: Message) -> None:
        self.message = message
        self.view.change_message(_alone(message))
        self._follow()

    def _follow(self) -> None:
        is_growing = self.message.state is MessageState.STREAMING
        self.stop.setVisible(is_growing)
        self.facts.set_text(_facts(self.message))

    def _arrange(self) -> None:
        px = self._theme.px
        head = QHBoxLayout()
        head.setSpacing(px(8))
        head.addWidget(self.title)
        head.addWidget(self.facts, 1)
        foot = QHBoxLayout()
        foot.addWidget(self.stop)
        foot.addStretch(1)
        foot.addWidget(self.pick)
        column = QVBoxLayout(self)
        column.setContentsMargins(px(14), px(12), px(14), px(12))
        column.setSpacing(px(8))
        column.addLayout(head)
        column.addWidget(self.view, 1)
        column.addLayout(foot)
        self.setMinimumWidth(px(LEAST_COLUMN_PX))


class Comparison(QWidget):
    """All versions of one message. `picked` names one; `left`: back to the chat without."""

    picked = Signal(str)
    left = Signal()
    stop_requested = Signal(str)

    def __init__(self, theme: Theme, question: str, messages: tuple[Message, ...]) -> None:
        super().__init__()
        self._theme = theme
        self.setObjectName("comparison")
        self.setAccessibleName("Answers side by side")
        self.setProperty("plane", "chat")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        words = " ".join(question[:QUESTION_CHARS].split())
        self.question = ElidedLabel(words or "The beginning of the chat")
        self.question.setProperty("kind", "dim")
        self.back = IconButton(theme, "x", "Back to the chat (Esc)")
        self.back.setObjectName("leave_comparison_button")
        self.back.clicked.connect(self.left)
        self.columns = [
            AnswerColumn(theme, message, message.sibling_index + 1) for message in messages
        ]
        for column in self.columns:
            column.picked.connect(self.picked)
            column.stop_requested.connect(self.stop_requested)
        self._arrange()

    def focus(self) -> None:
        self.columns[0].pick.setFocus(Qt.FocusReason.OtherFocusReason)

    def append_text(self, message_id: str, text: str, part: str) -> None:
        for column in self.columns:
            if column.message.id == message_id:
                column.view.append_text(message_id, text, part)

    def change_message(self, message: Message) -> None:
        for column in self.columns:
            if column.message.id == message.id:
                column.change_message(message)

    def _arrange(self) -> None:
        px = self._theme.px
        head = QHBoxLayout()
        head.addWidget(self.question, 1)
        head.addWidget(self.back)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(px(12))
        for column in self.columns:
            row.addWidget(column, 1)
        inside = QWidget()
        inside.setLayout(row)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inside)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(px(20), px(8), px(20), px(4))
        whole.setSpacing(px(8))
        whole.addLayout(head)
        whole.addWidget(area, 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape goes back; a number picks."""
        number = event.key() - Qt.Key.Key_0
        by_number = {column.message.sibling_index + 1: column for column in self.columns}
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif not event.modifiers() and number in by_number:
            self.picked.emit(by_number[number].message.id)
        else:
            super().keyPressEvent(event)


def _alone(message: Message) -> Message:
    """As the only version: here the others stand beside it."""
    return replace(message, sibling_index=0, sibling_count=1)


def _facts(message: Message) -> str:
    """What tells this version from the others."""
    settings, facts = message.settings, []
    seed = message.seed if message.seed is not None else settings.get("seed")
    if seed is not None:
        facts.append(f"seed {seed}")
    if isinstance(settings.get("temperature"), int | float) and message.weights_name:
        facts.append(f"temperature {settings['temperature']:g}")
    if message.weights_name:
        facts.append(message.weights_name)
    elif not facts:
        facts.append("written by hand")
    return " · ".join(facts)
