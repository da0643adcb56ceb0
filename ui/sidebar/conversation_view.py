"""The list of conversations: opens, renames and trashes by mouse and keyboard.

Delete acts only while this list has the focus. Backspace never does anything here.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QContextMenuEvent, QFocusEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QListView, QMenu, QWidget

from ui.sidebar.conversation_delegate import ConversationDelegate
from ui.sidebar.conversation_model import ID_ROLE, IS_OPEN_ROLE, ConversationModel
from ui.theme import Theme


class ConversationView(QListView):
    open_requested = Signal(str)
    trash_requested = Signal(str)
    undo_requested = Signal()

    def __init__(
        self, theme: Theme, model: ConversationModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("conversation_list")
        self.setAccessibleName("Conversations")
        self.setModel(model)
        self._delegate = ConversationDelegate(theme, self)
        self.setItemDelegate(self._delegate)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QListView.EditTrigger.EditKeyPressed)
        self.setTabKeyNavigation(False)
        self.clicked.connect(self._on_chosen)
        theme.changed.connect(self.scheduleDelayedItemsLayout)

    def current_id(self) -> str:
        """The conversation that the keyboard stands on, or empty."""
        index = self.currentIndex()
        return str(index.data(ID_ROLE) or "") if index.isValid() else ""

    def rename_current(self) -> None:
        index = self.currentIndex()
        if index.isValid() and self.current_id():
            self.edit(index)

    def _on_chosen(self, index: QModelIndex) -> None:
        conversation_id = str(index.data(ID_ROLE) or "")
        if conversation_id:
            self.open_requested.emit(conversation_id)

    # --- keyboard -----------------------------------------------------------------------

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if not self.current_id():
            self._stand_somewhere()

    def _stand_somewhere(self) -> None:
        """Entering the list, the keyboard stands on the open conversation or the first one."""
        model = self.model()
        indexes = [model.index(row, 0) for row in range(model.rowCount())]
        chats = [index for index in indexes if index.data(ID_ROLE)]
        is_open = [index for index in chats if index.data(IS_OPEN_ROLE)]
        for index in (is_open or chats)[:1]:
            self.setCurrentIndex(index)

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
            self._trash_current(event.isAutoRepeat())
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._on_chosen(self.currentIndex())
        else:
            super().keyPressEvent(event)

    def _trash_current(self, is_held: bool) -> None:
        """A key that is held down trashes one conversation, not the whole list."""
        conversation_id = self.current_id()
        if conversation_id and not is_held:
            self.trash_requested.emit(conversation_id)

    # --- context menu -------------------------------------------------------------------

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if not index.isValid() or not index.data(ID_ROLE):
            return
        self.setCurrentIndex(index)
        place = self.visualRect(index).bottomLeft() if by_key else event.pos()
        menu = self.context_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.viewport().mapToGlobal(QPoint(place)))

    def context_menu(self) -> QMenu:
        """What can be done with the current conversation; each entry shows its key."""
        menu = QMenu(self)
        conversation_id = self.current_id()
        self._add(menu, "Open", "Return", lambda: self.open_requested.emit(conversation_id))
        self._add(menu, "Rename", "F2", self.rename_current)
        menu.addSeparator()
        self._add(menu, "Move to trash", "Del", lambda: self.trash_requested.emit(conversation_id))
        return menu

    @staticmethod
    def _add(menu: QMenu, text: str, key: str, act: object) -> None:
        # The key is shown, not bound: the list itself listens for it.
        action = QAction(
            f"{text}\t{QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)}", menu
        )
        action.triggered.connect(act)
        menu.addAction(action)
