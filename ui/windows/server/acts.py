"""What the window does with the server: actions, the mark in the status line, and the words above a
request that is looked at as a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QCursor, QGuiApplication
from PySide6.QtWidgets import QMenu

from app.chat.events import ConversationOpened, Noticed, ServedChanged, ServerChanged
from ui.shell.actions import Action, Actions
from ui.shell.notices import Act, Notice
from ui.windows.server.words import base_url, mark_text, state_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.look.theme import Theme
    from ui.windows.server.window import RequestsWindow

KEY: Final = "served request"
GROUP: Final = "Server"
MENU: Final = (
    *("copy_server_address", "copy_server_key", "server_requests", "server_settings"),
    *("", "server_switch"),
)
COPIED: Final = "Copied {what}."
BANNER: Final = (
    "{who} asked for this through the server. It isn't saved: opening another request replaces it."
)


class ServerActs(QObject):
    """`show_settings`: opens the server's page."""

    def __init__(
        self,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        chat: ChatColumn,
        show_settings: Callable[[], None],
    ) -> None:
        super().__init__(chat)
        self._desk = desk
        self._bridge = bridge
        self._theme = theme
        self._chat = chat
        self._show_settings = show_settings
        self._window: RequestsWindow | None = None
        self._actions: Actions | None = None
        chat.status.server_pressed.connect(self.show_menu)
        bridge.on(ServerChanged, self._show_mark)
        bridge.on(ServedChanged, self._show_mark)
        bridge.on(ConversationOpened, self._show_banner)
        self._show_mark()

    def add_actions(self, actions: Actions) -> None:
        self._actions = actions
        server = self._desk.server
        for action in (
            Action(
                "server_switch",
                "Server: let other programs use the model",
                "Ctrl+Alt+Shift+S",
                lambda: server.set_on(not server.is_on),
                group=GROUP,
                is_checked=lambda: server.is_on,
            ),
            Action(
                "server_requests",
                "Server requests",
                "Ctrl+Alt+Shift+R",
                self.show_requests,
                group=GROUP,
            ),
            Action(
                "server_settings",
                "Server settings",
                "Ctrl+Alt+Shift+P",
                self._show_settings,
                group=GROUP,
            ),
            Action(
                "copy_server_address",
                "Copy the server's address",
                "Ctrl+Alt+Shift+A",
                self.copy_address,
                lambda: bool(server.state.url),
                group=GROUP,
            ),
            Action(
                "copy_server_key",
                "Copy the server's key",
                "Ctrl+Alt+Shift+U",
                self.copy_key,
                lambda: bool(server.key) or self._desk.settings.now.server_key_kept,
                group=GROUP,
            ),
            Action(
                "keep_request",
                "Save this request as a chat",
                "Ctrl+Alt+Shift+C",
                server.opened.keep,
                lambda: server.opened.is_on_screen,
                group=GROUP,
            ),
        ):
            actions.add(action)

    # --- acts -----------------------------------------------------------------------------------

    def show_menu(self) -> None:
        """What can be done with the server, where its mark was pressed."""
        if self._actions is None:
            return
        menu = QMenu(self._chat)
        menu.setObjectName("server_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._actions.fill_menu(menu, *MENU)
        menu.popup(QCursor.pos())

    def show_requests(self) -> None:
        if self._window is None:
            from ui.windows.server.window import RequestsWindow

            self._window = RequestsWindow(
                self._desk, self._bridge, self._theme, self._chat.window()
            )
            self._window.opened.connect(self._on_opened)
            self._window.settings_requested.connect(self._show_settings)
        self._window.open()

    def close_request(self) -> None:
        """The chat of it goes. What somebody wrote there is asked about."""
        opened = self._desk.server.opened
        if opened.has_own:
            from ui.windows.server.discarding import ask_to_discard

            ask_to_discard(self._chat, opened.close)
        else:
            opened.close()

    def close(self) -> None:
        """The main window closes."""
        if self._window is not None:
            self._window.close()

    def copy_address(self) -> None:
        url = self._desk.server.state.url
        if url:
            self._copy(base_url(url), "the server's address")

    def copy_key(self) -> None:
        def copy() -> None:
            if self._desk.server.key:
                self._copy(self._desk.server.key, "the server's key")

        self._desk.server.read_key(copy)

    def _copy(self, text: str, what: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._bridge.emit_event(Noticed("info", COPIED.format(what=what)))

    def _on_opened(self) -> None:
        self._chat.window().activateWindow()
        self._chat.wanted.emit()

    # --- following ------------------------------------------------------------------------------

    def _show_mark(self) -> None:
        server = self._desk.server
        self._chat.status.set_server(
            mark_text(server.state, server.log.n_running), state_words(server.state)
        )

    def _show_banner(self, _event: ConversationOpened) -> None:
        opened = self._desk.server.opened
        row = opened.row
        if not opened.is_on_screen or row is None:
            self._chat.banners.dismiss(KEY)
            return
        acts = (
            Act("Save as a chat", opened.keep),
            Act("Requests", self.show_requests),
            Act("Close", self.close_request),
        )
        self._chat.composer.set_temporary(True)
        self._chat.banners.show_notice(
            Notice(KEY, "info", BANNER.format(who=row.client), acts=acts, can_close=False)
        )
