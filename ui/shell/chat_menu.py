"""The menu beside the title: what else can be done with the chat and the window, for the mouse.

Its last entry opens the palette, which lists every action there is, so nothing needs a key. The
entries are the registry's, made anew whenever the menu opens.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QMenu

from ui.shell.actions import Actions
from ui.widgets.hovering import let_go_after
from ui.widgets.icon_button import IconButton

ENTRIES: Final = (
    "new_text",
    "temporary_chat",
    "",
    "find",
    "rename_chat",
    "write_title",
    "tag_chat",
    "branch_map",
    "chat_settings",
    "",
    "undo",
    "trash_chat",
    "",
    "presets",
    "export_chats",
    "import_chats",
    "import_folder",
    "",
    "toggle_token_view",
    "step_mode",
    "beam_search",
    "zoom_in",
    "zoom_out",
    "zoom_reset",
    "full_screen",
    "",
    "tour",
    "keys",
    "palette",
    "glossary",
)
"""Names of actions; an empty one is a line between."""


def add_chat_menu(button: IconButton, actions: Actions) -> QMenu:
    menu = QMenu(button)
    menu.setObjectName("chat_menu")

    def fill() -> None:
        menu.clear()
        actions.fill_menu(menu, *ENTRIES)

    menu.aboutToShow.connect(fill)
    button.setMenu(menu)
    let_go_after(menu, button)
    button.setEnabled(True)
    return menu
