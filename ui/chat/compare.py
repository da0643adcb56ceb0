"""Versions side by side while they grow: read, stop one, pick one; the others stay as versions.

A column is a transcript of one message, so everything in it works as in the chat.
"""

from __future__ import annotations

import math
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QVBoxLayout,
    QWidget,
)

from app.chat.replies.adapters import adapter_words
from app.chat.replies.beam_versions import beams_of
from app.chat.replies.cut_versions import cuts_of
from app.chat.replies.replies import PRESET
from models.records import Message, MessageState
from ui.look.theme import Theme
from ui.markdown.formulas import Formulas
from ui.shell.sizes import SIDE_PX
from ui.transcript.view import TranscriptView
from ui.widgets.elided import ElidedLabel, PartsLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button
from ui.widgets.steady_area import SteadyArea

LEAST_COLUMN_PX = 200
"""Two fit into a window of 1,440 pixels at 200 %."""
LEAST_ROW_PX = 220
"""Of a row of columns, where the window is that high; else a row is as high as there is room."""
LOWEST_ROW_PX = 170
"""With less no text is seen between title and buttons: then the rows are scrolled."""
GAP_PX = 12
INNER_PX = 16
QUESTION_CHARS = 300


class AnswerColumn(QFrame):
    """One version: its number and settings, its text, and the button that picks it."""

    picked = Signal(str)
    stop_requested = Signal(str)

    def __init__(self, theme: Theme, message: Message, number: int, formulas: Formulas) -> None:
        super().__init__()
        self._theme = theme
        self._highest = 0
        self._place = 0
        self.message = message
        self.difference = ""
        self.setObjectName("answer_column")
        self.setAccessibleName(f"Reply {number}")
        self.title = plain_label(f"Version {number}", kind="title")
        self.facts = PartsLabel("")
        self.facts.setProperty("kind", "small")
        self.view = TranscriptView(theme, formulas=formulas)
        self.view.setObjectName("answer_text")
        self.view.setAccessibleName(f"Reply {number}")
        self.view.rows.is_bare = True
        self.view.side_px = INNER_PX
        self.pick = push_button(
            "Use this one", name="pick_button", spoken=f"Use reply {number}", hint=f"Key {number}"
        )
        self.stop = push_button(
            "Stop", name="stop_answer_button", kind="quiet", spoken=f"Stop reply {number}"
        )
        self.pick.clicked.connect(lambda: self.picked.emit(self.message.id))
        self.stop.clicked.connect(lambda: self.stop_requested.emit(self.message.id))
        self._arrange()
        self._is_at_start = message.state is MessageState.STREAMING
        self.view.settled.connect(self._go_to_start)
        self.view.verticalScrollBar().rangeChanged.connect(self._on_range_changed)
        self.view.set_conversation([_alone(message)])
        self._follow()

    def change_message(self, message: Message) -> None:
        self.message = message
        self.view.change_message(_alone(message))
        self._follow()

    def _on_range_changed(self, _low: int, high: int) -> None:
        """What was seen whole and no longer is (zoomed, a smaller window) is read from its
        beginning too."""
        if not self._highest and high and self.message.state is not MessageState.STREAMING:
            self._is_at_start = False
        self._highest = high

    def _go_to_start(self) -> None:
        """A text that is whole is read from its beginning, one that grows is followed."""
        if not self._is_at_start and self.view.isVisible():
            self._is_at_start = True
            self.view.verticalScrollBar().setValue(0)

    def _follow(self) -> None:
        is_growing = self.message.state is MessageState.STREAMING
        self.stop.setVisible(is_growing)
        waits = f"Waiting, {self._place - 1} ahead" if self._place > 1 else "Waiting, next"
        facts = (waits if self._place and is_growing else "", self.difference, _facts(self.message))
        self.facts.set_text(" · ".join(filter(None, facts)))

    def show_place(self, place: int) -> None:
        """Where it stands in the engine's queue; 0: in none."""
        self._place = place
        self._follow()

    def show_difference(self, words: str) -> None:
        """Where it parts from the version that it is held against."""
        self.difference = words
        self._follow()

    def _arrange(self) -> None:
        self._head = QVBoxLayout()
        self._head.addWidget(self.title)
        self._head.addWidget(self.facts)
        self._foot = QHBoxLayout()
        self._foot.addWidget(self.stop)
        self._foot.addStretch(1)
        self._foot.addWidget(self.pick)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._head)
        self._column.addWidget(self.view, 1)
        self._column.addLayout(self._foot)
        QWidget.setTabOrder(self.pick, self.stop)
        QWidget.setTabOrder(self.stop, self.view)
        # Title and buttons stand where the transcript's own column stands.
        self._theme.space(self._head, 2, margins=(INNER_PX, 0))
        self._theme.space(self._foot, margins=(max(0, INNER_PX - 12), 0, INNER_PX, 0))
        self._theme.space(self._column, 6, margins=(0, 12))
        self.setContentsMargins(1, 0, 1, 0)  # its border
        self._theme.at_least(self, LEAST_COLUMN_PX)
        self._theme.sheet(self, _column_sheet)


def _column_sheet(theme: Theme) -> str:
    return (
        f"#answer_column {{ background: {theme.colors.chat}; border: 1px solid"
        f" {theme.colors.line}; border-radius: {theme.px(12)}px; }}"
    )


class Comparison(QWidget):
    """All versions of one message. `picked` names one; `left`: back to the chat without.

    `formulas` are the chat's: what it has shown is there at once, and its child is running.
    """

    picked = Signal(str)
    left = Signal()
    stop_requested = Signal(str)

    def __init__(
        self, theme: Theme, question: str, messages: tuple[Message, ...], formulas: Formulas
    ) -> None:
        super().__init__()
        self._theme = theme
        self.setObjectName("comparison")
        self.setAccessibleName("Replies side by side")
        self.setProperty("plane", "chat")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        words = " ".join(question[:QUESTION_CHARS].split())
        self.question = ElidedLabel(words or "The start of the chat")
        self.question.setProperty("kind", "dim")
        self.back = IconButton(theme, "x", "Back to the chat (Esc)")
        self.back.setObjectName("leave_comparison_button")
        self.back.clicked.connect(self.left)
        self.columns = [
            AnswerColumn(theme, message, message.sibling_index + 1, formulas)
            for message in messages
        ]
        for column in self.columns:
            column.picked.connect(self.picked)
            column.stop_requested.connect(self.stop_requested)
        self._arrange()
        self._mark_differences()

    def focus(self) -> None:
        self.columns[0].pick.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_place(self, message_id: str, place: int) -> None:
        for column in self.columns:
            if column.message.id == message_id:
                column.show_place(place)

    def append_text(self, message_id: str, text: str, part: str) -> None:
        for column in self.columns:
            if column.message.id == message_id:
                column.view.append_text(message_id, text, part)

    def change_message(self, message: Message) -> None:
        for column in self.columns:
            if column.message.id == message.id:
                column.change_message(message)
        self._mark_differences()

    def _mark_differences(self) -> None:
        """Where both have ended: versions with cuts against the one of their group with nothing
        cut, the others against the first one."""
        wholes = {
            version.group: column.message
            for column in self.columns
            if (version := cuts_of(column.message.settings)) and version.role == "whole"
        }
        first = self.columns[0]
        for column in self.columns[1:]:
            if cuts_of(column.message.settings) is None:
                column.show_difference(_difference(first.message, column.message))
        for column in self.columns:
            version = cuts_of(column.message.settings)
            whole = wholes.get(version.group) if version is not None else None
            if version is not None and whole is not None and version.role != "whole":
                column.show_difference(_difference(whole, column.message))

    def _arrange(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.question, 1)
        head.addWidget(self.back)
        self._grid = QGridLayout()
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._n_across = 0
        inside = QWidget()
        inside.setLayout(self._grid)
        self.area = SteadyArea()
        self.area.setWidgetResizable(True)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(inside)
        self._whole = QVBoxLayout(self)
        self._whole.addLayout(head)
        self._whole.addWidget(self.area, 1)
        self._theme.space(self._grid, (GAP_PX, GAP_PX))
        self._theme.space(self._whole, 8, margins=(SIDE_PX, 0, SIDE_PX, 4))
        self.area.viewport().installEventFilter(self)
        self._theme.changed.connect(self._lay_out)
        self._lay_out()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.area.viewport() and event.type() is QEvent.Type.Resize:
            self._lay_out()
        return super().eventFilter(watched, event)

    def _lay_out(self) -> None:
        """As many beside each other as have room, in rows that are equally full."""
        px, room = self._theme.px, self.area.viewport().size()
        n, gap = len(self.columns), px(GAP_PX)
        fitting = max((room.width() + gap) // (px(LEAST_COLUMN_PX) + gap), 1)
        n_rows = math.ceil(n / fitting)
        n_across = math.ceil(n / n_rows)
        if n_across != self._n_across:
            for number, column in enumerate(self.columns):
                self._grid.addWidget(column, number // n_across, number % n_across)
            for place in range(max(n_across, self._n_across)):
                self._grid.setColumnStretch(place, int(place < n_across))
            self._n_across = n_across
        shared = (room.height() - (n_rows - 1) * gap) // n_rows
        for column in self.columns:
            least = min(px(LEAST_ROW_PX), max(room.height(), px(LOWEST_ROW_PX)))
            column.setMinimumHeight(max(shared, least))

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


def _difference(whole: Message, other: Message) -> str:
    """Where two versions part, by their tokens; nothing while one grows or its IDs are unknown."""
    growing = MessageState.STREAMING in (whole.state, other.state)
    if growing or whole.token_ids is None or other.token_ids is None:
        return ""
    pairs = zip(whole.token_ids, other.token_ids, strict=False)
    place = next((n for n, (one, two) in enumerate(pairs) if one != two), None)
    if place is None:
        lengths = len(whole.token_ids), len(other.token_ids)
        if lengths[0] == lengths[1]:
            return "same text"
        place = min(lengths)
    return f"first differs at token {place + 1:,}"


def _facts(message: Message) -> str:
    """What tells this version from the others."""
    settings, facts = message.settings, []
    if (version := cuts_of(settings)) is not None:
        return version.label  # the rest is the same for all of its group
    if (beam := beams_of(settings)) is not None:
        return beam.label  # nothing of it was drawn
    if isinstance(settings.get(PRESET), str):
        facts.append(settings[PRESET])
    seed = message.seed if message.seed is not None else settings.get("seed")
    if seed is not None:
        facts.append(f"seed {seed}")
    if isinstance(settings.get("temperature"), int | float) and message.weights_name:
        facts.append(f"temperature {settings['temperature']:g}")
    if not isinstance(settings.get(PRESET), str):
        facts += adapter_words(settings)
    if message.weights_name:
        facts.append(message.weights_name)
    elif not facts:
        facts.append("written by hand")
    return " · ".join(facts)
