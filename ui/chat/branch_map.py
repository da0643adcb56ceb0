"""The map of a conversation: all its branches, where you are, a way to each, and pruning.

It stays open beside the chat. What must hold: whatever the mouse does here the keyboard does
too (arrows, Enter goes there, Delete prunes), and a deleted branch can be brought back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QIcon, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QTreeView,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import (
    ConversationOpened,
    MessageAdded,
    MessageChanged,
    TrashedBranchesListed,
    TreeRead,
)
from models.records import MessageState, Role, TreeNode
from ui.chat.branch_map_rows import Line, lines_of
from ui.chat.plain_words import plain_words
from ui.look.icons import icon
from ui.widgets.check_box import CheckBox
from ui.widgets.elided import tip_text
from ui.widgets.kit import plain_label, push_button
from ui.widgets.zoomed_size import ZoomedSize

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.look.theme import Theme

NODE = Qt.ItemDataRole.UserRole
FOLDED = Qt.ItemDataRole.UserRole + 1
SPOKEN = Qt.ItemDataRole.AccessibleTextRole
SIZE = (460, 560)
OPEN_LINES = 400
"""A map with more lines opens folded, but for the path."""
HERE = "you are here"
_SPEAKERS = {
    Role.USER: "You",
    Role.ASSISTANT: "Reply",
    Role.SYSTEM: "System",
    Role.TOOL: "Tool",
}
_ICONS = {Role.USER: "user", Role.ASSISTANT: "chat-circle-text"}


class _Tree(QTreeWidget):
    """Enter and Delete act on the line that the keyboard is on."""

    prune_requested = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Delete:
            self.prune_requested.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if (item := self.currentItem()) is not None:
                self.itemActivated.emit(item, 0)
        else:
            super().keyPressEvent(event)


class BranchMap(QDialog):
    """`chosen` names the message that is to be shown."""

    chosen = Signal(str)

    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._nodes: tuple[TreeNode, ...] = ()
        self._path: tuple[str, ...] = ()
        self._items: dict[str, QTreeWidgetItem] = {}
        self.setObjectName("branch_map")
        self.setWindowTitle("Branch map")
        self.setModal(False)
        self.tree = _Tree(self)
        self.tree.setObjectName("branch_tree")
        self.tree.setAccessibleName("Branches of this chat")
        self.tree.setHeaderHidden(True)
        self.tree.setColumnCount(2)
        self.tree.setSelectionBehavior(QTreeWidget.SelectionBehavior.SelectRows)
        # The chosen line is where the keyboard is. Qt would draw a second frame into it.
        self.tree.setAllColumnsShowFocus(False)
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(0)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.tree.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.tree.setUniformRowHeights(True)
        self.tree.setExpandsOnDoubleClick(False)
        self.tree.itemClicked.connect(self._go)
        self.tree.itemActivated.connect(self._go)
        self.tree.itemExpanded.connect(self._unfold)
        self.tree.currentItemChanged.connect(self._look_what_can_be_done)
        self.tree.prune_requested.connect(self.prune)
        self.summary = plain_label("", self, "small", wraps=True)
        self.deleted = CheckBox(theme, "Show deleted", self)
        self.deleted.setObjectName("branch_map_deleted")
        self.deleted.toggled.connect(lambda _: self._fill())
        self.prune_button = push_button(
            "Delete branch", self, "prune_button", spoken="Delete branch", act=self.prune
        )
        self.restore_button = push_button(
            "Restore", self, "restore_branch_button", spoken="Restore", act=self.restore
        )
        for button in (self.prune_button, self.restore_button):  # Return in the tree goes there
            button.setAutoDefault(False)
        self._arrange()
        QShortcut(QKeySequence("Ctrl+W"), self, self.close)
        bridge.on(TreeRead, self._on_tree_read)
        bridge.on(
            (MessageAdded, MessageChanged, ConversationOpened, TrashedBranchesListed),
            self._on_changed,
        )
        theme.changed.connect(self._fill)

    def open_map(self) -> None:
        """Show it beside the chat, with the keyboard where you are."""
        if not self.isVisible():
            self._stand_beside()
        self.show()
        self.raise_()
        self.activateWindow()
        self.tree.setFocus()
        self._desk.tree.read_tree()

    def prune(self) -> None:
        """The branch that begins with this line goes to the trash."""
        node = self._current()
        if node is not None and node.trashed_at is None:
            self._desk.tree.prune(node.id)

    def restore(self) -> None:
        node = self._current()
        if node is not None and node.trashed_at is not None:
            self._desk.tree.restore(node.id, self._desk.shelf.open.id)

    def item(self, message_id: str) -> QTreeWidgetItem | None:
        return self._items.get(message_id)

    # --- filling --------------------------------------------------------------------------------

    def _on_changed(self, _event: object) -> None:
        if self.isVisible() and not self._desk.replies.is_generating:
            self._desk.tree.read_tree()

    def _on_tree_read(self, event: TreeRead) -> None:
        if event.conversation_id == self._desk.shelf.open.id and self.isVisible():
            self._nodes, self._path = event.nodes, event.path_ids
            self._fill()

    def _fill(self) -> None:
        kept = self._current()
        scrolled = self.tree.verticalScrollBar().value()
        leaf_id = self._path[-1] if self._path else None
        lines = lines_of(self._nodes, leaf_id, with_deleted=self.deleted.isChecked())
        count = sum(1 for line in lines for each in line.walk() if each.node is not None)
        self._items.clear()
        self.tree.clear()
        on_path = frozenset(self._path)
        self.tree.addTopLevelItems([self._made(line, on_path, leaf_id) for line in lines])
        _span(self._all_items())
        if count <= OPEN_LINES:
            self._open_all()
        else:
            self._open_path()
        wanted = kept.id if kept is not None and kept.id in self._items else leaf_id
        if wanted in self._items:
            self.tree.setCurrentItem(self._items[wanted])
            if kept is not None:
                self.tree.verticalScrollBar().setValue(scrolled)
            self.tree.scrollToItem(self._items[wanted])
        self._say_summary(lines)
        self._look_what_can_be_done()

    def _made(self, line: Line, on_path: frozenset[str], leaf_id: str | None) -> QTreeWidgetItem:
        """An item with everything inside of its line."""
        made: list[tuple[Line, QTreeWidgetItem]] = [(line, self._item_of(line, on_path, leaf_id))]
        top = made[0][1]
        while made:
            each, item = made.pop()
            for inner in each.inside if each.node is not None else ():
                child = self._item_of(inner, on_path, leaf_id)
                item.addChild(child)
                made.append((inner, child))
        return top

    def _item_of(self, line: Line, on_path: frozenset[str], leaf_id: str | None) -> QTreeWidgetItem:
        item = QTreeWidgetItem()
        colors, node = self._theme.colors, line.node
        if node is None:
            item.setText(0, f"… {len(line.inside):,} messages")
            item.setForeground(0, QBrush(QColor(colors.dim)))
            item.setData(0, FOLDED, line)
            item.setChildIndicatorPolicy(QTreeWidgetItem.ChildIndicatorPolicy.ShowIndicator)
            return item
        words = plain_words(" ".join(node.excerpt.split()))[0] or "(no text)"
        speaker = "Summary" if node.is_summary else _SPEAKERS[node.role]
        extra = [f"{line.version} of {line.versions}"] if line.versions else []
        extra += [HERE] * (node.id == leaf_id) + ["deleted"] * (node.trashed_at is not None)
        if node.state in (MessageState.FAILED, MessageState.INTERRUPTED):
            extra.append(node.state.value)
        marks = " · ".join(extra)
        item.setText(0, f"{speaker}: {words[:120]}")
        item.setText(1, marks)
        item.setToolTip(0, tip_text(node.excerpt))
        item.setData(0, SPOKEN, f"{speaker}: {words}. {marks}")
        item.setData(0, NODE, node)
        is_here = node.id in on_path
        shade = colors.ink if is_here else colors.dim
        if node.id == leaf_id:
            shade = colors.accent
        font = self._theme.font_text()
        font.setBold(is_here)
        font.setStrikeOut(node.trashed_at is not None)
        item.setFont(0, font)
        item.setForeground(0, QBrush(QColor(shade)))
        item.setFont(1, self._theme.font_small())
        item.setForeground(1, QBrush(QColor(colors.accent if node.id == leaf_id else colors.dim)))
        item.setIcon(0, _icon(_ICONS.get(node.role, "note"), shade))
        self._items[node.id] = item
        return item

    def _open_all(self) -> None:
        """Everything but the folded runs."""
        for item in self._all_items():
            item.setExpanded(item.data(0, NODE) is not None)

    def _all_items(self) -> list[QTreeWidgetItem]:
        todo = [self.tree.topLevelItem(i) for i in range(self.tree.topLevelItemCount())]
        found: list[QTreeWidgetItem] = []
        while todo:
            item = todo.pop()
            if item is None:
                continue
            found.append(item)
            todo += [item.child(i) for i in range(item.childCount())]
        return found

    def _unfold(self, item: QTreeWidgetItem) -> None:
        """The lines of a folded run are made when somebody looks."""
        line = item.data(0, FOLDED)
        if isinstance(line, Line) and not item.childCount():
            on_path = frozenset(self._path)
            inner = [self._item_of(each, on_path, None) for each in line.inside]
            item.addChildren(inner)
            _span(inner)

    def _open_path(self) -> None:
        for message_id in self._path:
            if message_id in self._items:
                self._items[message_id].setExpanded(True)

    def _say_summary(self, lines: list[Line]) -> None:
        there = [node for node in self._nodes if node.trashed_at is None]
        parents = {node.parent_id for node in there}
        ends = sum(1 for node in there if node.id not in parents)
        messages = "1 message" if len(there) == 1 else f"{len(there):,} messages"
        branches = "1 branch" if ends == 1 else f"{ends:,} branches"
        self.summary.setText(
            f"{messages}, {branches} · Enter to open, Delete to remove a branch"
            if lines
            else "No messages yet."
        )

    # --- acts -----------------------------------------------------------------------------------

    def _current(self) -> TreeNode | None:
        item = self.tree.currentItem()
        node = item.data(0, NODE) if item is not None else None
        return node if isinstance(node, TreeNode) else None

    def _go(self, item: QTreeWidgetItem, _column: int = 0) -> None:
        node = item.data(0, NODE)
        if node is None:
            item.setExpanded(not item.isExpanded())
        elif node.trashed_at is None:
            self.chosen.emit(node.id)

    def _look_what_can_be_done(self, *_: object) -> None:
        node = self._current()
        self.prune_button.setEnabled(node is not None and node.trashed_at is None)
        self.restore_button.setEnabled(node is not None and node.trashed_at is not None)
        self.restore_button.setVisible(self.deleted.isChecked())

    # --- looks ----------------------------------------------------------------------------------

    def _arrange(self) -> None:
        self._foot = QHBoxLayout()
        self._foot.addWidget(self.deleted)
        self._foot.addStretch(1)
        self._foot.addWidget(self.restore_button)
        self._foot.addWidget(self.prune_button)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self.summary)
        self._column.addWidget(self.tree, 1)
        self._column.addLayout(self._foot)
        self._theme.space(self._foot, 8)
        self._theme.space(self._column, 12, margins=16)
        self._theme.keep(self.tree, QTreeView.setIndentation, 18)
        self._theme.keep(self.tree, _set_icon_side, 16)
        self._theme.sheet(self.tree, _tree_sheet)
        ZoomedSize(self, self._theme, SIZE)

    def _stand_beside(self) -> None:
        """At the right edge of the window, below its header, so that the text is not hidden."""
        window = self.parentWidget()
        if window is None:
            return
        corner = window.mapToGlobal(QPoint(window.width(), 0))
        margin = self._theme.px(16)
        self.move(corner.x() - self.width() - margin, corner.y() + self._theme.px(64))


def _set_icon_side(tree: QTreeWidget, side: int) -> None:
    tree.setIconSize(QSize(side, side))


def _tree_sheet(theme: Theme) -> str:
    """One even tone from edge to edge, also left of a line that stands inside of another."""
    px, tone = theme.px, theme.colors.accent_tone
    return (
        f"QTreeView::item {{ border: none; border-radius: 0; padding: {px(6)}px {px(4)}px; }}"
        f"QTreeView::item:selected, QTreeView::branch:selected {{ background: {tone}; }}"
    )


def _span(items: list[QTreeWidgetItem]) -> None:
    """A line without marks has the room of their column too."""
    for item in items:
        item.setFirstColumnSpanned(not item.text(1))


@lru_cache(maxsize=32)
def _icon(name: str, color: str) -> QIcon:
    return icon(name, color)
