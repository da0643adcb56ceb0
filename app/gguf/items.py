"""Values of a header that were passed over when it was read: items of arrays, long texts.

Bounded as the header is: so many items, so many bytes of each text, so much time.
"""

from __future__ import annotations

import struct
from codecs import getincrementaldecoder
from dataclasses import dataclass
from typing import Final

from app.gguf.cursor import Cursor
from app.gguf.header import ARRAY, DEADLINE_S, MAX_HELD_BYTES, SCALARS, STRING, Entry, Scalar
from app.gguf.refusal import Fault, HeaderRefused
from app.gguf.source import Source

MAX_ITEMS: Final = 1000
"""That are read at once."""
MAX_ITEM_BYTES: Final = 4096
MAX_TEXT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text, or its beginning. `size_bytes` is that of the whole."""

    text: str
    size_bytes: int
    is_whole: bool


def read_items(source: Source, entry: Entry, first: int, count: int) -> list[Scalar | ShownText]:
    """Items [first, first + count) of an array, fewer where it ends. Texts are cut after 4 KiB.
    Raises HeaderRefused where the file is not any more what it was."""
    if entry.kind != ARRAY:
        raise ValueError("no array")
    first = min(max(0, first), entry.count)
    count = min(max(0, count), MAX_ITEMS, entry.count - first)
    try:
        cursor = Cursor(source, DEADLINE_S, MAX_HELD_BYTES)
        cursor.skip(entry.offset)
        if entry.item_kind == STRING:
            cursor.skip_texts(first)
            return [_text(cursor, MAX_ITEM_BYTES) for _ in range(count)]
        form = SCALARS[entry.item_kind]
        size = struct.calcsize(form)
        cursor.skip(first * size)
        return list(struct.unpack(f"<{count}{form[1]}", cursor.take(count * size)))
    except (Fault, OSError) as error:
        raise _gone(source, error) from error


def read_text(source: Source, entry: Entry) -> ShownText:
    """A string, at most 1 MiB of it. Raises HeaderRefused as `read_items` does."""
    if entry.kind != STRING:
        raise ValueError("no string")
    try:
        cursor = Cursor(source, DEADLINE_S, MAX_HELD_BYTES)
        cursor.skip(entry.offset)
        return _cut(cursor, entry.count, MAX_TEXT_BYTES)
    except (Fault, OSError) as error:
        raise _gone(source, error) from error


def _text(cursor: Cursor, limit: int) -> ShownText:
    return _cut(cursor, cursor.text_length(cursor.left), limit)


def _cut(cursor: Cursor, length: int, limit: int) -> ShownText:
    """A character that the cut would halve is left out."""
    if length <= limit:
        return ShownText(cursor.text_of(length), length, is_whole=True)
    data = cursor.take(limit)
    cursor.skip(length - limit)
    text = getincrementaldecoder("utf-8")("replace").decode(data)
    return ShownText(text, length, is_whole=False)


def _gone(source: Source, error: Exception) -> HeaderRefused:
    return HeaderRefused(
        "not_readable",
        f"“{source.name}” has changed since it was opened. Open it again.",
        str(error),
    )
