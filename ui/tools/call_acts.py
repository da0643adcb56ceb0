"""Calls of tools in their window: the bar while one waits, and its keys. Built at first use."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.events import (
    CallsChanged,
    ConversationOpened,
    MessageAdded,
    PathChanged,
    ReplyingChanged,
)
from ui.shell.actions import Action, Actions

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from ui.chat.chat_column import ChatColumn
    from ui.look.theme import Theme
    from ui.tools.call_bar import CallBar

KEY: Final = "Ctrl+Alt+A"
RUN_KEY: Final = "Ctrl+Alt+Shift+X"
SKIP_KEY: Final = "Ctrl+Alt+Shift+N"
GO_ON_KEY: Final = "Ctrl+Alt+Shift+Y"


class CallActs(QObject):
    """`look_again`: whether a reply grows may be otherwise by now."""

    def __init__(
        self,
        desk: Desk,
        bridge: Bridge,
        theme: Theme,
        chat: ChatColumn,
        look_again: Callable[[], None],
    ) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self._look_again = look_again
        self._bar: CallBar | None = None
        bridge.on(CallsChanged, self._on_changed)
        bridge.on((ConversationOpened, PathChanged, MessageAdded, ReplyingChanged), self._follow)

    def add_actions(self, actions: Actions) -> None:
        def is_asking() -> bool:
            return self._asked_phase() == "asking"

        def can_go_on() -> bool:
            return self._asked_phase() in ("limit", "over")

        for name, title, key, run, is_enabled in (
            ("tool_call", "Answer the tool call", KEY, self.go_there, self._is_there),
            ("tool_call_run", "Run the tool call once", RUN_KEY, self._run_button, is_asking),
            ("tool_call_skip", "Skip the tool call", SKIP_KEY, self._skip_button, is_asking),
            ("tool_calls_go_on", "Continue after tool calls", GO_ON_KEY, self._go_on, can_go_on),
        ):
            actions.add(Action(name, title, key, run, is_enabled, group="Tools"))

    def _asked_phase(self) -> str:
        asked = self._desk.tool_calls.asked
        return asked.phase if asked is not None else ""

    def _is_there(self) -> bool:
        return self._bar is not None and not self._bar.isHidden()

    def go_there(self) -> None:
        """The keyboard goes to the first answer of the bar."""
        if self._bar is not None and not self._bar.isHidden():
            self._chat.wanted.emit()
            self._bar.first_stop().setFocus()

    def bar(self) -> CallBar:
        if self._bar is None:
            from ui.tools.call_bar import CallBar

            bar = CallBar(self._theme)
            bar.hide()
            bar.run_wanted.connect(lambda always, rest: self._run(always=always, rest=rest))
            bar.skip_wanted.connect(lambda never: self._skip(never=never))
            bar.go_on_wanted.connect(self._go_on)
            bar.stop_wanted.connect(self._desk.replies.stop)
            bar.arguments_changed.connect(self._check)
            self._chat.add_bar(bar)
            self._bar = bar
        return self._bar

    # --- acts -----------------------------------------------------------------------------------

    def _run(self, *, always: bool = False, rest: bool = False) -> None:
        bar = self.bar()
        sentence = self._desk.tool_calls.run(bar.form.text(), always=always, rest=rest)
        if sentence:
            bar.show_trouble(sentence)

    def _run_button(self) -> None:
        """As a click: not in the moment after another call has come."""
        self.bar().run_button.click()

    def _skip_button(self) -> None:
        self.bar().skip_button.click()

    def _skip(self, *, never: bool = False) -> None:
        self._desk.tool_calls.decline(never=never)

    def _go_on(self) -> None:
        self._desk.tool_calls.go_on()

    def _check(self) -> None:
        """What is being changed fits, or why it does not."""
        asked, bar = self._desk.tool_calls.asked, self.bar()
        if asked is not None and asked.call is not None and asked.phase == "asking":
            calls = self._desk.tool_calls
            bar.show_trouble(calls.trouble_of(asked.call, asked.offered, bar.form.text()))

    # --- following ------------------------------------------------------------------------------

    def _on_changed(self, event: CallsChanged) -> None:
        if event.conversation_id == self._desk.shelf.open.id:
            self._look_again()
            self._follow()

    def _follow(self, _event: object = None) -> None:
        asked = self._desk.tool_calls.asked
        if asked is None:
            self._hide()
            return
        bar = self.bar()
        had_focus = self._has_focus()
        if bar.show_asked(asked):  # its fields were built just now, behind all others
            for first, second in pairwise((self._chat.transcript, *bar.stops())):
                QWidget.setTabOrder(first, second)
        bar.show()
        if had_focus and not self._has_focus():
            bar.first_stop().setFocus()

    def _has_focus(self) -> bool:
        focus = QApplication.focusWidget()
        return self._bar is not None and focus is not None and self._bar.isAncestorOf(focus)

    def _hide(self) -> None:
        if self._bar is not None and not self._bar.isHidden():
            had_focus = self._has_focus()
            self._bar.hide()
            if had_focus:
                self._chat.focus_writing()
