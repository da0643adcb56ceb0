"""The left column as one widget. It asks by signals and shows what it is given."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QModelIndex, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from models.records import Conversation
from ui.icon_button import IconButton
from ui.keys import shown_key, with_key
from ui.sidebar.conversation_delegate import SCROLL_BAR_PX
from ui.sidebar.conversation_model import ID_ROLE, ConversationModel
from ui.sidebar.conversation_view import ConversationView
from ui.theme import Theme

NEW_CHAT_KEY = "Ctrl+N"
SEARCH_KEY = "Ctrl+F"
SETTINGS_KEY = "Ctrl+,"
SIDEBAR_KEY = "Ctrl+B"
WIDTH_PX = 236
SHORT_BELOW_PX = 300
REGROUP_MS = 5 * 60 * 1000
"""How often the headings look at the clock (“Today” ends at midnight)."""


class NewChatButton(QPushButton):
    """Its words left, its key right."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("new_chat_button")
        self.setAccessibleName("New chat")
        self.setAccessibleDescription(f"Key: {shown_key(NEW_CHAT_KEY)}")
        self._words = QLabel("New chat", self)
        self._key = QLabel(shown_key(NEW_CHAT_KEY), self)
        self._key.setProperty("kind", "dim")
        row = QHBoxLayout(self)
        for label in (self._words, self._key):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        row.addWidget(self._words)
        row.addStretch()
        row.addWidget(self._key)
        theme.changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        px = self._theme.px
        layout = self.layout()
        assert layout is not None
        layout.setContentsMargins(px(12), 0, px(12), 0)
        self.setFixedHeight(px(38))


class SearchField(QLineEdit):
    """Filters while typing; Down goes into the list, Escape empties the field, then leaves."""

    entered_list = Signal()
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("search_field")
        self.setAccessibleName("Search chats by title")
        self.setPlaceholderText("Search chats")
        self.setToolTip(with_key("Search chats by title", SEARCH_KEY))
        self.setClearButtonEnabled(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down:
            self.entered_list.emit()
        elif event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Escape with text in the field empties it, even while it would stop a reply."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
            and self.text()
        ):
            event.accept()
        return super().event(event)


class Sidebar(QWidget):
    """Signals: what the user wants. `open_requested`, `trash_requested` carry an id."""

    new_chat_requested = Signal()
    open_requested = Signal(str)
    rename_requested = Signal(str, str)
    trash_requested = Signal(str)
    undo_requested = Signal()
    trash_opened = Signal()
    settings_requested = Signal()
    hide_requested = Signal()
    search_left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("sidebar")
        self.setAccessibleName("Chats")
        self.setProperty("plane", "side")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._model = ConversationModel(self)
        self.new_chat_button = NewChatButton(theme, self)
        self.search_field = SearchField(self)
        self.view = ConversationView(theme, self._model, self)
        self._empty = QLabel(self)
        self._empty.setProperty("kind", "small")
        self._empty.setWordWrap(True)
        self.settings_button = IconButton(
            theme,
            "gear-six",
            "Settings",
            text="Settings",
            hint=with_key("Settings", SETTINGS_KEY),
            parent=self,
        )
        self.settings_button.setObjectName("settings_button")
        self.trash_button = IconButton(theme, "trash", "Trash", hint="Deleted chats", parent=self)
        self.trash_button.setObjectName("trash_button")
        self.hide_button = IconButton(
            theme,
            "caret-double-left",
            "Hide the chat list",
            hint=with_key("Hide the chat list", SIDEBAR_KEY),
            parent=self,
        )
        self.hide_button.setObjectName("hide_sidebar_button")
        self._build()
        self._connect()
        self._fit()

    def _build(self) -> None:
        self._name = QLabel("Cutaway", self)
        self._name.setProperty("kind", "title")
        self._top = QHBoxLayout()
        self._top.addWidget(self._name)
        self._top.addStretch()
        self._top.addWidget(self.hide_button)
        self._foot = QHBoxLayout()
        self._foot.addWidget(self.settings_button)
        self._foot.addStretch()
        self._foot.addWidget(self.trash_button)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._top)
        self._fields = QVBoxLayout()
        self._fields.addWidget(self.new_chat_button)
        self._fields.addWidget(self.search_field)
        self._column.addLayout(self._fields)
        self._column.addWidget(self._empty)
        self._column.addWidget(self.view, 1)
        self._column.addLayout(self._foot)

    def _connect(self) -> None:
        self.new_chat_button.clicked.connect(self.new_chat_requested)
        self.trash_button.clicked.connect(self.trash_opened)
        self.settings_button.clicked.connect(self.settings_requested)
        self.hide_button.clicked.connect(self.hide_requested)
        self.view.open_requested.connect(self.open_requested)
        self.view.trash_requested.connect(self.trash_requested)
        self.view.undo_requested.connect(self.undo_requested)
        self._model.rename_requested.connect(self.rename_requested)
        self.search_field.textChanged.connect(self._on_search_changed)
        self.search_field.returnPressed.connect(self._on_search_entered)
        self.search_field.entered_list.connect(self._on_list_entered)
        self.search_field.left.connect(self.search_left)
        self._theme.changed.connect(self._fit)
        self._clock = QTimer(self)
        self._clock.setInterval(REGROUP_MS)
        self._clock.timeout.connect(self._model.regroup)
        self._clock.start()

    def _fit(self) -> None:
        px = self._theme.px
        self._column.setSpacing(px(4))
        self._column.setContentsMargins(px(12), px(14), px(2), px(12))
        for layout in (self._top, self._fields, self._foot):
            layout.setContentsMargins(0, 0, px(SCROLL_BAR_PX), 0)
        self._top.setContentsMargins(px(8), 0, px(SCROLL_BAR_PX), px(6))
        self._fields.setSpacing(px(4))
        self._empty.setContentsMargins(px(8), px(12), px(8), 0)
        radius, colors = px(8), self._theme.colors
        # Without a box until it is used: the sketch's quiet line.
        self.search_field.setStyleSheet(
            "QLineEdit {"
            f" background: transparent; border: 1px solid transparent; border-radius: {radius}px;"
            f" placeholder-text-color: {colors.dim};"
            f" padding: {px(7)}px {px(9)}px; }}"
            f"QLineEdit:hover {{ background: {colors.hover}; }}"
            f"QLineEdit:focus {{ background: {colors.card}; border-color: {colors.accent}; }}"
        )
        self.setMinimumWidth(px(150))
        self.view.setMinimumHeight(1)
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Where height is short (a high zoom), the list gets the first row's place."""
        is_short = self.height() < self._theme.px(SHORT_BELOW_PX)
        if is_short == self._name.isHidden():
            return
        self._name.setVisible(not is_short)
        if is_short:
            self._foot.insertWidget(1, self.hide_button)
        else:
            self._top.addWidget(self.hide_button)

    # --- what is shown ------------------------------------------------------------------

    def set_conversations(self, conversations: Sequence[Conversation]) -> None:
        self._model.set_conversations(conversations)
        self._tell_if_empty()

    def change_conversation(self, conversation: Conversation) -> None:
        self._model.change_conversation(conversation)

    def set_open(self, conversation_id: str) -> None:
        self._model.set_open(conversation_id)
        index = self._model.index_of(conversation_id)
        if index.isValid():
            self.view.setCurrentIndex(index)
            self.view.scrollTo(index)

    def rename(self, conversation_id: str) -> None:
        """Begin to rename the one that the list's keyboard stands on, or the given one."""
        if not (self.view.hasFocus() and self.view.current_id()):
            index = self._model.index_of(conversation_id)
            if not index.isValid():
                self.search_field.clear()
                index = self._model.index_of(conversation_id)
            self.view.setCurrentIndex(index)
        self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.view.rename_current()

    def search(self) -> None:
        self.search_field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search_field.selectAll()

    def _tell_if_empty(self) -> None:
        needle = self.search_field.text().strip()
        is_empty = self._model.count() == 0
        self._empty.setVisible(is_empty)
        self._empty.setText(
            f"No chat has “{needle}” in its title." if needle else "Your chats will stand here."
        )

    # --- search -------------------------------------------------------------------------

    def _on_search_changed(self, text: str) -> None:
        self._model.set_filter(text)
        self._tell_if_empty()

    def _first(self) -> QModelIndex:
        indexes = (self._model.index(row) for row in range(self._model.rowCount()))
        return next((index for index in indexes if index.data(ID_ROLE)), QModelIndex())

    def _on_search_entered(self) -> None:
        first = self._first()
        if first.isValid() and self.search_field.text().strip():
            self.open_requested.emit(str(first.data(ID_ROLE)))

    def _on_list_entered(self) -> None:
        first = self._first()
        if first.isValid():
            self.view.setCurrentIndex(first)
            self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)
