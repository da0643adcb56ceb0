"""The conversations as a flat Qt list: headings and conversations, filtered by title.

A new list from the desk is merged row by row, so that a rename in progress, the scroll
position and the keyboard's place survive the news of every reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from models.records import Conversation
from ui.sidebar.grouping import group_conversations, matches

AnyIndex = QModelIndex | QPersistentModelIndex

ID_ROLE = Qt.ItemDataRole.UserRole + 1
IS_HEADING_ROLE = Qt.ItemDataRole.UserRole + 2
IS_OPEN_ROLE = Qt.ItemDataRole.UserRole + 3

UNTITLED = "New chat"
MERGE_LIMIT = 64
"""More changed rows than this are taken over by a reset, which is then the faster way."""


@dataclass(frozen=True, slots=True)
class Row:
    """A heading (id empty) or a conversation."""

    text: str
    id: str = ""

    @property
    def key(self) -> str:
        return self.id or f"heading:{self.text}"


def _local_now() -> datetime:
    return datetime.now().astimezone()


class ConversationModel(QAbstractListModel):
    """Editing a row asks for a rename; the title changes when the desk says so."""

    rename_requested = Signal(str, str)

    def __init__(
        self, parent: QObject | None = None, now: Callable[[], datetime] = _local_now
    ) -> None:
        super().__init__(parent)
        self._now = now
        self._conversations: tuple[Conversation, ...] = ()
        self._filter = ""
        self._open_id = ""
        self._rows: list[Row] = []

    # --- what is shown ------------------------------------------------------------------

    def set_conversations(self, conversations: Sequence[Conversation]) -> None:
        self._conversations = tuple(conversations)
        self._merge(self._wanted_rows())

    def change_conversation(self, conversation: Conversation) -> None:
        """Take over one conversation's new fields; unknown ones are left to the next list."""
        self.set_conversations(
            [conversation if old.id == conversation.id else old for old in self._conversations]
        )

    def set_filter(self, text: str) -> None:
        self._filter = text.strip()
        self._merge(self._wanted_rows())

    def set_open(self, conversation_id: str) -> None:
        """Mark the conversation that is on screen."""
        if conversation_id == self._open_id:
            return
        before, self._open_id = self._open_id, conversation_id
        for changed in (before, conversation_id):
            index = self.index_of(changed)
            if index.isValid():
                self.dataChanged.emit(index, index, [IS_OPEN_ROLE])

    def regroup(self) -> None:
        """Headings speak of days: look at the clock again."""
        self._merge(self._wanted_rows())

    def index_of(self, conversation_id: str) -> QModelIndex:
        if conversation_id:
            for number, row in enumerate(self._rows):
                if row.id == conversation_id:
                    return self.index(number)
        return QModelIndex()

    def count(self) -> int:
        """Conversations shown, headings not counted."""
        return sum(1 for row in self._rows if row.id)

    def _wanted_rows(self) -> list[Row]:
        shown = self._conversations
        if self._filter:
            shown = tuple(each for each in shown if matches(each, self._filter))
        rows: list[Row] = []
        for heading, members in group_conversations(shown, self._now()):
            rows.append(Row(heading))
            rows.extend(Row(_one_line(each.title) or UNTITLED, each.id) for each in members)
        return rows

    # --- merging ------------------------------------------------------------------------

    def _merge(self, wanted: list[Row]) -> None:
        old_keys = {row.key for row in self._rows}
        new_keys = {row.key for row in wanted}
        if len(old_keys ^ new_keys) > MERGE_LIMIT:
            self.beginResetModel()
            self._rows = wanted
            self.endResetModel()
            return
        self._remove_missing(new_keys)
        for number, row in enumerate(wanted):
            self._put(number, row)

    def _remove_missing(self, keys: set[str]) -> None:
        for number in range(len(self._rows) - 1, -1, -1):
            if self._rows[number].key not in keys:
                self.beginRemoveRows(QModelIndex(), number, number)
                del self._rows[number]
                self.endRemoveRows()

    def _put(self, number: int, row: Row) -> None:
        """Make `row` the one at `number`; everything before it is already in place."""
        place = next(
            (i for i in range(number, len(self._rows)) if self._rows[i].key == row.key), None
        )
        if place is None:
            self.beginInsertRows(QModelIndex(), number, number)
            self._rows.insert(number, row)
            self.endInsertRows()
            return
        if place != number:
            self.beginMoveRows(QModelIndex(), place, place, QModelIndex(), number)
            self._rows.insert(number, self._rows.pop(place))
            self.endMoveRows()
        if self._rows[number] != row:
            self._rows[number] = row
            index = self.index(number)
            self.dataChanged.emit(index, index)

    # --- Qt -----------------------------------------------------------------------------

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        row = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return row.text
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.text if row.id else None
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{row.text}, open" if row.id and row.id == self._open_id else row.text
        if role == ID_ROLE:
            return row.id
        if role == IS_HEADING_ROLE:
            return not row.id
        if role == IS_OPEN_ROLE:
            return bool(row.id) and row.id == self._open_id
        return None

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        if not index.isValid() or not self._rows[index.row()].id:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        title = _one_line(str(value))
        row = self._rows[index.row()]
        if role != Qt.ItemDataRole.EditRole or not row.id or not title or title == row.text:
            return False
        self.rename_requested.emit(row.id, title)
        return True


def _one_line(text: str) -> str:
    return " ".join(text.split())
