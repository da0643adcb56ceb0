"""*Tokens*, in three rooms: the reply's, those of a text to try, and the whole vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import QWidget

from ui.section.panel import Panel, Tools
from ui.section.rooms import Room, RoomsPanel

if TYPE_CHECKING:
    from ui.section.tokens.vocabulary_browser import VocabularyBrowser

VOCABULARY: Final = "Vocabulary"


def _reply() -> type[Panel]:
    from ui.section.tokens.reply_tokens import ReplyTokens

    return ReplyTokens


def _try_text() -> type[Panel]:
    from ui.section.tokens.try_text import TryText

    return TryText


def _vocabulary() -> type[Panel]:
    from ui.section.tokens.vocabulary_browser import VocabularyBrowser

    return VocabularyBrowser


ROOMS: Final[tuple[Room, ...]] = (
    ("This reply", _reply),
    ("Try a text", _try_text),
    (VOCABULARY, _vocabulary),
)


class TokensPanel(RoomsPanel):
    title = "Tokens"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, ROOMS, "Token views", parent)
        self.setObjectName("panel_tokens")
        self.rooms.setObjectName("token_rooms")

    def room(self) -> Panel:
        """The one on screen."""
        n_known = len(self._rooms)
        room = super().room()
        if len(self._rooms) > n_known and hasattr(room, "vocabulary_wanted"):
            room.vocabulary_wanted.connect(self.show_in_vocabulary)
        return room

    def show_in_vocabulary(self, token_id: int) -> VocabularyBrowser:
        """To the last room, at this token."""
        from ui.section.tokens.vocabulary_browser import VocabularyBrowser

        browser = self.enter(VOCABULARY)
        assert isinstance(browser, VocabularyBrowser)
        browser.go_to(token_id)
        return browser
