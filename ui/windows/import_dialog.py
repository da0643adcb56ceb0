"""What an import would bring, before anything is changed: each chat, and what happens to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLabel,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import ChatLooked, ImportPreviewed
from models.records import Whereabouts
from ui.look.theme import Theme
from ui.shell.dialogs import space_buttons
from ui.widgets.elided import tip_text
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

MOST_ROWS = 1000
SIZE_PX = (560, 440)
_HAPPENS = {
    Whereabouts.NEW: "Added",
    Whereabouts.OTHER: "Added next to yours",
    Whereabouts.MORE: "New messages added",
    Whereabouts.THERE: "Already here",
}


class ImportDialog(QDialog):
    """`accepted` adds what is new, `rejected` forgets it."""

    def __init__(
        self,
        theme: Theme,
        preview: ImportPreviewed,
        accepted: Callable[[], object],
        rejected: Callable[[], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("import_dialog")
        self.setWindowTitle("Import chats")
        self.setAccessibleName("Import chats")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        counts = Counter(chat.whereabouts for chat in preview.chats)
        n_added = counts.total() - counts[Whereabouts.THERE]
        self._column = QVBoxLayout(self)
        self.summary = self._label(_summary(counts), "title")
        self.summary.setObjectName("import_summary")
        if counts[Whereabouts.OTHER]:
            self._label("Your own chats aren't changed.", "small")
        self.list = self._table(preview.chats)
        self._column.addWidget(self.list, 1)
        self.list.setVisible(bool(preview.chats))
        if len(preview.chats) > MOST_ROWS:
            self._label(f"… and {len(preview.chats) - MOST_ROWS:,} more.", "small")
        for sentence in preview.refusals[:5]:
            self._label(sentence, "error")
        if len(preview.refusals) > 5:
            self._label(
                (f"… and {len(preview.refusals) - 5:,} more files with nothing to import."), "error"
            )
        buttons = QDialogButtonBox(self)
        self.import_button = push_button(_verb(n_added), self, "import_button", kind="primary")
        buttons.addButton(self.import_button, QDialogButtonBox.ButtonRole.AcceptRole)
        self.import_button.setVisible(n_added > 0)
        close = QDialogButtonBox.StandardButton
        last = buttons.addButton(close.Cancel if n_added else close.Close)
        (self.import_button if n_added else last).setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self._column.addWidget(buttons)
        self.accepted.connect(accepted)
        self.rejected.connect(rejected)
        theme.space(self._column, 12, margins=20)
        theme.at_least(self, 380)
        space_buttons(theme, buttons)
        if preview.chats:
            ZoomedSize(self, theme, SIZE_PX)
        (self.import_button if n_added else last).setFocus()

    def _label(self, words: str, kind: str) -> QLabel:
        label = plain_label(words, self, kind, wraps=True)
        self._column.addWidget(label)
        return label

    def _table(self, chats: tuple[ChatLooked, ...]) -> QTreeWidget:
        table = QTreeWidget(self)
        table.setObjectName("import_list")
        table.setAccessibleName("Chats in the file")
        table.setRootIsDecorated(False)
        table.setUniformRowHeights(True)
        table.setHeaderLabels(["Chat", "Messages", "Result"])
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        table.headerItem().setTextAlignment(1, right)
        for chat in chats[:MOST_ROWS]:
            title = " ".join(chat.title.split()) or "Chat"
            happens = _HAPPENS[chat.whereabouts]
            item = QTreeWidgetItem(table, [title, f"{chat.n_messages:,}", happens])
            item.setTextAlignment(1, right)
            when = chat.updated_at.astimezone()
            item.setToolTip(0, tip_text(f"{title}\n{when:%Y-%m-%d %H:%M}, from {chat.file}"))
            if chat.whereabouts is Whereabouts.THERE:
                item.setDisabled(True)
        header = table.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        return table


def _summary(counts: Counter[Whereabouts]) -> str:
    total = counts.total()
    if not total:
        return "Nothing to import."
    there = counts[Whereabouts.THERE]
    words = "1 chat" if total == 1 else f"{total:,} chats"
    if there == total:
        return f"{words}, already here. Nothing to import."
    return f"{words}, {there:,} of them already here" if there else words


def _verb(count: int) -> str:
    return "Import 1 chat" if count == 1 else f"Import {count:,} chats"
