"""What every panel of the section is: a widget that follows `Looking` while it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.engine.protocol.remote_messages import Ability
from ui.look.theme import Theme
from ui.section.looking import Looking

if TYPE_CHECKING:
    from app.bridge import Bridge
    from app.chat.desk import Desk


@dataclass(frozen=True, slots=True)
class Tools:
    """What a panel is built with. `looking`: what all panels look at."""

    theme: Theme
    looking: Looking
    desk: Desk
    bridge: Bridge


@dataclass(frozen=True, slots=True)
class PanelKind:
    """A tab. `load` imports the panel's file, when it is first shown and not before."""

    title: str
    load: Callable[[], type[Panel]]


class Panel(QWidget):
    """Override `_refresh_message`, `_refresh_trace`, `_refresh_token` and `_refresh_words`: they
    are called when what they are about has changed, and once each when the panel comes on screen.
    A panel that is not shown does nothing. `panel_wanted`: another panel (its title) and a room in
    it, where what is shown here goes on. `measured`: what was, for whoever asked here.
    `follows_token`: it shows something of the chosen token, so words of the chat can be clicked to
    choose one. `ability`: without it a server's model, or its reply (`is_of_reply`), has nothing to
    show here (`ui.section.away`).
    """

    panel_wanted = Signal(str, str)
    measured = Signal(object)

    title: ClassVar[str] = ""
    follows_token: ClassVar[bool] = True
    ability: ClassVar[Ability | None] = None
    is_of_reply: ClassVar[bool] = False

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        looking = tools.looking
        self._tools = tools
        self._theme = tools.theme
        self._looking = looking
        self._is_active = False
        self.setAccessibleName(self.title)
        looking.message_changed.connect(self._on_message)
        looking.trace_changed.connect(self._on_trace)
        looking.token_changed.connect(self._on_token)
        looking.words_changed.connect(self._on_words)

    def _on_message(self) -> None:
        if self._is_active:
            self._refresh_message()

    def _on_trace(self) -> None:
        if self._is_active:
            self._refresh_trace()

    def _on_token(self) -> None:
        if self._is_active:
            self._refresh_token()

    def _on_words(self) -> None:
        if self._is_active:
            self._refresh_words()

    def set_active(self, is_active: bool) -> None:
        """Whether it is on screen."""
        was_active, self._is_active = self._is_active, is_active
        if is_active and not was_active:
            self._refresh_message()
            self._refresh_trace()
            self._refresh_token()
            self._refresh_words()

    def enter(self, room: str) -> object:
        """Show a room of it, where it has rooms."""

    def _refresh_message(self) -> None: ...

    def _refresh_trace(self) -> None: ...

    def _refresh_token(self) -> None: ...

    def _refresh_words(self) -> None: ...
