"""The place that stays put while heights above it become known."""

from __future__ import annotations

from PySide6.QtCore import QPointF

from ui.transcript.rows import Rows


class Anchor:
    """A height said as message, text, segment and rest, so that it survives re-layout."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._index = 0
        self._section: int | None = None
        self._segment = 0
        self._rest = 0.0

    def take(self, y: float) -> None:
        """Remember a height of the rows."""
        if not len(self._rows):
            self._index, self._section, self._rest = 0, None, 0.0
            return
        self._index = self._rows.at(y)
        item = self._rows.item(self._index)
        inside = y - self._rows.top(self._index)
        section = item.spot_section(QPointF(0, inside))
        rect = item.section_rect(section)
        if not rect.top() <= inside < rect.bottom():
            self._section, self._rest = None, inside
            return
        self._section = section
        self._segment, top = item.body(section).segment_at(inside - rect.top())
        self._rest = inside - rect.top() - top

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

    def move_to(self, message_id: str) -> bool:
        """Follow that message to its new index; whether it is there."""
        index = self._rows.index_of(message_id)
        if index is None:
            return False
        self._index = index
        return True
