"""The conversations as a flat Qt list: headings, folders and chats (`ui.sidebar.grouping`).

A new list from the desk is merged row by row, so that a rename in progress, the selection, the
scroll position and the keyboard's place survive the news of every reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    Qt,
    Signal,
)

from app.chat.conversations.tagging import KnownTag, known_tags
from models.records import Conversation, Folder
from ui.sidebar.grouping import PINNED, Arrangement, Row
from ui.widgets.any_index import AnyIndex
from ui.widgets.elided import tip_text

ID_ROLE = Qt.ItemDataRole.UserRole + 1
"""The id of a conversation; empty for headings and folders."""
IS_HEADING_ROLE = Qt.ItemDataRole.UserRole + 2
IS_OPEN_ROLE = Qt.ItemDataRole.UserRole + 3
ROW_ROLE = Qt.ItemDataRole.UserRole + 4
IS_REPLYING_ROLE = Qt.ItemDataRole.UserRole + 5
"""The whole `Row`."""

MERGE_LIMIT = 64
"""More changed rows than this are taken over by a reset, which is then the faster way."""
DRAGGED = "application/x-cutaway-list"


class Dragged(NamedTuple):
    """What is carried by drag and drop."""

    chats: tuple[str, ...]
    folders: tuple[str, ...]


def _hashed(tags: tuple[str, ...]) -> tuple[str, ...]:
    return (" ".join(f"#{tag}" for tag in tags),) if tags else ()


def _local_now() -> datetime:
    return datetime.now().astimezone()


class ConversationModel(QAbstractListModel):
    """Editing a row asks for a rename; the title changes when the desk says so."""

    rename_requested = Signal(str, str)
    rename_folder_requested = Signal(str, str)
    closed_changed = Signal(object)

    def __init__(
        self, parent: QObject | None = None, now: Callable[[], datetime] = _local_now
    ) -> None:
        super().__init__(parent)
        self._now = now
        self._arrangement = Arrangement()
        self._conversations: tuple[Conversation, ...] = ()
        self._folders: tuple[Folder, ...] = ()
        self._closed: frozenset[str] = frozenset()
        self._is_archive = False
        self._tags: frozenset[str] = frozenset()
        self._open_id = ""
        self._replying: frozenset[str] = frozenset()
        self._rows: list[Row] = []

    # --- what is shown ------------------------------------------------------------------

    def set_conversations(self, conversations: Sequence[Conversation]) -> None:
        self._conversations = tuple(conversations)
        self.regroup()

    def change_conversation(self, conversation: Conversation) -> None:
        """Take over one conversation's new fields; unknown ones are left to the next list."""
        self.set_conversations(
            [conversation if old.id == conversation.id else old for old in self._conversations]
        )

    def set_folders(self, folders: Sequence[Folder]) -> None:
        self._folders = tuple(folders)
        self.regroup()

    def set_closed(self, closed: Iterable[str]) -> None:
        """Which folders show nothing of what is in them."""
        if frozenset(closed) != self._closed:
            self._closed = frozenset(closed)
            self.regroup()

    def set_archive(self, is_archive: bool) -> None:
        """Show what was put into the archive, in place of the rest."""
        self._is_archive = is_archive
        self.regroup()

    def set_tags(self, keys: frozenset[str]) -> None:
        """Show only chats that have all of these tags."""
        if keys != self._tags:
            self._tags = keys
            self.regroup()

    @property
    def all_tags(self) -> tuple[KnownTag, ...]:
        """Of the chats that are listed here or in the archive."""
        return known_tags(self._conversations)

    def set_open(self, conversation_id: str) -> None:
        """Mark the conversation that is on screen."""
        if conversation_id == self._open_id:
            return
        before, self._open_id = self._open_id, conversation_id
        for changed in (before, conversation_id):
            index = self.index_of(changed)
            if index.isValid():
                self.dataChanged.emit(index, index, [IS_OPEN_ROLE])

    def set_replying(self, conversation_ids: frozenset[str]) -> None:
        """Mark the conversations in which a reply waits or grows."""
        before, self._replying = self._replying, conversation_ids
        for changed in before ^ conversation_ids:
            index = self.index_of(changed)
            if index.isValid():
                self.dataChanged.emit(index, index, [IS_REPLYING_ROLE])

    def regroup(self) -> None:
        """Headings speak of days: look at the clock again."""
        self._merge(
            self._arrangement.rows(
                self._conversations,
                self._folders,
                self._closed,
                self._now(),
                archived=self._is_archive,
                tags=self._tags,
            )
        )

    @property
    def folders(self) -> tuple[Folder, ...]:
        return self._folders

    @property
    def is_archive(self) -> bool:
        return self._is_archive

    def conversation(self, conversation_id: str) -> Conversation | None:
        return next((c for c in self._conversations if c.id == conversation_id), None)

    def index_of(self, conversation_id: str) -> QModelIndex:
        return self._index_of("chat", conversation_id)

    def folder_index(self, folder_id: str) -> QModelIndex:
        return self._index_of("folder", folder_id)

    def _index_of(self, kind: str, row_id: str) -> QModelIndex:
        if row_id:
            for number, row in enumerate(self._rows):
                if row.id == row_id and row.kind == kind:
                    return self.index(number)
        return QModelIndex()

    def count(self) -> int:
        """Rows that are no headings."""
        return sum(1 for row in self._rows if row.id)

    # --- folders ------------------------------------------------------------------------

    def toggle(self, folder_id: str, is_expanded: bool | None = None) -> None:
        """Open a closed folder or the other way round, or as it is asked."""
        is_closed = folder_id in self._closed
        if is_expanded is None or is_expanded == is_closed:
            known = {folder.id for folder in self._folders}
            self._closed = (self._closed ^ {folder_id}) & known
            self.regroup()
            self.closed_changed.emit(tuple(sorted(self._closed)))

    def reveal(self, conversation_id: str) -> QModelIndex:
        """The chat's row, with the folders around it opened if need be."""
        index = self.index_of(conversation_id)
        conversation = self.conversation(conversation_id)
        if index.isValid() or conversation is None or conversation.is_archived != self._is_archive:
            return index
        parents = {folder.id: folder.parent_id for folder in self._folders}
        place, seen = conversation.folder_id, set[str]()
        while place in parents and place not in seen:
            seen.add(place)
            place = parents[place]
        self._closed -= seen
        self.regroup()
        self.closed_changed.emit(tuple(sorted(self._closed)))
        return self.index_of(conversation_id)

    # --- drag and drop ------------------------------------------------------------------

    def mimeTypes(self) -> list[str]:
        return [DRAGGED]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        rows = [self._rows[index.row()] for index in indexes]
        data = QMimeData()
        kinds = {kind: [row.id for row in rows if row.kind == kind] for kind in ("chat", "folder")}
        data.setData(DRAGGED, json.dumps(kinds).encode())
        return data

    @staticmethod
    def dragged(data: QMimeData) -> Dragged | None:
        """What is carried, if it comes from here."""
        if not data.hasFormat(DRAGGED):
            return None
        try:
            kinds = json.loads(bytes(data.data(DRAGGED).data()))
            return Dragged(
                tuple(map(str, kinds.get("chat", ()))), tuple(map(str, kinds.get("folder", ())))
            )
        except (ValueError, AttributeError, TypeError):
            return None

    def place_at(self, index: AnyIndex) -> tuple[str, str]:
        """What letting go above a row means: ("folder", id), ("folder", "") for no folder, or
        ("pin", "")."""
        if not index.isValid():
            return "folder", ""
        row = self._rows[index.row()]
        if row.kind == "folder":
            return "folder", row.id
        if row.text == PINNED or row.is_pinned:
            return "pin", ""
        return "folder", row.folder_id if row.depth else ""

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
            if number >= len(self._rows) or self._rows[number] is not row:
                self._put(number, row)

    def _remove_missing(self, keys: set[str]) -> None:
        for number in range(len(self._rows) - 1, -1, -1):
            if self._rows[number].key not in keys:
                self.beginRemoveRows(QModelIndex(), number, number)
                del self._rows[number]
                self.endRemoveRows()

    def _put(self, number: int, row: Row) -> None:
        """Make `row` the one at `number`; everything before it is already in place."""
        key = row.key
        place = next((i for i in range(number, len(self._rows)) if self._rows[i].key == key), None)
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
            return tip_text("\n".join((row.text, *_hashed(row.tags)))) if row.id else None
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(row)
        if role == ID_ROLE:
            return row.id if row.kind == "chat" else ""
        if role == IS_HEADING_ROLE:
            return row.kind == "heading"
        if role == IS_OPEN_ROLE:
            return row.kind == "chat" and row.id == self._open_id
        if role == IS_REPLYING_ROLE:
            return row.kind == "chat" and row.id in self._replying
        return row if role == ROW_ROLE else None

    def _spoken(self, row: Row) -> str:
        if row.kind == "folder":
            chats = "1 chat" if row.n_chats == 1 else f"{row.n_chats} chats"
            state = "expanded" if row.is_expanded else "collapsed"
            return f"{row.text}, folder, {chats}, {state}, level {row.depth + 1}"
        is_open = row.kind == "chat" and row.id == self._open_id
        is_replying = row.kind == "chat" and row.id in self._replying
        facts = (
            row.text,
            "branch" if row.is_branch else "",
            "open" if is_open else "",
            "replying" if is_replying else "",
            f"tagged {', '.join(row.tags)}" if row.tags else "",
        )
        return ", ".join(fact for fact in facts if fact)

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        if not index.isValid() or not self._rows[index.row()].id:
            return Qt.ItemFlag.NoItemFlags
        return (
            Qt.ItemFlag.ItemIsEnabled
            | Qt.ItemFlag.ItemIsSelectable
            | Qt.ItemFlag.ItemIsEditable
            | Qt.ItemFlag.ItemIsDragEnabled
        )

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        title = " ".join(str(value).split())
        row = self._rows[index.row()]
        if role != Qt.ItemDataRole.EditRole or not row.id or not title or title == row.text:
            return False
        is_folder = row.kind == "folder"
        signal = self.rename_folder_requested if is_folder else self.rename_requested
        signal.emit(row.id, title)
        return True
