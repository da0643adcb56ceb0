"""The section in its window: built when it is first wanted, shown, hidden, and remembered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from ui.chat.header import SECTION_KEY, ChatHeader
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions
from ui.shell.columns import Columns
from ui.shell.keys import ENLARGE_KEY, NEXT_TOKEN_KEY, PREVIOUS_TOKEN_KEY

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.section.looking import Looking
    from ui.section.panel import Panel
    from ui.section.section import Section

PLACES: Final = (
    ("panel_tokens", "Tokens panel: alternatives and probabilities", "Tokens", "This reply"),
    ("panel_try_text", "Try a text: see its tokens", "Tokens", "Try a text"),
    ("panel_vocabulary", "Vocabulary of the model", "Tokens", "Vocabulary"),
    ("panel_sampling", "Sampling panel: chain, logit bias, seed", "Sampling", "Chain"),
    ("panel_what_if", "What if: same random numbers, other settings", "Sampling", "What if"),
    ("panel_grammar", "Grammar or JSON schema for replies", "Sampling", "Grammar, limits"),
    ("panel_cache", "Cache panel: contents of the KV cache", "Cache", ""),
    ("panel_prompt", "Prompt panel: exactly what the model reads", "Prompt", ""),
    ("panel_time", "Time panel: prefill and decode", "Time", ""),
    ("panel_batch", "Batch: several replies at once, slot by slot", "Time", "Batch"),
    ("panel_inside", "Inside panel: layers, attention, logits of a token", "Inside", ""),
    ("panel_adapters", "Adapters: LoRA and control vectors", "Sampling", "Adapters"),
)
"""Name and title of an action, the panel, and the room in it; Ctrl 1 to 9, in this order."""
OTHER_KEYS: Final = {
    "panel_inside": "Ctrl+Shift+I",
    "panel_batch": "Ctrl+Alt+B",
    "panel_adapters": "Ctrl+Alt+L",
}
"""Of those behind the ninth."""


class SectionActs(QObject):
    """`panel_changed`: another panel is on screen, or none. `help_requested`: about it."""

    panel_changed = Signal()
    help_requested = Signal()

    def __init__(
        self, desk: Desk, bridge: Bridge, theme: Theme, columns: Columns, header: ChatHeader
    ) -> None:
        super().__init__(columns)
        self._desk = desk
        self._bridge = bridge
        self._theme = theme
        self._columns = columns
        self._header = header
        self._section: Section | None = None
        self._looking: Looking | None = None
        self._is_restored = False
        self._focus_before: QWidget | None = None
        header.section_requested.connect(self.toggle)
        columns.moved.connect(self._say)

    def add_actions(self, actions: Actions) -> None:
        actions.add(
            Action(
                "toggle_section",
                "Look inside: show or hide the panels",
                SECTION_KEY,
                self.toggle,
                group="View",
            )
        )
        actions.add(
            Action(
                "enlarge_section",
                "Enlarge the panel, or return to the chat",
                ENLARGE_KEY,
                self.enlarge,
                group="View",
            )
        )
        for number, (name, title, panel, room) in enumerate(PLACES, 1):
            act = partial(self.go_to, panel, room)
            key = OTHER_KEYS.get(name, f"Ctrl+{number}")
            actions.add(Action(name, title, key, act, group="View"))

        for name, title, key, by in (
            ("panels_token_next", "Next token, in all panels", NEXT_TOKEN_KEY, 1),
            ("panels_token_previous", "Previous token, in all panels", PREVIOUS_TOKEN_KEY, -1),
        ):
            step = partial(self._step, by)
            actions.add(Action(name, title, key, step, self._has_tokens, group="View"))

    def _has_tokens(self) -> bool:
        is_shown = self._columns.is_section_shown
        return is_shown and self._looking is not None and len(self._looking.traces) > 0

    def _step(self, by: int) -> None:
        self.looking().step(by)

    def go_to(self, panel: str, room: str = "") -> None:
        """Show a panel, and a room of it; the keyboard goes there."""
        self.section().show_panel(panel)
        self._desk.settings.set("section_panel", panel)
        self.show(True)
        self.section().enter(room)

    def go_to_chat(self) -> None:
        """Where it has no room beside the section, that gives way."""
        self._columns.show_chat()

    def toggle(self) -> None:
        self.show(not self._columns.is_section_shown)

    def enlarge(self) -> None:
        """The panel into the chat's place, with the keyboard, or back: then whatever had the
        keyboard before has it again."""
        columns, section = self._columns, self.section()
        if not columns.is_section_large:
            self._focus_before = QApplication.focusWidget()
            self.show(True)
            columns.enlarge_section(True)
            if not section.isAncestorOf(QApplication.focusWidget() or columns):
                section.take_keyboard()
        else:
            columns.enlarge_section(False)
            if columns.is_narrow:  # the section alone has the window, large or not
                self.show(False)
            before, self._focus_before = self._focus_before, None
            if before is not None and isValid(before) and before.isVisible():
                before.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def show(self, is_shown: bool) -> None:
        if is_shown:
            self.section()
        self._columns.show_section(is_shown)
        self._say()

    def follow(self) -> None:
        """The settings are there: the first time, what was open is open again."""
        if not self._is_restored:
            self._is_restored = True
            if self._desk.settings.now.section_visible:
                self.show(True)

    def section(self) -> Section:
        if self._section is None:
            from ui.section.kinds import KINDS
            from ui.section.panel import Tools
            from ui.section.section import Section

            tools = Tools(self._theme, self.looking(), self._desk, self._bridge)
            self._section = Section(tools, KINDS)
            self._section.show_panel(self._desk.settings.now.section_panel)
            self._section.tab_changed.connect(
                lambda title: self._desk.settings.set("section_panel", title)
            )
            self._section.enlarge_requested.connect(self.enlarge)
            self._section.hide_requested.connect(lambda: self.show(False))
            self._section.shown_changed.connect(self.panel_changed)
            self._section.help_requested.connect(self.help_requested)
            self._columns.set_section(self._section)
        return self._section

    @property
    def follows_token(self) -> bool:
        """Whether a panel is on screen that is about the chosen token."""
        return self._section is not None and self._section.follows_token

    def panel_on_screen(self) -> Panel | None:
        """The one that is shown; None while the section is hidden."""
        if self._section is None or not self._columns.is_section_shown:
            return None
        return self._section.panel()

    def looking(self) -> Looking:
        """What is looked at, by the panels and by the token view."""
        if self._looking is None:
            from ui.section.looking import Looking

            self._looking = Looking(self._desk, self._bridge, self)
        return self._looking

    def looked_at(self) -> Looking | None:
        """The same, if anybody has looked."""
        return self._looking

    def _say(self) -> None:
        self._header.set_section_shown(self._columns.is_section_shown)
        if self._section is not None:
            self._section.set_large(self._columns.is_section_large)
