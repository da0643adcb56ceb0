"""The main window: sidebar and chat side by side, shortcuts, and who answers to whom.

Widgets ask by signals, the desk acts, the bridge tells; this file is where they meet. It
holds no state of the chat: what is not told by an event is read from the desk.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QMoveEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QMainWindow

from app.chat.events import SettingsChanged
from ui.actions import Actions
from ui.chat_column import ChatColumn
from ui.columns import Columns
from ui.dialogs import choose_gguf, confirm_link
from ui.following import Following
from ui.place import WindowPlace
from ui.sidebar.sidebar import Sidebar
from ui.theme import Theme
from ui.window_actions import add_window_actions
from ui.zoom import ZoomControl, stepped

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.settings.settings_window import SettingsWindow
    from ui.trash_window import TrashWindow

SMALLEST = (480, 400)
FIRST_SIZE = (1180, 780)


class MainWindow(QMainWindow):
    """Everything on screen. Build it, show it; `desk.start()` may come later."""

    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme) -> None:
        super().__init__()
        self._desk = desk
        self._bridge = bridge
        self._theme = theme
        self._settings_window: SettingsWindow | None = None
        self._trash_window: TrashWindow | None = None
        self.setObjectName("main_window")
        self.setAccessibleName("Cutaway")
        self.setWindowTitle("Cutaway")
        self.setAcceptDrops(True)
        self.setMinimumSize(*SMALLEST)
        self.resize(*FIRST_SIZE)
        self.sidebar = Sidebar(theme)
        self.chat = ChatColumn(theme, desk.known_weights)
        self.columns = Columns(theme, self.sidebar, self.chat, self)
        self.setCentralWidget(self.columns)
        self._place = WindowPlace(self, self.columns, desk)
        self._zoom = ZoomControl(self)
        self.action_registry = Actions(self)
        self.following = Following(desk, bridge, self.sidebar, self.chat)
        self._connect_sidebar()
        self._connect_chat()
        self._connect_shortcuts()
        self._apply_settings(frozenset({"theme", "zoom_percent", "send_key"}))
        bridge.settings_changed.connect(self._on_settings_changed)
        self.following.read_desk()
        self.chat.composer.focus()

    # --- connections --------------------------------------------------------------------

    def _connect_sidebar(self) -> None:
        sidebar, desk = self.sidebar, self._desk
        sidebar.new_chat_requested.connect(self.new_chat)
        sidebar.open_requested.connect(self._on_open_requested)
        sidebar.rename_requested.connect(desk.rename_conversation)
        sidebar.trash_requested.connect(desk.trash_conversation)
        sidebar.undo_requested.connect(self.following.undo_last)
        sidebar.settings_requested.connect(self.show_settings)
        sidebar.trash_opened.connect(self.show_trash)
        sidebar.hide_requested.connect(self.toggle_sidebar)
        sidebar.search_left.connect(self.focus_composer)

    def _connect_chat(self) -> None:
        chat, desk = self.chat, self._desk
        chat.composer.send_requested.connect(self._on_send_requested)
        chat.composer.stop_requested.connect(desk.stop)
        chat.composer.draft_changed.connect(desk.save_draft)
        chat.transcript.retry_requested.connect(desk.retry)
        chat.transcript.new_chat_requested.connect(self.new_chat)
        chat.transcript.version_step_requested.connect(desk.show_version)
        chat.transcript.link_activated.connect(lambda address: confirm_link(self, address))
        chat.header.weights_chosen.connect(desk.load_weights)
        chat.header.unload_requested.connect(desk.unload_weights)
        chat.header.cancel_load_requested.connect(desk.cancel_load)
        chat.header.open_file_requested.connect(self.open_gguf)
        chat.header.show_sidebar_requested.connect(self.toggle_sidebar)
        chat.empty.open_file_requested.connect(self.open_gguf)
        for area in (chat.banners, chat.toasts):
            area.focus_released.connect(self.focus_composer)
        self.following.log_requested.connect(lambda: self.show_settings("log"))
        self.following.generating_changed.connect(self._on_generating_changed)

    def _connect_shortcuts(self) -> None:
        add_window_actions(self, self.action_registry, self._desk)
        self._zoom.requested.connect(self._on_zoom_requested)
        for widget in (
            self.chat.transcript.viewport(),
            self.chat.empty.viewport(),
            self.chat.composer,
            self.sidebar.view.viewport(),
        ):
            self._zoom.watch_wheel(widget)

    # --- acts ---------------------------------------------------------------------------

    def new_chat(self) -> None:
        self._desk.new_conversation()
        self.focus_composer()

    def focus_composer(self) -> None:
        self.columns.show_chat()
        self.chat.composer.focus()

    def search(self) -> None:
        self.columns.show_sidebar()
        self.sidebar.search()

    def rename(self) -> None:
        """Rename the chat under the list's keyboard, or the one on screen."""
        conversation = self._desk.conversation
        self.columns.show_sidebar()
        self.sidebar.rename(conversation.id)

    def toggle_sidebar(self) -> None:
        had_focus = self.sidebar.isAncestorOf(QApplication.focusWidget() or self)
        self.columns.toggle_sidebar()
        if had_focus and not self.sidebar.isVisible():
            self.chat.composer.focus()

    def open_gguf(self) -> None:
        known = self._desk.known_weights()
        folder = Path(known[0].path).parent if known else Path.home()
        choose_gguf(self, folder, self._desk.load_weights)

    def show_settings(self, page: str = "") -> None:
        self.settings_window().show_page(page)

    def settings_window(self) -> SettingsWindow:
        """Built at first use: it does not belong to the first paint."""
        if self._settings_window is None:
            from ui.settings.settings_window import SettingsWindow

            self._settings_window = SettingsWindow(self._desk, self._bridge, self._theme, self)
        return self._settings_window

    def show_trash(self) -> None:
        """Built at first use, too."""
        if self._trash_window is None:
            from ui.trash_window import TrashWindow

            self._trash_window = TrashWindow(self._desk, self._bridge, self._theme, self)
        self._trash_window.open()

    # --- following ----------------------------------------------------------------------

    def _on_send_requested(self, text: str) -> None:
        """What the desk does not take (it says why) stays in the field."""
        if not self._desk.send(text):
            self.chat.composer.set_text(text)

    def _on_open_requested(self, conversation_id: str) -> None:
        self._desk.open_conversation(conversation_id)
        self.focus_composer()

    def _on_generating_changed(self, is_generating: bool) -> None:
        self.action_registry.hear("stop", is_generating)

    def _on_zoom_requested(self, direction: int) -> None:
        percent = stepped(self._theme.zoom_percent, direction) if direction else 100
        # At once, and remembered: a held key must not wait for the way through the desk.
        self._theme.set_zoom(percent)
        self._desk.set_setting("zoom_percent", percent)

    def _on_settings_changed(self, event: SettingsChanged) -> None:
        self._apply_settings(event.names)
        self._place.follow()

    def _apply_settings(self, names: frozenset[str]) -> None:
        settings = self._desk.settings
        if "theme" in names:
            self._theme.set_mode(settings.theme)
        if "zoom_percent" in names:
            self._theme.set_zoom(settings.zoom_percent)
        if "send_key" in names:
            self.chat.composer.set_send_key(settings.send_key)

    # --- Qt -----------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place.note()

    def moveEvent(self, event: QMoveEvent) -> None:
        super().moveEvent(event)
        self._place.note()

    def closeEvent(self, event: QCloseEvent) -> None:
        self._place.save()
        for window in (self._settings_window, self._trash_window):
            if window is not None:
                window.close()
        super().closeEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if _dropped_gguf(event):
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()

    def dropEvent(self, event: QDropEvent) -> None:
        path = _dropped_gguf(event)
        if path:
            event.accept()
            self._desk.load_weights(path)


def _dropped_gguf(event: QDropEvent) -> str:
    """The one GGUF file that is being dropped, or empty."""
    urls = event.mimeData().urls()
    path = urls[0].toLocalFile() if len(urls) == 1 else ""
    return path if path.lower().endswith(".gguf") else ""
