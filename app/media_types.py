"""What a picture or a sound is by its first bytes: no name and no client's word is taken for it."""

from __future__ import annotations

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
