"""The field that searches, and its menu of filters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QLineEdit, QMenu, QWidget

from app.chat.conversations.searching import with_filter
from app.chat.conversations.tagging import KnownTag, most_used
from models.records import Folder
from ui.look.theme import Theme
from ui.shell.keys import with_key
from ui.sidebar.grouping import tree_of
from ui.widgets.hovering import let_go_after
from ui.widgets.icon_button import SIDE_PX, IconButton

SEARCH_KEY = "Ctrl+Shift+F"
MOST_TAGS = 100
"""In the menu of filters; any other can be typed."""
HINT = (
    "Search titles, messages and reasoning.\n"
    "“exact words” · in:title · role:user · has:reasoning\n"
    "before:2026-05-31 · after:2026-05 · folder:name · file:name · #tag"
)


class SearchField(QLineEdit):
    """Down goes into what was found, Escape empties the field, then leaves."""

    entered_list = Signal()
    left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("search_field")
        self.setAccessibleName("Search chats")
        self.setAccessibleDescription(HINT)
        self.setPlaceholderText("Search chats")
        self.setToolTip(with_key(HINT, SEARCH_KEY))
        # Qt's own button is of another family than the icons around it, and keeps its size.
        self.clear_button = IconButton(theme, "x", "Clear search", parent=self)
        self.clear_button.setObjectName("clear_search_button")
        self.clear_button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.clear_button.setCursor(Qt.CursorShape.ArrowCursor)
        self.clear_button.clicked.connect(self.clear)
        self.textChanged.connect(self._fit)
        theme.changed.connect(self._fit)
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        button = self.clear_button
        button.setVisible(bool(self.text()))
        button.move(self.width() - button.width(), (self.height() - button.height()) // 2)
        self.setTextMargins(0, 0, self._theme.px(SIDE_PX) if self.text() else 0, 0)

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

    def add_filter(self, wanted: str) -> None:
        """Put a filter before what is typed; one that lacks its value is completed by hand."""
        self.setText(with_filter(self.text(), wanted))
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        if wanted.endswith(":"):
            self.setCursorPosition(len(wanted))


class FilterButton(IconButton):
    """Offers the filters by name; whoever knows them can type them."""

    def __init__(
        self,
        theme: Theme,
        field: SearchField,
        folders: Callable[[], tuple[Folder, ...]],
        tags: Callable[[], tuple[KnownTag, ...]],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(theme, "funnel-simple", "Filter the search", hint="Filters", parent=parent)
        self.setObjectName("filter_button")
        self._field = field
        self._folders = folders
        self._tags = tags
        self.clicked.connect(self._on_clicked)

    def _on_clicked(self) -> None:
        menu = self.filter_menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        let_go_after(menu, self)
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def filter_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setObjectName("filter_menu")
        today = datetime.now().astimezone().date()
        self._add(menu, "Titles only", "in:title")
        self._add(menu, "My messages", "role:user")
        self._add(menu, "Replies", "role:assistant")
        self._add(menu, "With reasoning", "has:reasoning")
        menu.addSeparator()
        for words, days in (("Last 7 days", 6), ("Last 30 days", 29), ("Last year", 365)):
            self._add(menu, words, f"after:{today - timedelta(days=days)}")
        self._add(menu, "Before a date…", "before:")
        folders = self._folders()
        if folders:
            menu.addSeparator()
            inner = menu.addMenu("In a folder")
            for folder, depth in tree_of(folders):
                name = folder.name.replace('"', " ")
                self._add(inner, f"{'    ' * depth}{folder.name}", f'folder:"{name}"')
        tags = most_used(self._tags(), MOST_TAGS)
        if tags:
            inner = menu.addMenu("With a tag")
            for tag in tags:
                self._add(inner, tag.name, f'tag:"{tag.name}"')
        return menu

    def _add(self, menu: QMenu, words: str, wanted: str) -> None:
        action = QAction(f"{words.replace('&', '&&')}\t{wanted}", menu)
        action.triggered.connect(lambda: self._field.add_filter(wanted))
        menu.addAction(action)
