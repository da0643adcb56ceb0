"""A word of a reply that is clicked in its Markdown: its token is the one that all panels look at.

It counts while a panel is on screen that is about one token. A word whose token is not known yet is
chosen when the trace of its reply is read, unless something else was chosen meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject

from models.records import Message
from ui.chat.chat_column import ChatColumn

if TYPE_CHECKING:
    from app.chat.desk import Desk
    from app.engine.protocol.tool_messages import Part
    from app.insight.trace.message_tokens import MessageTokens
    from app.insight.trace.text_places import TextPlaces
    from ui.section.looking import Looking
    from ui.shell.section_acts import SectionActs

LAST_TOKENS: Final = 64
"""Of a reply that grows: their text may come later than they do."""


class WordActs(QObject):
    def __init__(self, desk: Desk, chat: ChatColumn, section: SectionActs) -> None:
        super().__init__(chat)
        self._desk = desk
        self._section = section
        self._words = chat.transcript.words
        self._looking: Looking | None = None
        self._awaited: tuple[str, Part, int] | None = None
        section.panel_changed.connect(self._on_panel)
        self._words.chosen.connect(self._on_chosen)

    def _on_panel(self) -> None:
        self._words.is_on = self._section.follows_token
        if self._words.is_on and self._looking is None:
            looking = self._looking = self._section.looking()
            looking.token_changed.connect(self._on_token)
            looking.trace_changed.connect(self._on_trace)
            looking.words_changed.connect(self._show)
        self._show()

    def _on_chosen(self, message_id: str, part: Part, place: int) -> None:
        looking = self._looking
        if looking is None:
            return
        if looking.message is None or looking.message.id != message_id:
            looking.look_at(message_id)
        self._awaited = (message_id, part, place)
        self._take_awaited()

    def _take_awaited(self) -> None:
        looking, awaited = self._looking, self._awaited
        if looking is None or awaited is None or not len(looking.traces):
            return
        self._awaited = None
        message_id, part, place = awaited
        if looking.message is None or looking.message.id != message_id:
            return
        tokens, places = self._places(looking, looking.message)
        number = None if places is None else places.token_at(part, place)
        index = None if tokens is None or number is None else tokens.place_of(number)
        if index is not None:
            looking.select(index)

    def _on_token(self) -> None:
        self._awaited = None
        self._show()

    def _on_trace(self) -> None:
        self._take_awaited()
        looking = self._looking
        if looking is None or looking.index is None or not looking.is_growing:
            return
        if looking.index >= len(looking.traces) - LAST_TOKENS:
            self._show()

    def _show(self) -> None:
        """Underline the chosen token's word."""
        looking = self._looking
        message = None if looking is None or not self._words.is_on else looking.message
        if looking is None or message is None or looking.index is None:
            self._words.clear()
            return
        tokens, places = self._places(looking, message)
        if tokens is None or places is None:
            self._words.clear()
            return
        found = places.part_of(len(tokens.before) + looking.index)
        if found is None:
            self._words.clear()
        else:
            self._words.show(message.id, found.part, found.start, found.end)

    def _places(
        self, looking: Looking, message: Message
    ) -> tuple[MessageTokens | None, TextPlaces | None]:
        """Where the tokens of the reply stand in its text."""
        from app.insight.trace.message_tokens import of_reply
        from app.insight.trace.text_places import TextPlaces

        texts = self._words.texts_of(message.id)
        tokens = of_reply(message, looking.traces, looking.words)
        if texts is None or tokens is None:
            return None, None
        return tokens, TextPlaces(tokens, *texts)
