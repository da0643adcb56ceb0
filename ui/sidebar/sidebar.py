"""The left column as one widget. It asks by signals and shows what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QStackedWidget, QVBoxLayout, QWidget

from app.chat.conversations.tagging import KnownTag
from app.chat.events import SearchAnswered
from models.records import Conversation, Folder, SearchHit
from ui.look.theme import Theme
from ui.shell.keys import with_key
from ui.sidebar.all_tags_dialog import AllTagsDialog
from ui.sidebar.bulk_bar import BulkBar
from ui.sidebar.conversation_delegate import SCROLL_BAR_PX
from ui.sidebar.conversation_model import ConversationModel
from ui.sidebar.conversation_view import ConversationView
from ui.sidebar.folder_dialog import FolderDialog
from ui.sidebar.list_menu import (
    NEW_FOLDER_KEY,
    ListActs,
    fill_for_chats,
    fill_for_folder,
    fill_for_nothing,
)
from ui.sidebar.new_chat_button import NEW_CHAT_KEY, NewChatButton
from ui.sidebar.search_field import SEARCH_KEY, FilterButton, SearchField
from ui.sidebar.search_model import SearchModel
from ui.sidebar.search_view import SearchView
from ui.sidebar.tag_bar import TagBar
from ui.sidebar.tag_dialog import TagDialog
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label
from ui.widgets.plane import Plane

__all__ = ["NEW_CHAT_KEY", "SEARCH_KEY", "SETTINGS_KEY", "SIDEBAR_KEY", "Sidebar"]

SETTINGS_KEY = "Ctrl+,"
SIDEBAR_KEY = "Ctrl+B"
SHORT_BELOW_PX = 300
REGROUP_MS = 5 * 60 * 1000
"""How often the headings look at the clock (“Today” ends at midnight)."""


class Sidebar(Plane):
    """Signals: what the user wants. Those about several chats carry a tuple of ids; a folder is
    its id, None for no folder."""

    new_chat_requested = Signal()
    open_requested = Signal(str)
    rename_requested = Signal(str, str)
    trash_requested = Signal(object)
    pin_requested = Signal(object, bool)
    archive_requested = Signal(object, bool)
    move_requested = Signal(object, object)
    move_to_new_requested = Signal(object, str)
    titles_requested = Signal(object)
    tags_requested = Signal(object, object, object)
    """Of these chats: tags to put on, and to take off."""
    export_requested = Signal(object)
    folder_export_requested = Signal(str)
    folder_requested = Signal(object)
    folder_rename_requested = Signal(str, str)
    folder_move_requested = Signal(str, object)
    folder_delete_requested = Signal(str)
    closed_folders_changed = Signal(object)
    search_requested = Signal(str)
    search_more_requested = Signal()
    hit_requested = Signal(object)
    undo_requested = Signal()
    trash_opened = Signal()
    settings_requested = Signal()
    hide_requested = Signal()
    search_left = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "side", parent)
        self._theme = theme
        self._ids: set[str] = set()
        self._open_id = ""
        self._has_list = False
        self.setObjectName("sidebar")
        self.setAccessibleName("Chats")
        self._model = ConversationModel(self)
        self._found = SearchModel(self)
        # What is made here is made in the order of the eye, which is that of Tab.
        self.hide_button = self._button(
            "hide_sidebar_button",
            "caret-double-left",
            "Hide the chat list",
            with_key("Hide the chat list", SIDEBAR_KEY),
        )
        self.new_chat_button = NewChatButton(theme, self)
        self.search_field = SearchField(theme, self)
        self.filter_button = FilterButton(
            theme,
            self.search_field,
            lambda: self._model.folders,
            lambda: self._model.all_tags,
            self,
        )
        self.back_button = self._button(
            "leave_archive_button", "caret-left", "Back to chats", text="Archive"
        )
        self.back_button.hide()
        self.tag_bar = TagBar(theme, self)
        self.view = ConversationView(theme, self._model, self)
        self.results = SearchView(theme, self._found, self)
        self.bulk_bar = BulkBar(theme, self)
        self._empty = plain_label("", self, "small", name="sidebar_words", wraps=True)
        self._make_foot()
        self._build()
        self._connect()
        theme.space(self._column, 4, margins=(12, 14, 2, 12))
        for layout in (self._top, self._fields, self._foot):
            theme.space(layout, margins=(0, 0, SCROLL_BAR_PX, 0))
        theme.space(self._foot, 0)
        theme.space(self._top, margins=(8, 0, SCROLL_BAR_PX, 6))
        theme.space(self._fields, 4)
        theme.space(self._empty, margins=(8, 8, 8, 4))
        theme.at_least(self, 150)
        theme.sheet(self.search_field, _search_sheet)
        for widget in (self.view, self.results):
            widget.setMinimumHeight(1)
        self._arrange()
        self._tell()

    def _button(
        self, name: str, icon: str, spoken: str, hint: str = "", text: str = ""
    ) -> IconButton:
        made = IconButton(self._theme, icon, spoken, text=text, hint=hint, parent=self)
        made.setObjectName(name)
        return made

    def _make_foot(self) -> None:
        button = self._button
        self.settings_button = button(
            "settings_button",
            "gear-six",
            "Settings",
            with_key("Settings", SETTINGS_KEY),
            "Settings",
        )
        self.folder_button = button(
            "new_folder_button", "folder-plus", "New folder", with_key("New folder", NEW_FOLDER_KEY)
        )
        self.archive_button = button("archive_button", "archive", "Archive", "Archived chats")
        self.archive_button.setCheckable(True)
        self.trash_button = button("trash_button", "trash", "Trash", "Deleted chats")

    def _build(self) -> None:
        self._name = plain_label("Cutaway", self, "title")
        self._top = QHBoxLayout()
        self._top.addWidget(self._name)
        self._top.addStretch()
        self._top.addWidget(self.hide_button)
        self._foot = QHBoxLayout()
        self._foot.addWidget(self.settings_button)
        self._foot.addStretch()
        for widget in (self.folder_button, self.archive_button, self.trash_button):
            self._foot.addWidget(widget)
        self._search_row = QHBoxLayout()
        self._search_row.setSpacing(0)
        self._search_row.addWidget(self.search_field, 1)
        self._search_row.addWidget(self.filter_button)
        self._fields = QVBoxLayout()
        self._fields.addWidget(self.new_chat_button)
        self._fields.addLayout(self._search_row)
        self._lists = QStackedWidget(self)
        self._lists.addWidget(self.view)
        self._lists.addWidget(self.results)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._top)
        self._column.addLayout(self._fields)
        self._column.addWidget(self.back_button, 0, Qt.AlignmentFlag.AlignLeft)
        self._column.addWidget(self.tag_bar)
        self._column.addWidget(self._empty)
        self._column.addWidget(self._lists, 1)
        self._column.addWidget(self.bulk_bar)
        self._column.addLayout(self._foot)

    def _connect(self) -> None:
        self.new_chat_button.clicked.connect(self.new_chat_requested)
        self.trash_button.clicked.connect(self.trash_opened)
        self.settings_button.clicked.connect(self.settings_requested)
        self.hide_button.clicked.connect(self.hide_requested)
        self.folder_button.clicked.connect(lambda: self.new_folder())
        self.archive_button.toggled.connect(self.show_archive)
        self.back_button.clicked.connect(lambda: self.show_archive(False))
        view, model = self.view, self._model
        view.open_requested.connect(self.open_requested)
        view.trash_requested.connect(self.trash_requested)
        view.pin_requested.connect(self.pin_requested)
        view.move_requested.connect(self.move_requested)
        view.folder_move_requested.connect(self.folder_move_requested)
        view.folder_delete_requested.connect(self.folder_delete_requested)
        view.undo_requested.connect(self.undo_requested)
        view.menu_requested.connect(self._fill_menu)
        self.tag_bar.chosen_changed.connect(self._on_tags_chosen)
        view.chosen_changed.connect(
            lambda count: self.bulk_bar.show_count(count, view.chooses_several)
        )
        self.bulk_bar.asked.connect(self._on_bulk_asked)
        model.rename_requested.connect(self.rename_requested)
        model.rename_folder_requested.connect(self.folder_rename_requested)
        model.closed_changed.connect(self.closed_folders_changed)
        self._found.more_requested.connect(self.search_more_requested)
        self.results.hit_chosen.connect(self.hit_requested)
        self.results.menu_requested.connect(self._fill_hit_menu)
        self.results.more_titles_chosen.connect(lambda: self.search_field.add_filter("in:title"))
        self.results.left.connect(self.search)
        self.search_field.textChanged.connect(self._on_search_changed)
        self.search_field.returnPressed.connect(self._on_search_entered)
        self.search_field.entered_list.connect(self._on_list_entered)
        self.search_field.left.connect(self.search_left)
        self._theme.changed.connect(self._arrange)
        self._clock = QTimer(self)
        self._clock.setInterval(REGROUP_MS)
        self._clock.timeout.connect(model.regroup)
        self._clock.start()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Where height is short (a high zoom), the list gets the first row's place."""
        is_short = self.height() < self._theme.px(SHORT_BELOW_PX)
        if is_short == self._name.isHidden():
            return
        self._name.setVisible(not is_short)
        if is_short:
            self._foot.insertWidget(1, self.hide_button)
        else:
            self._top.addWidget(self.hide_button)

    # --- what is shown ------------------------------------------------------------------

    def set_conversations(self, conversations: Sequence[Conversation]) -> None:
        ids = {each.id for each in conversations}
        self._model.set_conversations(conversations)
        self.tag_bar.show_tags(self._model.all_tags)
        self._has_list = True
        self._tell()
        if self._open_id in ids - self._ids:
            self._follow_open()  # a new chat, now that it holds something
        has_changed, self._ids = ids != self._ids, ids
        text = self.search_field.text()
        if has_changed and text.strip():  # no chat is found that has gone to the trash
            self.search_requested.emit(text)

    def change_conversation(self, conversation: Conversation) -> None:
        self._model.change_conversation(conversation)
        self.tag_bar.show_tags(self._model.all_tags)

    def set_folders(self, folders: Sequence[Folder]) -> None:
        self._model.set_folders(folders)
        self._tell()

    def set_closed_folders(self, closed: Iterable[str]) -> None:
        self._model.set_closed(closed)

    def set_open(self, conversation_id: str) -> None:
        self._open_id = conversation_id
        self._model.set_open(conversation_id)
        self._follow_open()

    def _follow_open(self) -> None:
        index = self._model.index_of(self._open_id)
        if index.isValid():
            self.view.follow_open(index)

    def set_replying(self, conversation_ids: frozenset[str]) -> None:
        """Mark the chats in which a reply waits or grows."""
        self._model.set_replying(conversation_ids)

    def show_archive(self, is_shown: bool) -> None:
        """What was put into the archive, in place of the list."""
        had_focus = self.back_button.hasFocus()
        self.archive_button.setChecked(is_shown)
        self.back_button.setVisible(is_shown)
        self._model.set_archive(is_shown)
        self._tell()
        if had_focus:
            self.view.setFocus(Qt.FocusReason.OtherFocusReason)

    def _tell(self) -> None:
        """What stands above the list in words, if anything."""
        if self._lists.currentWidget() is self.results:
            return
        is_empty = self._has_list and self._model.count() == 0
        words = "The archive is empty." if self._model.is_archive else "Your chats appear here."
        if self.tag_bar.chosen:
            where = "in the archive" if self._model.is_archive else "in the list"
            these = "this tag" if len(self.tag_bar.chosen) == 1 else "these tags"
            words = f"No chat {where} has {these}."
        self._empty.setVisible(is_empty)
        self._empty.setText(words if is_empty else "")

    # --- acts on what is chosen ---------------------------------------------------------

    def chosen(self) -> tuple[str, ...]:
        """What an act of the keyboard is about: the chosen chats while the list has the focus,
        else the chat on screen."""
        if self.view.hasFocus() and self.view.chosen_ids():
            return self.view.chosen_ids()
        is_listed = self._model.conversation(self._open_id) is not None
        return (self._open_id,) if is_listed else ()

    def pin(self, ids: tuple[str, ...]) -> None:
        """Pin them; where all are pinned, no longer."""
        self._toggle(ids, lambda chat: chat.is_pinned, self.pin_requested)

    def archive(self, ids: tuple[str, ...]) -> None:
        """Into the archive; where all are there, out of it."""
        self._toggle(ids, lambda chat: chat.is_archived, self.archive_requested)

    def _toggle(
        self, ids: tuple[str, ...], has: Callable[[Conversation], bool], signal: object
    ) -> None:
        chats = self._chats(ids)
        if chats:
            signal.emit(ids, not all(has(chat) for chat in chats))  # type: ignore[attr-defined]

    def _chats(self, ids: tuple[str, ...]) -> list[Conversation]:
        found = (self._model.conversation(each) for each in ids)
        return [chat for chat in found if chat is not None]

    def move_chats(self, ids: tuple[str, ...]) -> FolderDialog | None:
        """Ask for a folder, then ask for the move."""
        chats = self._chats(ids)
        if not chats:
            return None
        one = f"Move “{chats[0].title}” to"
        words = one if len(chats) == 1 else f"Move {len(chats):,} chats to"

        def chosen(folder_id: str | None, new_name: str) -> None:
            if new_name:
                self.move_to_new_requested.emit(ids, new_name)
            else:
                self.move_requested.emit(ids, folder_id)

        return self._ask_for_folder(words, chosen)

    def tag_chats(self, ids: tuple[str, ...]) -> TagDialog | None:
        """Ask which tags they shall have."""
        chats = self._chats(ids)
        if not chats:
            return None

        def chosen(on: tuple[str, ...], off: tuple[str, ...]) -> None:
            if on or off:
                self.tags_requested.emit(ids, on, off)

        dialog = TagDialog(self._theme, chats, self._model.all_tags, chosen, self)
        dialog.open()
        return dialog

    def has_tags(self) -> bool:
        """Whether any chat has one."""
        return bool(self._model.all_tags)

    def manage_tags(
        self,
        list_tags: Callable[[], Sequence[KnownTag]],
        rename: Callable[[str, str], None],
        delete: Callable[[str], None],
    ) -> AllTagsDialog:
        dialog = AllTagsDialog(self._theme, list_tags, rename, delete, self)
        dialog.open()
        return dialog

    def _on_tags_chosen(self, keys: frozenset[str]) -> None:
        self._model.set_tags(keys)
        self.search_field.clear()
        self._tell()

    def move_folder(self, folder_id: str) -> FolderDialog | None:
        folder = next((each for each in self._model.folders if each.id == folder_id), None)
        if folder is None:
            return None

        def chosen(place: str | None, new_name: str) -> None:
            if not new_name:
                self.folder_move_requested.emit(folder_id, place)

        return self._ask_for_folder(f"Move “{folder.name}” to", chosen, frozenset({folder_id}))

    def _ask_for_folder(
        self,
        words: str,
        chosen: Callable[[str | None, str], None],
        left_out: frozenset[str] = frozenset(),
    ) -> FolderDialog:
        dialog = FolderDialog(self._theme, self._model.folders, words, chosen, left_out, self)
        dialog.open()
        return dialog

    def move_chosen(self) -> None:
        """The folder under the list's keyboard, or the chosen chats."""
        row = self.view.current_row()
        if self.view.hasFocus() and row is not None and row.kind == "folder":
            self.move_folder(row.id)
        else:
            self.move_chats(self.chosen())

    def new_folder(self, parent_id: str | None = None) -> None:
        self.show_archive(False)
        self.search_field.clear()
        self.folder_requested.emit(parent_id)

    def rename(self, conversation_id: str) -> None:
        """Begin to rename what the list's keyboard stands on, or the given chat."""
        if not self.may_rename(conversation_id):
            return
        if not self._stands_on_a_row():
            self.search_field.clear()
            chat = self._model.conversation(conversation_id)
            if chat is not None and chat.is_archived != self._model.is_archive:
                self.show_archive(chat.is_archived)
            self.view.go_to(self._model.reveal(conversation_id))
        self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.view.rename_current()

    def may_rename(self, conversation_id: str) -> bool:
        """A new or temporary chat is in no list: what stands there instead is another one."""
        return self._stands_on_a_row() or self._model.conversation(conversation_id) is not None

    def _stands_on_a_row(self) -> bool:
        return self.view.hasFocus() and self.view.current_row() is not None

    def rename_folder(self, folder_id: str) -> None:
        """Begin to rename a folder: a new one is named at once."""
        index = self._model.folder_index(folder_id)
        if index.isValid():
            self.view.go_to(index)
            self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.view.rename_current()

    def _on_bulk_asked(self, name: str) -> None:
        ids = self.view.chosen_ids()
        match name:
            case "pin":
                self.pin(ids)
            case "move":
                self.move_chats(ids)
            case "tag":
                self.tag_chats(ids)
            case "archive":
                self.archive(ids)
            case "trash":
                self.trash_requested.emit(ids)
        self.view.choose_only_current()
        self.view.setFocus(Qt.FocusReason.OtherFocusReason)

    def _fill_menu(self, menu: QMenu) -> None:
        view = self.view
        ids, row = view.chosen_ids(), view.current_row()
        folder_id = row.id if row is not None and row.kind == "folder" else ""
        acts = self._acts(ids, folder_id)
        if row is not None and folder_id and not view.chooses_several:
            fill_for_folder(menu, row, acts)
        elif self._chats(ids):
            fill_for_chats(menu, self._chats(ids), acts)
        else:
            fill_for_nothing(menu, acts)

    def _fill_hit_menu(self, menu: QMenu, hit: SearchHit) -> None:
        """The same acts, on the chat in which something was found."""
        ids = (hit.conversation_id,)
        acts = replace(
            self._acts(ids, ""),
            open=lambda: self.hit_requested.emit(hit),
            rename=lambda: self.rename(hit.conversation_id),
            choose=None,
        )
        if self._chats(ids):
            fill_for_chats(menu, self._chats(ids), acts)
        for entry in menu.actions():
            entry.setText(entry.text().partition("\t")[0])  # here those keys do something else

    def _acts(self, ids: tuple[str, ...], folder_id: str) -> ListActs:
        view = self.view
        return ListActs(
            open=lambda: self.open_requested.emit(ids[0]),
            rename=view.rename_current,
            pin=lambda: self.pin(ids),
            move=lambda: self.move_chats(ids),
            tag=lambda: self.tag_chats(ids),
            title=lambda: self.titles_requested.emit(ids),
            archive=lambda: self.archive(ids),
            trash=lambda: self.trash_requested.emit(ids),
            export=lambda: self.export_requested.emit(ids),
            choose=view.choose_by_clicks,
            toggle_folder=lambda: self._model.toggle(folder_id),
            new_folder=lambda: self.new_folder(folder_id or None),
            move_folder=lambda: self.move_folder(folder_id),
            export_folder=lambda: self.folder_export_requested.emit(folder_id),
            delete_folder=lambda: self.folder_delete_requested.emit(folder_id),
        )

    # --- search -------------------------------------------------------------------------

    def search(self) -> None:
        self.search_field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search_field.selectAll()

    def show_answer(self, answer: SearchAnswered) -> None:
        """A page of what was found. The list comes back when the field is empty."""
        if not self.search_field.text().strip():
            return
        self._found.show_page(answer)
        self._lists.setCurrentWidget(self.results)
        words = list(answer.problems)
        if self._found.rowCount() == 0:
            words.append("Searching older chats…" if answer.has_more else "No results.")
        self._empty.setText("\n".join(words))
        self._empty.setVisible(bool(words))
        if self._found.rowCount() == 0 and answer.has_more:
            self.search_more_requested.emit()

    def _on_search_changed(self, text: str) -> None:
        if not text.strip():
            if self.results.hasFocus():
                self.search_field.setFocus(Qt.FocusReason.OtherFocusReason)
            self._found.clear()
            self._lists.setCurrentWidget(self.view)
            self._tell()
        self.search_requested.emit(text)

    def _first_hit(self) -> SearchHit | None:
        index = self._found.index(0)
        return index.data(Qt.ItemDataRole.UserRole + 1) if index.isValid() else None

    def _on_search_entered(self) -> None:
        hit = self._first_hit()
        if hit is not None and self._lists.currentWidget() is self.results:
            self.hit_requested.emit(hit)

    def _on_list_entered(self) -> None:
        if self._lists.currentWidget() is self.results:
            if self._found.rowCount():
                self.results.enter()
        else:
            self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)


def _search_sheet(theme: Theme) -> str:
    """Without a box until it is used: the sketch's quiet line."""
    px, colors = theme.px, theme.colors
    return (
        f"QLineEdit {{ background: transparent; border: 1px solid transparent;"
        f" border-radius: {px(8)}px; placeholder-text-color: {colors.dim};"
        f" padding: {px(7)}px {px(9)}px; }}"
        f"QLineEdit:hover {{ background: {colors.hover}; }}"
        f"QLineEdit:focus {{ background: {colors.card}; border-color: {colors.accent}; }}"
    )
