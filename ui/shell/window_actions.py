"""What the window itself can do, as actions. Other files add theirs beside their widgets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from PySide6.QtGui import QKeySequence

from app.engine.protocol.remote_messages import is_remote
from models.records import Message, Role
from ui.chat.header import DEFAULTS_KEY, DOWNLOADS_KEY, HUB_KEY, LIBRARY_KEY, OPEN_KEY
from ui.shell.actions import Action, Actions
from ui.shell.zoom import IN_KEYS, OUT_KEYS, RESET_KEYS
from ui.sidebar.sidebar import NEW_CHAT_KEY, SEARCH_KEY, SETTINGS_KEY, SIDEBAR_KEY

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.shell.following import Following
    from ui.shell.lazy_windows import LazyWindows
    from ui.sidebar.sidebar import Sidebar


class WindowActs(Protocol):
    """What these actions call of the window."""

    def new_chat(self) -> None: ...
    def focus_composer(self) -> None: ...
    def rename(self) -> None: ...
    def search(self) -> None: ...
    def open_gguf(self) -> None: ...
    def show_settings(self, page: str = "") -> None: ...
    def show_trash(self) -> None: ...
    def toggle_sidebar(self) -> None: ...
    def toggle_full_screen(self) -> None: ...
    def isFullScreen(self) -> bool: ...  # noqa: N802 - Qt's name
    def zoom(self, direction: int) -> None: ...
    def quit(self) -> None: ...


def add_window_actions(
    actions: Actions,
    desk: Desk,
    window: WindowActs,
    lazy: LazyWindows,
    sidebar: Sidebar,
    chat: ChatColumn,
    following: Following,
) -> None:
    """Chat, settings, view, weights and program, in the order in which they are listed."""
    for action in (
        *_of_chats(desk, window, sidebar, chat, following),
        *_of_settings(desk, lazy),
        *_of_the_view(window, lazy),
        *_of_themes(desk),
        *_of_weights(window, desk, lazy),
        *_of_help(lazy),
        Action("settings", "Settings", SETTINGS_KEY, window.show_settings, group="App"),
        Action(
            "show_log",
            "Engine log",
            "Ctrl+Shift+L",
            lambda: window.show_settings("log"),
            group="App",
        ),
        Action(
            "backups",
            "Backups: look into one, restore",
            "Ctrl+Alt+Shift+B",
            lambda: window.show_settings("backups"),
            group="App",
        ),
        Action(
            "back_up_now",
            "Back up now",
            "Ctrl+Alt+Shift+Z",
            lambda: desk.backups.make(lambda: None),
            group="App",
        ),
        Action("quit", "Quit", "Ctrl+Q", window.quit, group="App"),
    ):
        actions.add(action)
    actions.hear("stop", False)


def _of_chats(
    desk: Desk, window: WindowActs, sidebar: Sidebar, chat: ChatColumn, following: Following
) -> tuple[Action, ...]:
    return (
        Action("new_chat", "New chat", NEW_CHAT_KEY, window.new_chat),
        Action("write", "Go to the message field", "Ctrl+L", window.focus_composer),
        Action(
            "rename_chat",
            "Rename this chat",
            "F2",
            window.rename,
            lambda: sidebar.may_rename(desk.shelf.open.id),
        ),
        Action(
            "trash_chat",
            "Move this chat to the trash",
            "Ctrl+Shift+Backspace",
            lambda: desk.folders.trash_one(desk.shelf.open.id),
            lambda: any(each.id == desk.shelf.open.id for each in desk.shelf.conversations),
        ),
        Action(
            "undo",
            "Undo the last delete or move",
            "Ctrl+Alt+Z",
            following.undo_last,
            lambda: following.can_undo,
        ),
        Action(
            "stop",
            "Stop the reply",
            "Esc",
            lambda: desk.aloud.stop() if desk.aloud.is_reading else desk.replies.stop(),
            lambda: desk.replies.is_generating or desk.aloud.is_reading,
        ),
        Action(
            "find",
            "Find in this chat",
            "Ctrl+F",
            chat.open_find,
            lambda: bool(len(chat.transcript.rows)),
        ),
        Action("find_next", "Next match", "F3", lambda: chat.find_on(1)),
        Action("find_previous", "Previous match", "Shift+F3", lambda: chat.find_on(-1)),
        Action("search_chats", "Search chats", SEARCH_KEY, window.search),
        Action("open_trash", "Open the trash", "Ctrl+Shift+Del", window.show_trash),
    )


def _of_settings(desk: Desk, lazy: LazyWindows) -> tuple[Action, ...]:
    def last_reply() -> Message | None:
        replies = (m for m in reversed(desk.shelf.path) if m.role is Role.ASSISTANT)
        return next(replies, None)

    def run_again() -> None:
        reply = last_reply()
        if reply is not None:
            desk.again.run(reply.id)

    def show_reply_settings() -> None:
        reply = last_reply()
        if reply is not None:
            lazy.show_reply(reply.id)

    return (
        Action(
            "chat_settings",
            "Chat settings",
            "Ctrl+.",
            lazy.show_levels,
            group="Reply settings",
        ),
        Action("presets", "Presets", "Ctrl+P", lazy.show_presets, group="Reply settings"),
        Action("beam_search", "Beam search", "Ctrl+Alt+G", lazy.show_beams, group="Message"),
        Action(
            "beam_search_here",
            "Beam search from the chosen token",
            "Ctrl+Alt+Shift+G",
            lambda: lazy.show_beams(at_token=True),
            lazy.has_token,
            group="Message",
        ),
        Action(
            "control_vectors",
            "Control vectors: make, rename, export",
            "Ctrl+Alt+V",
            lazy.show_vectors,
            group="Reply settings",
        ),
        Action(
            "with_without",
            "Reply with and without adapters",
            "Ctrl+Alt+O",
            desk.with_without.ask,
            lambda: bool(desk.shelf.path) and not desk.replies.is_generating,
            group="Reply settings",
        ),
        Action(
            "run_again",
            "Rerun the last reply exactly",
            "Ctrl+Shift+R",
            run_again,
            lambda: last_reply() is not None and not desk.replies.is_generating,
            group="Reply settings",
        ),
        Action(
            "reply_settings",
            "Settings of the last reply",
            "Ctrl+Shift+.",
            show_reply_settings,
            lambda: last_reply() is not None,
            group="Reply settings",
        ),
    )


def _of_the_view(window: WindowActs, lazy: LazyWindows) -> tuple[Action, ...]:
    def zoom(name: str, title: str, keys: tuple[str, ...], direction: int) -> Action:
        return Action(
            name,
            title,
            keys[0],
            lambda: window.zoom(direction),
            group="View",
            other_keys=keys[1:],
            binds=False,  # zoom works in every window of the program: `ui.shell.zoom` hears it
        )

    standard = QKeySequence.keyBindings(QKeySequence.StandardKey.FullScreen)
    full_screen_keys = [key.toString() for key in standard] or ["F11"]
    return (
        Action("palette", "Command palette", "Ctrl+K", lambda: lazy.palette().open(), group="View"),
        Action(
            "keys", "Keyboard shortcuts", "Ctrl+/", lambda: lazy.palette().open_keys(), group="View"
        ),
        Action(
            "toggle_sidebar",
            "Show or hide the chat list",
            SIDEBAR_KEY,
            window.toggle_sidebar,
            group="View",
        ),
        zoom("zoom_in", "Zoom in", IN_KEYS, 1),
        zoom("zoom_out", "Zoom out", OUT_KEYS, -1),
        zoom("zoom_reset", "Actual size (100%)", RESET_KEYS, 0),
        Action(
            "full_screen",
            "Full screen",
            full_screen_keys[0],
            window.toggle_full_screen,
            group="View",
            other_keys=tuple(full_screen_keys[1:]),
            is_checked=window.isFullScreen,
        ),
    )


def _of_themes(desk: Desk) -> tuple[Action, ...]:
    return tuple(
        Action(
            f"theme_{mode}",
            title,
            key,
            partial(desk.settings.set, "theme", mode),
            lambda mode=mode: desk.settings.now.theme != mode,  # type: ignore[misc]
            group="View",
        )
        for mode, title, key in (
            ("light", "Theme: light", "Ctrl+Alt+1"),
            ("dark", "Theme: dark", "Ctrl+Alt+2"),
            ("system", "Theme: same as system", "Ctrl+Alt+3"),
        )
    )


def _of_help(lazy: LazyWindows) -> tuple[Action, ...]:
    return (
        Action("glossary", "Glossary", "Ctrl+F1", lambda: lazy.glossary().open(), group="Help"),
        Action(
            "explain_panel",
            "Explain the terms of this panel",
            "Shift+F1",
            lambda: lazy.glossary().explain_panel(),
            group="Help",
        ),
    )


def _of_weights(window: WindowActs, desk: Desk, lazy: LazyWindows) -> tuple[Action, ...]:
    def shows(name: str, title: str, key: str, page: str) -> Action:
        return Action(name, title, key, lambda: lazy.show_library(page), group="Models")

    def has_file() -> bool:
        return bool(desk.loader.path) and not is_remote(desk.loader.path)

    return (
        shows("library", "Model library", LIBRARY_KEY, ""),
        shows("hub", "Find models on the hub", HUB_KEY, "hub"),
        shows("downloads", "Model downloads", DOWNLOADS_KEY, "downloads"),
        Action(
            "weights_defaults",
            "Model defaults",
            DEFAULTS_KEY,
            lazy.show_defaults,
            lambda: bool(desk.loader.path or desk.loader.known_weights()),
            group="Models",
        ),
        Action(
            "choose_projector",
            "Projector of the model",
            "Ctrl+Alt+Shift+J",
            lambda: lazy.show_defaults(part="projector"),
            has_file,
            group="Models",
        ),
        Action(
            "find_projector",
            "Find the model's projector on the hub",
            "Ctrl+Alt+Shift+H",
            lambda: lazy.find_projector(),
            has_file,
            group="Models",
        ),
        Action(
            "open_weights", "Open a model (GGUF file)", OPEN_KEY, window.open_gguf, group="Models"
        ),
        Action(
            "engines",
            "Engines: this computer and servers",
            "Ctrl+Alt+E",
            lambda: window.show_settings("engine"),
            group="Models",
        ),
        Action(
            "unload_weights",
            "Unload the model",
            "Ctrl+Shift+U",
            desk.loader.unload,
            lambda: desk.loader.state.loaded is not None,
            group="Models",
        ),
        Action(
            "show_memory",
            "Show memory use now",
            "Ctrl+Alt+F",
            desk.memory.tell,
            lambda: desk.loader.state.loaded is not None and desk.loader.remote is None,
            group="Models",
        ),
    )
