"""The downloads as an item model, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QAbstractListModel, QModelIndex, Qt

from ui.library.downloads.words import in_order, spoken, whole_words
from ui.widgets.any_index import AnyIndex

if TYPE_CHECKING:
    from app.hub.downloads.progress import DownloadProgress

ROW_ROLE: Final = Qt.ItemDataRole.UserRole


class DownloadModel(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[DownloadProgress] = []

    def show(self, downloads: Sequence[DownloadProgress]) -> bool:
        """Show these; whether rows came, went or moved."""
        before, self_now = self.shown, in_order(downloads)
        if [each.id for each in before] != [each.id for each in self_now]:
            self.beginResetModel()
            self.shown = self_now
            self.endResetModel()
            return True
        self.shown = self_now
        for row, (old, new) in enumerate(zip(before, self_now, strict=True)):
            if old != new:
                self.dataChanged.emit(self.index(row), self.index(row))
        return False

    def row_of(self, download_id: str) -> int | None:
        return next((row for row, each in enumerate(self.shown) if each.id == download_id), None)

    def rowCount(self, parent: AnyIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.shown)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        progress = self.shown[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return progress.name
        if role == ROW_ROLE:
            return progress
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return spoken(progress)
        if role == Qt.ItemDataRole.ToolTipRole:
            return whole_words(progress)
        return None
