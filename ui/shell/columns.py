"""How the columns share the window: sidebar, chat, and the section that looks inside.

With room, they stand side by side. With less, the section takes the sidebar's room. Without (a
small window, a high zoom) one of them has the whole window, and the same keys and buttons turn
from one to the other. The section may have the chat's place for a while, to be looked at. What the
user wants with room, and how wide in unscaled pixels, is kept apart from that and comes back.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

from ui.chat.chat_column import ChatColumn
from ui.look.theme import Theme
from ui.shell.sizes import (
    ALL_FROM_PX,
    BOTH_FROM_PX,
    CHAT_PX,
    SECTION_PX,
    SIDEBAR_PX,
    beside_chat,
)
from ui.sidebar.sidebar import Sidebar
from ui.widgets.kit import rest_timer


class Columns(QSplitter):
    """`moved`: the width of a column or whether it is wanted was changed by the user."""

    moved = Signal()

    def __init__(
        self, theme: Theme, sidebar: Sidebar, chat: ChatColumn, parent: QWidget | None = None
    ) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._theme = theme
        self._sidebar = sidebar
        self._chat = chat
        self._is_wanted = True
        self._is_over = False
        self._width_px = SIDEBAR_PX
        self._section: QWidget | None = None
        self._is_section_wanted = False
        self._section_px = SECTION_PX
        self._is_large = False
        self.setObjectName("columns")
        # The planes are told apart by tone; the handle is there to be taken, not to be seen.
        self.setProperty("kind", "unseen")
        self.setHandleWidth(1)
        self.setChildrenCollapsible(False)
        self.addWidget(sidebar)
        self.addWidget(chat)
        self.setStretchFactor(0, 0)
        self.setStretchFactor(1, 1)
        self.handle(1).setAccessibleName("Width of the chat list")
        self.splitterMoved.connect(self._on_moved)
        self._later = rest_timer(self, self._arrange)
        theme.changed.connect(self._fit)
        self._arrange()

    @property
    def is_narrow(self) -> bool:
        return self.width() < self._theme.px(BOTH_FROM_PX)

    @property
    def is_sidebar_wanted(self) -> bool:
        return self._is_wanted

    @property
    def sidebar_width_px(self) -> int:
        """At 100 %."""
        return self._width_px

    @property
    def fits_all(self) -> bool:
        return self.width() >= self._theme.px(ALL_FROM_PX)

    @property
    def is_section_shown(self) -> bool:
        return self._section is not None and self._is_section_wanted

    @property
    def is_section_large(self) -> bool:
        """Whether it stands in the chat's place."""
        return self.is_section_shown and self._is_large

    @property
    def section_width_px(self) -> int:
        """At 100 %."""
        return self._section_px

    def restore(self, is_wanted: bool, width_px: int, section_px: int = 0) -> None:
        self._is_wanted = is_wanted
        self._width_px = width_px or SIDEBAR_PX
        self._section_px = section_px or SECTION_PX
        self._arrange()

    def toggle_sidebar(self) -> None:
        takes_its_room = self.is_section_shown and not (self.fits_all or self._is_large)
        if takes_its_room and not self._sidebar.isVisibleTo(self):
            # The section stands in its place.
            self._is_section_wanted = False
            self._is_over, self._is_wanted = self.is_narrow, self._is_wanted or not self.is_narrow
            self.moved.emit()
        elif self.is_narrow:
            self._is_over = not self._is_over
        else:
            self._is_wanted = not self._is_wanted
            self.moved.emit()
        self._arrange()

    def show_sidebar(self) -> None:
        if not self._sidebar.isVisibleTo(self):
            self.toggle_sidebar()

    def set_section(self, section: QWidget) -> None:
        """The right column; it is built when it is first asked for."""
        self._section = section
        section.hide()
        self.addWidget(section)
        self.setStretchFactor(2, 0)
        self.handle(2).setAccessibleName("Width of the panels")

    def show_section(self, is_shown: bool) -> None:
        if is_shown != self._is_section_wanted:
            self._is_section_wanted = is_shown
            self._is_large = self._is_over = False
            self.moved.emit()
        self._arrange()

    def enlarge_section(self, is_large: bool) -> None:
        """Into the chat's place, or back."""
        if is_large != self._is_large:
            self._is_large = is_large
            self._is_over = False
            self.moved.emit()
        self._arrange()

    def show_chat(self) -> None:
        """Where only one column fits, or the section is large, it is the chat's turn."""
        if self._is_large:
            self.enlarge_section(False)
        if self._is_over:
            self._is_over = False
            self._arrange()
        elif self.is_narrow and self.is_section_shown:
            self.show_section(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _fit(self) -> None:
        self._arrange()
        # Until what is in the columns has heard of it, they are held open by the former zoom.
        self._later.start(0)

    def _arrange(self) -> None:
        is_narrow, shows_section = self.is_narrow, self.is_section_shown
        if not is_narrow:
            self._is_over = False
        shows_sidebar = self._is_over if is_narrow else self._is_wanted
        if shows_section and not (self.fits_all or (self._is_large and not is_narrow)):
            shows_sidebar = False
        is_one = is_narrow and (shows_sidebar or shows_section)
        shows_chat = not is_one and not self.is_section_large
        focus = self.window().focusWidget() or self
        leaves = not shows_sidebar and self._sidebar.isAncestorOf(focus)
        if self._section is not None:
            leaves = leaves or (not shows_section and self._section.isAncestorOf(focus))
        self._chat.setVisible(shows_chat)
        self._sidebar.setVisible(shows_sidebar)
        if self._section is not None:
            self._section.setVisible(shows_section)
        self._chat.header.set_sidebar_hidden(not shows_sidebar)
        if leaves and shows_chat:
            # Qt's choice would be some button, which the next space presses.
            self._chat.focus_writing()
        # Always, also where nothing of it changed: what Qt takes away while there is little room
        # (a high zoom, a small window) it does not give back.
        px, whole, chat = self._theme.px, self.width(), self._theme.px(CHAT_PX)
        left = right = 0
        if shows_sidebar:
            left = beside_chat(whole, px(self._width_px), px(SIDEBAR_PX), chat)
        if self.is_section_large:
            right = whole - left
        elif shows_section:
            right = beside_chat(whole - left, px(self._section_px), px(SECTION_PX), chat)
        self.setSizes([left, max(1, self.width() - left - right), right][: self.count()])

    def _on_moved(self) -> None:
        if self.is_narrow:
            return
        if self._sidebar.isVisible():
            self._width_px = max(1, round(self._sidebar.width() / self._theme.scale))
        if self._section is not None and self._section.isVisible() and not self._is_large:
            self._section_px = max(1, round(self._section.width() / self._theme.scale))
        self.moved.emit()
