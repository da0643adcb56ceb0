"""A code block: a quiet card with the language, a copy button and highlighted lines.

Lines do not wrap: a card that is too narrow is moved sideways, all parts of long code
together. Only code with a line of many thousands of letters wraps, as it cannot be found
sideways either.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath

from app.markdown.blocks import CodeBlock
from app.markdown.highlight import Run, runs
from ui.markdown import hidden
from ui.markdown.sideways import BAR, Sideways, paint_bar
from ui.markdown.styles import Styles, text_option
from ui.markdown.text_layout import FormatRun, TextLines
from ui.widgets.utf16 import utf16_length

PADDING = 12
HEADER = 32
RADIUS = 10


class CodeLayout:
    """One part of a code block; only the first has a header, only the last a rounded foot.

    `content_width`: of the widest line of the whole code, where that is known.
    """

    has_header: bool

    def __init__(
        self,
        block: CodeBlock,
        styles: Styles,
        width: float,
        colored: Sequence[Run] | None = None,
        *,
        content_width: float = 0.0,
        wraps: bool = False,
    ) -> None:
        self._block = block
        self._styles = styles
        self._width = width
        self.text = block.code
        self.has_header = block.is_first
        self._top = styles.px(HEADER) if block.is_first else 0.0
        inner = max(styles.px(40), width - 2 * styles.px(PADDING))
        option = text_option(is_code=True, wraps=wraps)
        option.setTabStopDistance(styles.code_tab)
        if colored is None:
            colored = list(runs(block.code, block.language))
        found = [self._format_run(run) for run in colored]
        self._lines = TextLines(
            hidden.shown(block.code),
            styles.code,
            inner,
            styles.code_step,
            runs=found,
            option=option,
            hangs=wraps,
        )
        content = inner if wraps else max(content_width, self._lines.natural_width)
        self.sideways = Sideways(content, inner)
        bottom = styles.px(PADDING) if block.is_last else 0.0
        self.height = self._top + self._lines.height + bottom
        self.natural_width = width

    @property
    def language(self) -> str:
        return self._block.language

    def copy_rect(self) -> QRectF:
        """Where the copy button is."""
        side = self._styles.px(24)
        right = self._width - self._styles.px(8)
        return QRectF(right - side, (self._top - side) / 2 + self._styles.px(1), side, side)

    def bar_rect(self) -> QRectF:
        """The track of the bar; empty where there is none."""
        if not self._block.is_last or not self.sideways.limit:
            return QRectF()
        px = self._styles.px
        y = self.height - px(PADDING / 2) - px(BAR) / 2
        return QRectF(px(PADDING), y, self.sideways.room, px(BAR))

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        styles = self._styles
        card = QRectF(at.x(), at.y(), self._width, self.height)
        painter.fillPath(self._outline(card), QColor(styles.colors.code))
        if self.has_header and at.y() + self._top > clip.top():
            self._paint_header(painter, at)
        painter.setPen(QColor(styles.colors.ink))
        place = at + self._offset()
        if not self.sideways.limit:
            self._lines.paint(painter, place, selection, styles, clip)
            return
        painter.save()
        # A hair of the padding is left to letters that reach out of their own width.
        room = card.adjusted(styles.px(PADDING / 2), 0, -styles.px(PADDING / 2), 0)
        painter.setClipRect(room, Qt.ClipOperation.IntersectClip)
        moved = place - QPointF(self.sideways.shift, 0)
        self._lines.paint(painter, moved, selection, styles, clip)
        painter.restore()
        if self._block.is_last:
            paint_bar(painter, self.sideways, self.bar_rect().translated(at), styles)

    def breaks(self) -> list[float]:
        return [self._top + each for each in self._lines.tops[1:]]

    def rects(self, start: int, end: int) -> list[QRectF]:
        """Where a part of the code stands."""
        moved = self._offset() - QPointF(self.sideways.shift, 0)
        return [rect.translated(moved) for rect in self._lines.rects(start, end)]

    def position_at(self, point: QPointF) -> int:
        return self._lines.position_at(point - self._offset() + QPointF(self.sideways.shift, 0))

    def link_at(self, point: QPointF) -> str:
        return ""

    def _offset(self) -> QPointF:
        return QPointF(self._styles.px(PADDING), self._top)

    def _format_run(self, run: Run) -> FormatRun:
        start, length, color = run
        if not self.text.isascii():
            text = self.text
            length = utf16_length(text[start : start + length])
            start = utf16_length(text[:start])
        return start, length, self._styles.run_format(color)

    def _outline(self, card: QRectF) -> QPainterPath:
        """A rectangle whose corners are round where the block begins and ends."""
        radius = self._styles.px(RADIUS)
        path = QPainterPath()
        path.addRoundedRect(card, radius, radius)
        path.setFillRule(Qt.FillRule.WindingFill)
        half = card.height() / 2
        if not self._block.is_first:
            path.addRect(card.adjusted(0, 0, 0, -half))
        if not self._block.is_last:
            path.addRect(card.adjusted(0, half, 0, 0))
        return path

    def _paint_header(self, painter: QPainter, at: QPointF) -> None:
        styles = self._styles
        painter.setFont(styles.small)
        painter.setPen(QColor(styles.colors.dim))
        box = QRectF(at.x() + styles.px(PADDING), at.y(), self._width / 2, self._top)
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, self._block.language or "code")
