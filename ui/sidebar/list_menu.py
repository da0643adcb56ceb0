"""The context menu of the list: what can be done with the chosen chats or folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from models.records import Conversation
from ui.sidebar.grouping import Row

PIN_KEY = "Ctrl+Shift+D"
MOVE_KEY = "Ctrl+Shift+M"
TAG_KEY = "Ctrl+Shift+X"
ARCHIVE_KEY = "Ctrl+Shift+E"
TITLE_KEY = "Ctrl+Alt+Shift+W"
NEW_FOLDER_KEY = "Ctrl+Shift+G"

Act = Callable[[], object]


@dataclass(frozen=True, slots=True)
class ListActs:
    """What the entries do; those of chats are about all that are chosen."""

    open: Act
    rename: Act
    pin: Act
    move: Act
    tag: Act
    title: Act
    archive: Act
    trash: Act
    export: Act
    choose: Act | None
    toggle_folder: Act
    new_folder: Act
    move_folder: Act
    export_folder: Act
    delete_folder: Act


def fill_for_chats(menu: QMenu, chats: list[Conversation], acts: ListActs) -> None:
    is_one = len(chats) == 1
    many = "" if is_one else f" {len(chats):,} chats"
    if is_one:
        _add(menu, "Open", "Return", acts.open)
        _add(menu, "Rename", "F2", acts.rename)
        if acts.choose is not None:
            _add(menu, "Select multiple", "Space", acts.choose)
        menu.addSeparator()
    pinned = all(chat.is_pinned for chat in chats)
    _add(menu, f"{'Unpin' if pinned else 'Pin'}{many}", PIN_KEY, acts.pin)
    _add(menu, f"Move{many} to a folder…", MOVE_KEY, acts.move)
    _add(menu, "Write a title" if is_one else "Write titles", TITLE_KEY, acts.title)
    _add(menu, f"Tag{many}…" if many else "Tags…", TAG_KEY, acts.tag)
    archived = all(chat.is_archived for chat in chats)
    words = f"Unarchive{many}" if archived else f"Archive{many}"
    _add(menu, words, ARCHIVE_KEY, acts.archive)
    _add(menu, f"Export{many}…", "", acts.export)
    menu.addSeparator()
    _add(menu, f"Move{many} to trash", "Del", acts.trash)


def fill_for_folder(menu: QMenu, row: Row, acts: ListActs) -> None:
    words, key = ("Close", "Left") if row.is_expanded else ("Open", "Right")
    _add(menu, words, key, acts.toggle_folder)
    _add(menu, "Rename", "F2", acts.rename)
    menu.addSeparator()
    _add(menu, "New folder inside", "", acts.new_folder)
    _add(menu, "Move to a folder…", MOVE_KEY, acts.move_folder)
    _add(menu, "Export its chats…", "", acts.export_folder)
    menu.addSeparator()
    _add(menu, "Delete folder, keep its chats", "Del", acts.delete_folder)


def fill_for_nothing(menu: QMenu, acts: ListActs) -> None:
    if acts.choose is not None:
        _add(menu, "Select multiple", "Space", acts.choose)
    _add(menu, "New folder", NEW_FOLDER_KEY, acts.new_folder)


def _add(menu: QMenu, text: str, key: str, act: Act) -> None:
    # The key is shown, not bound: list and window listen for it themselves.
    shown = QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
    action = QAction(f"{text}\t{shown}" if key else text, menu)
    action.triggered.connect(lambda _=False: act())
    menu.addAction(action)
