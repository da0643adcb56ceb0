"""Pictures that an archive carries: told by their first bytes, and read within bounds."""

from __future__ import annotations

import base64
from typing import Final

from app.chat.exchange.brought.places import Place
from app.chat.exchange.brought.trees import File
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


def data_picture(url: str, name: str) -> File:
    """A picture that stands as data where its address would be; else its name alone.

    >>> data_picture("https://example.org/a.png", "A").read is None
    True
    """
    if not url.startswith("data:image/"):
        return File(name)
    head, _, encoded = url.partition(",")
    try:
        kind = picture_type(base64.b64decode(encoded[:64]))
    except ValueError:
        kind = ""
    if not kind or not head.endswith(";base64") or len(encoded) > MAX_PICTURE_BYTES * 4 // 3:
        return File(name)
    return File(name, media_type=kind, read=lambda: _decoded(encoded, name))


def _decoded(encoded: str, name: str) -> bytes:
    try:
        return base64.b64decode(encoded)
    except ValueError as error:
        raise FileRefused(f"{name} can't be read.") from error
