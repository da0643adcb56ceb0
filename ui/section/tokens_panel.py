"""*Tokens*, in three rooms: the reply's, those of a text to try, and the whole vocabulary."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import QWidget

from ui.section.panel import Panel, Tools
from ui.section.rooms import Room, RoomsPanel


def _reply() -> type[Panel]:
    from ui.section.reply_tokens import ReplyTokens

    return ReplyTokens


def _try_text() -> type[Panel]:
    from ui.section.try_text import TryText

    return TryText


def _vocabulary() -> type[Panel]:
    from ui.section.vocabulary_browser import VocabularyBrowser

    return VocabularyBrowser


ROOMS: Final[tuple[Room, ...]] = (
    ("This reply", _reply),
    ("Try a text", _try_text),
    ("Vocabulary", _vocabulary),
)


class TokensPanel(RoomsPanel):
    title = "Tokens"

    def __init__(self, tools: Tools, parent: QWidget | None = None) -> None:
        super().__init__(tools, ROOMS, "What tokens to look at", parent)
        self.setObjectName("panel_tokens")
        self.rooms.setObjectName("token_rooms")
