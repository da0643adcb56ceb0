"""A message as a picture, in the window's present colours. Made in short steps, as pages are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from PySide6.QtCore import QObject, QPointF
from PySide6.QtGui import QColor, QImage, QPainter

from app.chat.exchange.choices import Choices
from app.chat.exchange.reading import Chat
from models.records import Message
from ui.look.theme import Theme
from ui.paper.flow import Decoded, Leaf, Leaves, decoded
from ui.paper.parts import Line, Part, parts_of_message
from ui.paper.steps import Steps
from ui.paper.styles import PaperTheme

WIDE: Final = 720.0
MARGIN: Final = 32.0
MOST_HIGH: Final = 8_000.0
"""Of the text, in pixels at 1×. Four times as many at 2× are 100 MB."""
CUT: Final = "The rest of this message doesn't fit into a picture."


class Canvas:
    """Leaves one below the other; `add` says whether there is room for more."""

    def __init__(self, theme: Theme) -> None:
        self._leaves = Leaves(theme, WIDE)
        self._placed: list[tuple[Leaf, float, float]] = []
        self._high = 0.0
        self._color = theme.colors.chat
        self.is_cut = False

    def add(self, part: Part | Decoded) -> bool:
        leaf = self._leaves.leaf_of(part)
        if leaf is None or self.is_cut:
            return not self.is_cut
        top = self._high + (leaf.space if self._placed else 0.0)
        end = leaf.fitting(MOST_HIGH - top)
        if end:
            self._placed.append((leaf, top, end))
            self._high = top + end
        if end < leaf.height:
            self.is_cut = True
            last = self._leaves.leaf_of(Line(CUT))
            assert last is not None
            self._placed.append((last, self._high + last.space, last.height))
            self._high += last.space + last.height
        return not self.is_cut

    def begin(self, scale: int) -> tuple[QImage, list[Callable[[], None]]]:
        """An image in the colour of the window, and the steps that paint it."""
        size = QPointF(WIDE + 2 * MARGIN, self._high + 2 * MARGIN) * scale
        image = QImage(round(size.x()), round(size.y()), QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(scale)
        image.fill(QColor(self._color))
        return image, [partial(_paint, image, *placed) for placed in self._placed]


def _paint(image: QImage, leaf: Leaf, top: float, end: float) -> None:
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
    leaf.paint(painter, QPointF(MARGIN + leaf.left, MARGIN + top), end)
    painter.end()


class PicturePress(QObject):
    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._steps = Steps(self)

    def picture(self, chat: Chat, message: Message, scale: int) -> tuple[QImage, bool]:
        """On another thread; waits. Also whether the message was too long for it."""
        run, check = self._steps.run, chat.check

        def begin() -> Canvas:
            return Canvas(PaperTheme.like(self._theme, is_dark=self._theme.colors.is_dark))

        canvas = run(begin, check)
        for part in parts_of_message(chat, message, Choices("html")):
            if not run(partial(canvas.add, decoded(part)), check):
                break
        image, strokes = run(partial(canvas.begin, scale), check)
        for stroke in strokes:
            run(stroke, check)
        return image, canvas.is_cut
