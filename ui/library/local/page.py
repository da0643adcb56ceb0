"""*On this machine*: every GGUF that was found, in whatever folder and whichever program put it
there; loaded from where it lies.

The list is filled while it is looked, and follows what comes and goes. Nothing here waits for a
disk: the desk tells what is known, and whether weights fit is judged for the rows in view.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import (
    QFontMetrics,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.chat.events import EngineStateChanged, LevelsChanged, MemoryChanged
from ui.chat.header import LOADED
from ui.library.downloads.page import move_to_trash
from ui.library.local.delegate import SIDE_PX, LocalDelegate
from ui.library.local.folders_dialog import FoldersDialog
from ui.library.local.model import (
    COLUMNS,
    CONTEXT,
    FIT,
    FROM,
    NAME,
    PARAMETERS,
    QUANTISATION,
    SIZE,
    LocalModel,
)
from ui.library.local.words import (
    is_projector,
    one_line,
    senses_of,
    status_text,
    whole_words,
)
from ui.look.theme import Theme
from ui.shell.dialogs import show_folder
from ui.widgets.any_index import AnyIndex
from ui.widgets.flow import FlowLayout
from ui.widgets.icon_button import IconButton
from ui.widgets.kit import plain_label, push_button, rest_timer

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.engine.planning.fit import Fit
    from app.gguf.local.entries import FoundWeights
    from app.library.local import LocalSnapshot

JUDGE_AFTER_MS: Final = 150
MAX_TROUBLES: Final = 3
WORDS_LINES: Final = 4
"""Room for what is said of chosen weights: rows stay where they are between the two clicks of one
who chooses and loads."""
_WIDEST: Final = {
    PARAMETERS: "999.9B",
    QUANTISATION: "IQ2_XXS",
    SIZE: "999.9 GB",
    CONTEXT: "1,024k",
    FROM: "Hugging Face",
    FIT: "fits with 12 of 24",
}
_FROM_PX: Final = {CONTEXT: 780, PARAMETERS: 680, FROM: 560, QUANTISATION: 480, FIT: 380}
"""How wide the page must be for these columns."""
LOOKING: Final = "Looking for models…"
NOTHING: Final = "No models on this computer yet"
NOTHING_WORDS: Final = (
    "Find a model that fits your computer, or add a folder with GGUF files. Models from LM "
    "Studio, Jan, GPT4All, Ollama, llama.cpp and Hugging Face appear here automatically."
)


class LocalPage(QWidget):
    """`page_requested` names another page of the library that helps on; `defaults_requested` the
    file whose own settings are wanted, `fit_requested` that whose need of memory is, and
    `projector_requested` that which needs a projector from the hub."""

    page_requested = Signal(str)
    projector_requested = Signal(str)
    defaults_requested = Signal(str)
    fit_requested = Signal(str)

    def __init__(self, desk: Desk, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._theme = theme
        self._home = Path.home()
        self._snapshot: LocalSnapshot | None = None
        self._fits: dict[tuple[str, int], Fit] = {}
        self._rough: dict[int, Fit | None] = {}
        self._asked: set[tuple[str, int]] = set()
        self._answers: list[Callable[[str, Fit], None]] = []
        self._folders: FoldersDialog | None = None
        self.setObjectName("local_page")
        self.setAccessibleName("Models on this computer")
        self.model = LocalModel(self._home, self.fit_of, self._senses)
        self._delegate = LocalDelegate(theme, self)
        self._judging = rest_timer(self, self._judge, JUDGE_AFTER_MS)
        self._make_top()
        self._make_table()
        self._make_empty()
        self._make_foot()
        self._build()
        self._connect()
        theme.space(self._column, 12)
        theme.space(self._top, 8)
        theme.space(self._foot, 8)
        theme.space(self._nothing_column, 8)
        theme.at_most(self.nothing_title, 460)
        theme.at_most(self.nothing_words, 460)
        self._fit_sizes()
        self.setFocusProxy(self.search)
        self.destroyed.connect(desk.local.follow(self.show_snapshot))
        self._show_body()
        self._settle()

    # --- building -------------------------------------------------------------------------------

    def _make_top(self) -> None:
        self.search = QLineEdit(self)
        self.search.setObjectName("library_search")
        self.search.setAccessibleName("Filter the models on this computer")
        self.search.setPlaceholderText("Filter by name, type or app")
        self.search.setClearButtonEnabled(True)
        self.folders_button = push_button(
            "Folders…", self, "folders_button", spoken="Model folders"
        )
        self.again_button = IconButton(
            self._theme, "arrow-clockwise", "Refresh", hint="Refresh (F5)", parent=self
        )
        self.again_button.setObjectName("look_again_button")
        self.troubles = _Lines(self)
        self.troubles.setObjectName("local_troubles")
        self.troubles.setProperty("kind", "error")
        self.troubles.hide()

    def _make_table(self) -> None:
        self.table = QTableView(self)
        self.table.setObjectName("local_table")
        self.table.setAccessibleName("Models on this computer")
        self.table.setProperty("kind", "tight")
        self.table.setModel(self.model)
        self.table.setItemDelegate(self._delegate)
        self.table.setShowGrid(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setTabKeyNavigation(False)
        self.table.setWordWrap(False)
        self.table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        rows = self.table.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        columns = self.table.horizontalHeader()
        columns.setHighlightSections(False)
        columns.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        columns.setSortIndicator(NAME, Qt.SortOrder.AscendingOrder)
        self.table.setSortingEnabled(True)

    def _make_empty(self) -> None:
        self._nothing = QWidget(self)
        self.nothing_title = _centred(self._nothing)
        self.nothing_title.setObjectName("local_nothing_title")
        self.nothing_title.setProperty("kind", "title")
        self.nothing_words = _centred(self._nothing)
        self.nothing_words.setObjectName("local_nothing_words")
        self.nothing_words.setProperty("kind", "dim")
        self.hub_button = push_button(
            "Find models on the hub", self._nothing, "local_hub_button", kind="primary"
        )
        self.add_button = push_button("Add a folder…", self._nothing, "local_add_folder_button")
        self.clear_button = push_button(
            "Show all",
            self._nothing,
            "local_clear_button",
            spoken="Clear the filter and show all models",
        )
        column = QVBoxLayout()
        row = QHBoxLayout(self._nothing)
        row.addStretch(1)
        row.addLayout(column, 1000)
        row.addStretch(1)
        column.addStretch(2)
        column.addWidget(self.nothing_title)
        column.addWidget(self.nothing_words)
        for button in (self.hub_button, self.add_button, self.clear_button):
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(3)
        self._nothing_column = column
        self.body = QStackedWidget(self)
        self.body.addWidget(self.table)
        self.body.addWidget(self._nothing)

    def _make_foot(self) -> None:
        self.words = _Lines(self)
        self.words.setObjectName("local_words")
        self.words.setProperty("kind", "small")
        self.words.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.load_button = push_button("Load", self, "local_load_button", kind="primary")
        self.details_button = push_button(
            "Details…", self, "local_details_button", hint="Everything stored in the file's header"
        )
        self.defaults_button = push_button(
            "Defaults…",
            self,
            "local_defaults_button",
            hint="Settings for loading this model and for its replies",
        )
        self.memory_button = push_button(
            "Memory…",
            self,
            "local_memory_button",
            hint="Memory needed, by part, and settings that fit",
        )
        self.projector_button = push_button(
            "Get the projector…",
            self,
            "local_projector_button",
            hint="The file that lets this model see pictures or hear",
        )
        self.projector_button.hide()
        self.show_button = push_button("Show in folder", self, "local_show_button")
        self.trash_button = push_button("Move to trash", self, "local_trash_button")
        self.trash_button.hide()
        self.status = _Lines(self)
        self.status.setObjectName("local_status")
        self.status.setProperty("kind", "small")

    def _build(self) -> None:
        self._top = QHBoxLayout()
        self._top.addWidget(self.search, 1)
        self._top.addWidget(self.folders_button)
        self._top.addWidget(self.again_button)
        self._foot = FlowLayout()
        for button in self._buttons():
            self._foot.addWidget(button)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._top)
        self._column.addWidget(self.troubles)
        self._column.addWidget(self.body, 1)
        self._column.addWidget(self.words)
        self._column.addWidget(self.status)
        self._column.addLayout(self._foot)

    def _buttons(self) -> tuple[QPushButton, ...]:
        return (
            self.load_button,
            self.details_button,
            self.defaults_button,
            self.memory_button,
            self.projector_button,
            self.show_button,
            self.trash_button,
        )

    def _connect(self) -> None:
        self.search.textChanged.connect(self._on_filter)
        self.search.returnPressed.connect(self._to_table)
        self.search.installEventFilter(self)
        self.table.installEventFilter(self)
        self.table.doubleClicked.connect(lambda _: self._load())
        self.table.clicked.connect(self._on_clicked)
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.table.customContextMenuRequested.connect(self._open_menu)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._settle())
        self.table.verticalScrollBar().valueChanged.connect(lambda _: self._judging.start())
        self.model.layoutChanged.connect(lambda: self._judging.start())
        self.folders_button.clicked.connect(self.show_folders)
        self.add_button.clicked.connect(self.show_folders)
        self.hub_button.clicked.connect(lambda: self.page_requested.emit("hub"))
        self.clear_button.clicked.connect(self.search.clear)
        self.again_button.clicked.connect(self._desk.local.look_again)
        QShortcut(QKeySequence("F5"), self, self._desk.local.look_again)
        QShortcut(QKeySequence("Ctrl+F"), self, self.search.setFocus)
        self.load_button.clicked.connect(self._load)
        self.details_button.clicked.connect(self._show_details)
        self.defaults_button.clicked.connect(lambda: self._ask_for(self.defaults_requested))
        self.memory_button.clicked.connect(lambda: self._ask_for(self.fit_requested))
        self.projector_button.clicked.connect(lambda: self._ask_for(self.projector_requested))
        self.show_button.clicked.connect(self._show_in_folder)
        self.trash_button.clicked.connect(self._trash)
        self._theme.changed.connect(self._fit_sizes)

    def follow(self, bridge: Bridge) -> None:
        """Show what is loaded, and whether weights fit, as that changes."""
        bridge.on(EngineStateChanged, self._on_engine_state)
        bridge.on(MemoryChanged, self._on_memory_changed)
        bridge.on(LevelsChanged, self._on_memory_changed)  # they are loaded in another way
        self._on_engine_state(self._desk.loader.state)

    def _fit_sizes(self) -> None:
        px, metrics = self._theme.px, QFontMetrics(self._theme.font_text())
        rows, columns = self.table.verticalHeader(), self.table.horizontalHeader()
        height = self._delegate.row_height()
        rows.setMinimumSectionSize(1)
        rows.setDefaultSectionSize(height)
        columns.setMinimumSectionSize(px(48))
        head = QFontMetrics(self._theme.font_small())
        self.words.setMinimumHeight(WORDS_LINES * head.lineSpacing())
        for column, widest in _WIDEST.items():
            text = max(
                metrics.horizontalAdvance(widest), head.horizontalAdvance(f"{COLUMNS[column]} ↑")
            )
            self.table.setColumnWidth(column, text + 2 * px(SIDE_PX) + px(2))
        self.table.setMinimumHeight(columns.sizeHint().height() + 2 * height)
        self._hide_columns()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Names need the room more than what else is in the row."""
        super().resizeEvent(event)
        self._hide_columns()
        self._judging.start()

    def _hide_columns(self) -> None:
        for column, from_px in _FROM_PX.items():
            self.table.setColumnHidden(column, self.width() < self._theme.px(from_px))

    # --- what is known --------------------------------------------------------------------------

    def show_snapshot(self, snapshot: LocalSnapshot) -> None:
        """The weights that are known now. What was chosen stays chosen."""
        chosen, at = self.chosen(), self.table.verticalScrollBar().value()
        has_focus = self.table.hasFocus()
        self._snapshot = snapshot
        self.model.show(snapshot.entries)
        self._show_troubles(snapshot.troubles)
        self._show_body()
        self._choose(chosen.path if chosen is not None else None)
        self.table.verticalScrollBar().setValue(at)
        if has_focus and self.body.currentWidget() is self._nothing:
            self.search.setFocus()
        self._settle()
        self._judging.start()

    def _show_troubles(self, troubles: tuple[str, ...]) -> None:
        lines = [one_line(sentence) for sentence in troubles]
        shown = lines[:MAX_TROUBLES]
        if len(lines) > MAX_TROUBLES:
            shown.append(f"And {len(lines) - MAX_TROUBLES:,} more.")
        self.troubles.setText("\n".join(shown))
        self.troubles.setToolTip("\n".join(lines[:40]) if len(lines) > MAX_TROUBLES else "")
        self.troubles.setVisible(bool(lines))

    def _show_body(self) -> None:
        snapshot, text = self._snapshot, self.search.text().strip()
        has_some = bool(self.model.shown)
        self.body.setCurrentWidget(self.table if has_some else self._nothing)
        is_filtered = bool(text and snapshot is not None and snapshot.entries)
        is_looking = snapshot is None or snapshot.is_looking
        if is_filtered:
            self.nothing_title.setText("No results")
            self.nothing_words.setText(f"No model on this computer matches “{one_line(text)}”.")
        else:
            self.nothing_title.setText(LOOKING if is_looking else NOTHING)
            self.nothing_words.setText("" if is_looking else NOTHING_WORDS)
        self.clear_button.setVisible(is_filtered)
        self.hub_button.setVisible(not is_filtered and not is_looking)
        self.add_button.setVisible(not is_filtered and not is_looking)
        if snapshot is not None:
            self.status.setText(status_text(snapshot, len(self.model.shown)))

    def _on_filter(self, text: str) -> None:
        chosen = self.chosen()
        self.model.filter(text)
        self._show_body()
        self._choose(chosen.path if chosen is not None else None)
        self._settle()
        self._judging.start()

    def _on_engine_state(self, state: EngineStateChanged) -> None:
        is_loaded = state.state in LOADED and state.loaded is not None
        self.model.set_loaded(state.loaded.path if is_loaded and state.loaded is not None else "")
        self._settle()

    # --- whether it fits ------------------------------------------------------------------------

    def fit_of(self, weights: FoundWeights) -> Fit | None:
        """As it was judged, else by the size alone; None for what cannot be loaded."""
        if not weights.can_load:
            return None
        judged = self._fits.get((str(weights.path), weights.size_bytes))
        if judged is not None:
            return judged
        if weights.size_bytes not in self._rough:
            self._rough[weights.size_bytes] = self._desk.fits.rough(weights.size_bytes)
        return self._rough[weights.size_bytes]

    def _senses(self, weights: FoundWeights) -> str:
        """What a model sees by; of a projector, what it lets models do."""
        if is_projector(weights):
            facts = weights.facts
            assert facts is not None
            assert facts.projector is not None
            sees, hears = facts.projector.sees, facts.projector.hears
            return f"lets a model {' and '.join(['see pictures'] * sees + ['hear'] * hears)}"
        used = self._desk.projectors.used(str(weights.path)) if weights.can_load else None
        return senses_of(used)

    def _judge(self) -> None:
        """Ask for the rows in view."""
        if not self.isVisible() or not self.model.shown:
            return
        first = max(0, self.table.rowAt(0))
        last = self.table.rowAt(self.table.viewport().height() - 1)
        rows = self.model.shown[first : (last if last >= 0 else len(self.model.shown)) + 1]
        wanted = [(str(each.path), each.size_bytes) for each in rows if each.can_load]
        wanted = [each for each in wanted if each not in self._asked]
        if wanted:
            self._asked.update(wanted)
            self._answers.append(partial(self._take_fit, dict(wanted)))
            self._desk.fits.files([path for path, _ in wanted], self._answers[-1])

    def _take_fit(self, sizes: Mapping[str, int], path: str, fit: Fit) -> None:
        """`sizes`: of the files that were asked about. By now another one may lie there."""
        self._fits[path, sizes[path]] = fit
        self.model.fits_changed()
        self._settle()

    def _on_memory_changed(self, _event: object) -> None:
        self._judge_anew()

    def _judge_anew(self) -> None:
        """Other weights were loaded, or memory was taken or given back: judge anew. Until then
        what was judged stays."""
        for answer in self._answers:
            self._desk.fits.stop(answer)
        self._answers.clear()
        self._rough.clear()
        self._asked.clear()
        self.model.fits_changed()
        self._judging.start()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._desk.fits.look()
        self._settle()
        self._judging.start()

    # --- the chosen weights ---------------------------------------------------------------------

    def chosen(self) -> FoundWeights | None:
        rows = self.table.selectionModel().selectedRows()
        return self.model.shown[rows[0].row()] if rows else None

    def _choose(self, path: Path | None) -> None:
        row = self.model.row_of(path) if path is not None else None
        if row is not None:
            if self.table.currentIndex().row() != row or self.chosen() is None:
                self.table.setCurrentIndex(self.model.index(row, NAME))
        elif not self.model.shown:
            self.table.clearSelection()

    def _settle(self) -> None:
        """Words and buttons for what is chosen."""
        weights = self.chosen()
        is_loaded = weights is not None and self.model.is_loaded(weights)
        self.load_button.setText("Loaded" if is_loaded else "Load")
        can_load = weights is not None and weights.can_load and not is_loaded
        self.load_button.setEnabled(can_load)
        self.details_button.setEnabled(weights is not None and _details() is not None)
        for button in (self.defaults_button, self.memory_button):
            button.setEnabled(weights is not None and weights.can_load)
        self.show_button.setEnabled(weights is not None)
        is_ours = weights is not None and bool(self._download_of(weights))
        self.trash_button.setVisible(is_ours)
        self.trash_button.setEnabled(is_ours and not is_loaded)
        self.trash_button.setToolTip(
            "Unload this model first" if is_loaded else "Moves the downloaded files"
        )
        needs_one = weights is not None and self._desk.projectors.may_need_one(str(weights.path))
        self.projector_button.setVisible(needs_one)
        words = whole_words(weights) if weights is not None else ""
        fit = self.fit_of(weights) if weights is not None else None
        if fit is not None:
            words += f"\n{fit.why}"
        self.words.setText(words)
        self.words.setVisible(bool(self.model.shown))
        name = one_line(weights.name) if weights is not None else "the selected model"
        self.load_button.setAccessibleName(f"Load {name}")
        self.load_button.setToolTip(
            one_line(weights.trouble) if weights is not None else "Choose a model first"
        )
        self.details_button.setAccessibleName(f"Details of {name}")
        self.defaults_button.setAccessibleName(f"Defaults of {name}")
        self.memory_button.setAccessibleName(f"Memory for {name}")
        self.projector_button.setAccessibleName(f"Get the projector of {name}")
        self.show_button.setAccessibleName(f"Show {name} in its folder")
        self.trash_button.setAccessibleName(f"Move {name} to the trash")

    def _on_clicked(self, index: AnyIndex) -> None:
        if index.column() == FIT and self.memory_button.isEnabled():
            self._ask_for(self.fit_requested)

    def _open_menu(self, at: QPoint) -> None:
        """What the buttons below do, at the row."""
        if self.chosen() is None:
            return
        menu = QMenu(self.table)
        menu.setObjectName("local_menu")
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for button in self._buttons():
            if not button.isHidden():
                action = menu.addAction(button.text())
                action.setEnabled(button.isEnabled())
                action.triggered.connect(button.click)
        menu.popup(self.table.viewport().mapToGlobal(at))

    def _load(self) -> None:
        weights = self.chosen()
        if weights is not None and weights.can_load and not self.model.is_loaded(weights):
            self._desk.loader.load(str(weights.path))

    def _show_details(self) -> None:
        weights, details = self.chosen(), _details()
        if weights is not None and details is not None:
            details.show_file(self, self._desk, self._theme, weights.path)

    def _ask_for(self, what: SignalInstance) -> None:
        weights = self.chosen()
        if weights is not None:
            what.emit(str(weights.path))

    def _download_of(self, weights: FoundWeights) -> str:
        """By which download these files came: only what we fetched goes to the trash."""
        for progress in self._desk.downloads.all:
            if progress.is_ours and progress.path == str(weights.path):
                return progress.id
        return ""

    def _trash(self) -> None:
        weights = self.chosen()
        download_id = self._download_of(weights) if weights is not None else ""
        if download_id:
            self._desk.downloads.to_trash(download_id, move_to_trash)

    def _show_in_folder(self) -> None:
        weights = self.chosen()
        if weights is not None:
            show_folder(self, weights.path.parent)

    def show_folders(self) -> None:
        if self._folders is None:
            self._folders = FoldersDialog(self._desk, self._theme, self)
        self._folders.open()

    # --- keys -----------------------------------------------------------------------------------

    def _to_table(self) -> None:
        if self.model.shown:
            if not self.table.currentIndex().isValid():
                self.table.setCurrentIndex(self.model.index(0, NAME))
            self.table.setFocus(Qt.FocusReason.OtherFocusReason)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """↓ leaves the field for the list, Return in the list loads."""
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        key = event.key()
        if watched is self.search and key == Qt.Key.Key_Down:
            self._to_table()
            return True
        if watched is self.table and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if not event.isAutoRepeat():
                self._load()
            return True
        return super().eventFilter(watched, event)


class _Lines(QLabel):
    """Plain text in lines. A path is one word: it does not make the page as wide as it is."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())


def _details() -> Any:
    """The window with all that a file says, where it is there."""
    if importlib.util.find_spec("ui.library.header.window") is None:
        return None
    return importlib.import_module("ui.library.header.window")


def _centred(parent: QWidget) -> QLabel:
    label = plain_label("", parent, wraps=True)
    label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
    return label
