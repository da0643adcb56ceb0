"""Which tokens of a prompt, or cells of the cache, are those of a picture or a sound."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from app.engine.protocol.media_messages import MediaSpan


def span_at(spans: Sequence[MediaSpan], place: int) -> MediaSpan | None:
    """
    >>> spans = [MediaSpan(2, 4, "a"), MediaSpan(9, 1, "b")]
    >>> [span.media_id if (span := span_at(spans, at)) else "" for at in (1, 2, 5, 6, 9)]
    ['', 'a', 'a', '', 'b']
    """
    index = bisect_right(spans, place, key=lambda span: span.start) - 1
    if index < 0 or place >= spans[index].start + spans[index].count:
        return None
    return spans[index]


def place_words(span: MediaSpan, at: int, names: Mapping[str, str]) -> str:
    """Which part of a picture or a sound cell `at` of it holds.

    >>> place_words(MediaSpan(2, 6, "a", 3, 2), 4, {}), place_words(MediaSpan(2, 6, "a"), 4, {})
    ('picture, row 2, column 2', 'picture, part 5 of 6')
    """
    name = names.get(span.media_id, "picture" if span.kind == "image" else "sound")
    if not span.columns:
        return f"{name}, part {at + 1:,} of {span.count:,}"
    row, column = divmod(at, span.columns)
    return f"{name}, row {row + 1:,}, column {column + 1:,}"


def cell_words(span: MediaSpan, place: int, names: Mapping[str, str]) -> str:
    """
    >>> cell_words(MediaSpan(2, 16, "a", 4, 4), 7, {"a": "ant.png"})
    'ant.png, cell 6 of 16 (row 2, column 2)'
    """
    at = place - span.start
    kind = "picture" if span.kind == "image" else "sound"
    words = f"{names.get(span.media_id, kind)}, cell {at + 1:,} of {span.count:,}"
    if span.columns and span.rows:
        row, column = divmod(at, span.columns)
        words += f" (row {row + 1:,}, column {column + 1:,})"
    return words


def block_words(span: MediaSpan, names: Mapping[str, str]) -> str:
    """
    >>> block_words(MediaSpan(2, 16, "a", 4, 4), {"a": "ant.png"})
    'ant.png · 16 cells (4 × 4)'
    """
    kind = "picture" if span.kind == "image" else "sound"
    shape = f" ({span.columns:,} × {span.rows:,})" if span.columns and span.rows else ""
    return f"{names.get(span.media_id, kind)} · {span.count:,} cells{shape}"


def fill_words(spans: Sequence[MediaSpan]) -> str:
    """
    >>> fill_words([MediaSpan(2, 16, "a"), MediaSpan(20, 16, "b"), MediaSpan(36, 4, "b")])
    '2 pictures fill 36 of these tokens.'
    """
    if not spans:
        return ""
    is_all = {span.kind for span in spans}
    noun = "picture" if is_all == {"image"} else "sound" if is_all == {"audio"} else "file"
    count = len({span.media_id for span in spans})
    cells = sum(span.count for span in spans)
    if count == 1:
        return f"1 {noun} fills {cells:,} of these tokens."
    return f"{count:,} {noun}s fill {cells:,} of these tokens."
