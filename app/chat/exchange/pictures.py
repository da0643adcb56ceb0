"""What a picture is, by its first bytes: whatever a file or a database says of it."""

from __future__ import annotations

from typing import Final

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def type_of(data: bytes) -> str:
    """Of the kinds that browsers and word processors show; empty of all others.

    >>> type_of(b"GIF89a"), type_of(b"<svg")
    ('image/gif', '')
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _BEGINNINGS if data.startswith(start)), "")
