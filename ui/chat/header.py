"""Above the chat: its title, and the weights with their state, menu and load progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.amounts import bytes_words
from app.chat.events import EngineStateChanged
from models.records import Weights
from ui.look.theme import Theme
from ui.shell.keys import with_key
from ui.sidebar.sidebar import SIDEBAR_KEY
from ui.widgets.click_focus import leave_focus
from ui.widgets.elided import ElidedLabel, tip_text
from ui.widgets.elided_button import ElidedButton
from ui.widgets.figures import cut_short, loaded_details, loaded_text, place_text, plain_name
from ui.widgets.hovering import let_go_after
from ui.widgets.icon_button import IconButton
from ui.widgets.toggle_chip import ToggleChip

OPEN_KEY = "Ctrl+O"
LIBRARY_KEY = "Ctrl+Shift+W"
HUB_KEY = "Ctrl+Alt+H"
DOWNLOADS_KEY = "Ctrl+Shift+Y"
DEFAULTS_KEY = "Ctrl+Alt+W"
TEMPORARY_KEY = "Ctrl+Shift+N"
NEW_TEXT_KEY = "Ctrl+Shift+T"
SECTION_KEY = "Ctrl+I"
TOKENS_KEY = "Ctrl+T"
STEP_KEY = "Ctrl+J"
COMPACT_BELOW_PX = 300
"""With less room than this beside the buttons, those with words show their icons."""
LEAST_PX = 90
"""With less than this for title and weights the last of them goes."""
ELSE_IN = "else_in"
"""A property: the name of the button whose menu has what has no room on screen."""
PROGRESS_STEPS = 1000
MOST_WORDS = 60
"""Characters of a row of the menu; a server may call a model by hundreds."""
LOADING = frozenset({"starting", "loading"})
LOADED = frozenset({"ready", "busy", "stopping"})


class ChatHeader(QWidget):
    """`list_weights` is asked each time the menu opens. `library_requested`: a page of it, or
    empty for the last one."""

    weights_chosen = Signal(str)
    open_file_requested = Signal()
    library_requested = Signal(str)
    defaults_requested = Signal()
    unload_requested = Signal()
    cancel_load_requested = Signal()
    show_sidebar_requested = Signal()
    temporary_requested = Signal()
    new_text_requested = Signal()
    section_requested = Signal()
    tokens_requested = Signal()
    step_requested = Signal()
    menu_filled = Signal()
    """What stands on this machine is in the menu; others may add theirs before `menu_end`."""
    left = Signal()
    """A button was clicked by mouse: the keyboard goes on where it was."""

    def __init__(
        self,
        theme: Theme,
        list_weights: Callable[[], Sequence[Weights]],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._list_weights = list_weights
        self._is_tight = False
        self._state = EngineStateChanged("stopped")
        self._fraction = 0.0
        self.setAccessibleName("Chat title and model")
        self.sidebar_button = IconButton(
            theme,
            "list",
            "Show the chat list",
            hint=with_key("Show the chat list", SIDEBAR_KEY),
            parent=self,
        )
        self.sidebar_button.setObjectName("show_sidebar_button")
        self.sidebar_button.hide()
        self.text_button = IconButton(
            theme,
            "article",
            "New text",
            hint=with_key("New text: one document without a template", NEW_TEXT_KEY),
            parent=self,
        )
        self.text_button.setObjectName("new_text_button")
        self.temporary_button = IconButton(
            theme,
            "ghost",
            "Temporary chat",
            hint=with_key("Temporary chat: never saved to disk", TEMPORARY_KEY),
            parent=self,
        )
        self.temporary_button.setObjectName("temporary_chat_button")
        self.section_button = IconButton(
            theme,
            "eye",
            "Look inside",
            hint=with_key("Look inside: see how a reply was made", SECTION_KEY),
            parent=self,
        )
        self.section_button.setObjectName("section_button")
        self.tokens_button = ToggleChip(
            theme,
            "puzzle-piece",
            "Tokens",
            with_key("Token view: show messages as tokens", TOKENS_KEY),
            self,
        )
        self.tokens_button.setObjectName("token_view_toggle")
        self.step_button = ToggleChip(
            theme,
            "skip-forward",
            "Step",
            with_key("Step mode: choose each token yourself", STEP_KEY),
            self,
        )
        self.step_button.setObjectName("step_button")
        self.menu_button = IconButton(
            theme,
            "dots-three-bold",
            "Menu",
            hint="Menu: find, chat settings, presets, all commands",
            parent=self,
        )
        self.menu_button.setObjectName("chat_menu_button")
        self.menu_button.setEnabled(False)  # until `ui.shell.chat_menu` fills it
        self.title = ElidedLabel("", self)
        self.title.setObjectName("chat_title")
        self.title.setProperty("kind", "title")
        self.weights_button = ElidedButton(self)
        self.weights_button.setObjectName("weights_button")
        self.weights_button.setProperty("kind", "chip")
        self.menu = QMenu(self.weights_button)
        self.menu_end: QAction | None = None
        self.menu.aboutToShow.connect(self._fill_menu)
        self.weights_button.setMenu(self.menu)
        let_go_after(self.menu, self.weights_button)
        self.cancel_button = IconButton(theme, "x", "Cancel loading", parent=self)
        self.cancel_button.setObjectName("cancel_load_button")
        self.load_progress = QProgressBar(self)
        self.load_progress.setObjectName("load_progress")
        self.load_progress.setAccessibleName("Loading the model")
        self.load_progress.setRange(0, PROGRESS_STEPS)
        self.load_progress.setTextVisible(False)
        # In a narrow window, the first one first.
        self._leaving = (self.step_button, self.temporary_button, self.text_button)
        for button in self._leaving:
            button.setProperty(ELSE_IN, self.menu_button.objectName())
        self._build()
        self.set_engine_state(self._state)

    def _build(self) -> None:
        self._row = QHBoxLayout()
        self._row.addWidget(self.sidebar_button)
        self._row.addWidget(self.title, 1)
        self._row.addWidget(self.text_button)
        self._row.addWidget(self.temporary_button)
        self._row.addWidget(self.section_button)
        self._row.addWidget(self.menu_button)
        self._row.addWidget(self.cancel_button)
        self._row.addWidget(self.weights_button)
        self._row.addWidget(self.tokens_button)
        self._row.addWidget(self.step_button)
        items = map(self._row.itemAt, range(self._row.count()))
        in_row = [w for item in items if item is not None and (w := item.widget()) is not None]
        for first, second in pairwise(in_row):
            QWidget.setTabOrder(first, second)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._row)
        column.addWidget(self.load_progress)
        policy = self.load_progress.sizePolicy()
        # The chat below does not jump when the thin bar comes and goes.
        policy.setRetainSizeWhenHidden(True)
        self.load_progress.setSizePolicy(policy)
        self.sidebar_button.clicked.connect(self.show_sidebar_requested)
        self.temporary_button.clicked.connect(self.temporary_requested)
        self.text_button.clicked.connect(self.new_text_requested)
        self.section_button.clicked.connect(self.section_requested)
        self.tokens_button.clicked.connect(self.tokens_requested)
        self.step_button.clicked.connect(self.step_requested)
        self.cancel_button.clicked.connect(self.cancel_load_requested)
        leave_focus(*self.findChildren(QPushButton), to=self.left.emit)
        self._theme.changed.connect(self._fit)
        self._theme.space(self._row, 8)
        self._theme.at_least(self.title, height=32)
        self._theme.pill(self.weights_button, 30)
        self._theme.size(self.load_progress, height=2)
        self._theme.sheet(self.load_progress, _progress_sheet)
        self._fit()

    def set_tight(self, is_tight: bool) -> None:
        """Where height is short there is less space around."""
        if is_tight != self._is_tight:
            self._is_tight = is_tight
            self._fit()

    def _fit(self) -> None:
        px = self._theme.px
        above, below = (px(4), px(2)) if self._is_tight else (px(14), px(10))
        self._row.setContentsMargins(px(24), above, px(24), below)
        self._share_room()
        self._say()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_room()

    def _share_room(self) -> None:
        """In a narrow window title and weights share what the buttons leave, two to three. What is
        in the menu too leaves first."""
        leaving = self._leaving
        buttons = self.findChildren(IconButton)
        shown = [each for each in buttons if each in leaving or not each.isHidden()]
        margins, spacing, px = self._row.contentsMargins(), self._row.spacing(), self._theme.px
        room = self.width() - margins.left() - margins.right()
        room -= sum(each.width() + spacing for each in shown)
        for chip in self.findChildren(ToggleChip):
            chip.set_compact(room - chip.wide_width() - spacing < px(COMPACT_BELOW_PX))
            room -= chip.width() + spacing
        for button in leaving:
            is_kept = room >= px(LEAST_PX)
            button.setVisible(is_kept)
            room += 0 if is_kept else button.width() + spacing
        self.weights_button.setMaximumWidth(max(1, room * 3 // 5))

    # --- state --------------------------------------------------------------------------

    def set_title(self, title: str) -> None:
        self.title.set_text(" ".join(title.split()))

    def set_temporary(self, is_temporary: bool) -> None:
        """Whether the chat on screen is the one that is never written."""
        self.temporary_button.set_lit(is_temporary)
        spoken = "Leave the temporary chat" if is_temporary else "Temporary chat"
        self.temporary_button.setAccessibleName(spoken)

    def set_section_shown(self, is_shown: bool) -> None:
        """Whether the panels that look inside are there."""
        self.section_button.set_lit(is_shown)
        spoken = "Hide the panels" if is_shown else "Look inside"
        self.section_button.setAccessibleName(spoken)

    def set_tokens_shown(self, is_shown: bool) -> None:
        """Whether messages are shown as tokens."""
        self.tokens_button.set_on(is_shown)

    def set_sidebar_hidden(self, is_hidden: bool) -> None:
        self.sidebar_button.setVisible(is_hidden)
        self._share_room()

    def set_engine_state(self, state: EngineStateChanged) -> None:
        if state.state in LOADING and self._state.state not in LOADING:
            self._fraction = 0.0
        self._state = state
        is_loading = state.state in LOADING
        self.load_progress.setVisible(is_loading)
        self.cancel_button.setVisible(is_loading)
        self._share_room()
        self._say()

    def set_progress(self, fraction: float) -> None:
        self._fraction = min(1.0, max(0.0, fraction))
        self.load_progress.setValue(round(self._fraction * PROGRESS_STEPS))
        self._say()

    def _say(self) -> None:
        text = self._weights_text()
        self.load_progress.setValue(round(self._fraction * PROGRESS_STEPS))
        self.weights_button.setText(text)
        self.weights_button.setAccessibleName(f"Model: {text}")
        loaded = self._state.loaded
        self.weights_button.setToolTip(
            tip_text(f"{place_text(loaded)}\n{loaded_details(loaded)}")
            if loaded
            else "The model that replies"
        )
        self.weights_button.setAccessibleDescription(loaded_details(loaded) if loaded else "")

    def _weights_text(self) -> str:
        state, name = self._state.state, plain_name(self._state.weights_name)
        if state in LOADED and self._state.loaded is not None:
            return loaded_text(name, self._state.loaded)
        if state in LOADING:
            if self._state.is_remote:
                return f"Connecting to {name}"
            return f"Loading {name or 'the model'} · {self._fraction:.0%}"
        if state == "crashed":
            return f"{name} · engine not running" if name else "Engine not running"
        return f"{name} · not loaded" if name else "Choose a model…"

    # --- menu ---------------------------------------------------------------------------

    def open_menu(self) -> None:
        self.weights_button.showMenu()

    def _fill_menu(self) -> None:
        self.menu.clear()
        loaded = self._state.loaded
        for weights in self._list_weights():
            is_loaded = loaded is not None and loaded.path == weights.path
            self._add_weights(weights, is_loaded)
        self.menu_end = None if self.menu.isEmpty() else self.menu.addSeparator()
        # The key is shown, not bound: it belongs to the window.
        action = self.menu.addAction(f"Open a GGUF file…\t{OPEN_KEY}")
        action.triggered.connect(self.open_file_requested)
        action = self.menu.addAction(f"Library…\t{LIBRARY_KEY}")
        action.triggered.connect(lambda: self.library_requested.emit(""))
        if self._state.weights_name:
            action = self.menu.addAction(f"Model defaults…\t{DEFAULTS_KEY}")
            action.triggered.connect(self.defaults_requested)
        if self._state.state in LOADING:
            self.menu.addAction("Cancel loading").triggered.connect(self.cancel_load_requested)
        if self._state.state in LOADED:
            self.menu.addAction("Unload").triggered.connect(self.unload_requested)
        self.menu.setToolTipsVisible(True)
        self.menu_filled.emit()

    def _add_weights(self, weights: Weights, is_loaded: bool) -> None:
        self.menu.addAction(self.action_for(weights, is_loaded, self.menu))

    def action_for(self, weights: Weights, is_loaded: bool, menu: QMenu, hint: str = "") -> QAction:
        """What chooses these weights. `hint`: where they are, if not in the file of their path."""
        name = cut_short(weights.name, MOST_WORDS).replace("&", "&&")
        size = f"\t{bytes_words(weights.size_bytes)}" if weights.size_bytes else ""
        action = QAction(f"{name}{size}", menu)
        where = hint or weights.path
        is_short = len(weights.name) <= MOST_WORDS
        action.setToolTip(tip_text(where if is_short else f"{weights.name}\n{where}"))
        action.setCheckable(True)
        action.setChecked(is_loaded)
        action.triggered.connect(lambda: self.weights_chosen.emit(weights.path))
        return action


def _progress_sheet(theme: Theme) -> str:
    return (
        "QProgressBar { background: transparent; border-radius: 0;"
        f" max-height: {theme.px(2)}px; }}"
        f"QProgressBar::chunk {{ background: {theme.colors.accent}; border-radius: 0; }}"
    )
