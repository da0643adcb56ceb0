"""What the window itself can do, as actions. Other files add theirs beside their widgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ui.actions import Action, Actions
from ui.header import OPEN_KEY
from ui.sidebar.sidebar import NEW_CHAT_KEY, SEARCH_KEY, SETTINGS_KEY, SIDEBAR_KEY

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from ui.window import MainWindow


def add_window_actions(window: MainWindow, actions: Actions, desk: Desk) -> None:
    """Chat, view, weights and program, in the order in which they are listed."""
    for action in (
        Action("new_chat", "New chat", NEW_CHAT_KEY, window.new_chat),
        Action("write", "Write a message", "Ctrl+L", window.focus_composer),
        Action("rename_chat", "Rename this chat", "F2", window.rename),
        Action("stop", "Stop the reply", "Esc", desk.stop, lambda: desk.is_generating),
        Action(
            "search_chats",
            "Search chats",
            SEARCH_KEY,
            window.search,
            other_keys=("Ctrl+Shift+F",),
        ),
        Action("open_trash", "Open the trash", "", window.show_trash),
        Action(
            "toggle_sidebar",
            "Show or hide the chat list",
            SIDEBAR_KEY,
            window.toggle_sidebar,
            group="View",
        ),
        Action(
            "open_weights", "Open weights (GGUF file)", OPEN_KEY, window.open_gguf, group="Weights"
        ),
        Action("unload_weights", "Unload the weights", "", desk.unload_weights, group="Weights"),
        Action("settings", "Settings", SETTINGS_KEY, window.show_settings, group="Program"),
        Action(
            "show_log", "The engine's log", "", lambda: window.show_settings("log"), group="Program"
        ),
        Action("quit", "Quit", "Ctrl+Q", window.close, group="Program"),
    ):
        actions.add(action)
    actions.hear("stop", False)
