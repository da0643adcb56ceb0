"""Messages that wait for the reply, above the composer: read, changed in place, removed.

By keyboard: Tab reaches a row, Enter changes it, Delete removes it; while it is changed
Enter keeps the text and Escape leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import QueuedMessage
from ui.chat.message_edit import whole_text
from ui.look.theme import Theme
from ui.widgets.click_focus import leave_focus
from ui.widgets.elided import ElidedLabel
from ui.widgets.flow import ShortArea
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button

ROW_PX = 34
EDIT_PX = 84
MAX_HEIGHT_PX = 150
HELD_WORDS = "On hold: send when you're ready"

_DELETES = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
_RETURNS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


class QueuedEdit(QPlainTextEdit):
    """A queued message while it is changed."""

    kept = Signal()
    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_break = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.key() in _RETURNS and not is_break:
            self.kept.emit()
        elif event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() not in (
            Qt.FocusReason.PopupFocusReason,
            Qt.FocusReason.ActiveWindowFocusReason,
        ):
            self.kept.emit()


class QueuedRow(QFrame):
    """One message. While it is changed each key is told (`typed`), so that nothing which ends the
    editor loses it."""

    edit_begun = Signal(str)
    typed = Signal(str, str)
    changed = Signal(str, str)
    removed = Signal(str)
    resized = Signal()

    def __init__(self, theme: Theme, message: QueuedMessage, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.message = message
        self.setObjectName("queued_message")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # by mouse its buttons are clicked
        self._text = ElidedLabel("", self)
        self._edit = QueuedEdit(self)
        self._edit.setObjectName("queued_edit")
        self._edit.setAccessibleName("Queued message")
        self._edit.setTabChangesFocus(True)
        self._edit.hide()
        self.edit_button = IconButton(
            theme, "pencil-simple", "Edit the queued message", parent=self
        )
        self.edit_button.setObjectName("edit_queued_button")
        self.remove_button = IconButton(theme, "x", "Remove the queued message", parent=self)
        self.remove_button.setObjectName("remove_queued_button")
        self._row = QHBoxLayout(self)
        self._row.addWidget(self._text, 1)
        self._row.addWidget(self._edit, 1)
        self._row.addWidget(self.edit_button, 0, Qt.AlignmentFlag.AlignTop)
        self._row.addWidget(self.remove_button, 0, Qt.AlignmentFlag.AlignTop)
        leave_focus(self.edit_button, self.remove_button)
        self.edit_button.clicked.connect(self.begin_edit)
        self.remove_button.clicked.connect(lambda: self.removed.emit(self.message.id))
        self._edit.kept.connect(self._keep)
        self._edit.left.connect(self._leave)
        self._edit.textChanged.connect(self._on_typed)
        theme.changed.connect(self._dress)
        self.show_message(message)
        theme.space(self._row, 2, margins=(12, 1, 2, 1))
        theme.font(self._edit, Theme.font_text)
        self._dress()

    @property
    def is_edited(self) -> bool:
        return not self._edit.isHidden()

    def show_message(self, message: QueuedMessage) -> None:
        self.message = message
        names = ", ".join(attachment.name for attachment in message.attachments)
        words = " ".join(message.text.split())
        shown = " · ".join(part for part in (words, names) if part)
        self._text.set_text(shown)
        self.setAccessibleName(f"Queued: {shown}")
        self.setAccessibleDescription("Enter to edit, Delete to remove.")

    def begin_edit(self) -> None:
        if self.is_edited:
            return
        self.edit_begun.emit(self.message.id)
        self._edit.setPlainText(self.message.text)
        self._edit.moveCursor(self._edit.textCursor().MoveOperation.End)
        self._text.hide()
        self._edit.show()
        self._dress()
        self._edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _RETURNS:
            self.begin_edit()
        elif event.key() in _DELETES:
            self.removed.emit(self.message.id)
        else:
            super().keyPressEvent(event)

    def mouseDoubleClickEvent(self, _event: object) -> None:
        self.begin_edit()

    def _on_typed(self) -> None:
        if self.is_edited:
            self.typed.emit(self.message.id, whole_text(self._edit))

    def _keep(self) -> None:
        self._end(whole_text(self._edit))

    def _leave(self) -> None:
        self._end(self.message.text)

    def _end(self, text: str) -> None:
        if not self.is_edited:
            return
        had_focus = self._edit.hasFocus()
        self._edit.hide()
        self._text.show()
        self._dress()
        if had_focus:
            self.setFocus(Qt.FocusReason.OtherFocusReason)
        self.changed.emit(self.message.id, text)

    def _dress(self) -> None:
        colors = self._theme.colors
        px = self._theme.px
        self.setFixedHeight(px(EDIT_PX if self.is_edited else ROW_PX))
        self.setStyleSheet(
            f"""
            #queued_message {{
                background: {colors.bubble}; border: 2px solid transparent;
                border-radius: {px(8)}px;
            }}
            #queued_message:focus {{ border-color: {colors.accent}; }}
            #queued_edit {{ background: {colors.card}; color: {colors.ink}; border: none; }}
            QLabel {{ background: transparent; color: {colors.ink}; }}
            """
        )
        self.resized.emit()


class QueueList(QWidget):
    """All messages that wait, in the order in which they will be sent. Hidden where none does."""

    edit_begun = Signal(str)
    typed = Signal(str, str)
    changed = Signal(str, str)
    removed = Signal(str)
    send_requested = Signal()
    left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("message_queue")
        self.setAccessibleName("Queued messages")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._words = plain_label("", self, "small", name="queue_words")
        self.send_button = push_button(
            "Send next",
            self,
            "send_queued_button",
            spoken="Send the next queued message",
            act=self.send_requested,
        )
        leave_focus(self.send_button, to=self.left.emit)
        inside = QWidget()
        self._rows_layout = QVBoxLayout(inside)
        self._rows_layout.setContentsMargins(0, 0, 0, 0)
        self._area = ShortArea(inside, self)
        self._area.setObjectName("queue_area")
        head = QHBoxLayout()
        head.addWidget(self._words, 1)
        head.addWidget(self.send_button)
        self._column = QVBoxLayout(self)
        self._column.addLayout(head)
        self._column.addWidget(self._area)
        self._rows: dict[str, QueuedRow] = {}
        theme.space(self._column, 4, margins=(0, 0, 0, 6))
        theme.space(self._rows_layout, 4)
        theme.space(self._words, margins=(4, 0, 0, 0))
        theme.keep(self._area, ShortArea.set_limit, MAX_HEIGHT_PX)
        self._area.setStyleSheet("#queue_area, #queue_area > QWidget { background: none; }")
        self.hide()

    def rows(self) -> list[QueuedRow]:
        return list(self._rows.values())

    def set_messages(self, messages: Sequence[QueuedMessage], is_held: bool) -> None:
        had_focus = next((i for i, row in enumerate(self.rows()) if _has_focus(row)), -1)
        was_sending = self.send_button.hasFocus()
        wanted = {message.id for message in messages}
        for gone in [own for own in self._rows if own not in wanted]:
            row = self._rows.pop(gone)
            self._rows_layout.removeWidget(row)
            row.hide()
            row.deleteLater()
        for place, message in enumerate(messages):
            row = self._rows.get(message.id) or self._new_row(message)
            if not row.is_edited:
                row.show_message(message)
            self._rows_layout.insertWidget(place, row)
        self._rows = {message.id: self._rows[message.id] for message in messages}
        waits = HELD_WORDS if is_held else "Sent when the reply is finished"
        self._words.setText(f"{waits} · {len(messages):,} queued" if len(messages) > 1 else waits)
        self.send_button.setVisible(is_held)
        self.setVisible(bool(messages))
        self._area.fit()
        if had_focus >= 0 and not any(map(_has_focus, self.rows())):
            self._focus_near(had_focus)
        if was_sending and not self.send_button.hasFocus():
            self.left.emit()

    def _new_row(self, message: QueuedMessage) -> QueuedRow:
        row = QueuedRow(self._theme, message, self._area.widget())
        row.edit_begun.connect(self.edit_begun)
        row.typed.connect(self.typed)
        row.changed.connect(self.changed)
        row.removed.connect(self.removed)
        row.resized.connect(self._area.fit)
        self._rows[message.id] = row
        return row

    def _focus_near(self, place: int) -> None:
        rows = self.rows()
        if rows:
            rows[min(place, len(rows) - 1)].setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.left.emit()


def _has_focus(row: QueuedRow) -> bool:
    return row.hasFocus() or any(child.hasFocus() for child in row.findChildren(QWidget))
