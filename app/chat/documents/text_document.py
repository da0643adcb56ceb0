"""A text document as a tree of changes.

A conversation of the kind *text* is one document. Each of its messages says what it changes: at
its `place` (two indices into the document of its parent) stands its content. What people wrote is
a message of the user, what the weights went on with one of the assistant; a second continuation
of the same text is another version under the same parent. So the document of any moment is read
off the path to its message, nothing is ever overwritten, and a long document is not stored again
with each continuation.

    place     content          document
    (0, 0)    "Once upon "     "Once upon "
    (10, 10)  "a time."        "Once upon a time."        a continuation
    (5, 9)    "twice"          "Once twice a time."       an edit in the middle

Indices count Unicode characters. What was stored is untrusted: a place that does not fit is
brought into the document.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from models.records import Message, MessageState, Role

PLACE: Final = "place"
"""The name of a message's place in its `settings`."""

Range = tuple[int, int]


def document(path: Iterable[Message]) -> str:
    """The text after all changes of a path, root first."""
    text = ""
    for message in path:
        if message.state is not MessageState.UNREADABLE:
            start, end = place_of(message, len(text))
            text = text[:start] + message.content + text[end:]
    return text


def generated_ranges(path: Iterable[Message]) -> tuple[Range, ...]:
    """Where in the document a continuation stands that nobody has changed since."""
    ranges: list[Range] = []
    length = 0
    for message in path:
        if message.state is MessageState.UNREADABLE:
            continue
        start, end = place_of(message, length)
        n_new = len(message.content)
        ranges = moved(ranges, start, end, n_new)
        length += n_new - (end - start)
        if message.role is Role.ASSISTANT and n_new:
            ranges.append((start, start + n_new))
    return tuple(sorted(ranges))


def moved(ranges: Iterable[Range], start: int, end: int, n_new: int) -> list[Range]:
    """Ranges after a change: those behind it move, those that it touches are gone.

    >>> moved([(0, 4), (6, 8)], 4, 6, 5)
    [(0, 4), (9, 11)]
    >>> moved([(0, 4)], 2, 2, 1)
    []
    """
    shift = n_new - (end - start)
    kept = []
    for low, high in ranges:
        if high <= start:
            kept.append((low, high))
        elif low >= end:
            kept.append((low + shift, high + shift))
    return kept


def change(before: str, after: str) -> tuple[int, int, str] | None:
    """The one stretch that differs: `before[start:end]` becomes the text. None: nothing does.

    >>> change("a short text", "a longer text")
    (2, 7, 'longer')
    >>> change("same", "same") is None
    True
    """
    if before == after:
        return None
    start = _common_start(before, after)
    most = min(len(before), len(after)) - start
    tail = _common_start(before[len(before) - most :][::-1], after[len(after) - most :][::-1])
    return start, len(before) - tail, after[start : len(after) - tail]


def place_of(message: Message, length: int) -> Range:
    """Where a message stands in a document of that length; at its end where nothing fits."""
    stored: Any = message.settings.get(PLACE)
    is_range = isinstance(stored, list | tuple) and len(stored) == 2
    if not is_range or not all(type(value) is int for value in stored):
        return length, length
    start = min(max(0, stored[0]), length)
    return start, min(max(start, stored[1]), length)


def _common_start(one: str, other: str) -> int:
    """How many characters are the same, found by halving: a megabyte takes a millisecond."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
