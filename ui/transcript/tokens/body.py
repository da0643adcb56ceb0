"""The text of one message as tokens: a body whose segments are laid out as pieces."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, QRectF

from app.markdown.segments import Segment
from ui.markdown.layouts import SegmentLayout
from ui.markdown.styles import Styles
from ui.transcript.body import Body, Spot
from ui.transcript.tokens.document import TokenDocument, TokenSegment
from ui.transcript.tokens.layout import LINE_HEIGHT, TokenLayout
from ui.widgets.utf16 import slice_utf16

_END = 1 << 30


class TokenBody(Body):
    """Numbers are those of the message's tokens, from 0. Points are relative to its corner."""

    first_read_s = 0.012

    def __init__(self, document: TokenDocument, styles: Styles, width: float) -> None:
        super().__init__(document, styles, width)
        self.tokens = document
        self._changed_y = 0.0

    def read(self) -> None:
        """Read what came; the layout of the segment that it came to goes on."""
        last = len(self._boxes) - 1
        box = self._boxes[last] if self._boxes else None
        super().read()
        if box is None or last >= len(self._boxes):
            self._changed_y = 0.0
            return
        if box is self._boxes[last]:
            changed_y = self._heights[last]
        elif isinstance(box.layout, TokenLayout):
            changed_y = self._go_on(last, box.layout)
        else:
            changed_y = 0.0
        self._changed_y = min(self._changed_y, self.top_of(last) + changed_y)

    def _go_on(self, index: int, layout: TokenLayout) -> float:
        box = self._boxes[index]
        assert isinstance(box.segment, TokenSegment)
        layout.grow(box.segment)
        box.layout = layout
        self._heights.set(index, layout.height)
        return layout.changed_y

    @property
    def is_laid_out(self) -> bool:
        """Whether all is read, and the end has its layout."""
        return self.is_whole and bool(self._boxes) and self._boxes[-1].layout is not None

    def take_changed(self) -> float:
        """From which height on it looks otherwise than when this was asked last, for what was read
        since; what its tokens are tinted by is another matter."""
        changed, self._changed_y = self._changed_y, math.inf
        return changed

    # --- which token is where -------------------------------------------------------------------

    def token_at(self, point: QPointF) -> int | None:
        """The token under a point. The share of a character that each of its tokens has is taken
        from left to right."""
        found = self._at(point)
        if found is None or not isinstance(found[1], TokenLayout):
            return None
        hit = found[1].group_at(found[2])
        if hit is None:
            return None
        groups = self.tokens.groups
        first, end = groups.firsts[hit[0]], groups.end_of(hit[0])
        return min(first + int(hit[1] * (end - first)), end - 1)

    def token_near(self, point: QPointF) -> int | None:
        """The token at a point, or the nearest one in the line at its height."""
        found = self._at(point)
        if found is None or not isinstance(found[1], TokenLayout):
            return None
        group = found[1].group_near(found[2])
        return None if group is None else self.tokens.groups.firsts[group]

    def token_rect(self, number: int) -> QRectF:
        """Where a token stands; it is laid out for that. Empty for one that is not there."""
        segment = self._segment_of(number)
        if segment is None:
            return QRectF()
        layout = self._layout(segment)
        boxes = layout.token_boxes(number) if layout is not None else []
        return boxes[0].translated(0, self.top_of(segment)) if boxes else QRectF()

    def token_beside(self, number: int, step: int) -> int | None:
        """The token in the line below (1) or above (-1); None at the text's end."""
        segment = self._segment_of(number)
        layout = self._layout(segment) if segment is not None else None
        if segment is None or layout is None:
            return None
        group = self.tokens.groups.group_of(number)
        found = layout.group_beside(group, step)
        if found is None:
            x = self.token_rect(number).center().x()
            found = self._group_in(segment + step, x, is_last=step < 0)
        return None if found is None else self.tokens.groups.firsts[found]

    def token_in_line(self, x: float, *, is_last: bool) -> int | None:
        """The token at `x` in the last line, or the first one."""
        self._read_whole()
        segments = self.document.known_segments
        found = self._group_in(len(segments) - 1 if is_last else 0, x, is_last=is_last)
        return None if found is None else self.tokens.groups.firsts[found]

    def text_between(self, low: Spot, high: Spot) -> str:
        """The text that the tokens between two places spell."""
        segments = self.document.segments
        found = []
        for i in range(low[0], min(high[0] + 1, len(segments))):
            start = low[2] if i == low[0] else 0
            end = high[2] if i == high[0] else _END
            found.append(slice_utf16(segments[i].text, start, end))
        return "".join(found)

    # --- inside ---------------------------------------------------------------------------------

    def _group_in(self, segment: int, x: float, *, is_last: bool) -> int | None:
        if not 0 <= segment < len(self._boxes):
            return None
        layout = self._layout(segment)
        return None if layout is None else layout.group_in_line(is_last, x)

    def _segment_of(self, number: int) -> int | None:
        self._read_whole()
        if not 0 <= number < self.tokens.groups.n_tokens:
            return None
        return self.tokens.segment_of(self.tokens.groups.group_of(number))

    def _read_whole(self) -> None:
        """Whoever looks for a place needs all before it: 20 ms with 32,000 tokens, once."""
        while not self.is_whole:
            self.read()

    def _layout(self, segment: int) -> TokenLayout | None:
        if segment >= len(self._boxes):
            return None
        self._lay_out(segment)
        layout = self._boxes[segment].layout
        return layout if isinstance(layout, TokenLayout) else None

    def _layout_of(self, segment: Segment, width: float, *, is_first: bool) -> SegmentLayout:
        assert isinstance(segment, TokenSegment)
        return TokenLayout(self.tokens, segment, self.styles, width)

    def _guess(self, chars: int) -> float:
        per_line = max(1.0, 0.8 * self.width / self.styles.char_width)
        return max(1.0, chars / per_line) * round(self.styles.reply.pixelSize() * LINE_HEIGHT)

    def _guess_segment(self, segment: Segment) -> float:
        return self._guess(len(segment.text)) + segment.text.count("\n") * round(
            self.styles.reply.pixelSize() * LINE_HEIGHT
        )
