"""The library in one window: weights on this machine, on the hub, and on their way here.

It stands beside the chat, not in its place, so that a reply and a download can be watched at once
and the chat's keys keep meaning the chat. Built when it is first asked for; closing hides it. The
page of one file's own settings lies over the others: Escape leads back from it, then out.

What the desk says while this window is in front is said here too: the main window's notices may
lie behind it. At its foot stands what is loaded, with the way back to the chat.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QHBoxLayout,
    QProgressBar,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import EngineStateChanged, LoadProgressed
from app.gguf.starter import HOW_TO_GET_WEIGHTS
from app.hub.downloads.progress import ACTIVE, DownloadProgress
from ui.chat.header import (
    DEFAULTS_KEY,
    DOWNLOADS_KEY,
    HUB_KEY,
    LIBRARY_KEY,
    LOADED,
    LOADING,
    PROGRESS_STEPS,
)
from ui.library.downloads.page import DownloadPage
from ui.library.hub.page import HubPage
from ui.library.local.page import LocalPage
from ui.look.theme import Theme
from ui.section.low_room import LowRoom
from ui.shell.notices import announce
from ui.shell.window_toasts import WindowToasts
from ui.widgets.elided import ElidedLabel, tip_text
from ui.widgets.figures import loaded_details, loaded_text, plain_name
from ui.widgets.kit import push_button
from ui.widgets.zoomed_size import ZoomedSize
from ui.windows.beside import WindowBeside

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.gguf.header import Header
    from ui.library.defaults.weights_settings import WeightsSettings
    from ui.library.fit.view import FitView

SIZE_PX = (900, 640)
FOOT_FROM_PX = 320


class LibraryView(WindowBeside):
    """`show_page` brings it to the front. `chat_requested`: the user is done here."""

    chat_requested = Signal()

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(
            theme, "library_view", "Library", parent, spoken="Model library", keys=("Ctrl+W",)
        )
        self._desk = desk
        self._bridge = bridge
        self._fraction = 0.0
        self._was_loading = False
        self.tabs = QTabBar(self)
        self.tabs.setObjectName("library_tabs")
        self.tabs.setProperty("kind", "pages")
        self.tabs.setAccessibleName("Library pages")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        self.pages = QStackedWidget(self)
        self._defaults: WeightsSettings | None = None
        self._fit_view: FitView | None = None
        self._page_names: list[str] = []
        self._pages: list[QWidget] = []
        self._shelves = QWidget(self)
        self._body = QStackedWidget(self)
        self.toasts = WindowToasts(desk, bridge, theme, self._body)
        self._build_foot()
        self._add_pages()
        self._shelf_column = QVBoxLayout(self._shelves)
        self._shelf_column.setContentsMargins(0, 0, 0, 0)
        self._shelf_column.addWidget(self.tabs)
        self._shelf_column.addWidget(self.pages, 1)
        self._body.addWidget(self._shelves)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._body, 1)
        self._column.addWidget(self._foot)
        self._connect(bridge)
        theme.space(self._foot_row, 8)
        theme.size(self.progress, 120, 4)
        self._arrange()
        self._show_engine()
        ZoomedSize(self, theme, SIZE_PX)

    def _build_foot(self) -> None:
        self._foot = QWidget(self)
        self.loaded_label = ElidedLabel("", self._foot)
        self.loaded_label.setObjectName("library_loaded")
        self.progress = QProgressBar(self._foot)
        self.progress.setObjectName("library_load_progress")
        self.progress.setAccessibleName("Loading the model")
        self.progress.setRange(0, PROGRESS_STEPS)
        self.progress.setTextVisible(False)
        self.cancel_button = push_button(
            "Cancel", self._foot, "library_cancel_load_button", spoken="Cancel loading"
        )
        self.memory_button = push_button(
            "Memory",
            self._foot,
            "library_memory_button",
            spoken="Memory used by the loaded model",
        )
        self.chat_button = push_button("Chat", self._foot, "library_chat_button")
        self._foot_row = QHBoxLayout(self._foot)
        self._foot_row.setContentsMargins(0, 0, 0, 0)
        self._foot_row.addWidget(self.loaded_label, 1)
        self._foot_row.addWidget(self.progress)
        self._foot_row.addWidget(self.cancel_button)
        self._foot_row.addWidget(self.memory_button)
        self._foot_row.addWidget(self.chat_button)

    def _add_pages(self) -> None:
        self.add_page("local", "On this computer", LocalPage(self._desk, self._theme))
        self.add_page("hub", "Hub", HubPage(self._desk, self._theme))
        self.add_page("downloads", "Downloads", DownloadPage(self._desk, self._theme))

    def add_page(self, name: str, title: str, page: QWidget) -> None:
        """What a page asks for by its signals is done here: another page, the defaults of a
        file, the memory that weights need."""
        for signal, act in (
            ("page_requested", self.show_page),
            ("defaults_requested", self.show_defaults),
            ("fit_requested", self.show_fit),
            ("headers_fit_requested", self.show_headers_fit),
            ("projector_requested", self.find_projector),
        ):
            if hasattr(page, signal):
                getattr(page, signal).connect(act)
        self._page_names.append(name)
        self._pages.append(page)
        self.tabs.addTab(title)
        self.pages.addWidget(LowRoom(page, self.pages))

    def _connect(self, bridge: Bridge) -> None:
        self.tabs.currentChanged.connect(self.pages.setCurrentIndex)
        self.chat_button.clicked.connect(self._on_chat)
        self.memory_button.clicked.connect(lambda: self.show_fit())
        self.cancel_button.clicked.connect(self._desk.loader.cancel)
        QShortcut(QKeySequence("Esc"), self, self._on_escape)
        # The keys by which the chat's window opens it work here, too.
        for key, name in ((LIBRARY_KEY, "local"), (HUB_KEY, "hub"), (DOWNLOADS_KEY, "downloads")):
            QShortcut(QKeySequence(key), self, partial(self.show_page, name))
        QShortcut(QKeySequence(DEFAULTS_KEY), self, self._show_loaded_defaults)
        QShortcut(QKeySequence("Ctrl+Tab"), self, lambda: self._turn(1))
        QShortcut(QKeySequence("Ctrl+Shift+Tab"), self, lambda: self._turn(-1))
        bridge.on(EngineStateChanged, self._show_engine)
        bridge.on(LoadProgressed, self._on_load_progressed)
        for page in self._pages:
            if hasattr(page, "follow"):
                page.follow(bridge)
        self.toasts.focus_released.connect(self._focus_page)
        self.destroyed.connect(self._desk.downloads.follow(self._on_downloads))
        self._theme.changed.connect(self._arrange)

    # --- opening ------------------------------------------------------------------------

    def show_page(self, name: str = "") -> None:
        """Show that page, or what was shown last."""
        if name in self._page_names:
            self.leave_defaults()
            self.tabs.setCurrentIndex(self._page_names.index(name))
        self._come_forward()

    def page(self) -> QWidget | None:
        """The page that is on screen, or behind the defaults."""
        return self._pages[self.pages.currentIndex()] if self._pages else None

    def show_defaults(self, path: str, part: str = "") -> None:
        """Show what is set for the weights in a file; `part` is one of `weights_settings.NAMES`."""
        self.defaults().show_path(path, part)
        self._body.setCurrentWidget(self.defaults())
        self._come_forward()

    def _show_loaded_defaults(self) -> None:
        if self._desk.loader.path:
            self.show_defaults(self._desk.loader.path)

    def defaults(self) -> WeightsSettings:
        if self._defaults is None:
            from ui.library.defaults.weights_settings import WeightsSettings

            self._defaults = WeightsSettings(self._desk, self._bridge, self._theme, self)
            self._defaults.left.connect(self._on_escape)
            self._defaults.get_requested.connect(self.find_projector)
            self._body.addWidget(self._defaults)
        return self._defaults

    def find_projector(self, path: str = "") -> None:
        """On the hub, for the model in a file, or for the one that is loaded: in the repository
        that it came from, where that is known, else by its name."""
        path = path or self._desk.loader.path
        self.show_page("hub")
        page = self.page()
        if isinstance(page, HubPage) and path:
            name = self._desk.loader.name_of(path)
            page.find_projector(self._desk.projectors.repository(path), name)

    def show_fit(self, path: str = "") -> None:
        """The memory that weights need: those in a file, or those that are loaded."""
        if path:
            self.fit_view().show_file(path)
        else:
            self.fit_view().show_loaded()

    def show_headers_fit(self, headers: Sequence[Header], name: str) -> None:
        """The same for weights that are elsewhere, by the headers of all their parts."""
        self.fit_view().show_headers(headers, name)

    def fit_view(self) -> FitView:
        """A window of its own, beside this one."""
        if self._fit_view is None:
            from ui.library.fit.view import FitView

            self._fit_view = FitView(self._desk, self._bridge, self._theme, self)
        return self._fit_view

    def leave_defaults(self) -> bool:
        """Back to the pages. False: they were there already."""
        if self._body.currentWidget() is self._shelves:
            return False
        self._body.setCurrentWidget(self._shelves)
        return True

    def _come_forward(self) -> None:
        self.come_forward()
        self._focus_page()

    def _focus_page(self) -> None:
        """What is written first on a page has the keyboard: its search field, if it has one."""
        page = self.page()
        first: QWidget = (page.focusProxy() if page is not None else None) or self.tabs
        if self._body.currentWidget() is not self._shelves:
            first = self.defaults().segments
        first.setFocus(Qt.FocusReason.ActiveWindowFocusReason)

    def _on_escape(self) -> None:
        if self.leave_defaults():
            self._focus_page()
        else:
            self.close()

    def _turn(self, step: int) -> None:
        if self._body.currentWidget() is not self._shelves:
            parts = self.defaults().segments
            parts.setCurrentIndex((parts.currentIndex() + step) % parts.count())
        elif self.tabs.count():
            self.tabs.setCurrentIndex((self.tabs.currentIndex() + step) % self.tabs.count())
            self._focus_page()  # Qt's choice would be some button

    def _on_chat(self) -> None:
        self.close()
        self.chat_requested.emit()

    # --- following ----------------------------------------------------------------------

    def _on_load_progressed(self, event: LoadProgressed) -> None:
        self._fraction = event.fraction
        self._show_engine()

    def _on_downloads(self, downloads: Sequence[DownloadProgress]) -> None:
        """How many are on their way is seen from every page."""
        if "downloads" not in self._page_names:
            return
        n_active = sum(each.state in ACTIVE for each in downloads)
        title = f"Downloads ({n_active})" if n_active else "Downloads"
        place = self._page_names.index("downloads")
        if self.tabs.tabText(place) != title:
            self.tabs.setTabText(place, title)

    def _show_engine(self) -> None:
        state = self._desk.loader.state
        is_loading, is_loaded = state.state in LOADING, state.state in LOADED
        name = plain_name(state.weights_name)
        if not is_loading:
            self._fraction = 0.0
        if is_loading and state.is_remote:
            words = f"Connecting to {name}"
        elif is_loading:
            words = f"Loading {name or 'the model'} · {self._fraction:.0%}"
        elif is_loaded and state.loaded is not None:
            words = f"Loaded: {loaded_text(name, state.loaded)}"
        elif state.sentence and state.sentence != HOW_TO_GET_WEIGHTS:
            words = state.sentence
        else:
            words = f"{name} is not loaded." if name else "No model is loaded."
        self.loaded_label.set_text(words)
        if self._was_loading and not is_loading and self.isVisible():
            announce(self, words)
        self._was_loading = is_loading
        details = loaded_details(state.loaded) if is_loaded and state.loaded is not None else ""
        self._foot.setToolTip(tip_text(details))
        self._arrange()
        self.progress.setVisible(is_loading)
        self.progress.setValue(round(min(1.0, max(0.0, self._fraction)) * PROGRESS_STEPS))
        self.cancel_button.setVisible(is_loading)
        is_here = state.loaded is not None and state.loaded.remote is None
        self.memory_button.setVisible(is_loaded and is_here)
        self.chat_button.setProperty("kind", "primary" if is_loaded else "")
        self.chat_button.style().polish(self.chat_button)
        self.chat_button.setAccessibleName(f"Chat with {name}" if is_loaded else "Back to chat")
        self.chat_button.setToolTip(tip_text(self.chat_button.accessibleName()))

    # --- size ---------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Where height is short (a high zoom), the pages need it more than the foot does; it is
        there while something loads."""
        px, is_short = self._theme.px, self.height() < self._theme.px(FOOT_FROM_PX)
        gap = px(4 if is_short else 12)
        self._column.setContentsMargins(px(16), gap, px(16), gap)
        self._column.setSpacing(gap)
        self._shelf_column.setSpacing(gap)
        self._foot.setVisible(not is_short or self._desk.loader.state.state in LOADING)

    def closeEvent(self, event: QCloseEvent) -> None:
        """What was typed last is applied, even without Return."""
        focus = self.focusWidget()
        if focus is not None:
            focus.clearFocus()
        if self._fit_view is not None:
            self._fit_view.close()
        super().closeEvent(event)
