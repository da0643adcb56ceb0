"""How the columns share the window.

With room, the sidebar stands beside the chat. Without (a small window, a high zoom) one of
them has the whole window, and the same key and buttons turn from one to the other. What the
user wants with room, and how wide in unscaled pixels, is kept apart from that and comes back.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

from ui.chat_column import ChatColumn
from ui.sidebar.sidebar import Sidebar
from ui.sizes import BOTH_FROM_PX, SIDEBAR_PX
from ui.theme import Theme


class Columns(QSplitter):
    """`sidebar_moved`: its width or whether it is wanted was changed by the user."""

    sidebar_moved = Signal()

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
        self.setObjectName("columns")
        self.setHandleWidth(1)
        self.setChildrenCollapsible(False)
        self.addWidget(sidebar)
        self.addWidget(chat)
        self.setStretchFactor(0, 0)
        self.setStretchFactor(1, 1)
        self.handle(1).setAccessibleName("Width of the chat list")
        # The planes are told apart by tone; the handle is there to be taken, not to be seen.
        self.splitterMoved.connect(self._on_moved)
        theme.changed.connect(self._fit)
        self._fit()

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

    def restore(self, is_wanted: bool, width_px: int) -> None:
        self._is_wanted = is_wanted
        self._width_px = width_px or SIDEBAR_PX
        self._fit()

    def toggle_sidebar(self) -> None:
        if self.is_narrow:
            self._is_over = not self._is_over
        else:
            self._is_wanted = not self._is_wanted
            self.sidebar_moved.emit()
        self._arrange()

    def show_sidebar(self) -> None:
        if not self._sidebar.isVisibleTo(self):
            self.toggle_sidebar()

    def show_chat(self) -> None:
        """Where only one column fits, it is the chat's turn."""
        if self._is_over:
            self._is_over = False
            self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _fit(self) -> None:
        self.setStyleSheet(f"QSplitter::handle {{ background: {self._theme.colors.side}; }}")
        self._arrange()

    def _arrange(self) -> None:
        is_narrow = self.is_narrow
        if not is_narrow:
            self._is_over = False
        shows_sidebar = self._is_over if is_narrow else self._is_wanted
        focus = self.window().focusWidget()
        leaves_sidebar = not shows_sidebar and self._sidebar.isAncestorOf(focus or self)
        self._chat.setVisible(not (is_narrow and shows_sidebar))
        self._sidebar.setVisible(shows_sidebar)
        self._chat.header.set_sidebar_hidden(not shows_sidebar)
        if leaves_sidebar:
            # Qt's choice would be some button, which the next space presses.
            self._chat.focus_writing()
        # Always, also where nothing of it changed: what Qt takes away while there is little room
        # (a high zoom, a small window) it does not give back.
        width = self._theme.px(self._width_px)
        self.setSizes([width, max(1, self.width() - width)])

    def _on_moved(self) -> None:
        if not self.is_narrow and self._sidebar.isVisible():
            self._width_px = max(1, round(self._sidebar.width() / self._theme.scale))
            self.sidebar_moved.emit()
