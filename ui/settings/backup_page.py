"""Settings → Backups: those there are, what is in one, and the ways back."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLineEdit,
    QMessageBox,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from app.amounts import bytes_words
from app.chat.exchange.backups import KEPT
from app.chat.surroundings import ALWAYS
from app.local_time import here
from models.records import BackupFile, BackupList, BackupLooked, ChatInBackup
from ui.look.theme import Theme
from ui.settings.rows import Page
from ui.shell.dialogs import show_folder
from ui.widgets.elided import tip_text
from ui.widgets.flow import FlowLayout
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.chat.desk import Desk

WHY: Final = {
    "daily": "Automatic",
    "by_hand": "By hand",
    "migration": "Before an upgrade",
    "restore": "Before a restore",
}
MOST_SHOWN: Final = 500
LIST_PX, CHATS_PX = 150, 190
ALL_AGAIN: Final = (
    "All chats, folders and settings become as they were then. What is here now is backed up "
    "first, so you can go back. Cutaway restarts."
)
_WHAT = Qt.ItemDataRole.UserRole


class BackupPage(Page):
    """`restart_requested`: the restore is chosen, and the next start does it."""

    restart_requested = Signal()

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "backups", parent)
        self._desk = desk
        self._list = BackupList("")
        self._looked: BackupLooked | None = None
        self._asked = ""
        self._n_found = 0
        self._build_list()
        self._build_inside()
        self._tell()

    def _build_list(self) -> None:
        theme = self._theme
        self.pending_label = plain_label("", self, "caution", name="pending_restore", wraps=True)
        self.restart_button = push_button(
            "Restart now", self, "restart_button", spoken="Restart now", act=self.restart_requested
        )
        self.keep_button = push_button(
            "Don't restore",
            self,
            "keep_as_is_button",
            spoken="Don't restore",
            act=self._on_keep_clicked,
        )
        self._pending = self._lined(self.restart_button, self.keep_button)
        self.table = self._tree("backup_list", "Backups", ["Made", "Why", "Size"])
        self.table.currentItemChanged.connect(lambda *_: self._look())
        theme.size(self.table, height=LIST_PX)
        self.space_label = plain_label("", self, "small", name="backup_space", wraps=True)
        self.make_button = push_button(
            "Back up now", self, "back_up_button", spoken="Back up now", act=self._on_make_clicked
        )
        self.folder_button = push_button(
            "Open folder",
            self,
            "backup_folder_button",
            spoken="Open the folder of backups",
            act=lambda: show_folder(self, self._list.folder),
        )
        self.add_card(
            self.pending_label,
            self._pending,
            self.table,
            self.space_label,
            self._lined(self.make_button, self.folder_button),
            plain_label(KEPT, self, "small", wraps=True),
        )

    def _build_inside(self) -> None:
        self.inside_label = plain_label("", self, "small", name="backup_inside", wraps=True)
        self.field = QLineEdit(self)
        self.field.setObjectName("backup_chat_field")
        self.field.setPlaceholderText("Find a chat in this backup")
        self.field.setAccessibleName("Find a chat in this backup")
        self.field.textChanged.connect(lambda _: self._fill_chats())
        heads = ["Chat", "Messages", "Last"]
        self.chats = self._tree("backup_chats", "Chats in this backup", heads)
        self.chats.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.chats.itemSelectionChanged.connect(self._tell)
        self._theme.size(self.chats, height=CHATS_PX)
        self.back_button = push_button(
            "Bring back selected chats",
            self,
            "bring_back_button",
            spoken="Bring back selected chats",
            act=self._on_back_clicked,
        )
        self.restore_button = push_button(
            "Restore everything…",
            self,
            "restore_button",
            spoken="Restore everything",
            act=self._on_restore_clicked,
        )
        self.add_card(
            self.inside_label,
            self.field,
            self.chats,
            self._lined(self.back_button, self.restore_button),
        )

    def _tree(self, name: str, spoken: str, heads: list[str]) -> QTreeWidget:
        tree = QTreeWidget(self)
        tree.setObjectName(name)
        tree.setAccessibleName(spoken)
        tree.setRootIsDecorated(False)
        tree.setUniformRowHeights(True)
        tree.setHeaderLabels(heads)
        tree.header().setStretchLastSection(False)
        tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2):
            tree.header().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        return tree

    def _lined(self, *buttons: QWidget) -> QWidget:
        line = QWidget(self)
        flow = FlowLayout(line)
        for button in buttons:
            flow.addWidget(button)
        self._theme.space(flow, 8)
        return line

    # --- what is there ------------------------------------------------------------------

    def read(self) -> None:
        """Look what is there, when the page is looked at."""
        self._desk.backups.list(self._show, still=ALWAYS)  # the newest answer counts

    def _show(self, listed: BackupList) -> None:
        before = self._current()
        self._list = listed
        self.table.blockSignals(True)
        self.table.clear()
        for each in listed.backups:
            words = [_when(each.made_at), WHY.get(each.why, each.why), bytes_words(each.size_bytes)]
            item = QTreeWidgetItem(self.table, words)
            item.setData(0, _WHAT, each)
            item.setTextAlignment(2, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            if before is not None and each.path == before.path:
                self.table.setCurrentItem(item)
        self.table.blockSignals(False)
        first = self.table.topLevelItem(0)
        if first is not None and self.table.currentItem() is None:
            self.table.setCurrentItem(first)
        elif not listed.backups:
            self._look()
        self._tell()

    def _current(self) -> BackupFile | None:
        item = self.table.currentItem()
        found = item.data(0, _WHAT) if item is not None else None
        return found if isinstance(found, BackupFile) else None

    def _look(self) -> None:
        """Into the one that is chosen; it is checked meanwhile."""
        current = self._current()
        path = current.path if current is not None else ""
        self._asked, self._looked = path, None
        self._fill_chats()
        if path:
            self._desk.backups.look_into(path, self._show_inside, still=lambda: self._asked == path)

    def _show_inside(self, looked: BackupLooked) -> None:
        self._looked = looked
        self._fill_chats()

    def _fill_chats(self) -> None:
        looked, words = self._looked, self.field.text().casefold().split()
        self.chats.blockSignals(True)
        self.chats.clear()
        found = [
            chat
            for chat in (looked.chats if looked is not None else ())
            if all(word in chat.title.casefold() for word in words)
        ]
        self._n_found = len(found)
        for chat in found[:MOST_SHOWN]:
            title = " ".join(chat.title.split()) or "Chat"
            item = QTreeWidgetItem(
                self.chats, [title, f"{chat.n_messages:,}", _day(chat.updated_at)]
            )
            item.setData(0, _WHAT, chat)
            item.setToolTip(0, tip_text(title))
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.chats.blockSignals(False)
        self._tell()

    def _tell(self) -> None:
        """What stands there in words, and what can be done."""
        backups, current, looked = self._list.backups, self._current(), self._looked
        size = bytes_words(sum(each.size_bytes for each in backups))
        count = "1 backup" if len(backups) == 1 else f"{len(backups):,} backups"
        self.space_label.setText(f"{count}, {size}." if backups else "No backup yet.")
        words = _inside_words(current, looked)
        if self._n_found > MOST_SHOWN:
            words += f" The {MOST_SHOWN:,} newest are listed; type to find others."
        self.inside_label.setText(words)
        is_usable = looked is not None and not looked.why_not
        chosen = self._chosen()
        self.back_button.setEnabled(is_usable and bool(chosen))
        more = f" {len(chosen):,}" if len(chosen) > 1 else ""
        self.back_button.setText(f"Bring back{more} selected chat{'' if len(chosen) == 1 else 's'}")
        self.restore_button.setEnabled(is_usable)
        restores_at = self._list.restores_at
        self.pending_label.setVisible(restores_at is not None)
        self._pending.setVisible(restores_at is not None)
        if restores_at is not None:
            self.pending_label.setText(
                f"The backup of {_when(restores_at)} is restored when Cutaway starts next."
            )

    def _chosen(self) -> list[ChatInBackup]:
        found = (item.data(0, _WHAT) for item in self.chats.selectedItems())
        return [chat for chat in found if isinstance(chat, ChatInBackup)]

    # --- acts ---------------------------------------------------------------------------

    def _on_make_clicked(self) -> None:
        self.make_button.setEnabled(False)

        def done() -> None:
            self.make_button.setEnabled(True)
            self.read()

        self._desk.backups.make(done)

    def _on_back_clicked(self) -> None:
        current, chosen = self._current(), self._chosen()
        if current is not None and chosen:
            n_messages = sum(chat.n_messages for chat in chosen)
            self._desk.backups.bring_back(current.path, [chat.id for chat in chosen], n_messages)

    def _on_restore_clicked(self) -> None:
        current = self._current()
        if current is None:
            return
        box = QMessageBox(self)
        box.setObjectName("restore_dialog")
        box.setWindowTitle("Restore everything")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setText(f"Restore the backup of {_when(current.made_at)}?")
        box.setInformativeText(ALL_AGAIN)
        restore = box.addButton("Restore and restart", QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        restore.clicked.connect(lambda: self._restore(current.path))
        box.open()

    def _restore(self, path: str) -> None:
        def chosen() -> None:
            self.read()  # where the window stays open, it says what will happen
            self.restart_requested.emit()

        self._desk.backups.restore(path, chosen)

    def _on_keep_clicked(self) -> None:
        self._desk.backups.keep_as_is(self.read)


def _inside_words(current: BackupFile | None, looked: BackupLooked | None) -> str:
    if current is None:
        return "Choose a backup to look into it."
    when = _when(current.made_at)
    if looked is None:
        return f"Checking the backup of {when}…"
    if looked.why_not:
        return looked.why_not
    chats = "1 chat" if looked.n_chats == 1 else f"{looked.n_chats:,} chats"
    messages = "1 message" if looked.n_messages == 1 else f"{looked.n_messages:,} messages"
    return f"Backup of {when}: checked, {chats}, {messages}. Looking changes nothing in it."


def _when(time: datetime) -> str:
    return f"{here(time):%d %B %Y, %H:%M}".lstrip("0")


def _day(time: datetime) -> str:
    return f"{here(time):%d %b %Y}".lstrip("0")
