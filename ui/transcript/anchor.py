"""The place that stays put while heights above it become known."""

from __future__ import annotations

from ui.transcript.item import CONTENT, REASONING
from ui.transcript.rows import Rows


class Anchor:
    """A height said as message, text, segment and rest, so that it survives re-layout.

    It is tied to the first segment in view whose height is known: what is only guessed will
    change, and what people look at must not move when it does.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._index = 0
        self._section: int | None = None
        self._segment = 0
        self._rest = 0.0

    def take(self, y: float, height: float) -> None:
        """Remember a height of the rows, with so much in view below it."""
        rows = self._rows
        if not len(rows):
            self._index, self._section, self._rest = 0, None, 0.0
            return
        first = rows.at(y)
        for index in range(first, rows.at(y + height) + 1):
            if rows.has_item(index) and self._take_segment(index, y, y + height):
                return
        self._index, self._section, self._rest = first, None, y - rows.top(first)

    def y(self) -> float:
        """Where the remembered height is now."""
        if self._index >= len(self._rows):
            return 0.0
        top = self._rows.top(self._index)
        if self._section is None:
            return top + self._rest
        item = self._rows.item(self._index)
        rect = item.section_rect(self._section)
        return top + rect.top() + item.body(self._section).top_of(self._segment) + self._rest

    def message_id(self) -> str:
        """The message that is remembered; empty where there is none."""
        return self._rows.message(self._index).id if self._index < len(self._rows) else ""

    def put(self, index: int, y: float) -> None:
        """Remember a height of a message."""
        self._index, self._section, self._rest = index, None, y

    def move_to(self, message_id: str) -> bool:
        """Follow that message to its new index; whether it is there."""
        index = self._rows.index_of(message_id)
        if index is None:
            return False
        self._index = index
        return True

    def stay(self) -> None:
        """That message is gone: what took its place is shown from its beginning."""
        self._index = min(self._index, max(0, len(self._rows) - 1))
        self._section, self._rest = None, 0.0

    def move_by(self, count: int) -> None:
        """So many messages came before all others."""
        self._index += count

    def _take_segment(self, index: int, y: float, bottom: float) -> bool:
        item = self._rows.item(index)
        top = self._rows.top(index)
        for section in (REASONING, CONTENT):
            rect = item.section_rect(section)
            if not rect.height():
                continue
            start = top + rect.top()
            segment = item.body(section).first_known(y - start, bottom - start)
            if segment is not None:
                self._index, self._section, self._segment = index, section, segment
                self._rest = y - start - item.body(section).top_of(segment)
                return True
        return False
