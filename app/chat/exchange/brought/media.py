"""Pictures that an archive carries: told by their first bytes, and read within bounds."""

from __future__ import annotations

from typing import Final

from app.chat.exchange.brought.places import Place
from app.chat.exchange.refusals import FileRefused

MAX_PICTURE_BYTES: Final = 32 * 1024 * 1024

_SIGNS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def picture_type(head: bytes) -> str:
    """
    >>> picture_type(b"\\xff\\xd8\\xff\\xe0"), picture_type(b"RIFF....WEBPVP8 "), picture_type(b"a")
    ('image/jpeg', 'image/webp', '')
    """
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for sign, kind in _SIGNS if head.startswith(sign)), "")


def read_picture(place: Place, name: str) -> bytes:
    with place.open(name) as file:
        data = file.read(MAX_PICTURE_BYTES + 1)
    if len(data) > MAX_PICTURE_BYTES:
        raise FileRefused(f"{name} is too large for a picture.")
    return data
