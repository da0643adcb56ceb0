"""Places in a text as Qt counts them: in UTF-16 units, of which an emoji has two."""

from __future__ import annotations


def utf16_length(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def slice_utf16(text: str, start: int, end: int) -> str:
    """Part of a text by UTF-16 positions."""
    if text.isascii():
        return text[start:end]
    return text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le", "replace")
