"""Find in chat: where a text occurs in the messages, and which of these places is looked at.

What must hold: all messages are looked through, in slices between events, beginning with what is in
view; positions are those of the text as it is shown; messages that come above, change or grow
meanwhile are looked at (again), and what was found stays on its message. Entities (`&auml;`) are
found as the characters that they show; the search over all chats knows the source.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from PySide6.QtCore import QObject, QRectF, QTimer, Signal
from PySide6.QtGui import QColor, QPainter

from app.markdown.blocks import plain_text
from app.markdown.document import Document
from models.records import Role
from ui.transcript.area import RowsArea
from ui.transcript.item import CONTENT, REASONING, MessageItem
from ui.transcript.tokens.mode import TokenMode
from ui.widgets.utf16 import utf16_length

SLICE_S = 0.006
PAUSE_MS = 3
MAX_LENGTH = 1000
_MARKUP = r"[*_~`\\]*"
"""What Markdown may have put between the letters of a word."""
_ENTITY: Final = re.compile(r"&[#\w]+;")

Hit = tuple[int, int, int, int, int]
"""Section, segment, block, and from where to where in it (UTF-16)."""


class Finder(QObject):
    """`changed`: the number of places, or the one that is looked at."""

    changed = Signal()

    def __init__(self, view: RowsArea, tokens: TokenMode) -> None:
        super().__init__(view)
        self._view = view
        self._tokens = tokens
        self._pattern: re.Pattern[str] | None = None
        self._word: re.Pattern[str] | None = None
        self._hits: list[tuple[Hit, ...] | None] = []
        self._again: set[int] = set()
        self._start = self._down = self._up = 0
        self._work: tuple[int, Iterator[None]] | None = None
        self._current: tuple[int, int] | None = None
        self._wants_first = False
        self.count = 0
        self._timer = QTimer(self)
        self._timer.setInterval(PAUSE_MS)
        self._timer.timeout.connect(self._on_due)
        tokens.toggled.connect(self._on_tokens_toggled)
        tokens.replaced.connect(self.change)

    # What the find bar uses

    def search(self, text: str) -> None:
        """Look for a text: capital or not, with any space between its words."""
        words = text[:MAX_LENGTH].split()
        self._pattern = self._word = None
        if words:
            self._pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
            runs: list[str] = re.findall(r"[^\W_]+", text)
            if runs:
                letters = [re.escape(letter) for letter in max(runs, key=len)]
                self._word = re.compile(_MARKUP.join(letters), re.IGNORECASE)
        self.restart()

    def clear(self) -> None:
        self.search("")

    def step(self, direction: int) -> None:
        """To the next place (1) or the one before (-1); from the last to the first."""
        if self._current is None:
            self._go_near()
            return
        index, place = self._current
        place += direction
        if not 0 <= place < len(self._hits[index] or ()):
            index = self._neighbour(index, direction)
            place = 0 if direction > 0 else len(self._hits[index] or ()) - 1
        self._go(index, place)

    @property
    def is_busy(self) -> bool:
        """Whether there are messages that were not looked at yet."""
        return self._timer.isActive()

    @property
    def position(self) -> int:
        """Which of all places is looked at, from 1; 0 where there is none."""
        if self._current is None:
            return 0
        index, place = self._current
        return sum(len(hits) for hits in self._hits[:index] if hits) + place + 1

    # What the view tells

    def restart(self, *, goes: bool = True) -> None:
        """Other messages, or another text: begin anew from what is in view, and go to the first
        place."""
        n_rows = len(self._view.rows)
        self._hits = [None] * n_rows
        self._again.clear()
        self._work = self._current = None
        self.count = 0
        first = self._view.index_at(0)
        self._start = self._down = first or 0
        self._up = self._down - 1
        self._wants_first = goes and self._pattern is not None
        if self._pattern is not None and n_rows:
            self._timer.start()
        else:
            self._timer.stop()
        self._view.viewport().update()
        self.changed.emit()

    def move_by(self, count: int) -> None:
        """So many messages came before all others."""
        if self._pattern is None:
            return
        self._hits[:0] = [None] * count
        self._again = {index + count for index in self._again}
        self._start += count
        self._down += count
        self._up += count
        if self._work is not None:
            self._look_again(self._work[0] + count)
        if self._current is not None:
            self._current = (self._current[0] + count, self._current[1])
        self._timer.start()
        self.changed.emit()

    def change(self, index: int) -> None:
        """A message was added, changed or has grown."""
        if self._pattern is None:
            return
        while len(self._hits) <= index:
            self._hits.append(None)
        self._look_again(index)

    def _look_again(self, index: int) -> None:
        if self._work is not None:
            self._again.add(self._work[0] if self._work[0] != index else index)
        self._work = None
        self._again.add(index)
        self._timer.start()

    # Painting

    def paint(self, painter: QPainter, index: int, item: MessageItem, clip: QRectF) -> None:
        """Mark what was found in a message, with the painter at the item's corner."""
        hits = self._hits[index] if index < len(self._hits) else None
        if not hits:
            return
        colors = self._view.styles.colors
        painter.save()
        # The text stays readable under it: dark on the marker's colour, or light.
        modes = QPainter.CompositionMode
        painter.setCompositionMode(
            modes.CompositionMode_Screen if colors.is_dark else modes.CompositionMode_Multiply
        )
        for place, hit in enumerate(hits):
            is_current = self._current == (index, place)
            for rect in rects_of(item, hit):
                if rect.intersects(clip):
                    painter.fillRect(rect, QColor(colors.found_now if is_current else colors.found))
        painter.restore()

    # Inside

    def _on_tokens_toggled(self) -> None:
        """All messages are shown as another text."""
        self.restart(goes=False)

    def _on_due(self) -> None:
        ends_at = time.perf_counter() + SLICE_S
        before = (self.count, self._current)
        while time.perf_counter() < ends_at:
            if self._work is None and not self._begin_next():
                self._timer.stop()
                break
            assert self._work is not None
            index, steps = self._work
            if next(steps, "done") == "done":
                self._work = None
                self._on_looked(index)
        if before != (self.count, self._current):
            self._view.viewport().update()
        self.changed.emit()

    def _begin_next(self) -> bool:
        while self._again:
            index = self._again.pop()
            if index < len(self._hits):
                self._work = (index, self._look(index))
                return True
        while self._down < len(self._hits):
            index, self._down = self._down, self._down + 1
            if self._hits[index] is None:
                self._work = (index, self._look(index))
                return True
        while self._up >= 0:
            index, self._up = self._up, self._up - 1
            if self._hits[index] is None:
                self._work = (index, self._look(index))
                return True
        return False

    def _look(self, index: int) -> Iterator[None]:
        """Look through one message, a little with each step."""
        found: list[Hit] = []
        for section, document in self._documents(index):
            while document.unread_chars:
                document.take_changes(SLICE_S)
                yield
            for number, segment in enumerate(document.segments):
                if not self._may_hold(segment.text):
                    continue
                for place, block in enumerate(document.blocks(segment)):
                    spans = self._spans(plain_text(block))
                    found += [(section, number, place, start, end) for start, end in spans]
                segment.blocks = None
                yield
        self.count += len(found) - len(self._hits[index] or ())
        self._hits[index] = tuple(found)

    def _documents(self, index: int) -> Iterator[tuple[int, Document]]:
        """The texts of a message that may hold it, as they are shown."""
        view = self._view
        message = view.rows.message(index)
        if self._tokens.is_on and message.role is not Role.TOOL:
            document = self._tokens.copy_of(message, self._may_hold)
            if document is not None:
                yield CONTENT, document
            return
        is_open, is_raw, content = False, False, message.content
        if view.rows.has_item(index):
            item = view.rows.item(index)
            is_open, is_raw, content = item.is_streaming, item.is_raw, item.content.document.source
        is_plain = is_raw or message.role is not Role.ASSISTANT
        is_told = is_raw or message.role is Role.TOOL
        texts = ((REASONING, message.reasoning, is_told), (CONTENT, content, is_plain))
        for section, text, plain in texts:
            if not text or not self._may_hold(text):
                continue
            yield section, Document(text, is_plain=plain, is_open=is_open)

    def _may_hold(self, text: str) -> bool:
        """Whether the longest word may be in it: most messages are done with that question. What
        an entity (`&auml;`) is shown as is not in the source."""
        if self._word is None or self._word.search(text) is not None:
            return True
        return "&" in text and _ENTITY.search(text) is not None

    def _spans(self, text: str) -> list[tuple[int, int]]:
        assert self._pattern is not None
        spans = [match.span() for match in self._pattern.finditer(text)]
        if text.isascii():
            return spans
        return [(utf16_length(text[:start]), utf16_length(text[:end])) for start, end in spans]

    def _on_looked(self, index: int) -> None:
        hits = self._hits[index] or ()
        if self._current is not None and self._current[0] == index:
            place = min(self._current[1], len(hits) - 1)
            self._current = (index, place) if hits else None
        if self._wants_first and hits:
            self._wants_first = False
            self._go(index, 0 if index >= self._start else len(hits) - 1)

    def _go_near(self) -> None:
        """To the first place in view or below it, else to the first of all."""
        holding = [i for i, hits in enumerate(self._hits) if hits]
        if holding:
            first = self._view.index_at(0) or 0
            self._go(next((i for i in holding if i >= first), holding[0]), 0)

    def _neighbour(self, index: int, direction: int) -> int:
        """The next message with places, round the end. There is one: that with the present."""
        holding = [i for i, hits in enumerate(self._hits) if hits]
        at = bisect_left(holding, index)
        if direction > 0 and at < len(holding) and holding[at] == index:
            at += 1
        elif direction < 0:
            at -= 1
        return holding[at % len(holding)]

    def _go(self, index: int, place: int) -> None:
        hits = self._hits[index]
        assert hits
        self._current = (index, place)
        self._show(index, hits[place])
        self.changed.emit()

    def _show(self, index: int, hit: Hit) -> None:
        """Bring a place into view, unfolding what hides it."""
        view = self._view
        item, height = view.rows.item(index), view.viewport().height()
        section, segment = hit[:2]
        if section == REASONING and not item.is_reasoning_open:
            item.toggle_reasoning()
        view.leave_end()
        for _ in range(4):  # what is laid out on the way changes the heights
            body, room = item.body(section), item.section_rect(section)
            body.ensure(body.top_of(segment), body.top_of(segment) + height)
            view.rows.measure(index)
            body.reveal(hit[1:4], hit[4])
            rects = rects_of(item, hit)
            y = rects[0].top() if rects else room.top() + body.top_of(segment)
            at = view.rows.top(index) + y - view.scroll_top
            if rects and view.covered_top <= at <= height - rects[0].height():
                break
            view.scroll_to(view.rows.top(index) + y - height / 3)
        view.viewport().update()


def rects_of(item: MessageItem, hit: Hit) -> list[QRectF]:
    """Where a place stands in its item, as far as that is laid out."""
    section, segment, block, start, end = hit
    room = item.section_rect(section)
    if not room.height():
        return []
    rects = item.body(section).rects((segment, block, start), end)
    return [rect.translated(room.topLeft()) for rect in rects]
