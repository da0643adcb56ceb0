"""Choosing a word of a reply by a click, where it is shown as Markdown.

Switched off it does nothing: those who only read have their clicks to themselves. What is chosen is
underlined. What must hold: a place without letters of the source (a formula, a marker, what is
beside the text) chooses nothing; the underline stays on its word while a reply grows, and is looked
for again only where the text around it has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, QPointF, QRectF, QTextBoundaryFinder, Signal
from PySide6.QtGui import QColor, QPainter

from app.markdown.blocks import plain_text
from app.markdown.document import Document
from ui.transcript.area import RowsArea
from ui.transcript.body import Body
from ui.transcript.item import CONTENT, REASONING, MessageItem
from ui.widgets.utf16 import slice_utf16

if TYPE_CHECKING:
    from app.engine.protocol.tool_messages import Part
    from ui.markdown.origin import Shown

SECTIONS: Final[dict[Part, int]] = {"reasoning": REASONING, "content": CONTENT}
_PARTS: Final[dict[int, Part]] = {section: part for part, section in SECTIONS.items()}
LINE_PX: Final = 2
SETTLED_CHARS: Final = 200
"""What is so far behind a word changes nothing about where it is shown."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Characters of a text of a message."""

    message_id: str
    part: Part
    start: int
    end: int


class WordChoice(QObject):
    """`chosen`: the message, the part of its text, and the character that the word begins with."""

    chosen = Signal(str, str, int)

    def __init__(self, view: RowsArea) -> None:
        super().__init__(view)
        self._view = view
        self.is_on = False
        self._chosen: _Chosen | None = None
        self._found: list[Shown] = []
        self._found_in: tuple[object, ...] = ()
        self._words: list[str] = []

    # --- choosing -------------------------------------------------------------------------------

    def click(self, point: QPointF) -> None:
        """A point of the viewport was clicked."""
        index = self._view.index_at(point.y()) if self.is_on else None
        if index is None:
            return
        from ui.markdown.origin import source_of

        item = self._view.rows.item(index)
        inside = point - self._view.item_origin(index)
        if not item.is_reply or not item.text_at(inside):
            return
        section = item.spot_section(inside)
        body = item.body(section)
        word = word_at(body, inside - item.section_rect(section).topLeft())
        place = None if word is None else source_of(body.document, word)
        if place is not None:
            self.chosen.emit(item.message.id, _PARTS[section], place)

    def texts_of(self, message_id: str) -> tuple[str, str] | None:
        """Reasoning and content, as far as they are here; None of a message that is not."""
        index = self._view.rows.index_of(message_id)
        if index is None:
            return None
        if not self._view.rows.has_item(index):
            message = self._view.rows.message(index)
            return message.reasoning, message.content
        item = self._view.rows.item(index)
        reasoning = "" if item.reasoning is None else item.reasoning.document.source
        return reasoning, item.content.document.source

    # --- what is chosen -------------------------------------------------------------------------

    def show(self, message_id: str, part: Part, start: int, end: int) -> None:
        """These characters are chosen."""
        chosen = _Chosen(message_id, part, start, end)
        if chosen != self._chosen:
            self._chosen, self._found_in = chosen, ()
            self._view.viewport().update()

    def clear(self) -> None:
        if self._chosen is not None:
            self._chosen = None
            self._view.viewport().update()

    def rects_in(self, item: MessageItem) -> list[QRectF]:
        """Where the chosen characters stand in an item, as far as it is laid out."""
        chosen = self._chosen
        if chosen is None or item.message.id != chosen.message_id or item.tokens is not None:
            return []
        section = SECTIONS[chosen.part]
        room = item.section_rect(section)
        if not room.height():
            return []
        body = item.body(section)
        self._look(body.document, chosen)
        return [
            rect.translated(room.topLeft())
            for shown in self._found
            for rect in body.rects((shown.segment, shown.block, shown.start), shown.end)
        ]

    def paint(self, painter: QPainter, item: MessageItem, clip: QRectF) -> None:
        """Underline them, with the painter at the item's corner."""
        styles = self._view.styles
        high = max(1.0, styles.px(LINE_PX))
        for rect in self.rects_in(item):
            if rect.intersects(clip):
                line = QRectF(rect.left(), rect.bottom() - high, rect.width(), high)
                painter.fillRect(line, QColor(styles.colors.accent))

    def _look(self, document: Document, chosen: _Chosen) -> None:
        """Find them, unless they are where they were."""
        n_read = document.source_length - document.unread_chars
        found_in = (document, document.is_open, min(n_read, chosen.end + SETTLED_CHARS))
        if found_in[:1] == self._found_in[:1] and self._words:
            if self._words == _texts_to(document, self._found):
                return
        elif found_in == self._found_in:
            return
        from ui.markdown.origin import shown_of

        self._found_in = found_in
        self._found = shown_of(document, chosen.start, chosen.end)
        self._words = _texts_to(document, self._found)


def _texts_to(document: Document, found: list[Shown]) -> list[str]:
    """The text of each block up to there."""
    segments, texts = document.known_segments, []
    for shown in found:
        if shown.segment >= len(segments):
            return []
        blocks = document.blocks(segments[shown.segment])
        if shown.block >= len(blocks):
            return []
        texts.append(slice_utf16(plain_text(blocks[shown.block]), 0, shown.end))
    return texts


def word_at(body: Body, point: QPointF) -> Shown | None:
    """The word under a point of a text; None beside it, or between words."""
    segment, block, position = body.spot_at(point)
    segments = body.document.known_segments
    if segment >= len(segments):
        return None
    blocks = body.document.blocks(segments[segment])
    if block >= len(blocks):
        return None
    from ui.markdown.origin import Shown

    text = plain_text(blocks[block])
    # The nearest gap between letters has one on each side; what has no width may be in between.
    for at in (position, position - 1, word_around(text, position)[1]):
        if at < 0:
            continue
        start, end = word_around(text, at)
        rects = body.rects((segment, block, start), end) if end > start else []
        if any(rect.contains(point) for rect in rects):
            is_word = bool(slice_utf16(text, start, end).strip())
            return Shown(segment, block, start, end) if is_word else None
    return None


def word_around(text: str, position: int) -> tuple[int, int]:
    """The word at a UTF-16 position: letters, digits and underscores together."""
    finder = QTextBoundaryFinder(QTextBoundaryFinder.BoundaryType.Word, text)
    finder.setPosition(position)
    start = position if finder.isAtBoundary() else max(0, finder.toPreviousBoundary())
    finder.setPosition(start)
    end = finder.toNextBoundary()
    return start, end if end > 0 else start
