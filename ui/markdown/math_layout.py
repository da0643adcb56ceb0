"""A formula on a line of its own: its picture in the middle, or its source as long as there
is none. A formula that is wider than the column is moved sideways."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from app.markdown.blocks import MathBlock
from ui.markdown.sideways import BAR, Sideways, paint_bar
from ui.markdown.styles import Styles, text_option
from ui.markdown.text_layout import FORMULA_SCALE, TextLines
from ui.widgets.utf16 import utf16_length

PAD_Y = 6
BAR_ROOM = 12


class MathLayout:
    """`text` is the source. `waits`: the picture is still being made."""

    def __init__(self, block: MathBlock, styles: Styles, width: float) -> None:
        self._styles = styles
        self._width = width
        self.text = block.source
        self._picture = styles.picture(block.tex, is_display=True)
        self.waits = self._picture is None and not styles.is_known(block.tex, is_display=True)
        self._em_px = styles.reply.pixelSize() * FORMULA_SCALE
        self._source: TextLines | None = None
        if self._picture is None:
            option = text_option(is_code=True)
            self._source = TextLines(
                block.source, styles.code, width, styles.code_step, option=option
            )
            self.sideways = Sideways(width, width)
            self.height = self._source.height
            self.natural_width = self._source.natural_width
            return
        wide = self._picture.width * self._em_px
        self.sideways = Sideways(wide, width)
        high = (self._picture.ascent + self._picture.descent) * self._em_px
        self._body_height = high + 2 * styles.px(PAD_Y)
        self.height = self._body_height + (styles.px(BAR_ROOM) if self.sideways.limit else 0)
        self.natural_width = min(wide, width)

    def bar_rect(self) -> QRectF:
        """The track of the bar; empty where there is none."""
        if not self.sideways.limit:
            return QRectF()
        px = self._styles.px
        y = self._body_height + px(BAR_ROOM / 2) - px(BAR) / 2
        return QRectF(0, y, self.sideways.room, px(BAR))

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        styles, picture = self._styles, self._picture
        painter.setPen(QColor(styles.colors.ink))
        if picture is None:
            if self._source is not None:
                self._source.paint(painter, at, selection, styles, clip)
            return
        painter.save()
        room = QRectF(at.x(), at.y(), self.sideways.room, self._body_height)
        painter.setClipRect(room, Qt.ClipOperation.IntersectClip)
        rect = self._picture_rect().translated(at)
        if selection is not None and selection[1] > selection[0]:
            painter.fillRect(rect, QColor(styles.colors.selection))
        baseline = rect.top() + picture.ascent * self._em_px
        picture.paint(painter, rect.left(), baseline, self._em_px, QColor(styles.colors.ink))
        painter.restore()
        if self.sideways.limit:
            paint_bar(painter, self.sideways, self.bar_rect().translated(at), styles)

    def breaks(self) -> list[float]:
        return []

    def rects(self, start: int, end: int) -> list[QRectF]:
        """A picture is found whole."""
        if self._source is not None:
            return self._source.rects(start, end)
        return [self._picture_rect()]

    def position_at(self, point: QPointF) -> int:
        """A picture is selected whole: before its middle, or behind it."""
        if self._source is not None:
            return self._source.position_at(point)
        is_before = point.x() < self._picture_rect().center().x()
        return 0 if is_before else utf16_length(self.text)

    def link_at(self, point: QPointF) -> str:
        return ""

    def _picture_rect(self) -> QRectF:
        """Where the picture is now: in the middle, or moved."""
        if self._picture is None:
            return QRectF()
        wide = self.sideways.content
        x = -self.sideways.shift if self.sideways.limit else (self._width - wide) / 2
        high = (self._picture.ascent + self._picture.descent) * self._em_px
        return QRectF(x, self._styles.px(PAD_Y), wide, high)
