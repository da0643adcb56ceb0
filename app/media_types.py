"""What a picture or a sound is by its first bytes: no name and no client's word is taken for it."""

from __future__ import annotations

import struct
from typing import Final

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
)
_IN_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

READ_HERE: Final = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/bmp",
        "audio/wav",
        "audio/mpeg",
        "audio/flac",
    }
)
"""What the engine in this program decodes (llama.cpp's stb_image and miniaudio)."""


def media_type_of(data: bytes) -> str:
    """ "" for anything else.

    >>> media_type_of(b"GIF89a.."), media_type_of(b"RIFF....WAVEfmt "), media_type_of(b"<svg")
    ('image/gif', 'audio/wav', '')
    """
    if data[:4] == b"RIFF":
        return _IN_RIFF.get(data[8:12], "")
    return next((kind for start, kind in _BEGINNINGS if data.startswith(start)), "")


_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG's markers of a frame's header (T.81, table B.1)."""


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Width and height as the file claims them; None where it doesn't.

    >>> picture_size(b"GIF89a" + bytes((40, 0, 30, 0))), picture_size(b"GIF89a")
    ((40, 30), None)
    """
    try:
        match media_type_of(data):
            case "image/png":
                found = struct.unpack_from(">II", data, 16)
            case "image/gif":
                found = struct.unpack_from("<HH", data, 6)
            case "image/bmp":
                found = struct.unpack_from("<ii", data, 18)
            case "image/jpeg":
                found = _jpeg_size(data)
            case _:
                return None
    except struct.error:
        return None
    width, height = abs(found[0]), abs(found[1])
    return (width, height) if width and height else None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """From one segment to the next, to the frame's header."""
    at = 2
    while True:
        marker, length = struct.unpack_from(">HH", data, at)
        if marker & 0xFF in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + max(length, 2)
