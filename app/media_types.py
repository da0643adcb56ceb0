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


MAX_STEPS: Final = 100_000
"""Segments, chunks or false beginnings in a file; no real one has as many, and each takes time."""
_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG's markers of a frame's header (T.81, table B.1)."""
_END, _SCAN, _FILL = 0xD9, 0xDA, 0xFF


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Width and height as the file claims them; None where it doesn't.

    >>> picture_size(b"GIF89a" + bytes((40, 0, 30, 0))), picture_size(b"GIF89a")
    ((40, 30), None)
    """
    try:
        match media_type_of(data):
            case "image/png" if data[12:16] == b"IHDR":
                return struct.unpack_from(">II", data, 16)
            case "image/gif":
                return struct.unpack_from("<HH", data, 6)
            case "image/bmp":
                (header,) = struct.unpack_from("<I", data, 14)
                width, height = struct.unpack_from("<HH" if header == 12 else "<ii", data, 18)
                return abs(width), abs(height)
            case "image/jpeg":
                return _jpeg_size(data)
    except struct.error:
        pass
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """From one segment to the next, to the frame's header; as stb_image, over what stands between
    them."""
    at = 2
    for _ in range(MAX_STEPS):
        at = data.find(b"\xff", at)
        if at < 0:
            break
        marker, length = struct.unpack_from(">BH", data, at + 1)
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker in (_END, _SCAN) or length < 2:
            break
        at += 1 if marker == _FILL else 2 + length
    return None
