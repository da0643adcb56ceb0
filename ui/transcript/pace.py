"""How often a growing reply is painted, and how much of the view."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from PySide6.QtCore import QRect

from app import cores
from ui.transcript.area import RowsArea
from ui.transcript.item import CONTENT
from ui.transcript.tokens.mode import FRAME_MS as TOKENS_MS, TokenMode

FRAME_MS: Final = 33
COST_FACTOR: Final = 30 if cores.HAS_FEW else 8
"""A repaint is followed by a pause this many times as long: an eighth of one core, and a thirtieth
where decoding needs both of two, unless that would be fewer than ten repaints a second."""
SLOWEST_MS: Final = 85
HIDDEN_MS: Final = 2_000
WHOLE_EVERY: Final = 8
"""The time of a token is tinted beside what is usual, so older ones change, too: with this tint
all of the view is painted so often."""
BLEED_PX: Final = 2
"""Frames of tokens reach out of their line."""


class Edges(NamedTuple):
    """Of a message: its edges in the viewport."""

    row: int
    top: float
    bottom: float


class PaintPace:
    def __init__(self, view: RowsArea, tokens: TokenMode) -> None:
        self._view = view
        self._tokens = tokens
        self._pause_ms = FRAME_MS
        self._painted_at = 0.0
        self._was: Edges | None = None
        self._is: Edges | None = None
        self._n_parts = 0

    @property
    def due_in_ms(self) -> int:
        """When what has come is to be painted: at once, if the last time is long enough ago."""
        pause_ms = self._pause_ms if self._view.isVisible() else HIDDEN_MS
        return ceil(max(0.0, pause_ms - (time.monotonic() - self._painted_at) * 1000))

    def painted(self, cost_ms: float) -> None:
        """What reading, laying out and painting took, in this thread's own time."""
        self._painted_at = time.monotonic()
        pause_ms = min(SLOWEST_MS, max(FRAME_MS, COST_FACTOR * cost_ms))
        self._pause_ms = TOKENS_MS if self._tokens.is_on else round(pause_ms)

    def settled(self) -> None:
        """All is laid out: where the last message stands now, the one that grows as a rule. While
        tokens wait to be read its height is a guess, so it is asked for here."""
        rows = self._view.rows
        if not self._tokens.is_on or not len(rows):
            self._was, self._is = self._is, None
            return
        last = len(rows) - 1
        top = self._view.item_origin(last).y()
        self._was, self._is = self._is, Edges(last, top, top + rows.item(last).height)

    def changed(self, grown: Sequence[int]) -> QRect:
        """What of the view looks otherwise now: of tokens the lines from the first changed one on,
        as long as the view has not moved."""
        view, whole = self._view, self._view.viewport().rect()
        was, now = self._was, self._is
        self._n_parts += 1
        if was is None or now is None:
            return whole
        item = view.rows.item(now.row)
        changed = item.tokens.take_changed() if item.tokens is not None else 0.0
        is_same = list(grown) == [now.row] == [was.row] and now.top == was.top
        is_whole_due = self._tokens.tint == "time" and self._n_parts % WHOLE_EVERY == 0
        if not is_same or item.room or is_whole_due:
            return whole
        top = now.top + item.section_rect(CONTENT).top() + changed
        first = int(min(top, was.bottom)) - BLEED_PX
        last = ceil(max(was.bottom, now.bottom))
        return whole.intersected(QRect(0, first, whole.width(), last - first))
