"""Small pictures: asked for when they are painted, kept while there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from PySide6.QtCore import QObject, QRectF, Qt, Signal
from PySide6.QtGui import QImage, QPainter, QPainterPath

if TYPE_CHECKING:
    from app.pictures.messages import PictureDrawn

MAX_BYTES: Final = 32 * 1024 * 1024
"""Of pixels: some 150 squares at double resolution, more than a screen holds."""
MAX_ASKED: Final = 24
"""So many are on their way at once: of what was scrolled past the oldest are given up."""

Key = tuple[str, int, int]


class Draw(Protocol):
    """`MediaFiles.draw`."""

    def __call__(
        self,
        attachment_id: str,
        width: int,
        height: int,
        then: Callable[[PictureDrawn | None], None],
        *,
        still: Callable[[], bool],
    ) -> None: ...


def image_of(drawn: PictureDrawn) -> QImage:
    """A copy: the bytes need not outlive it."""
    form = QImage.Format.Format_RGBX8888
    return QImage(drawn.pixels, drawn.width, drawn.height, 4 * drawn.width, form).copy()


class Thumbnails(QObject):
    """`arrived`: one of those that were asked for is there, or is known to be lost."""

    arrived = Signal(str)

    def __init__(self, draw: Draw, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._draw = draw
        self._held: OrderedDict[Key, QImage] = OrderedDict()
        self._size = 0
        self._lost: set[str] = set()
        self._asked: OrderedDict[Key, None] = OrderedDict()

    @property
    def held_bytes(self) -> int:
        return self._size

    def is_lost(self, attachment_id: str) -> bool:
        """It cannot be read."""
        return attachment_id in self._lost

    def find(self, attachment_id: str, width: float, height: float) -> QImage | None:
        """The picture as it fits into this many device pixels; asked for where it is not there."""
        key = (attachment_id, max(1, round(width)), max(1, round(height)))
        image = self._held.get(key)
        if image is not None:
            self._held.move_to_end(key)
            return image
        if attachment_id not in self._lost and key not in self._asked:
            self._ask(key)
        return None

    def _ask(self, key: Key) -> None:
        self._asked[key] = None
        while len(self._asked) > MAX_ASKED:
            self._asked.popitem(last=False)
        self._draw(*key, partial(self._take, key), still=lambda: key in self._asked)

    def _take(self, key: Key, drawn: PictureDrawn | None) -> None:
        is_wanted = self._asked.pop(key, self) is not self
        if drawn is None:
            if not is_wanted:
                return  # given up, and asked for again when it is seen again
            self._lost.add(key[0])
        else:
            image = image_of(drawn)
            self._held[key] = image
            self._size += image.sizeInBytes()
            while self._size > MAX_BYTES and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                self._size -= oldest.sizeInBytes()
        self.arrived.emit(key[0])


def paint_covering(painter: QPainter, rect: QRectF, image: QImage, radius: float) -> None:
    """The middle of a picture fills a box with round corners."""
    scale = max(rect.width() / image.width(), rect.height() / image.height())
    width, height = rect.width() / scale, rect.height() / scale
    part = QRectF((image.width() - width) / 2, (image.height() - height) / 2, width, height)
    path = QPainterPath()
    path.addRoundedRect(rect, radius, radius)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    painter.setClipPath(path, Qt.ClipOperation.IntersectClip)
    painter.drawImage(rect, image, part)
    painter.restore()
