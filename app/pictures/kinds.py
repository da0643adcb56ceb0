"""What a file is by its first bytes. Its name is only what somebody called it."""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES: Final = 4096

_PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
)
_BMP: Final = re.compile(rb"BM.{4}\0\0\0\0.{4}[\x0c\x28\x38\x40\x6c\x7c]\0\0\0", re.DOTALL)
_AVIF: Final = re.compile(rb"(?:m[is]f1(?:.{4})*)?avi[fs]", re.DOTALL)
_HEIC: Final = frozenset({b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"})
_SVG: Final = re.compile(
    rb"(?:<\?xml[^>]*>|(?><!--.*?-->)|<!DOCTYPE[^>]*>|\s|\xef\xbb\xbf)*+<svg[\s>]", re.DOTALL
)


def picture_type(head: bytes) -> str:
    """The media type of a picture; "" for what is none. Also of kinds that are not read: HEIC.

    >>> picture_type(b"GIF89a.."), picture_type(b"BM is a text"), picture_type(b"RIFF....WEBPVP8 ")
    ('image/gif', '', 'image/webp')
    >>> picture_type(b"...\\x18ftypmif1....mif1avif"), picture_type(b"...\\x14ftypmif1....heic")
    ('image/avif', 'image/heic')
    """
    for mark, media_type in _PICTURES:
        if head.startswith(mark):
            return media_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp":
        brands = head[8 : int.from_bytes(head[:4], "big")]  # some begin with the container's
        if _AVIF.match(brands):
            return "image/avif"
        return "image/heic" if brands[:4] in _HEIC else ""
    return "image/bmp" if _BMP.match(head) else ""


def is_svg(head: bytes) -> bool:
    """A drawing as text: it is attached as what it is written as, and never drawn.

    >>> is_svg(b'<?xml version="1.0"?>\\n<svg width="4">'), is_svg(b"<p>svg</p>")
    (True, False)
    """
    return _SVG.match(head) is not None
