"""The right column: tabs, which token is looked at, and the panel that is chosen.

Panels are built when they are first shown. What must hold: a section that is hidden costs
nothing while a reply streams.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.insight.trace.tokens_shown import visible
from ui.chat.header import SECTION_KEY
from ui.look.theme import Theme
from ui.section.away import PanelPlace
from ui.section.panel import Panel, PanelKind, Tools
from ui.section.pipeline import PipelineLine
from ui.section.rooms import RoomsPanel
from ui.shell.keys import ENLARGE_KEY, NEXT_TOKEN_KEY, PREVIOUS_TOKEN_KEY, with_key
from ui.widgets.elided import PartsLabel
from ui.widgets.icon_button import IconButton
from ui.widgets.plane import Plane


class Section(Plane):
    """`kinds`: the panels, in the order of their tabs. `tab_changed`: the title of the one that
    the user chose. `panel_built`: the one that is shown for the first time. `hide_requested`,
    `enlarge_requested`, `help_requested`: by its buttons. `shown_changed`: another panel is on
    screen, or none."""

    tab_changed = Signal(str)
    panel_built = Signal(object)
    shown_changed = Signal()
    hide_requested = Signal()
    enlarge_requested = Signal()
    help_requested = Signal()

    def __init__(
        self,
        tools: Tools,
        kinds: Sequence[PanelKind],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(tools.theme, "side", parent)
        theme, looking = tools.theme, tools.looking
        self._tools = tools
        self._theme = theme
        self._looking = looking
        self._kinds = tuple(kinds)
        self._panels: dict[int, Panel] = {}
        self._rooms: dict[int, PanelPlace] = {}
        self.setObjectName("section")
        self.setAccessibleName("Inside the reply")
        self.tabs = QTabBar(self)
        self.tabs.setObjectName("section_tabs")
        self.tabs.setProperty("kind", "panels")
        self.tabs.setAccessibleName("Panels")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        # In a narrow section titles are cut; buttons to scroll would hide whole tabs.
        self.tabs.setUsesScrollButtons(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideRight)
        for kind in self._kinds:
            self.tabs.setTabToolTip(self.tabs.addTab(kind.title), kind.title)
        self.close_button = IconButton(
            theme,
            "x",
            "Hide the panels",
            hint=with_key("Hide the panels", SECTION_KEY),
            parent=self,
        )
        self.close_button.setObjectName("hide_section_button")
        self.line = PipelineLine(tools, self)
        self.name = PartsLabel("", self)
        self.name.setObjectName("section_token")
        self.name.setProperty("kind", "small")
        self.previous_button = self._step_button(
            "caret-left", "Previous token", PREVIOUS_TOKEN_KEY, -1
        )
        self.next_button = self._step_button("caret-right", "Next token", NEXT_TOKEN_KEY, 1)
        self.enlarge_button = IconButton(theme, "corners-out", "Enlarge the panel", parent=self)
        self.enlarge_button.setObjectName("enlarge_section_button")
        self.help_button = IconButton(theme, "question", "About this panel", parent=self)
        self.help_button.setObjectName("section_help_button")
        self._stack = QStackedWidget(self)
        self._row = QHBoxLayout()
        self._row.addWidget(self.tabs, 1)
        self._row.addWidget(self.close_button)
        self._column = QVBoxLayout(self)
        self._column.addLayout(self._row)
        self._column.addWidget(self.line)
        self._names = QHBoxLayout()
        self._names.addWidget(self.name, 1)
        self._names.addWidget(self.help_button)
        self._names.addWidget(self.previous_button)
        self._names.addWidget(self.next_button)
        self._names.addWidget(self.enlarge_button)
        self._column.addLayout(self._names)
        self._column.addWidget(self._stack, 1)
        self.tabs.currentChanged.connect(self._on_tab)
        self.tabs.tabBarClicked.connect(self._on_clicked)
        self.close_button.clicked.connect(self.hide_requested)
        self.line.wanted.connect(self._go_to)
        self.enlarge_button.clicked.connect(self.enlarge_requested)
        self.help_button.clicked.connect(self.help_requested)
        self.set_large(False)
        looking.message_changed.connect(self._say)
        looking.token_changed.connect(self._say)
        looking.trace_changed.connect(self._say)
        self._theme.font(self.tabs, Theme.font_small)
        self._theme.space(self._column, 8, margins=12)
        self._theme.space(self._row, 4)
        self._theme.space(self._names, 2)
        in_names = (self.help_button, self.previous_button, self.next_button, self.enlarge_button)
        for button in in_names:
            self._theme.size(button, 22, 20)
        self._say()

    def _step_button(self, icon: str, spoken: str, key: str, by: int) -> IconButton:
        button = IconButton(self._theme, icon, spoken, hint=with_key(spoken, key), parent=self)
        button.setObjectName("section_token_next" if by > 0 else "section_token_previous")
        button.clicked.connect(lambda _=False: self._looking.step(by))
        return button

    def set_large(self, is_large: bool) -> None:
        """Whether it stands in the chat's place."""
        words = "Return to the chat" if is_large else "Enlarge the panel"
        self.enlarge_button.show_icon("corners-in" if is_large else "corners-out")
        self.enlarge_button.setAccessibleName(words)
        self.enlarge_button.setToolTip(with_key(words, ENLARGE_KEY))

    def panel(self) -> Panel | None:
        """The one on screen."""
        return self._panels.get(self.tabs.currentIndex())

    @property
    def follows_token(self) -> bool:
        """Whether what is on screen is about the chosen token."""
        shown = self.panel()
        return self.isVisible() and shown is not None and shown.follows_token

    @property
    def built(self) -> list[Panel]:
        """Those that were shown at any time."""
        return list(self._panels.values())

    def show_panel(self, title: str) -> None:
        """Another panel, by its title; an unknown one changes nothing."""
        for at, kind in enumerate(self._kinds):
            if kind.title == title:
                self.tabs.setCurrentIndex(at)

    def enter(self, room: str) -> None:
        """A room of the panel on screen, with the keyboard (`take_keyboard` where it has none)."""
        shown = self.panel()
        if room and shown is not None:
            shown.enter(room)
        if room and isinstance(shown, RoomsPanel):
            shown.rooms.setFocus(Qt.FocusReason.ShortcutFocusReason)
        else:
            self.take_keyboard()

    def take_keyboard(self) -> None:
        """The panel on screen has it where it has keys of its own, else the tabs."""
        shown = self.panel()
        has_keys = shown is not None and shown.focusPolicy() != Qt.FocusPolicy.NoFocus
        widget: QWidget = shown if shown is not None and has_keys else self.tabs
        widget.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _go_to(self, title: str, room: str) -> None:
        """As a panel wishes."""
        self.show_panel(title)
        self.tab_changed.emit(title)
        self.enter(room)

    def _on_clicked(self, at: int) -> None:
        if at >= 0:
            self.tab_changed.emit(self._kinds[at].title)

    def _on_tab(self, at: int) -> None:
        if not self.isVisible() or at < 0:
            return
        panel = self._panels.get(at)
        if panel is None:
            panel = self._panels[at] = self._kinds[at].load()(self._tools, self)
            self._rooms[at] = PanelPlace(self._tools, panel, self._stack)
            self._stack.addWidget(self._rooms[at])
            panel.panel_wanted.connect(self._go_to)
            self.panel_built.emit(panel)
        self._stack.setCurrentWidget(self._rooms[at])
        self.line.show_open(self._kinds[at].title)
        for place, room in self._rooms.items():
            room.set_active(place == at)
        self.shown_changed.emit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._looking.set_awake(True)
        self.line.set_awake(True)
        self._on_tab(self.tabs.currentIndex())
        self._say()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._looking.set_awake(False)
        self.line.set_awake(False)
        for room in self._rooms.values():
            room.set_active(False)
        self.shown_changed.emit()

    def _say(self) -> None:
        """Which token is looked at, as all panels understand it."""
        if not self.isVisible():
            return
        token, looking = self._looking.token, self._looking
        if token is not None:
            text = f"{visible(token.piece)} · token {looking.index + 1:,} of the reply"  # type: ignore[operator]
        elif looking.sentence or looking.aside:
            text = looking.sentence or looking.aside
        else:
            count = len(looking.traces)
            text = f"{count:,} token{'' if count == 1 else 's'} · choose one"
        self.name.set_text(text)
        last = len(looking.traces) - 1
        self.previous_button.setEnabled(token is not None and looking.index != 0)
        self.next_button.setEnabled(last >= 0 and looking.index != last)
