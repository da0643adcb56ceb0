"""What was found, as a Qt list that grows page by page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, Qt, Signal

from app.chat.events import SearchAnswered
from app.local_time import here
from models.records import Role, SearchHit
from ui.sidebar.grouping import UNTITLED
from ui.widgets.any_index import AnyIndex

HIT_ROLE = Qt.ItemDataRole.UserRole + 1
"""The `SearchHit`; None for the row that leads to more titles."""

MORE_TITLES = "More chats with matching titles"
_SPEAKERS = {Role.USER: "You", Role.ASSISTANT: "Reply", Role.SYSTEM: "System", Role.TOOL: "Tool"}


class SearchModel(QAbstractListModel):
    """A first page takes the place of all rows; the next ones are added."""

    more_requested = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[SearchHit | None] = []
        self._has_more = False
        self._is_asking = False

    def show_page(self, answer: SearchAnswered) -> None:
        rows: list[SearchHit | None] = list(answer.hits)
        if answer.has_more_titles:
            titles = sum(1 for hit in answer.hits if hit.message_id is None)
            rows.insert(titles, None)
        self._has_more = answer.has_more
        self._is_asking = False
        if answer.is_first:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()
        elif rows:
            count = len(self._rows)
            self.beginInsertRows(QModelIndex(), count, count + len(rows) - 1)
            self._rows += rows
            self.endInsertRows()

    def clear(self) -> None:
        self.beginResetModel()
        self._rows, self._has_more = [], False
        self.endResetModel()

    @property
    def has_more(self) -> bool:
        return self._has_more

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        hit = self._rows[index.row()]
        if role == HIT_ROLE:
            return hit
        if hit is None:
            return MORE_TITLES if role == Qt.ItemDataRole.DisplayRole else None
        if role == Qt.ItemDataRole.DisplayRole:
            return title_of(hit)
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{title_of(hit)}\n{date_of(hit)}"
        if role == Qt.ItemDataRole.AccessibleTextRole:
            said = "" if hit.message_id is None else f", {speaker_of(hit)}: {hit.snippet}"
            return f"{title_of(hit)}{said}, {date_of(hit)}"
        return None

    def canFetchMore(self, parent: AnyIndex) -> bool:
        return self._has_more and not self._is_asking

    def fetchMore(self, parent: AnyIndex) -> None:
        self._is_asking = True
        self.more_requested.emit()


def title_of(hit: SearchHit) -> str:
    return " ".join(hit.conversation_title.split()) or UNTITLED


def speaker_of(hit: SearchHit) -> str:
    """Who said it, in a word."""
    if hit.in_reasoning:
        return "Reasoning"
    if hit.is_summary:
        return "Summary"
    return _SPEAKERS.get(hit.role, "") if hit.role else ""


def date_of(hit: SearchHit) -> str:
    return f"{here(hit.created_at):%Y-%m-%d}"


def short_date_of(hit: SearchHit, now: datetime | None = None) -> str:
    """The day without the year where it is this one."""
    when = here(hit.created_at)
    today = (now or datetime.now().astimezone()).date()
    if when.date() == today:
        return f"{when:%H:%M}"
    return f"{when.day} {when:%b}" if when.year == today.year else f"{when:%b %Y}"
