"""What is read when the token view is switched on or off, so that it stays where it is.

The two layouts of a message have nothing in common but its text, so a height is said as the
share of the text that is above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ui.transcript.area import RowsArea
from ui.transcript.body import Body
from ui.transcript.item import CONTENT

WHOLE_CHARS = 300_000
"""Of a longer text the share is told from what is read of it."""
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """`share`: of the text of the message at the upper edge; `above`: where its text has not
    begun there, how many pixels before that."""

    message_id: str = ""
    share: float = 0.0
    above: float = 0.0
    is_end: bool = True

    @staticmethod
    def of(view: RowsArea) -> ReadingPlace:
        index = view.index_at(0)
        if index is None or view.is_at_end:
            return ReadingPlace()
        item = view.rows.item(index)
        y = view.scroll_top - view.rows.top(index) - item.section_rect(CONTENT).top()
        share = share_at(item.body(CONTENT), y)
        return ReadingPlace(view.rows.message(index).id, share, min(y, 0.0), is_end=False)

    def restore(self, view: RowsArea) -> None:
        index = view.rows.index_of(self.message_id)
        if self.is_end or index is None:
            view.settle()
            return
        item, height = view.rows.item(index), float(view.viewport().height())
        y = 0.0
        for _ in range(_ROUNDS):  # laying out turns guessed heights into true ones
            rect = item.section_rect(CONTENT)
            found = rect.top() + height_of(item.body(CONTENT), self.share) + self.above
            moved = item.ensure(found, found + height)
            if found == y and not moved:
                break
            y = found
        view.rows.measure(index)
        view.settle_at(index, y)


def share_at(body: Body, y: float) -> float:
    """How much of a text is above a height, 0 to 1."""
    starts = _starts(body)
    total = starts[-1] + body.document.unread_chars
    if y <= 0 or len(starts) < 2 or not total:
        return 0.0
    for i in range(len(starts) - 1):
        top, bottom = body.top_of(i), body.top_of(i + 1)
        if y < bottom:
            inside = (y - top) / max(bottom - top, 1.0)
            return (starts[i] + inside * (starts[i + 1] - starts[i])) / total
    return 1.0


def height_of(body: Body, share: float) -> float:
    """The height above which so much of a text is."""
    if not body.is_read:
        body.read()
    while body.document.unread_chars and body.document.source_length <= WHOLE_CHARS:
        body.read()
    starts = _starts(body)
    wanted = share * _total(body)
    if wanted <= 0:
        return 0.0
    for i in range(len(starts) - 1):
        if wanted <= starts[i + 1]:
            top, bottom = body.top_of(i), body.top_of(i + 1)
            inside = (wanted - starts[i]) / max(starts[i + 1] - starts[i], 1)
            return top + inside * (bottom - top)
    return body.height


def _total(body: Body) -> int:
    return _starts(body)[-1] + body.document.unread_chars


def _starts(body: Body) -> list[int]:
    """Where each segment begins in the text, in characters, and the end."""
    segments = body.document.known_segments
    return list(accumulate((len(segment.text) for segment in segments), initial=0))
