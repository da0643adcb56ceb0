"""The transcript for screen readers: a list with one item per message, which says it whole.

What must hold: any message can be reached and read, whether it was ever laid out or not; an
item whose message is gone says so (`isValid`) instead of answering for another one; nothing
is made unless something asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QAccessible, QAccessibleInterface, QWindow
from PySide6.QtWidgets import QAccessibleWidget

from ui.transcript.area import RowsArea
from ui.transcript.summary import spoken_text

if TYPE_CHECKING:
    from PySide6.QtCore import QObject

_installed: list[TranscriptAccess] = []
"""Qt holds the interfaces of living views; Python must not let go of them before."""


class MessageAccess(QAccessibleInterface):
    """One message. It is known by its id: its place in the list may change."""

    def __init__(self, view: RowsArea, message_id: str) -> None:
        super().__init__()
        self._view = view
        self.message_id = message_id

    @property
    def index(self) -> int:
        """Its place in the conversation; -1 where it is gone."""
        found = self._view.rows.index_of(self.message_id)
        return -1 if found is None else found

    def isValid(self) -> bool:
        return self.index >= 0

    def object(self) -> QObject | None:  # type: ignore[override]
        return None

    def window(self) -> QWindow | None:  # type: ignore[override]
        return self._view.window().windowHandle()

    def role(self) -> QAccessible.Role:
        return QAccessible.Role.ListItem

    def text(self, kind: QAccessible.Text) -> str:
        index = self.index
        if index < 0:
            return ""
        if kind == QAccessible.Text.Name:
            return spoken_text(self._view.rows.message(index))
        if kind == QAccessible.Text.Description:
            return f"Message {index + 1} of {len(self._view.rows)}"
        return ""

    def setText(self, kind: QAccessible.Text, text: str) -> None:
        """A message cannot be changed this way."""

    def state(self) -> QAccessible.State:
        state = QAccessible.State()
        state.readOnly = True
        state.focusable = True
        state.selectable = True
        index, view = self.index, self._view
        state.invalid = index < 0
        state.focused = view.hasFocus() and view.current_row() == index
        state.offscreen = not self._place().intersects(view.viewport().rect())
        return state

    def rect(self) -> QRect:
        place = self._place()
        return QRect(self._view.viewport().mapToGlobal(place.topLeft()), place.size())

    def _place(self) -> QRect:
        """Where the message is in the viewport; a guess where it was never laid out."""
        index, rows = self.index, self._view.rows
        if index < 0:
            return QRect()
        corner = self._view.item_origin(index).toPoint()
        return QRect(corner.x(), corner.y(), round(rows.width), round(rows.height(index)))

    def parent(self) -> QAccessibleInterface:
        return QAccessible.queryAccessibleInterface(self._view)

    def childCount(self) -> int:
        return 0

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]
        return None

    def childAt(self, x: int, y: int) -> QAccessibleInterface | None:  # type: ignore[override]
        return None

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        return -1


class TranscriptAccess(QAccessibleWidget):
    """The list: messages first, then the widgets that lie on the transcript."""

    def __init__(self, view: RowsArea) -> None:
        super().__init__(view, QAccessible.Role.List, view.accessibleName())
        self._view = view
        self._made: dict[str, MessageAccess] = {}

    def childCount(self) -> int:
        return len(self._view.rows) + super().childCount()

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]
        count = len(self._view.rows)
        if index < 0 or index >= count:
            return super().child(index - count) if index >= count else None
        return self.message(index)

    def message(self, index: int) -> MessageAccess:
        message_id = self._view.rows.message(index).id
        made = self._made.get(message_id)
        if made is None:
            made = self._made[message_id] = MessageAccess(self._view, message_id)
            QAccessible.registerAccessibleInterface(made)
        return made

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        if isinstance(child, MessageAccess):
            return child.index
        place = super().indexOfChild(child)
        return place if place < 0 else len(self._view.rows) + place

    def childAt(self, x: int, y: int) -> QAccessibleInterface | None:  # type: ignore[override]
        for place in range(len(self._view.rows), self.childCount()):
            child = self.child(place)
            is_own = child is not None and child.object() is self._view.viewport()
            if child is not None and not is_own and child.rect().contains(x, y):
                return child
        point = self._view.viewport().mapFromGlobal(QPoint(x, y))
        index = self._view.index_at(point.y())
        return None if index is None else self.message(index)

    def focusChild(self) -> QAccessibleInterface | None:  # type: ignore[override]
        current = self._view.current_row()
        if self._view.hasFocus() and current is not None and current < len(self._view.rows):
            return self.message(current)
        return super().focusChild()


def install() -> None:
    """Let screen readers ask transcripts. Calling it again changes nothing."""
    if not _is_installed:
        _is_installed.append(True)
        QAccessible.installFactory(_interface_of)


_is_installed: list[bool] = []


def _interface_of(_kind: str, asked: QObject) -> QAccessibleInterface | None:
    if not isinstance(asked, RowsArea):
        return None
    made = TranscriptAccess(asked)
    _installed.append(made)
    return made
