"""What was thrown away, chats and parts of chats, and the way back. Built when first asked for.

Nothing here deletes for good without asking; what stays here too long goes at the next start,
and the words below the list say when.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QMessageBox,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import SettingsChanged, TrashedBranchesListed, TrashListed
from app.local_time import here
from models.records import Conversation, TrashedBranch
from ui.chat.plain_words import plain_words
from ui.look.theme import Theme
from ui.shell.window_toasts import WindowToasts
from ui.widgets.any_index import AnyIndex
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk


SIZE_PX = (480, 480)
_WHAT = Qt.ItemDataRole.UserRole
"""A `Conversation` or a `TrashedBranch`."""
_LEFT = Qt.ItemDataRole.UserRole + 1
"""How long it still stays, in words."""


class _LineDelegate(QStyledItemDelegate):
    """What it is left, how long it stays right."""

    def __init__(self, theme: Theme, view: QListWidget) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        whole, left = QStyleOptionViewItem(option), str(index.data(_LEFT) or "")
        self.initStyleOption(whole, index)
        text, whole.text = whole.text, ""
        item = QStyle.ControlElement.CE_ItemViewItem
        self._view.style().drawControl(item, whole, painter, self._view)
        colors, pad = self._theme.colors, self._theme.px(11)
        room = option.rect.adjusted(pad, 0, -pad, 0)
        middle, side = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag
        painter.save()
        painter.setFont(self._theme.font_small())
        painter.setPen(QColor(colors.dim))
        painter.drawText(room, middle | side.AlignRight, left)
        taken = painter.fontMetrics().horizontalAdvance(left) + pad if left else 0
        painter.setFont(whole.font)
        painter.setPen(QColor(colors.ink))
        shown = painter.fontMetrics().elidedText(
            text, Qt.TextElideMode.ElideRight, room.width() - taken
        )
        painter.drawText(room, middle | side.AlignLeft | Qt.TextFlag.TextSingleLine, shown)
        painter.restore()


class TrashWindow(WindowBeside):
    """The list answers `TrashListed` and `TrashedBranchesListed`; Return brings back what is
    chosen, Delete asks whether it shall go for good."""

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, "trash_window", "Trash", parent)
        self._desk = desk
        self._chats: tuple[Conversation, ...] = ()
        self._branches: tuple[TrashedBranch, ...] = ()
        self._words = plain_label("", self, "small", wraps=True)
        self.list = QListWidget(self)
        self.list.setObjectName("trash_list")
        self.list.setAccessibleName("Deleted chats and messages")
        self.list.setItemDelegate(_LineDelegate(theme, self.list))
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.restore_button = push_button(
            "Restore", self, "restore_button", kind="primary", spoken="Restore the selected items"
        )
        self.delete_button = push_button(
            "Delete permanently…",
            self,
            "delete_for_good_button",
            spoken="Permanently delete the selected chats",
        )
        self.empty_button = push_button(
            "Empty trash…",
            self,
            "empty_trash_button",
            spoken="Permanently delete all chats in the trash",
        )
        self._build()
        self._connect(bridge)
        self.toasts = WindowToasts(desk, bridge, theme, self)
        self.toasts.focus_released.connect(self.list.setFocus)
        theme.space(self._column, 12, margins=16)
        theme.space(self._row, 8)
        self._show()
        ZoomedSize(self, theme, SIZE_PX)

    def _build(self) -> None:
        self._row = QHBoxLayout()
        self._row.addWidget(self.restore_button)
        self._row.addWidget(self.delete_button)
        self._row.addStretch()
        self._row.addWidget(self.empty_button)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._words)
        self._column.addWidget(self.list, 1)
        self._column.addLayout(self._row)

    def _connect(self, bridge: Bridge) -> None:
        self.list.itemActivated.connect(lambda _: self._on_restore())
        self.list.itemSelectionChanged.connect(self._on_selection_changed)
        self.list.installEventFilter(self)
        self.restore_button.clicked.connect(self._on_restore)
        self.delete_button.clicked.connect(self._on_delete)
        self.empty_button.clicked.connect(self._on_empty)
        bridge.on(TrashListed, self._on_trash_listed)
        bridge.on(TrashedBranchesListed, self._on_branches_listed)
        bridge.on(SettingsChanged, self._on_settings_changed)

    def open(self) -> None:
        self._desk.shelf.list_trash()
        self._desk.tree.list_trashed()
        self.come_forward(self.list)

    # --- what is shown ------------------------------------------------------------------

    def _on_trash_listed(self, event: TrashListed) -> None:
        self._chats = event.conversations
        self._show()

    def _on_branches_listed(self, event: TrashedBranchesListed) -> None:
        self._branches = event.branches
        self._show()

    def _on_settings_changed(self, event: SettingsChanged) -> None:
        if "trash_days" in event.names:
            self._show()

    def _show(self) -> None:
        """Chats and messages together, the last thrown away first."""
        row = self.list.currentRow()
        was_pressed = self.restore_button.hasFocus() or self.delete_button.hasFocus()
        all_of_it: list[Conversation | TrashedBranch] = [*self._chats, *self._branches]
        everything = sorted(
            all_of_it,
            key=lambda what: what.trashed_at or datetime.min.replace(tzinfo=UTC),
            reverse=True,
        )
        self.list.clear()
        days = self._desk.settings.now.trash_days
        for what in everything:
            item = QListWidgetItem(_line(what), self.list)
            item.setData(_WHAT, what)
            item.setData(_LEFT, time_left(what.trashed_at, days, datetime.now(UTC)))
            item.setToolTip(self._hint(what))
        if everything:
            self.list.setCurrentRow(max(0, min(row, len(everything) - 1)))
        self._words.setText(self._sentence(bool(everything)))
        self.empty_button.setEnabled(bool(self._chats))
        self._on_selection_changed()
        if was_pressed:
            # Empty for a moment, the list disables them, and Qt's next choice empties the trash.
            self.list.setFocus(Qt.FocusReason.OtherFocusReason)

    def _sentence(self, has_some: bool) -> str:
        days = self._desk.settings.now.trash_days
        if not has_some:
            return "The trash is empty."
        if days == 0:
            return "Items stay here until you delete them permanently."
        time = "1 day" if days == 1 else f"{days:,} days"
        return f"Items are deleted permanently after {time}, at the next start."

    def _hint(self, what: Conversation | TrashedBranch) -> str:
        if what.trashed_at is None:
            return ""
        thrown = f"Deleted on {here(what.trashed_at):%Y-%m-%d %H:%M}"
        days = self._desk.settings.now.trash_days
        if days == 0:
            return thrown
        until = (what.trashed_at + timedelta(days=days)).astimezone()
        return f"{thrown}\nKept until {until:%Y-%m-%d}"

    # --- acts ---------------------------------------------------------------------------

    def _chosen(self) -> list[Conversation | TrashedBranch]:
        return [item.data(_WHAT) for item in self.list.selectedItems()]

    def _chosen_chats(self) -> tuple[str, ...]:
        return tuple(what.id for what in self._chosen() if isinstance(what, Conversation))

    def _on_selection_changed(self) -> None:
        self.restore_button.setEnabled(bool(self._chosen()))
        self.delete_button.setEnabled(bool(self._chosen_chats()))

    def _on_restore(self) -> None:
        chats = self._chosen_chats()
        if len(chats) == 1:
            self._desk.shelf.restore(chats[0])
        elif chats:
            self._desk.folders.restore(chats)
        for what in self._chosen():
            if isinstance(what, TrashedBranch):
                self._desk.tree.restore(what.id, what.conversation_id)

    def _on_delete(self) -> None:
        self._ask(self._chosen_chats())

    def _on_empty(self) -> None:
        self._ask(tuple(chat.id for chat in self._chats))

    def _ask(self, ids: tuple[str, ...]) -> None:
        """There is no way back from this one, so it is asked first, and Cancel is chosen."""
        if not ids:
            return
        titles = {chat.id: _line(chat) for chat in self._chats}
        one = f"Permanently delete “{titles.get(ids[0], 'this chat')}”?"
        box = QMessageBox(self)
        box.setObjectName("delete_for_good_dialog")
        box.setWindowTitle("Delete permanently")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setText(one if len(ids) == 1 else f"Permanently delete {len(ids):,} chats?")
        box.setInformativeText(
            "They can't be recovered. Backups still contain them."
            if len(ids) > 1
            else "It can't be recovered. Backups still contain it."
        )
        backups = QCheckBox("Also delete all backups, then make a new one", box)
        backups.setObjectName("delete_backups_box")
        box.setCheckBox(backups)
        delete = box.addButton("Delete", QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)

        def act() -> None:
            self._desk.folders.delete_for_good(ids)
            if backups.isChecked():
                self._desk.folders.delete_backups()

        delete.clicked.connect(act)
        box.open()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Delete asks; a key that is held down asks once."""
        if (
            watched is self.list
            and isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() == Qt.Key.Key_Delete
        ):
            if not event.isAutoRepeat():
                self._on_delete()
            return True
        return super().eventFilter(watched, event)


def time_left(trashed_at: datetime | None, days: int, now: datetime) -> str:
    """How long something still stays; empty for what stays for ever."""
    if trashed_at is None or days == 0:
        return ""
    left = math.ceil((trashed_at + timedelta(days=days) - now) / timedelta(days=1))
    if left <= 0:
        return "deleted at the next start"
    return "1 day left" if left == 1 else f"{left:,} days left"


def _line(what: Conversation | TrashedBranch) -> str:
    if isinstance(what, Conversation):
        return " ".join(what.title.split()) or "New chat"
    count = "a message" if what.n_messages == 1 else f"{what.n_messages:,} messages"
    excerpt = plain_words(" ".join(what.excerpt.split()))[0]
    return f"{' '.join(what.conversation_title.split())} · {count}: {excerpt}"
