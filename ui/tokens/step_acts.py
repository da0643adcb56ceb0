"""Step mode in its window: the button, the keys, and the bar while a reply waits.

The bar is built when a reply waits for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.chat.documents.text_document import PLACE
from app.chat.events import (
    ConversationOpened,
    HeldEnded,
    StepModeChanged,
    TokenHeld,
    VocabularyRead,
)
from models.records import Message
from ui.chat.chat_column import ChatColumn
from ui.chat.header import STEP_KEY
from ui.look.theme import Theme
from ui.shell.actions import Action, Actions, always

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk
    from app.engine.protocol.pieces import Pieces
    from ui.tokens.step_bar import StepBar


class StepActs(QObject):
    def __init__(self, desk: Desk, bridge: Bridge, theme: Theme, chat: ChatColumn) -> None:
        super().__init__(chat)
        self._desk = desk
        self._theme = theme
        self._chat = chat
        self._bar: StepBar | None = None
        chat.header.step_requested.connect(self.toggle)
        bridge.on(StepModeChanged, self._on_mode)
        bridge.on(TokenHeld, self._on_held)
        bridge.on(HeldEnded, self._on_ended)
        bridge.on(ConversationOpened, self._follow)
        bridge.on(VocabularyRead, self._on_words)

    def add_actions(self, actions: Actions) -> None:
        def is_held() -> bool:
            return self._desk.step.held_token is not None

        for name, title, key, run, is_enabled in (
            ("step_mode", "Step mode: choose each token yourself", STEP_KEY, self.toggle, always),
            ("step_take", "Take the drawn token", "Ctrl+Shift+J", self._desk.step.take, is_held),
            ("step_run_on", "Run to the end", "Ctrl+Alt+J", self._desk.step.run_on, is_held),
        ):
            actions.add(Action(name, title, key, run, is_enabled, group="Step mode"))

    def toggle(self) -> None:
        if self._desk.step.is_on:
            self._desk.step.run_on()
        else:
            self._desk.words.read()
            self._desk.step.begin()

    def bar(self) -> StepBar:
        if self._bar is None:
            from ui.tokens.step_bar import StepBar

            self._bar = StepBar(self._theme)
            self._bar.hide()
            self._bar.took.connect(self._desk.step.take)
            self._bar.chose.connect(self._desk.step.choose)
            self._bar.run_on_requested.connect(self._desk.step.run_on)
            self._bar.stop_requested.connect(self._desk.step.stop)
            self._chat.add_bar(self._bar)
        return self._bar

    # --- following ------------------------------------------------------------------------------

    def _on_mode(self, event: StepModeChanged) -> None:
        self._chat.header.step_button.set_on(event.is_on)

    def _on_held(self, event: TokenHeld) -> None:
        self._show(event)

    def _on_ended(self, _event: HeldEnded) -> None:
        self._follow()

    def _on_words(self, _event: object = None) -> None:
        held = self._desk.step.held_token
        if self._bar is not None and held is not None:
            self._bar.show_words(self._words(self._message(held.message_id)))

    def _follow(self, _event: object = None) -> None:
        """Another chat is on screen, or a reply waits no more."""
        held = self._desk.step.held_token
        if held is not None:
            self._show(held)
        elif self._bar is not None and not self._bar.isHidden():
            had_focus = self._bar.isAncestorOf(QApplication.focusWidget() or self._chat)
            self._bar.hide()
            if had_focus:
                self._chat.focus_writing()

    def _show(self, held: TokenHeld) -> None:
        message = self._message(held.message_id)
        bar, was_hidden = self.bar(), self.bar().isHidden()
        bar.show_token(held.token, self._text_of(message), self._words(message))
        bar.show()
        if was_hidden and not self._is_writing():
            bar.table.setFocus()

    def _text_of(self, message: Message | None) -> str:
        """What stands before the token; of a continuation, the document up to there."""
        if message is None:
            return ""
        place = message.settings.get(PLACE)
        if isinstance(place, list):
            return self._desk.text.text[: place[0] + len(message.content)]
        return message.content or message.reasoning

    def _message(self, message_id: str) -> Message | None:
        return next((m for m in reversed(self._desk.shelf.path) if m.id == message_id), None)

    def _words(self, message: Message | None) -> Pieces | None:
        return None if message is None else self._desk.words.of(message.weights_hash)

    def _is_writing(self) -> bool:
        """Whether somebody is in the middle of a text, whose keys are not to be taken."""
        return bool(self._chat.composer.text())
