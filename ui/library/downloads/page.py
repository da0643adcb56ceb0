"""*Downloads*: what is on its way here, what has come, and what went wrong, with what to do next.

The list follows the desk, which tells a few times a second at most; while the page is not seen it
rests. What is thrown away goes to the system's trash by Qt, on a thread, and only if size and time
are those that we gave it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QFile, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QListView,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import EngineStateChanged
from models.records import DownloadState as State
from ui.chat.header import LOADED
from ui.library.downloads.delegate import DownloadDelegate
from ui.library.downloads.model import DownloadModel
from ui.library.downloads.options import DownloadOptions
from ui.library.downloads.words import ACTIVE, RESUMABLE, whole_words
from ui.library.local.words import one_line, place_text
from ui.look.theme import Theme
from ui.shell.dialogs import show_folder
from ui.widgets.elided import ElidedLabel
from ui.widgets.kit import plain_label, push_button

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.hub.downloads.progress import DownloadProgress

UNLOAD_FIRST: Final = "Unload this model first"
TRASH_HINT: Final = "Moves the downloaded files only"
NOTHING: Final = "No downloads"
NOTHING_WORDS: Final = (
    "Find a model on the hub. Downloads are listed here and resume after a restart."
)
GO_ON: Final = {
    State.PAUSED: "Resume",
    State.WAITING: "Try now",
    State.FAILED: "Retry",
    State.CANCELLED: "Download again",
}


class DownloadPage(QWidget):
    """`page_requested` names another page of the library that helps on."""

    page_requested = Signal(str)

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._options: DownloadOptions | None = None
        self.setObjectName("download_page")
        self.setAccessibleName("Downloads")
        self.model = DownloadModel()
        self._delegate = DownloadDelegate(theme, self)
        self._make_top()
        self._make_list()
        self._make_empty()
        self._make_foot()
        self._build()
        self._connect()
        theme.space(self._column, 12)
        theme.space(self._top, 8)
        theme.space(self._foot, 8)
        theme.space(self._nothing_column, 8)
        self._fit_sizes()
        self.setFocusProxy(self.list)
        unfollow = desk.downloads.follow(self._on_changed)
        self.destroyed.connect(lambda: unfollow())
        self.show_downloads(desk.downloads.all)

    # --- building -------------------------------------------------------------------------------

    def _make_top(self) -> None:
        self.trouble = plain_label("", self, "error", name="downloads_trouble", wraps=True)
        self.folder = ElidedLabel("", self)
        self.folder.setObjectName("downloads_folder")
        self.options_button = push_button(
            "Folder and limits…",
            self,
            "download_options_button",
            spoken="Download folder and limits",
        )

    def _make_list(self) -> None:
        self.list = QListView(self)
        self.list.setObjectName("download_list")
        self.list.setAccessibleName("Downloads")
        self.list.setModel(self.model)
        self.list.setItemDelegate(self._delegate)
        self.list.setUniformItemSizes(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def _make_empty(self) -> None:
        self._nothing = QWidget(self)
        self.nothing_title = plain_label(NOTHING, self._nothing, "title")
        self.nothing_words = plain_label(NOTHING_WORDS, self._nothing, "dim", wraps=True)
        self.hub_button = push_button(
            "Find models on the hub", self._nothing, "downloads_hub_button", kind="primary"
        )
        column = QVBoxLayout(self._nothing)
        column.addStretch(2)
        for label in (self.nothing_title, self.nothing_words):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            column.addWidget(label)
        column.addWidget(self.hub_button, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(3)
        self._nothing_column = column
        self.body = QStackedWidget(self)
        self.body.addWidget(self.list)
        self.body.addWidget(self._nothing)

    def _make_foot(self) -> None:
        self.words = plain_label("", self, "small", name="download_words", wraps=True)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.load_button = push_button("Load", self, "download_load_button", kind="primary")
        self.pause_button = push_button("Pause", self, "download_pause_button")
        self.go_on_button = push_button("Resume", self, "download_resume_button")
        self.cancel_button = push_button("Cancel", self, "download_cancel_button")
        self.show_button = push_button("Show in folder", self, "download_show_button")
        self.trash_button = push_button("Move to trash", self, "download_trash_button")
        self.remove_button = push_button("Remove from list", self, "download_remove_button")

    @property
    def _buttons(self) -> tuple[QPushButton, ...]:
        return (
            self.load_button,
            self.pause_button,
            self.go_on_button,
            self.cancel_button,
            self.show_button,
            self.trash_button,
            self.remove_button,
        )

    def _build(self) -> None:
        self._top = QHBoxLayout()
        self._top.addWidget(self.folder, 1)
        self._top.addWidget(self.options_button)
        self._foot = QHBoxLayout()
        for button in self._buttons:
            self._foot.addWidget(button)
        self._foot.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.trouble)
        self._column.addLayout(self._top)
        self._column.addWidget(self.body, 1)
        self._column.addWidget(self.words)
        self._column.addLayout(self._foot)

    def _connect(self) -> None:
        self.list.selectionModel().selectionChanged.connect(lambda *_: self._settle())
        self.list.doubleClicked.connect(lambda _: self._on_return())
        self.list.installEventFilter(self)
        self.options_button.clicked.connect(self.show_options)
        self.hub_button.clicked.connect(lambda: self.page_requested.emit("hub"))
        self.load_button.clicked.connect(self._load)
        self.pause_button.clicked.connect(lambda: self._act(self._desk.downloads.pause))
        self.go_on_button.clicked.connect(lambda: self._act(self._desk.downloads.resume))
        self.cancel_button.clicked.connect(lambda: self._act(self._desk.downloads.cancel))
        self.remove_button.clicked.connect(lambda: self._act(self._desk.downloads.remove))
        self.trash_button.clicked.connect(self._trash)
        self.show_button.clicked.connect(self._show_in_folder)
        self._theme.changed.connect(self._fit_sizes)

    def follow(self, bridge: Bridge) -> None:
        """Show what is loaded, as that changes."""
        bridge.on(EngineStateChanged, self._on_engine_state)
        self._settle()

    def _on_engine_state(self, _event: object) -> None:
        self._settle()

    def _fit_sizes(self) -> None:
        self.list.setMinimumHeight(2 * self._delegate.row_height())
        self.list.doItemsLayout()

    # --- what is known --------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._desk.downloads.begin()
        self.show_downloads(self._desk.downloads.all)

    def _on_changed(self, downloads: tuple[DownloadProgress, ...]) -> None:
        if self.isVisible():
            self.show_downloads(downloads)

    def show_downloads(self, downloads: tuple[DownloadProgress, ...]) -> None:
        """The downloads as they are now. What was chosen stays chosen."""
        chosen, has_focus = self.chosen(), self.list.hasFocus()
        at = self.list.verticalScrollBar().value()
        if self.model.show(downloads):
            row = self.model.row_of(chosen.id) if chosen is not None else None
            self._choose(row if row is not None else (0 if self.model.shown else None))
            self.list.verticalScrollBar().setValue(at)
        self.body.setCurrentWidget(self.list if self.model.shown else self._nothing)
        if has_focus and not self.model.shown:
            self.hub_button.setFocus()
        trouble = self._desk.downloads.trouble
        self.trouble.setText(one_line(trouble))
        self.trouble.setVisible(bool(trouble))
        where = place_text(self._desk.downloads.folder, Path.home())
        self.folder.set_text(f"New downloads go to {one_line(where)}")
        self._settle()

    def chosen(self) -> DownloadProgress | None:
        rows = self.list.selectionModel().selectedIndexes()
        return self.model.shown[rows[0].row()] if rows else None

    def choose(self, download_id: str) -> None:
        """Put the list on that download."""
        self._choose(self.model.row_of(download_id))

    def _choose(self, row: int | None) -> None:
        if row is not None:
            self.list.setCurrentIndex(self.model.index(row))

    def _settle(self) -> None:
        """Words and buttons for what is chosen: those that do nothing for it are not there."""
        progress = self.chosen()
        state = progress.state if progress is not None else None
        can_write = not self._desk.downloads.trouble
        shown = {
            self.load_button: progress is not None and _can_load(progress),
            self.pause_button: can_write and state in ACTIVE,
            self.go_on_button: can_write and state in RESUMABLE,
            self.cancel_button: can_write and state in (*ACTIVE, State.PAUSED),
            self.show_button: state is State.DONE,
            self.trash_button: (
                can_write and state is State.DONE and progress is not None and progress.is_ours
            ),
            self.remove_button: can_write and state in (State.DONE, State.FAILED, State.CANCELLED),
        }
        lost_focus = any(button.hasFocus() and not is_on for button, is_on in shown.items())
        for button, is_on in shown.items():
            button.setVisible(is_on)
        if lost_focus:
            self.list.setFocus()
        is_loaded = progress is not None and self._is_loaded(progress)
        self.load_button.setText("Loaded" if is_loaded else "Load")
        self.load_button.setEnabled(not is_loaded)
        self.trash_button.setEnabled(not is_loaded)
        self.go_on_button.setText(GO_ON.get(state, "Resume") if state is not None else "Resume")
        words = whole_words(progress) if progress is not None else ""
        if self.words.text() != words:
            self.words.setText(words)
        self.words.setVisible(bool(words))
        self._name_buttons(one_line(progress.name) if progress is not None else "")
        self.trash_button.setToolTip(UNLOAD_FIRST if is_loaded else TRASH_HINT)

    def _is_loaded(self, progress: DownloadProgress) -> bool:
        state = self._desk.loader.state
        is_any = state.state in LOADED and state.loaded is not None
        return is_any and state.loaded is not None and state.loaded.path == progress.path

    def _name_buttons(self, name: str) -> None:
        for button in self._buttons:
            spoken = f"{button.text()}: {name}" if name else button.text()
            if button.accessibleName() != spoken:
                button.setAccessibleName(spoken)
        self.cancel_button.setToolTip("Deletes what was downloaded so far")
        self.remove_button.setToolTip("Complete files are kept; partial ones are deleted")

    # --- what the user does ---------------------------------------------------------------------

    def _act(self, act: Callable[[str], None]) -> None:
        progress = self.chosen()
        if progress is not None:
            act(progress.id)

    def _load(self) -> None:
        progress = self.chosen()
        if progress is not None and self.load_button.isEnabled() and _can_load(progress):
            self._desk.loader.load(progress.path)

    def _trash(self) -> None:
        progress = self.chosen()
        if progress is not None:
            self._desk.downloads.to_trash(progress.id, move_to_trash)

    def _show_in_folder(self) -> None:
        progress = self.chosen()
        if progress is not None:
            show_folder(self, progress.folder)

    def show_options(self) -> None:
        if self._options is None:
            self._options = DownloadOptions(self._desk, self._theme, self)
        self._options.open()

    def _on_return(self) -> None:
        """Load what is whole; go on with what is not."""
        progress = self.chosen()
        if progress is None:
            return
        if progress.state is State.DONE:
            self._load()
        elif progress.state in RESUMABLE:
            self._act(self._desk.downloads.resume)

    def _on_space(self) -> None:
        progress = self.chosen()
        if progress is not None and progress.state in ACTIVE:
            self._act(self._desk.downloads.pause)
        elif progress is not None and progress.state is State.PAUSED:
            self._act(self._desk.downloads.resume)

    def _on_delete(self) -> None:
        """Off the list, but not what still goes on or only pauses: that is for its button."""
        if not self.remove_button.isHidden():
            self.remove_button.click()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """In the list: Return loads or goes on, Space pauses and resumes, Delete removes."""
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        acts = {
            Qt.Key.Key_Return: self._on_return,
            Qt.Key.Key_Enter: self._on_return,
            Qt.Key.Key_Space: self._on_space,
            Qt.Key.Key_Delete: self._on_delete,
        }
        act = acts.get(Qt.Key(event.key()))
        if watched is not self.list or act is None:
            return super().eventFilter(watched, event)
        if not event.isAutoRepeat():
            act()
        return True


def _can_load(progress: DownloadProgress) -> bool:
    return progress.state is State.DONE and not progress.is_projector


def move_to_trash(path: str) -> bool:
    """Called on a thread of the desk's."""
    answer: object = QFile.moveToTrash(path)  # a pair by the stubs, a truth value in fact
    return bool(answer[0] if isinstance(answer, tuple) else answer)
