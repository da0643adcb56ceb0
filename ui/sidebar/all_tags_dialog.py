"""All tags: rename one everywhere, or take it off all chats. Both can be undone in the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversations.tagging import KnownTag, cleaned, key_of
from ui.look.theme import Theme
from ui.widgets.kit import plain_label, push_button

_NAME = Qt.ItemDataRole.UserRole


class AllTagsDialog(QDialog):
    """`list_tags` is asked after each change; `rename` and `delete` do it."""

    def __init__(
        self,
        theme: Theme,
        list_tags: Callable[[], Sequence[KnownTag]],
        rename: Callable[[str, str], None],
        delete: Callable[[str], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._list_tags = list_tags
        self._rename = rename
        self._delete = delete
        self.setObjectName("all_tags_dialog")
        self.setWindowTitle("Rename or delete tags")
        self.setAccessibleName("Rename or delete tags")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.words = plain_label("", self, "small", name="all_tags_words", wraps=True)
        self.list = QListWidget(self)
        self.list.setObjectName("all_tags_list")
        self.list.setAccessibleName("Tags")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setUniformItemSizes(True)
        self.list.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked
            | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.rename_button = push_button(
            "Rename", self, "rename_tag_button", act=self._on_rename_clicked
        )
        self.delete_button = push_button(
            "Delete", self, "delete_tag_button", kind="danger", act=self._delete_current
        )
        self.close_button = push_button("Close", self, kind="primary", act=self.accept)
        for button in (self.rename_button, self.delete_button, self.close_button):
            button.setAutoDefault(False)
        row = QHBoxLayout()
        row.addWidget(self.rename_button)
        row.addWidget(self.delete_button)
        row.addStretch()
        row.addWidget(self.close_button)
        column = QVBoxLayout(self)
        theme.space(column, 12, margins=16)
        column.addWidget(self.words)
        column.addWidget(self.list, 1)
        column.addLayout(row)
        self.list.installEventFilter(self)
        self.list.itemChanged.connect(self._on_renamed)
        self.list.currentRowChanged.connect(lambda _: self._tell())
        self.resize(theme.px(340), theme.px(380))
        self._fill()
        self.list.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_press = event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent)
        if is_press and event.key() == Qt.Key.Key_Delete:  # type: ignore[attr-defined]
            self._delete_current()
            return True
        return super().eventFilter(watched, event)

    def _fill(self, stay_at: str = "") -> None:
        row = max(self.list.currentRow(), 0)
        self.list.blockSignals(True)
        self.list.clear()
        for number, tag in enumerate(self._list_tags()):
            item = QListWidgetItem(tag.name, self.list)
            item.setData(_NAME, tag.name)
            chats = "1 chat" if tag.n_chats == 1 else f"{tag.n_chats:,} chats"
            item.setToolTip(chats)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{tag.name}, {chats}")
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
            if key_of(tag.name) == key_of(stay_at):
                row = number
        self.list.blockSignals(False)
        self.list.setCurrentRow(min(row, self.list.count() - 1))
        self._tell()

    def _tell(self) -> None:
        item = self.list.currentItem()
        for button in (self.rename_button, self.delete_button):
            button.setEnabled(item is not None)
        words = "No chat has a tag yet." if item is None else f"“{item.text()}”: {item.toolTip()}"
        self.words.setText(words)

    def _on_rename_clicked(self) -> None:
        self.list.setFocus()
        self.list.editItem(self.list.currentItem())

    def _on_renamed(self, item: QListWidgetItem) -> None:
        old, new = str(item.data(_NAME)), cleaned(item.text())
        if new and new != old:
            self._rename(old, new)
        self._fill(new or old)

    def _delete_current(self) -> None:
        item = self.list.currentItem()
        if item is not None:
            self._delete(str(item.data(_NAME)))
            self._fill()
