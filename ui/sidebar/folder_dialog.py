"""Where to move chats or a folder: a list of the folders that typing narrows, by keyboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from models.records import Folder
from ui.look.theme import Theme
from ui.sidebar.grouping import tree_of
from ui.widgets.kit import plain_label, push_button

NO_FOLDER = "No folder"
_ID = Qt.ItemDataRole.UserRole
_NEW = Qt.ItemDataRole.UserRole + 1
_STEPS: dict[int, int] = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}

Chosen = Callable[[str | None, str], None]
"""Called with a folder's id (None: no folder), or with the name of a folder to make."""


class FolderDialog(QDialog):
    """`words` says what is moved. Folders in `left_out`, and those in them, are not offered."""

    def __init__(
        self,
        theme: Theme,
        folders: Sequence[Folder],
        words: str,
        chosen: Chosen,
        left_out: frozenset[str] = frozenset(),
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._chosen = chosen
        self._paths = _paths(folders, left_out)
        self.setObjectName("folder_dialog")
        self.setWindowTitle("Move to a folder")
        self.setAccessibleName("Move to a folder")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        label = plain_label(words, self, wraps=True)
        self.field = QLineEdit(self)
        self.field.setObjectName("folder_field")
        self.field.setAccessibleName("Find a folder or name a new one")
        self.field.setPlaceholderText("Find a folder or name a new one")
        self.list = QListWidget(self)
        self.list.setObjectName("folder_list")
        self.list.setAccessibleName("Folders")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.move_button = push_button("Move", self, kind="primary")
        self.move_button.setDefault(True)
        buttons.addButton(self.move_button, QDialogButtonBox.ButtonRole.AcceptRole)
        column = QVBoxLayout(self)
        px = theme.px
        column.setContentsMargins(px(16), px(16), px(16), px(16))
        column.setSpacing(px(12))
        for widget in (label, self.field, self.list, buttons):
            column.addWidget(widget)
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self._fill)
        self.list.itemDoubleClicked.connect(self.accept)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.resize(px(360), px(400))
        self._fill("")
        self.field.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """The arrows walk in the list while the field has the keyboard."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            step = _STEPS.get(event.key(), 0)
            if step:
                row = self.list.currentRow() + step
                self.list.setCurrentRow(max(0, min(row, self.list.count() - 1)))
                return True
        return super().eventFilter(watched, event)

    def accept(self) -> None:
        if self.list.currentRow() < 0:
            return
        item = self.list.currentItem()
        folder_id, name = item.data(_ID), str(item.data(_NEW) or "")
        super().accept()
        self._chosen(folder_id, name)

    def _fill(self, typed: str) -> None:
        """The folders that hold every typed word; the typed name itself as a new one."""
        name = " ".join(typed.split())
        words = name.casefold().split()
        self.list.clear()
        if not name:
            self._add(NO_FOLDER, None)
        for folder_id, path in self._paths:
            if all(word in path.casefold() for word in words):
                self._add(path, folder_id)
        if name and name.casefold() not in [path.casefold() for _id, path in self._paths]:
            self._add(f"New folder “{name}”", None, name)
        self.list.setCurrentRow(0)

    def _add(self, text: str, folder_id: str | None, new_name: str = "") -> None:
        item = QListWidgetItem(text, self.list)
        item.setData(_ID, folder_id)
        item.setData(_NEW, new_name)


def _paths(folders: Sequence[Folder], left_out: frozenset[str]) -> list[tuple[str, str]]:
    """Each folder's id and the names on the way to it: Work / Taxes / 2026."""
    found: list[tuple[str, str]] = []
    way: list[Folder] = []
    for folder, depth in tree_of(folders):
        way[depth:] = [folder]
        if not any(each.id in left_out for each in way):
            found.append((folder.id, " / ".join(each.name for each in way)))
    return found
