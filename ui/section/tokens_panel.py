"""*Tokens*, in three rooms: the reply's, those of a text that one tries, and the whole vocabulary.

A room is built when it is first entered, and only the one on screen follows anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from ui.section.panel import Panel, Tools
from ui.section.segments import Segments


def _reply() -> type[Panel]:
    from ui.section.reply_tokens import ReplyTokens

    return ReplyTokens


def _try_text() -> type[Panel]:
    from ui.section.try_text import TryText

    return TryText


def _vocabulary() -> type[Panel]:
    from ui.section.vocabulary_browser import VocabularyBrowser

    return VocabularyBrowser


ROOMS: Final[tuple[tuple[str, Callable[[], type[Panel]]], ...]] = (
    ("This reply", _reply),
    ("Try a text", _try_text),
    ("Vocabulary", _vocabulary),
)


class TokensPanel(Panel):
    title = "Tokens"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, parent)
        self._rooms: dict[int, Panel] = {}
        self.setObjectName("panel_tokens")
        titles = [title for title, _ in ROOMS]
        self.rooms = Segments(tools.theme, titles, "What tokens to look at", self)
        self.rooms.setObjectName("token_rooms")
        self._stack = QStackedWidget(self)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.rooms)
        self._column.addWidget(self._stack, 1)
        self.rooms.currentChanged.connect(lambda _: self._enter())
        tools.theme.changed.connect(self._fit)
        self._fit()
        self._enter()

    def room(self) -> Panel:
        """The one on screen."""
        at = self.rooms.currentIndex()
        if at not in self._rooms:
            built = self._rooms[at] = ROOMS[at][1]()(self._tools, self)
            self._stack.addWidget(built)
        return self._rooms[at]

    def set_active(self, is_active: bool) -> None:
        super().set_active(is_active)
        room = self.room()
        for other in self._rooms.values():
            other.set_active(is_active and other is room)

    def _enter(self) -> None:
        self._stack.setCurrentWidget(self.room())
        self.set_active(self._is_active)

    def _fit(self) -> None:
        self._column.setSpacing(self._theme.px(8))
