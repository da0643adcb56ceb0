"""What the sidebar asks for, done by the desk; and what the desk says about it, shown there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.chat.events import (
    EarlierArrived,
    FoldersChanged,
    MessageSought,
    SearchAnswered,
    SettingsChanged,
)
from models.records import SearchHit
from ui.shell.actions import Action, Actions
from ui.sidebar.list_menu import ARCHIVE_KEY, MOVE_KEY, NEW_FOLDER_KEY, PIN_KEY, TAG_KEY, TITLE_KEY
from ui.sidebar.sidebar import Sidebar

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.shell.columns import Columns

ARCHIVE_VIEW_KEY = "Ctrl+Shift+H"
GROUP = "Chat list"


class SidebarActs(QObject):
    def __init__(
        self, desk: Desk, bridge: Bridge, sidebar: Sidebar, columns: Columns, chat: ChatColumn
    ) -> None:
        super().__init__(columns)
        self._desk = desk
        self._sidebar = sidebar
        self._columns = columns
        self._chat = chat
        self._sought = ""
        self._connect()
        bridge.on(FoldersChanged, self._on_folders_changed)
        bridge.on(SearchAnswered, self._on_search_answered)
        bridge.on(MessageSought, self._on_message_sought)
        bridge.on(EarlierArrived, self._on_earlier_arrived)
        bridge.on(SettingsChanged, self._on_settings_changed)
        self._sidebar.set_closed_folders(desk.settings.now.closed_folders)
        self._sidebar.set_folders(desk.folders.all)

    def _connect(self) -> None:
        sidebar, desk = self._sidebar, self._desk
        sidebar.rename_requested.connect(desk.shelf.rename)
        sidebar.trash_requested.connect(self._trash)
        sidebar.pin_requested.connect(desk.folders.pin)
        sidebar.archive_requested.connect(desk.folders.archive)
        sidebar.move_requested.connect(desk.folders.move_chats)
        sidebar.move_to_new_requested.connect(self._move_to_new)
        sidebar.titles_requested.connect(desk.titles.write)
        sidebar.tags_requested.connect(desk.tagging.change)
        sidebar.tag_bar.manage_requested.connect(self._manage_tags)
        sidebar.folder_requested.connect(self._new_folder)
        sidebar.folder_rename_requested.connect(desk.folders.rename)
        sidebar.folder_move_requested.connect(desk.folders.move)
        sidebar.folder_delete_requested.connect(desk.folders.delete)
        sidebar.closed_folders_changed.connect(
            lambda closed: desk.settings.set("closed_folders", closed)
        )
        sidebar.search_requested.connect(desk.searching.search)
        sidebar.search_more_requested.connect(desk.searching.more)
        sidebar.hit_requested.connect(self._open_hit)

    def add_actions(self, actions: Actions) -> None:
        sidebar = self._sidebar

        def has_chosen() -> bool:
            return bool(sidebar.chosen())

        for action in (
            Action(
                "pin_chat",
                "Pin or unpin the chat",
                PIN_KEY,
                lambda: sidebar.pin(sidebar.chosen()),
                has_chosen,
                GROUP,
            ),
            Action("move_chat", "Move to a folder", MOVE_KEY, sidebar.move_chosen, group=GROUP),
            Action(
                "tag_chat",
                "Tags of the chat",
                TAG_KEY,
                lambda: sidebar.tag_chats(sidebar.chosen()),
                has_chosen,
                GROUP,
            ),
            Action(
                "write_title",
                "Write a title with the model",
                TITLE_KEY,
                lambda: self._desk.titles.write(sidebar.chosen()),
                has_chosen,
                GROUP,
            ),
            Action(
                "filter_by_tags",
                "Show only chats with a tag",
                "Ctrl+Alt+Shift+F",
                self._filter_by_tags,
                sidebar.has_tags,
                GROUP,
            ),
            Action(
                "manage_tags",
                "Rename or delete tags",
                "Ctrl+Alt+Shift+E",
                self._manage_tags,
                sidebar.has_tags,
                GROUP,
            ),
            Action(
                "archive_chat",
                "Archive or unarchive the chat",
                ARCHIVE_KEY,
                lambda: sidebar.archive(sidebar.chosen()),
                has_chosen,
                GROUP,
            ),
            Action("new_folder", "New folder", NEW_FOLDER_KEY, self._show_new_folder, group=GROUP),
            Action(
                "archive",
                "Show or hide the archive",
                ARCHIVE_VIEW_KEY,
                self._toggle_archive,
                group=GROUP,
            ),
        ):
            actions.add(action)

    # --- asked by the sidebar -----------------------------------------------------------

    def _trash(self, ids: tuple[str, ...]) -> None:
        if len(ids) == 1:
            self._desk.folders.trash_one(ids[0])
        else:
            self._desk.folders.trash(ids)

    def _new_folder(self, parent_id: str | None) -> None:
        """Made, then named in its place."""
        folder_id = self._desk.folders.create("New folder", parent_id)
        if folder_id:
            if parent_id:
                self._sidebar.view.model().toggle(parent_id, True)  # type: ignore[attr-defined]
            self._sidebar.rename_folder(folder_id)

    def _show_new_folder(self) -> None:
        self._columns.show_sidebar()
        self._sidebar.new_folder()

    def _toggle_archive(self) -> None:
        self._columns.show_sidebar()
        self._sidebar.search_field.clear()
        self._sidebar.archive_button.toggle()
        self._sidebar.view.setFocus()

    def _filter_by_tags(self) -> None:
        self._columns.show_sidebar()
        self._sidebar.search_field.clear()
        self._sidebar.tag_bar.open_menu()

    def _manage_tags(self) -> None:
        tagging = self._desk.tagging
        self._sidebar.manage_tags(lambda: tagging.all, tagging.rename, tagging.delete)

    def _move_to_new(self, ids: tuple[str, ...], name: str) -> None:
        folder_id = self._desk.folders.create(name)
        if folder_id:
            self._desk.folders.move_chats(ids, folder_id)

    def _open_hit(self, hit: SearchHit) -> None:
        """The keyboard stays in what was found: the next hit is one key away."""
        if hit.message_id is None:
            self._desk.shelf.open_stored(hit.conversation_id)
        else:
            self._desk.searching.open_at(hit.conversation_id, hit.message_id)
        self._columns.show_chat()

    # --- said by the desk ---------------------------------------------------------------

    def _on_folders_changed(self, event: FoldersChanged) -> None:
        self._sidebar.set_folders(event.folders)

    def _on_settings_changed(self, event: SettingsChanged) -> None:
        if "closed_folders" in event.names:
            self._sidebar.set_closed_folders(self._desk.settings.now.closed_folders)

    def _on_search_answered(self, event: SearchAnswered) -> None:
        self._sidebar.show_answer(event)

    def _on_message_sought(self, event: MessageSought) -> None:
        self._sought = event.message_id
        self._show_sought()

    def _on_earlier_arrived(self, event: EarlierArrived) -> None:
        if self._sought and any(message.id == self._sought for message in event.messages):
            self._show_sought()

    def _show_sought(self) -> None:
        """A long chat comes part by part: the message may not be here yet."""
        transcript = self._chat.transcript
        if transcript.rows.index_of(self._sought) is not None:
            transcript.show_message(self._sought)
            self._sought = ""
