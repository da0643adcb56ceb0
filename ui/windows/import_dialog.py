"""What an import would bring, before anything is changed: each chat, what happens to it, whether it
is wanted; and what does not come, counted and by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QScrollArea,
    QTableView,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import ChatLooked, ImportPreviewed, LeftOut
from app.local_time import here
from models.records import Whereabouts
from ui.look.theme import Theme
from ui.shell.dialogs import space_buttons
from ui.widgets.check_box import CheckBox
from ui.widgets.elided import tip_text
from ui.widgets.kit import plain_label, push_button
from ui.widgets.ticks import TickDelegate
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.import_rows import DATE, MESSAGES, RESULT, TITLE, ImportRows

SIZE_PX: Final = (600, 520)
ROW_PX: Final = 30
LIST_PX: Final = 90
LEFT_OUT_PX: Final = 70
NARROW_PX: Final = 440
FILTERED_FROM: Final = 10
"""So many chats are worth a field to find one in."""
MOST_REFUSALS: Final = 5


class ImportTable(QTableView):
    """The rows. Space ticks all that are selected; where it is narrow, titles matter more than
    dates. A tree view would ask every row for its flags, which takes seconds for many."""

    def __init__(self, theme: Theme, rows: ImportRows, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows = rows
        self.setObjectName("import_list")
        self.setAccessibleName("Chats to import")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setItemDelegate(TickDelegate(theme, self))
        self.setModel(rows)
        rows.setParent(self)
        self.verticalHeader().hide()
        theme.keep(self.verticalHeader(), QHeaderView.setDefaultSectionSize, ROW_PX)
        theme.keep(self, QTableView.setMinimumHeight, LIST_PX)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)  # in the file's order, at first
        self.setSortingEnabled(True)
        header.setResizeContentsPrecision(20)
        header.setSectionResizeMode(TITLE, QHeaderView.ResizeMode.Stretch)
        for column in range(MESSAGES, RESULT + 1):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)

    def sizeHint(self) -> QSize:
        """No more than it needs at least, so that a dialog of the usual size shows all."""
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setColumnHidden(DATE, self.width() < self._theme.px(NARROW_PX))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() != Qt.Key.Key_Space:
            super().keyPressEvent(event)
            return
        chosen = self.selectionModel().selectedRows(TITLE)
        role = Qt.ItemDataRole.CheckStateRole
        is_on = any(Qt.CheckState(i.data(role)) is Qt.CheckState.Unchecked for i in chosen)
        for index in chosen:
            self._rows.setData(index, _STATES[is_on], role)


class LeftOutTree(QTreeWidget):
    """Kinds of things that do not come, with their numbers; below each, the chats that had them."""

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.minimumHeight())


class ImportDialog(QDialog):
    """`accepted` is called with the ids of the chats that are wanted (None: all) and adds what is
    new of them; `rejected` forgets it."""

    def __init__(
        self,
        theme: Theme,
        preview: ImportPreviewed,
        accepted: Callable[[frozenset[str] | None], object],
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
        self._theme = theme
        self._preview = preview
        self.rows = ImportRows(preview.chats)
        counts = Counter(chat.whereabouts for chat in preview.chats)
        n_new = counts.total() - counts[Whereabouts.THERE]
        inside = QWidget(self)  # where the window is low, all of it is scrolled
        self._column = QVBoxLayout(inside)
        theme.space(self._column, 10, margins=(20, 20, 20, 4))
        self.summary = self._label(_summary(preview.chats), "title")
        self.summary.setObjectName("import_summary")
        for app, chats in _by_app(preview.chats).items():
            self._label(_of_app(app, chats), "small")
        if n_new and any(counts[each] for each in (Whereabouts.OTHER, Whereabouts.MORE)):
            self._label("Your own chats aren't changed.", "small")
        self._add_finding()
        self.list = ImportTable(theme, self.rows, self)
        self._column.addWidget(self.list, 3)
        self.list.setVisible(bool(preview.chats))
        for sentence in preview.refusals[:MOST_REFUSALS]:
            self._label(sentence, "error")
        if (n_more := len(preview.refusals) - MOST_REFUSALS) > 0:
            self._label(f"… and {n_more:,} more files with nothing to import.", "error")
        self.left_out = self._add_left_out(preview.left_out)
        area = QScrollArea(self)
        area.setWidget(inside)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        inside.setAutoFillBackground(False)
        area.viewport().setAutoFillBackground(False)
        buttons = QDialogButtonBox(self)
        self.import_button = push_button("", self, "import_button", kind="primary")
        buttons.addButton(self.import_button, QDialogButtonBox.ButtonRole.AcceptRole)
        self.import_button.setVisible(n_new > 0)
        standard = QDialogButtonBox.StandardButton
        last = buttons.addButton(standard.Cancel if n_new else standard.Close)
        (self.import_button if n_new else last).setDefault(True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        below = QVBoxLayout()
        below.addWidget(buttons)
        whole = QVBoxLayout(self)
        whole.addWidget(area, 1)
        whole.addLayout(below)
        theme.space(whole, 0, margins=0)
        theme.space(below, 0, margins=(20, 8, 20, 20))
        self._wanted = accepted
        self.accepted.connect(self._on_accepted)
        self.rejected.connect(rejected)
        self.rows.ticked.connect(self._show_ticked)
        theme.at_least(self, 380)
        space_buttons(theme, buttons)
        if preview.chats or preview.left_out:
            ZoomedSize(self, theme, SIZE_PX)
        self._show_ticked()
        (self.import_button if n_new else last).setFocus()

    def _on_accepted(self) -> None:
        self._wanted(self.rows.chosen)

    def _on_all(self) -> None:
        self.rows.tick_shown(self.rows.state is not Qt.CheckState.Checked)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(_as_text(self._preview))

    def _label(self, words: str, kind: str) -> QLabel:
        label = plain_label(words, self, kind, wraps=True)
        self._column.addWidget(label)
        return label

    # --- the chats ------------------------------------------------------------------------------

    def _add_finding(self) -> None:
        self.all = CheckBox(self._theme, "Select all", self)
        self.all.setObjectName("import_all")
        self.all.setTristate(True)
        self.all.clicked.connect(self._on_all)
        self.field = QLineEdit(self)
        self.field.setObjectName("import_filter")
        self.field.setPlaceholderText("Filter by title")
        self.field.setAccessibleName("Filter by title")
        self.field.setClearButtonEnabled(True)
        self.field.textChanged.connect(self.rows.narrow)
        self.field.setVisible(len(self._preview.chats) >= FILTERED_FROM)
        n_free = sum(chat.whereabouts is not Whereabouts.THERE for chat in self._preview.chats)
        self.all.setVisible(n_free > 0 and len(self._preview.chats) > 1)
        row = QHBoxLayout()
        row.addWidget(self.all)
        row.addStretch(1)
        row.addWidget(self.field, 2)
        self._column.addLayout(row)

    def _show_ticked(self) -> None:
        self.import_button.setText(f"Import {_things(*self.rows.n_ticked)}".strip())
        self.import_button.setEnabled(any(self.rows.n_ticked))
        self.all.setCheckState(self.rows.state)

    # --- what does not come ---------------------------------------------------------------------

    def _add_left_out(self, left_out: Sequence[LeftOut]) -> QTreeWidget:
        head = QHBoxLayout()
        title = plain_label("Not imported", self, "strong", name="import_left_out_title")
        self.copy_button = push_button(
            "Copy list",
            self,
            "copy_left_out_button",
            spoken="Copy the list of what isn't imported",
            act=self._copy,
        )
        head.addWidget(title)
        head.addStretch(1)
        head.addWidget(self.copy_button)
        self._column.addLayout(head)
        tree = LeftOutTree(self)
        tree.setObjectName("import_left_out")
        tree.setAccessibleName("What isn't imported")
        tree.setHeaderHidden(True)
        tree.setColumnCount(2)
        tree.header().setStretchLastSection(False)
        tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        tree.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        for each in left_out:
            item = QTreeWidgetItem(tree, [each.what, f"{each.count:,}"])
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight)
            item.setToolTip(0, tip_text(f"{each.what}\n{each.app}".strip()))
            for where in each.where:
                QTreeWidgetItem(item, [where])
        self._theme.keep(tree, QTreeWidget.setMinimumHeight, LEFT_OUT_PX)
        self._column.addWidget(tree, 1)
        for widget in (title, self.copy_button, tree):
            widget.setVisible(bool(left_out))
        return tree


_STATES: Final = (Qt.CheckState.Unchecked, Qt.CheckState.Checked)


def _by_app(chats: Sequence[ChatLooked]) -> dict[str, list[ChatLooked]]:
    """Of other apps alone."""
    found: dict[str, list[ChatLooked]] = {}
    for chat in chats:
        if chat.app:
            found.setdefault(chat.app, []).append(chat)
    return found


def _of_app(app: str, chats: Sequence[ChatLooked]) -> str:
    """“ChatGPT: 2 chats, 31 messages, 2023-01-02 to 2026-11-12”."""
    n_messages = sum(chat.n_messages for chat in chats)
    messages = "1 message" if n_messages == 1 else f"{n_messages:,} messages"
    first, last = min(map(_began, chats)), max(chat.updated_at for chat in chats)
    days = [f"{here(time):%Y-%m-%d}" for time in (first, last)]
    when = days[0] if days[0] == days[1] else " to ".join(days)
    return f"{app}: {_chats(len(chats))}, {messages}, {when}"


def _began(chat: ChatLooked) -> datetime:
    return chat.created_at or chat.updated_at


def _as_text(preview: ImportPreviewed) -> str:
    lines: list[str] = list(preview.refusals)
    for each in preview.left_out:
        app = f"{each.app}: " if each.app else ""
        lines.append(f"{app}{each.what} ({each.count:,})")
        lines += [f"    {where}" for where in each.where]
    return "\n".join(lines)


def _summary(chats: Sequence[ChatLooked]) -> str:
    n_presets = sum(chat.is_preset for chat in chats)
    what = _things(len(chats) - n_presets, n_presets)
    if not what:
        return "Nothing to import."
    there = sum(chat.whereabouts is Whereabouts.THERE for chat in chats)
    if there == len(chats):
        return f"{what}, already here. Nothing to import."
    return f"{what}, {there:,} of them already here" if there else what


def _things(n_chats: int, n_presets: int) -> str:
    chats = _chats(n_chats) if n_chats else ""
    presets = "" if not n_presets else "1 preset" if n_presets == 1 else f"{n_presets:,} presets"
    return " and ".join(filter(None, (chats, presets)))


def _chats(count: int) -> str:
    return "1 chat" if count == 1 else f"{count:,} chats"
