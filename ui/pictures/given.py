"""A picture that is pasted or dropped and is no file: a screenshot, a copied image, one out of a
browser.

The bytes of a file are taken where they are offered; they are read in the picture process. Else
there are pixels, which the system has decoded already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QImage

_FORMATS: Final = ("image/png", "image/jpeg", "image/webp", "image/bmp", "image/gif", "image/tiff")
_PLAIN: Final = "text/plain"
LONGEST_URL: Final = 8192
MAX_PIXELS: Final = 12_000_000
"""Of raw pixels, so that a frame of the wire holds them; a larger picture is halved first."""


@dataclass(frozen=True, slots=True)
class GivenPicture:
    """`data` is a file, or RGBA pixels of `raw_size`."""

    data: bytes
    raw_size: tuple[int, int] = (0, 0)


def is_picture(source: QMimeData) -> bool:
    """Whether it is meant as one. Spreadsheets and word processors put a picture beside their text,
    browsers put the address of the picture there."""
    if not source.hasImage() and not any(source.hasFormat(each) for each in _FORMATS):
        return False
    text = source.text().strip() if source.hasFormat(_PLAIN) else ""
    return not text or (len(text) <= LONGEST_URL and QUrl(text) in source.urls())


def picture_in(source: QMimeData) -> GivenPicture | None:
    """None where it offers none after all."""
    for each in _FORMATS:
        if source.hasFormat(each) and (data := bytes(source.data(each).data())):
            return GivenPicture(data)
    image = source.imageData()
    if not isinstance(image, QImage) or image.isNull():
        return None
    return _pixels_of(image)


def _pixels_of(image: QImage) -> GivenPicture:
    pixels = image.width() * image.height()
    if pixels > MAX_PIXELS:
        scale = (MAX_PIXELS / pixels) ** 0.5
        image = image.scaled(
            max(1, int(image.width() * scale)),
            max(1, int(image.height() * scale)),
            Qt.AspectRatioMode.IgnoreAspectRatio,
            Qt.TransformationMode.FastTransformation,
        )
    image = image.convertToFormat(QImage.Format.Format_RGBA8888)
    return GivenPicture(bytes(image.constBits()), (image.width(), image.height()))
