"""The list of conversations and folders: opens, renames, chooses several, moves by dragging.

Delete acts only while this list has the focus, and everything that it does can be undone.
Backspace never does anything here. Keys: arrows walk, with Shift they choose several; Space
chooses or leaves out one; Right and Left open and close folders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import (
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QFocusEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPixmap,
)
from PySide6.QtWidgets import QAbstractItemView, QListView, QMenu, QWidget

from ui.look.theme import Theme
from ui.sidebar.conversation_delegate import ConversationDelegate
from ui.sidebar.conversation_model import ID_ROLE, IS_OPEN_ROLE, ROW_ROLE, ConversationModel
from ui.sidebar.grouping import Row
from ui.widgets.kit import rest_timer

EXPAND_MS = 700
"""So long above a closed folder, something dragged opens it."""
_ADDING = (
    Qt.KeyboardModifier.ControlModifier
    | Qt.KeyboardModifier.ShiftModifier
    | Qt.KeyboardModifier.MetaModifier
)


class ConversationView(QListView):
    """Signals carry ids; `menu_requested` wants a menu filled for what is chosen."""

    open_requested = Signal(str)
    trash_requested = Signal(object)
    pin_requested = Signal(object, bool)
    move_requested = Signal(object, object)
    folder_move_requested = Signal(str, object)
    folder_delete_requested = Signal(str)
    undo_requested = Signal()
    chosen_changed = Signal(int)
    menu_requested = Signal(object)

    def __init__(
        self, theme: Theme, model: ConversationModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._list = model
        self._is_choosing = False
        self.setObjectName("conversation_list")
        self.setAccessibleName("Chats")
        self.setModel(model)
        self._delegate = ConversationDelegate(theme, self)
        self.setItemDelegate(self._delegate)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QListView.EditTrigger.EditKeyPressed)
        self.setSelectionMode(QListView.SelectionMode.ExtendedSelection)
        self.setTabKeyNavigation(False)
        self.setDragEnabled(True)
        self.setAcceptDrops(True)
        self.setDropIndicatorShown(False)
        self._expanding = rest_timer(self, self._expand_under_drag, EXPAND_MS)
        self.selectionModel().selectionChanged.connect(self._on_selection_changed)
        model.modelReset.connect(self._on_selection_changed)
        theme.changed.connect(self.scheduleDelayedItemsLayout)

    # --- what the keyboard stands on, and what is chosen --------------------------------

    def current_id(self) -> str:
        """The conversation that the keyboard stands on, or empty."""
        index = self.currentIndex()
        return str(index.data(ID_ROLE) or "") if index.isValid() else ""

    def current_row(self) -> Row | None:
        index = self.currentIndex()
        return index.data(ROW_ROLE) if index.isValid() else None

    def chosen_ids(self) -> tuple[str, ...]:
        """The conversations that an act is about: all that are selected, in the list's order;
        the one that the keyboard stands on where it is not among them."""
        indexes = sorted(self.selectedIndexes(), key=lambda index: index.row())
        ids = tuple(str(index.data(ID_ROLE)) for index in indexes if index.data(ID_ROLE))
        current = self.current_id()
        is_about_choice = current in ids or not current or self._is_choosing
        return ids if is_about_choice else (current,)

    @property
    def chooses_several(self) -> bool:
        return self._is_choosing or len(self.selectedIndexes()) > 1

    def choose_by_clicks(self) -> None:
        """From now on a click adds to the choice or takes away, and no key has to be held."""
        self._is_choosing = True
        self.setSelectionMode(QListView.SelectionMode.MultiSelection)
        self._on_selection_changed()

    def choose_only_current(self) -> None:
        """Leave the choice of several."""
        self._is_choosing = False
        self.setSelectionMode(QListView.SelectionMode.ExtendedSelection)
        index = self.currentIndex()
        select = QItemSelectionModel.SelectionFlag.ClearAndSelect
        if index.isValid():
            self.selectionModel().select(index, select)
        else:
            self.clearSelection()
        self._on_selection_changed()

    def go_to(self, index: QModelIndex) -> None:
        """The keyboard stands there, and nothing else is chosen.

        Qt's own `setCurrentIndex` looks at the keys that are held: in the middle of Ctrl+N it
        would add to the choice.
        """
        flag = QItemSelectionModel.SelectionFlag.ClearAndSelect
        self.selectionModel().setCurrentIndex(index, flag)
        if index.isValid():
            self.scrollTo(index)

    def follow_open(self, index: QModelIndex) -> None:
        """The keyboard follows the open chat; not while several are chosen, for an act would
        then be about another one than those."""
        if not self.chooses_several:
            self.go_to(index)

    def _on_selection_changed(self) -> None:
        several = self.chooses_several
        if several != self._delegate.shows_selection:
            self._delegate.shows_selection = several
            self.viewport().update()
        self.chosen_changed.emit(sum(1 for i in self.selectedIndexes() if i.data(ID_ROLE)))

    def rename_current(self) -> None:
        index = self.currentIndex()
        row = self.current_row()
        if row is not None and row.id:
            self.edit(index)

    # --- mouse --------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Qt would choose with the right button, too: that is left to the menu."""
        if event.button() != Qt.MouseButton.RightButton:
            super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A plain click opens; one that chooses several does not."""
        was_dragging = self.state() == QAbstractItemView.State.DraggingState
        super().mouseReleaseEvent(event)
        is_plain = event.button() == Qt.MouseButton.LeftButton and not (
            self._is_choosing or event.modifiers() & _ADDING
        )
        index = self.indexAt(event.position().toPoint())
        if is_plain and not was_dragging and index == self.currentIndex():
            self._activate(index)

    def _activate(self, index: QModelIndex) -> None:
        row = index.data(ROW_ROLE) if index.isValid() else None
        if row is None:
            return
        if row.kind == "folder":
            self._list.toggle(row.id)
        elif row.kind == "chat":
            self.open_requested.emit(row.id)

    # --- keyboard -----------------------------------------------------------------------

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if self.current_row() is None and not self._is_choosing:
            self._stand_somewhere()

    def _stand_somewhere(self) -> None:
        """Entering the list, the keyboard stands on the open conversation or the first one."""
        model = self.model()
        indexes = [model.index(row, 0) for row in range(model.rowCount())]
        rows = [index for index in indexes if index.data(ROW_ROLE).id]
        is_open = [index for index in rows if index.data(IS_OPEN_ROLE)]
        chats = [index for index in rows if index.data(ID_ROLE)]
        for index in (is_open or chats or rows)[:1]:
            self.go_to(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.state() == QAbstractItemView.State.EditingState:
            super().keyPressEvent(event)
            return
        key = event.key()
        if event.matches(QKeySequence.StandardKey.Undo):
            self.undo_requested.emit()
        elif key == Qt.Key.Key_Backspace:
            event.accept()
        elif key == Qt.Key.Key_Delete:
            self._delete_chosen(event.isAutoRepeat())
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._activate(self.currentIndex())
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and not event.modifiers() & _ADDING:
            self._step_in_folders(key == Qt.Key.Key_Right)
        elif key == Qt.Key.Key_Space:
            toggle = QItemSelectionModel.SelectionFlag.Toggle
            self.selectionModel().select(self.currentIndex(), toggle)
        elif key == Qt.Key.Key_Escape and self.chooses_several:
            self.choose_only_current()
        elif key == Qt.Key.Key_Menu:
            self._show_menu_at_current()
        else:
            super().keyPressEvent(event)

    def _delete_chosen(self, is_held: bool) -> None:
        """A key that is held down trashes once, not the whole list."""
        row = self.current_row()
        if is_held or row is None or not row.id:
            return
        if row.kind == "folder" and not self.chooses_several:
            self.folder_delete_requested.emit(row.id)
        elif self.chosen_ids():
            self.trash_requested.emit(self.chosen_ids())

    def _step_in_folders(self, is_right: bool) -> None:
        """Right opens a folder, then goes into it; Left closes it, or goes to the one around."""
        row = self.current_row()
        if row is None:
            return
        if row.kind == "folder" and row.is_expanded != is_right:
            self._list.toggle(row.id, is_right)
        elif is_right and row.kind == "folder":
            below = self._list.index(self.currentIndex().row() + 1)
            if below.isValid() and below.data(ROW_ROLE).depth > row.depth:
                self.go_to(below)
        elif not is_right and row.depth:
            around = self._list.folder_index(row.folder_id)
            if around.isValid():
                self.go_to(around)

    # --- context menu -------------------------------------------------------------------

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            self._show_menu_at_current()
            return
        index = self.indexAt(event.pos())
        if index.isValid() and not index.data(ROW_ROLE).id:
            index = QModelIndex()
        before = QPersistentModelIndex(self.currentIndex()), self.selectionModel().selection()
        if not index.isValid():
            # Not about the chat that the keyboard stands on somewhere else.
            self.choose_only_current()
            self.go_to(QModelIndex())
        elif self._is_choosing:
            self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.Select)
        elif not self.selectionModel().isSelected(index):
            self.go_to(index)
        else:
            keep = QItemSelectionModel.SelectionFlag.NoUpdate
            self.selectionModel().setCurrentIndex(index, keep)
        menu = self._show_menu(self.viewport().mapToGlobal(event.pos()))
        # What is chosen in the menu is done after it has gone.
        leave = partial(self._leave_menu, QPersistentModelIndex(index), *before)
        menu.aboutToHide.connect(lambda: QTimer.singleShot(0, self, leave))

    def _leave_menu(
        self, asked: QPersistentModelIndex, current: QPersistentModelIndex, kept: QItemSelection
    ) -> None:
        """The menu alone was about its row: what keys act on is what it was before, unless the
        menu has led to something else."""
        is_left = asked == self.currentIndex() and not asked.data(IS_OPEN_ROLE)
        is_busy = self._is_choosing or self.state() == QAbstractItemView.State.EditingState
        if not is_left or is_busy or not current.isValid():
            return
        flags = QItemSelectionModel.SelectionFlag
        self.selectionModel().select(kept, flags.ClearAndSelect)
        self.selectionModel().setCurrentIndex(current, flags.NoUpdate)

    def _show_menu_at_current(self) -> None:
        place = self.visualRect(self.currentIndex()).bottomLeft()
        self._show_menu(self.viewport().mapToGlobal(QPoint(place)))

    def _show_menu(self, place: QPoint) -> QMenu:
        menu = self.context_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(place)
        return menu

    def context_menu(self) -> QMenu:
        """What can be done with what is chosen; each entry shows its key."""
        menu = QMenu(self)
        menu.setObjectName("list_menu")
        self.menu_requested.emit(menu)
        return menu

    # --- drag and drop ------------------------------------------------------------------

    def startDrag(self, supported: Qt.DropAction) -> None:  # noqa: N802
        indexes = [index for index in self.selectedIndexes() if index.data(ROW_ROLE).id]
        if not indexes:
            return
        drag = QDrag(self)
        drag.setMimeData(self._list.mimeData(indexes))
        drag.setPixmap(self._label(indexes))
        drag.setHotSpot(QPoint(-self._theme.px(8), -self._theme.px(4)))
        drag.exec(Qt.DropAction.MoveAction)

    def _label(self, indexes: list[QModelIndex]) -> QPixmap:
        """What is seen under the pointer: the title, or how many there are."""
        px, colors = self._theme.px, self._theme.colors
        text = str(indexes[0].data()) if len(indexes) == 1 else f"{len(indexes)} selected"
        metrics = self.fontMetrics()
        text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, px(180))
        size = QSize(metrics.horizontalAdvance(text) + px(20), px(30))
        pixmap = QPixmap(size * self.devicePixelRatioF())
        pixmap.setDevicePixelRatio(self.devicePixelRatioF())
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(QColor(colors.card))
        painter.setPen(QColor(colors.accent))
        painter.drawRoundedRect(1, 1, size.width() - 2, size.height() - 2, px(8), px(8))
        painter.setPen(QColor(colors.ink))
        painter.setFont(self.font())
        painter.drawText(0, 0, size.width(), size.height(), Qt.AlignmentFlag.AlignCenter, text)
        painter.end()
        return pixmap

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        self._follow_drag(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        super().dragMoveEvent(event)  # scrolls at the edges
        self._follow_drag(event)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self._mark_drop(-1)

    def dropEvent(self, event: QDropEvent) -> None:
        act = self._dropped(event)
        self._mark_drop(-1)
        self.setState(QAbstractItemView.State.NoState)
        if act is None:
            event.ignore()
            return
        event.setDropAction(Qt.DropAction.MoveAction)
        event.accept()
        # When the drag is over: a list that changes under it would upset Qt.
        QTimer.singleShot(0, self, act)

    def _follow_drag(self, event: QDragMoveEvent) -> None:
        if self._dropped(event) is None:
            event.ignore()
            self._mark_drop(-1)
            return
        event.setDropAction(Qt.DropAction.MoveAction)
        event.accept()
        self._mark_drop(self._target_row(self.indexAt(event.position().toPoint())))

    def _dropped(self, event: QDropEvent) -> Callable[[], None] | None:
        """What letting go here would do; None: nothing."""
        dragged = self._list.dragged(event.mimeData())
        if dragged is None or self._list.is_archive:
            return None
        kind, folder_id = self._list.place_at(self.indexAt(event.position().toPoint()))
        chats, folders = dragged.chats, dragged.folders
        if kind == "pin":
            return (lambda: self.pin_requested.emit(chats, True)) if chats else None
        if folder_id in folders:
            return None

        def move() -> None:
            if chats:
                self.move_requested.emit(chats, folder_id or None)
            for each in folders:
                self.folder_move_requested.emit(each, folder_id or None)

        return move

    def _target_row(self, index: QModelIndex) -> int:
        """The row that is marked: the folder itself, also above one of its chats."""
        kind, folder_id = self._list.place_at(index)
        target = self._list.folder_index(folder_id)
        if target.isValid():
            return target.row()
        return index.row() if index.isValid() and kind == "pin" else -1

    def _mark_drop(self, row: int) -> None:
        if row == self._delegate.drop_row:
            return
        self._delegate.drop_row = row
        self.viewport().update()
        if row >= 0:
            self._expanding.start()
        else:
            self._expanding.stop()

    def _expand_under_drag(self) -> None:
        row = self._list.index(self._delegate.drop_row).data(ROW_ROLE)
        if row is not None and row.kind == "folder":
            self._list.toggle(row.id, True)
