"""The main window: sidebar and chat side by side, shortcuts, and who answers to whom.

Widgets ask by signals, the desk acts, the bridge tells; this file is where they meet. It
holds no state of the chat: what is not told by an event is read from the desk.

It is built in steps, so that the program takes keys early: first the frame with the composer,
for which nothing else may be imported at the top of this file; then, in `show_chat`, the chat
that was open last, to be read; then, in `complete`, all the rest around it. What is sent before
the desk has opened that chat waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, QEvent, Qt
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QMoveEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QMainWindow

from ui.chat.message_edit import local_files, may_be_attached
from ui.look.theme import Theme
from ui.shell.first_frame import FirstFrame

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.chat.events import SettingsChanged
    from models.records import Conversation, Message, Weights
    from ui.chat.chat_column import ChatColumn
    from ui.settings.settings_window import SettingsWindow
    from ui.windows.trash_window import TrashWindow

SMALLEST = (480, 400)
FIRST_SIZE = (1180, 780)
FONTS = frozenset({"font_text", "font_reading", "font_mono", "text_px", "reading_px"})


class MainWindow(QMainWindow):
    """Everything on screen. Build it, show it; `desk.start()` may come later.

    Without a desk it is the frame alone: `complete` it. `look` is what is remembered for the
    first paint (`app.chat.settings.first_look`).
    """

    def __init__(
        self,
        desk: Desk | None,
        bridge: Bridge | None,
        theme: Theme,
        look: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._theme = theme
        self._is_complete = False
        self.wants_restart = False
        """Once it is closed, the program starts again."""
        self._sent_early: list[str] = []
        self._peeked: Conversation | None = None
        self._settings_window: SettingsWindow | None = None
        self._trash_window: TrashWindow | None = None
        self.setObjectName("main_window")
        self.setAccessibleName("Cutaway")
        self.setWindowTitle("Cutaway")
        self.setAcceptDrops(True)
        self.setAnimated(False)  # or Qt makes an animation whenever a label in it changes
        self.setMinimumSize(*SMALLEST)
        self.resize(*FIRST_SIZE)
        self._frame = FirstFrame(theme, look or {}, self)
        self.setCentralWidget(self._frame)
        self._restore_place(look or {})
        self._frame.composer.send_requested.connect(self._on_sent_early)
        self._frame.composer.focus()
        if desk is not None and bridge is not None:
            self.complete(desk, bridge)

    def show_chat(self, conversation: Conversation, messages: Sequence[Message]) -> None:
        """Before `complete`: the last chat as it is about to be opened. Until the desk has it,
        nothing is offered that would change it."""
        self._peeked = conversation
        self.chat = self._chat_column()
        self._frame.hold(self.chat)
        self.chat.header.set_title(conversation.title)
        self.chat.transcript.is_locked = True
        self.chat.transcript.set_conversation(messages)
        self.chat.show_transcript(True)
        self.chat.composer.focus()

    def _chat_column(self) -> ChatColumn:
        from ui.chat.chat_column import ChatColumn

        def known_weights() -> Sequence[Weights]:
            return self._desk.local.for_menu() if self._is_complete else ()

        return ChatColumn(self._theme, known_weights, self._frame.composer)

    def complete(self, desk: Desk, bridge: Bridge) -> None:
        """Build the rest around the composer. What was typed and sent meanwhile counts."""
        from app.chat.events import ConversationOpened, LastChatStays, SettingsChanged
        from ui.chat.aloud_acts import AloudActs
        from ui.chat.composing import Composing
        from ui.chat.drafting_acts import add_drafting_actions
        from ui.chat.message_acts import MessageActs
        from ui.chat.template_banner import TemplateBanner
        from ui.chat.temporary import TemporaryChat
        from ui.chat.text_mode_following import TextFollowing
        from ui.chat.thinking_control import ThinkingControl
        from ui.paper.picture_acts import PictureActs
        from ui.shell.actions import Actions
        from ui.shell.chat_menu import add_chat_menu
        from ui.shell.columns import Columns
        from ui.shell.following import Following
        from ui.shell.place import WindowPlace
        from ui.shell.section_acts import SectionActs
        from ui.shell.zoom import ZoomControl
        from ui.sidebar.sidebar import Sidebar
        from ui.sidebar.sidebar_acts import SidebarActs
        from ui.tokens.step_acts import StepActs
        from ui.tokens.token_view_acts import TokenViewActs
        from ui.tokens.word_acts import WordActs
        from ui.tools.call_acts import CallActs
        from ui.tools.tools_control import ToolsControl
        from ui.tour.tour_acts import TourActs
        from ui.windows.exchange_acts import ExchangeActs
        from ui.windows.page_acts import PageActs
        from ui.windows.server.acts import ServerActs

        theme, composer = self._theme, self._frame.composer
        typed = composer.text()
        self._desk = desk
        self._bridge = bridge
        self.sidebar = Sidebar(theme)
        if self._peeked is None:
            self.chat = self._chat_column()
        self.columns = Columns(theme, self.sidebar, self.chat, self)
        self.setCentralWidget(self.columns)  # deletes the frame, the composer has moved out
        self._place = WindowPlace(self, self.columns, desk)
        self.section_acts = SectionActs(desk, bridge, theme, self.columns, self.chat.header)
        self.step_acts = StepActs(desk, bridge, theme, self.chat)
        self.token_view_acts = TokenViewActs(desk, bridge, theme, self.chat, self.section_acts)
        self._word_acts = WordActs(desk, self.chat, self.section_acts)
        self._zoom = ZoomControl(self)
        self.action_registry = Actions(self)
        self.following = Following(desk, bridge, self.sidebar, self.chat)
        self.composing = Composing(desk, bridge, theme, self.chat)
        self.thinking = ThinkingControl(desk, bridge, theme, self.chat)
        look_again = self.following.look_whether_generating
        self.call_acts = CallActs(desk, bridge, theme, self.chat, look_again)
        self.aloud_acts = AloudActs(desk, bridge, theme, self.chat, self._hear_stop)
        self.tools_control = ToolsControl(
            desk, bridge, theme, self.chat, self.composing, lambda: self.show_settings("tools")
        )
        self.temporary = TemporaryChat(desk, bridge, self.chat)
        self.text_following = TextFollowing(desk, bridge, theme, self.chat)
        self.message_acts = MessageActs(desk, bridge, theme, self.chat)
        self._template_banner = TemplateBanner(desk, bridge, self.chat)
        self.sidebar_acts = SidebarActs(desk, bridge, self.sidebar, self.columns, self.chat)
        self.exchange_acts = ExchangeActs(desk, bridge, theme, self.sidebar, self)
        self.picture_acts = PictureActs(
            desk, theme, self.exchange_acts, self.chat.toasts, self.message_acts
        )
        self.page_acts = PageActs(
            desk,
            bridge,
            theme,
            self.exchange_acts,
            self.chat.toasts,
            self.section_acts.looked_at,
            self,
        )
        self.tour_acts = TourActs(
            desk,
            bridge,
            theme,
            self,
            self.chat,
            self.section_acts,
            self.text_following,
            lambda: self.lazy.show_library(""),
        )
        self.server_acts = ServerActs(
            desk, bridge, theme, self.chat, lambda: self.show_settings("server")
        )
        self._connect_sidebar()
        self._connect_chat()
        self._connect_shortcuts()
        self.sidebar_acts.add_actions(self.action_registry)
        self.exchange_acts.add_actions(self.action_registry)
        self.picture_acts.add_actions(self.action_registry)
        self.page_acts.add_actions(self.action_registry)
        self.composing.add_actions(self.action_registry)
        self.thinking.add_actions(self.action_registry)
        self.tools_control.add_actions(self.action_registry)
        self.call_acts.add_actions(self.action_registry)
        self.aloud_acts.add_actions(self.action_registry)
        add_drafting_actions(desk, self.action_registry)
        self.text_following.add_actions(self.action_registry)
        self.temporary.add_actions(self.action_registry)
        self.message_acts.add_actions(self.action_registry)
        self.section_acts.add_actions(self.action_registry)
        self.token_view_acts.add_actions(self.action_registry)
        self.step_acts.add_actions(self.action_registry)
        self.tour_acts.add_actions(self.action_registry)
        self.server_acts.add_actions(self.action_registry)
        add_chat_menu(self.chat.header.menu_button, self.action_registry)
        self._apply_settings(frozenset({"theme", "zoom_percent", "send_key"}) | FONTS)
        bridge.on(SettingsChanged, self._on_settings_changed)
        self.following.read_desk(self._peeked)
        self.token_view_acts.follow()
        own_template = partial(self.lazy.show_defaults, "", "template")
        self._template_banner.own_requested.connect(own_template)
        self._is_complete = True
        composer.send_requested.disconnect(self._on_sent_early)
        if self._peeked is None:
            self._take_early(typed)
        else:
            # After `following`, which shows what was opened.
            bridge.on(ConversationOpened, self._settle)
            bridge.on(LastChatStays, self._on_last_chat_stays)
            if typed:
                desk.shelf.save_draft(typed)
        self.chat.focus_writing()

    def _on_sent_early(self, text: str) -> None:
        self._sent_early.append(text)

    def _on_last_chat_stays(self) -> None:
        if self._peeked is not None:
            self.following.read_desk()
            self._settle()

    def _settle(self) -> None:
        """The desk has the chat that was shown before it, or another one: go on as ever."""
        if self._peeked is None:
            return
        self._peeked = None
        self.chat.transcript.is_locked = self._desk.replies.is_generating
        self._take_early(self.chat.composer.text())

    def _take_early(self, typed: str) -> None:
        """What was written before anybody listened. The field is left as it is, caret and all."""
        composer, sent = self.chat.composer, self._sent_early
        self._sent_early = []
        refused = [t for t in sent if not (self._desk.replies.send(t) or self._desk.queue.add(t))]
        if refused:
            composer.set_text("\n".join((*refused, typed) if typed else refused))
        if typed or refused:
            self._desk.shelf.save_draft(composer.text())

    def _restore_place(self, look: Mapping[str, Any]) -> None:
        geometry = look.get("window_geometry")
        if isinstance(geometry, str) and geometry:
            self.restoreGeometry(QByteArray.fromHex(geometry.encode("ascii", "ignore")))

    # --- connections --------------------------------------------------------------------

    def _connect_sidebar(self) -> None:
        sidebar = self.sidebar
        sidebar.new_chat_requested.connect(self.new_chat)
        sidebar.open_requested.connect(self._on_open_requested)
        sidebar.undo_requested.connect(self.following.undo_last)
        sidebar.settings_requested.connect(self.show_settings)
        sidebar.trash_opened.connect(self.show_trash)
        sidebar.hide_requested.connect(self.toggle_sidebar)
        sidebar.search_left.connect(self.focus_composer)

    def _connect_chat(self) -> None:
        chat, desk = self.chat, self._desk
        chat.composer.send_requested.connect(self._on_send_requested)
        chat.composer.stop_requested.connect(desk.replies.stop)
        chat.composer.draft_changed.connect(desk.shelf.save_draft)
        chat.transcript.retry_requested.connect(desk.replies.answer)
        chat.transcript.new_chat_requested.connect(self.new_chat)
        chat.transcript.version_step_requested.connect(desk.paths.show_version)
        chat.transcript.link_activated.connect(self._on_link_activated)
        chat.transcript.typed.connect(self._on_typed)
        chat.header.weights_chosen.connect(desk.loader.load)
        chat.header.unload_requested.connect(desk.loader.unload)
        chat.status.memory_looked_at.connect(lambda: desk.memory.read(chat.status.show_memory))
        chat.header.cancel_load_requested.connect(desk.loader.cancel)
        chat.header.open_file_requested.connect(self.open_gguf)
        chat.header.show_sidebar_requested.connect(self.toggle_sidebar)
        chat.empty.open_file_requested.connect(self.open_gguf)
        chat.wanted.connect(self.columns.show_chat)
        for area in (chat.banners, chat.toasts):
            area.focus_released.connect(self.focus_composer)
        self.following.log_requested.connect(lambda: self.show_settings("log"))
        self.following.generating_changed.connect(self._on_generating_changed)

    def _connect_shortcuts(self) -> None:
        from ui.chat.engine_menu import EngineMenu
        from ui.shell.lazy_windows import LazyWindows
        from ui.shell.window_actions import add_window_actions

        desk, chat, actions = self._desk, self.chat, self.action_registry
        lazy = LazyWindows(
            self,
            desk,
            self._bridge,
            self._theme,
            actions,
            self.section_acts,
            self.focus_composer,
        )
        self.lazy = lazy
        self.message_acts.settings_requested.connect(lazy.show_reply)
        chat.header.library_requested.connect(lazy.show_library)
        chat.empty.library_requested.connect(lazy.show_library)
        self.composing.projector_wanted.connect(lazy.find_projector)
        self.composing.projector_choice_wanted.connect(
            lambda path: lazy.show_defaults(path, "projector")
        )
        self.composing.model_wanted.connect(lambda: chat.header.weights_button.showMenu())
        chat.header.defaults_requested.connect(lazy.show_defaults)
        self._engine_menu = EngineMenu(desk, chat.header, lambda: self.show_settings("engine"))
        add_window_actions(actions, desk, self, lazy, self.sidebar, chat, self.following)
        self._zoom.requested.connect(self.zoom)
        for widget in (
            self.chat.transcript.viewport(),
            self.chat.empty.viewport(),
            self.chat.composer,
            self.sidebar.view.viewport(),
            self.sidebar.results.viewport(),
        ):
            self._zoom.watch_wheel(widget)

    # --- acts ---------------------------------------------------------------------------

    def new_chat(self) -> None:
        self._desk.shelf.open_new()
        self.focus_composer()

    def focus_composer(self) -> None:
        self.columns.show_chat()
        self.chat.focus_writing()

    def search(self) -> None:
        self.columns.show_sidebar()
        self.sidebar.search()

    def rename(self) -> None:
        """Rename the chat under the list's keyboard, or the one on screen."""
        conversation = self._desk.shelf.open
        self.columns.show_sidebar()
        self.sidebar.rename(conversation.id)

    def toggle_sidebar(self) -> None:
        had_focus = self.sidebar.isAncestorOf(QApplication.focusWidget() or self)
        self.columns.toggle_sidebar()
        if had_focus and not self.sidebar.isVisible():
            self.chat.composer.focus()

    def toggle_full_screen(self) -> None:
        """A maximized window is maximized again afterwards."""
        self.setWindowState(self.windowState() ^ Qt.WindowState.WindowFullScreen)

    def open_gguf(self) -> None:
        from app.engine.protocol.remote_messages import is_remote
        from ui.shell.dialogs import choose_gguf

        known = self._desk.loader.known_weights()
        files = [Path(each.path) for each in known if not is_remote(each.path)]
        folder = files[0].parent if files else Path.home()
        choose_gguf(self, folder, self._desk.loader.load)

    def show_settings(self, page: str = "") -> None:
        self.settings_window().show_page(page)

    def settings_window(self) -> SettingsWindow:
        """Built at first use: it does not belong to the first paint."""
        if self._settings_window is None:
            from ui.settings.settings_window import SettingsWindow

            self._settings_window = SettingsWindow(self._desk, self._bridge, self._theme, self)
            self._settings_window.levels_requested.connect(self.lazy.show_levels)
            self._settings_window.presets_requested.connect(self.lazy.show_presets)
            self._settings_window.backup_page.restart_requested.connect(self.restart)
            show_requests = self.server_acts.show_requests
            self._settings_window.server_page.requests_wanted.connect(show_requests)
        return self._settings_window

    def show_trash(self) -> None:
        """Built at first use, too."""
        if self._trash_window is None:
            from ui.windows.trash_window import TrashWindow

            self._trash_window = TrashWindow(self._desk, self._bridge, self._theme, self)
        self._trash_window.open()

    # --- following ----------------------------------------------------------------------

    def _on_send_requested(self, text: str) -> None:
        """What the desk does not take (it says why) stays in the field."""
        if self._peeked is not None:
            self._sent_early.append(text)
        elif not self._desk.replies.send(text):
            self.chat.composer.set_text(text)

    def _on_typed(self, text: str) -> None:
        """Written with the focus on the transcript, as after a click into it. A document's tokens
        have no composer beside them."""
        if self.chat.composer.isHidden():
            return
        self.focus_composer()
        self.chat.composer.insert_text(text)

    def _on_link_activated(self, address: str) -> None:
        from ui.shell.dialogs import confirm_link

        confirm_link(self, address)

    def _on_open_requested(self, conversation_id: str) -> None:
        self._desk.shelf.open_stored(conversation_id)
        self.focus_composer()

    def _on_generating_changed(self, is_generating: bool) -> None:
        self._hear_stop()
        self.text_following.set_generating(is_generating)

    def _hear_stop(self) -> None:
        """Escape stops what is read aloud, then the reply."""
        is_reading, is_generating = self._desk.aloud.is_reading, self._desk.replies.is_generating
        self.action_registry.hear("stop", is_reading or is_generating)

    def zoom(self, direction: int) -> None:
        """A step larger (1) or smaller (-1), or back to 100 % (0)."""
        from ui.shell.zoom import stepped

        percent = stepped(self._theme.zoom_percent, direction) if direction else 100
        # At once, and remembered: a held key must not wait for the way through the desk.
        self._theme.set_zoom(percent)
        self._desk.settings.set("zoom_percent", percent)

    def _on_settings_changed(self, event: SettingsChanged) -> None:
        self._apply_settings(event.names)
        self._place.follow(event.names)
        self.section_acts.follow()

    def _apply_settings(self, names: frozenset[str]) -> None:
        settings = self._desk.settings.now
        if "theme" in names:
            self._theme.set_mode(settings.theme)
        if "zoom_percent" in names:
            self._theme.set_zoom(settings.zoom_percent)
        if names & FONTS:
            self._theme.set_fonts(settings)
        if "send_key" in names:
            self.chat.composer.set_send_key(settings.send_key)

    # --- Qt -----------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._is_complete:
            self._place.note()

    def moveEvent(self, event: QMoveEvent) -> None:
        super().moveEvent(event)
        if self._is_complete:
            self._place.note()

    def quit(self) -> None:
        """Close as the user does, who is warned of what would be lost."""
        if not self.temporary.warn_before_close():
            self.close()

    def restart(self) -> None:
        """Close as `quit` does, and start again; not where something would be lost."""
        if not self.temporary.warn_before_close():
            self.wants_restart = True
            self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        # A signal or the end of the session asks nobody.
        if event.spontaneous() and self._is_complete and self.temporary.warn_before_close():
            event.ignore()
            return
        if self._is_complete:
            self.lazy.close()
            self.server_acts.close()
            self._place.save()
            if self._peeked is not None and self._sent_early:
                unsent = "\n".join((*self._sent_early, self.chat.composer.text()))
                self._desk.shelf.save_draft(unsent.rstrip("\n"))
        for window in (self._settings_window, self._trash_window):
            if window is not None:
                window.close()
        super().closeEvent(event)

    def customEvent(self, event: QEvent) -> None:
        """A term was clicked, in this window or in one beside it."""
        from ui.section.term_label import TermAsked

        if self._is_complete and isinstance(event, TermAsked):
            event.accept()
            self.lazy.glossary().ask(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Files may be let go of anywhere; the composer shows where they will be."""
        if may_be_attached(event.mimeData()):
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            self._show_drop(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self._show_drop(False)

    def _show_drop(self, is_near: bool) -> None:
        if self._is_complete:
            self.chat.composer.show_drop(is_near)

    def dropEvent(self, event: QDropEvent) -> None:
        self._show_drop(False)
        if not self._is_complete:
            return
        event.accept()
        if files := local_files(event.mimeData()):
            self.composing.give_files(files)
        else:
            self.composing.give_picture(event.mimeData())
