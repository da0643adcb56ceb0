"""Parts laid out one below the other, in the order in which they come, and cut where a page ends.

A `Leaf` is what one part looks like: how high, how it is painted, and where it may be cut. All
lengths are the window's at 100 %. GUI thread only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QTextCharFormat

from app.markdown.blocks import Block, CodeBlock, Span
from ui.look.theme import Theme
from ui.markdown.code_layout import CodeLayout
from ui.markdown.layouts import BlockLayout, SegmentLayout, TextLayout
from ui.markdown.math_layout import MathLayout
from ui.markdown.table_layout import TableLayout
from ui.markdown.text_layout import TextLines, inline_of
from ui.paper.parts import Image, Line, Look, Part, Text
from ui.paper.styles import PaperStyles

GAP_MESSAGE, GAP_LINE, GAP_TEXT = 24.0, 4.0, 8.0
BUBBLE_PAD: Final = 12.0
MOST_PICTURE: Final = 420.0
"""How high a picture is at most."""
MOST_DOTS: Final = QSize(2400, 3 * round(MOST_PICTURE))
"""Of a picture: some 300 in an inch of paper."""
SMOOTH: Final = Qt.TransformationMode.SmoothTransformation
_HAIR: Final = 0.25


@dataclass(slots=True)
class Decoded:
    """A picture that can be painted at once."""

    image: QImage


def decoded(part: Part) -> Part | Decoded:
    return decoded_picture(part) if isinstance(part, Image) else part


def decoded_picture(part: Image) -> Decoded:
    """On any thread: it is read, and made no larger than a printer shows it. Either takes up to a
    second of a large photograph."""
    image = QImage.fromData(part.data)
    if image.width() > MOST_DOTS.width() or image.height() > MOST_DOTS.height():
        image = image.scaled(MOST_DOTS, Qt.AspectRatioMode.KeepAspectRatio, SMOOTH)
    return Decoded(image)


class Painted(Protocol):
    def paint(self, painter: QPainter, at: QPointF, clip: QRectF) -> None: ...


@dataclass(slots=True)
class Leaf:
    """`breaks`: heights at which it may be cut, ascending. `keeps_next`: what comes next stands on
    the same page. `fill`: the colour below it."""

    what: Painted
    height: float
    space: float = 0.0
    breaks: Sequence[float] = ()
    left: float = 0.0
    width: float = 0.0
    keeps_next: bool = False
    fill: str = ""
    mark: str = ""
    cut: float = field(default=0.0)
    """How much of it stands on earlier pages."""

    def rest(self) -> float:
        return self.height - self.cut

    def fitting(self, room: float) -> float:
        """How far it can be painted within `room` from where it was cut; 0: not at all."""
        if self.rest() <= room + _HAIR:
            return self.height
        place = bisect_right(self.breaks, self.cut + room + _HAIR) - 1
        end = self.breaks[place] if place >= 0 else 0.0
        return end if end > self.cut + _HAIR else 0.0

    def paint(self, painter: QPainter, at: QPointF, end: float) -> None:
        """From where it was cut to `end`, the top of that at a point."""
        high = end - self.cut
        slice_ = QRectF(at.x(), at.y(), self.width, high)
        if self.fill:
            painter.fillRect(slice_.adjusted(-BUBBLE_PAD, 0, BUBBLE_PAD, 0), QColor(self.fill))
        painter.save()
        painter.setClipRect(slice_.adjusted(-48, -2, 48, 2))
        self.what.paint(painter, at - QPointF(0, self.cut), slice_)
        painter.restore()


class Leaves:
    """Makes leaves of parts, in a column of some width."""

    def __init__(self, theme: Theme, width: float) -> None:
        self.styles = PaperStyles(theme)
        self.dim = PaperStyles(theme, is_dim=True)
        self.width = width

    def leaf_of(self, part: Part | Decoded) -> Leaf | None:
        if isinstance(part, Line):
            return self._line(part)
        if isinstance(part, Decoded):
            return self._image(part.image)
        if isinstance(part, Image):
            return self._image(decoded_picture(part).image)
        return self._text(part)

    def _line(self, part: Line) -> Leaf:
        styles = self.styles if part.is_title else self.dim
        words = " ".join(part.words.split())
        if part.is_title:
            spans, level = [Span(words, is_bold=True)], 1
        else:
            bold = " ".join(part.bold.split())
            both = [Span(bold, is_bold=True), Span(f" · {words}" if words and bold else words)]
            spans, level = [span for span in both if span.text], 0
        inline = inline_of(spans, styles, self.width, level=level)
        font = styles.heading(1) if part.is_title else styles.small
        runs = (
            inline.runs
            if part.is_title
            else [
                (start, length, _in_small(styles, bold=place == 0 and bool(part.bold)))
                for place, (start, length, _) in enumerate(inline.runs)
            ]
        )
        step = styles.heading_step(1) if part.is_title else round(font.pixelSize() * 1.5)
        lines = TextLines(inline.text, font, self.width, step, runs=runs)
        space = GAP_MESSAGE if part.is_head else GAP_LINE
        return Leaf(
            _Lines(lines, styles),
            lines.height,
            space,
            lines.tops[1:],
            width=self.width,
            keeps_next=part.is_head or part.is_title,
            mark=part.mark,
        )

    def _image(self, image: QImage) -> Leaf | None:
        if image.isNull():
            return None
        scale = min(1.0, self.width / image.width(), MOST_PICTURE / image.height())
        size = QRectF(0, 0, image.width() * scale, image.height() * scale)
        painted = _Picture(image, size)
        return Leaf(painted, size.height(), GAP_TEXT, width=self.width, keeps_next=True)

    def _text(self, part: Text) -> Leaf:
        styles = self.styles if part.look is not Look.DIM else self.dim
        styles.know(part.drawn)
        is_said = part.look is Look.SAID
        left = BUBBLE_PAD if part.look is not Look.REPLY else 0.0
        width = self.width - 2 * left
        layout = _PaperSegment(part.document, part.segment, styles, width, is_first=part.is_first)
        pad_above = BUBBLE_PAD * 0.6 if is_said and part.is_first else 0.0
        pad_below = BUBBLE_PAD * 0.6 if is_said and part.is_last else 0.0
        return Leaf(
            _Segment(layout, pad_above),
            layout.height + pad_above + pad_below,
            GAP_TEXT if part.is_first else 0.0,
            [each + pad_above for each in layout.breaks()],
            left=left,
            width=width,
            fill=styles.colors.bubble if is_said else "",
        )


class _PaperSegment(SegmentLayout):
    """Nothing is moved sideways on paper: code wraps, tables and formulas that are too wide become
    smaller."""

    def _code_layout(self, block: CodeBlock, width: float) -> CodeLayout:
        return CodeLayout(block, self._styles, width, self._colored(), wraps=True)

    def _layout(self, block: Block, width: float) -> BlockLayout:
        layout = super()._layout(block, width)
        if isinstance(layout, TableLayout | MathLayout) and layout.sideways.limit:
            layout.sideways.set(0)
            return _Smaller(self, block, width, layout.sideways.content)
        return layout

    def breaks(self) -> list[float]:
        """Between blocks and lines, but not behind a heading, whose text would be elsewhere."""
        found: list[float] = []
        after_heading = False
        for placed in self.placed:
            top = placed.rect.top()
            if top > 0 and not after_heading:
                found.append(top - placed.space_above)
            found += [top + each for each in placed.layout.breaks()]
            after_heading = isinstance(placed.layout, TextLayout) and placed.layout.is_heading
        return found


class _Smaller:
    """A layout in its full width, drawn to fit."""

    def __init__(self, segment: _PaperSegment, block: Block, width: float, content: float) -> None:
        self._inner = SegmentLayout._layout(segment, block, content + 2)
        self._scale = width / (content + 2)
        self.text = self._inner.text
        self.height = self._inner.height * self._scale
        self.natural_width = width
        self.waits = False

    def breaks(self) -> list[float]:
        return [each * self._scale for each in self._inner.breaks()]

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        scale = self._scale
        painter.save()
        painter.translate(at)
        painter.scale(scale, scale)
        moved = clip.translated(-at)
        inner = QRectF(moved.topLeft() / scale, moved.size() / scale)
        self._inner.paint(painter, QPointF(), selection, inner)
        painter.restore()

    def rects(self, start: int, end: int) -> list[QRectF]:
        return []

    def position_at(self, point: QPointF) -> int:
        return 0

    def link_at(self, point: QPointF) -> str:
        return ""


@dataclass(slots=True)
class _Segment:
    layout: SegmentLayout
    above: float

    def paint(self, painter: QPainter, at: QPointF, clip: QRectF) -> None:
        self.layout.paint(painter, at + QPointF(0, self.above), {}, clip)


@dataclass(slots=True)
class _Lines:
    lines: TextLines
    styles: PaperStyles

    def paint(self, painter: QPainter, at: QPointF, clip: QRectF) -> None:
        painter.setPen(QColor(self.styles.colors.ink))
        self.lines.paint(painter, at, None, self.styles, clip)


@dataclass(slots=True)
class _Picture:
    image: QImage
    size: QRectF

    def paint(self, painter: QPainter, at: QPointF, clip: QRectF) -> None:
        painter.drawImage(self.size.translated(at), self.image)


def _in_small(styles: PaperStyles, *, bold: bool) -> QTextCharFormat:
    made = QTextCharFormat()
    font = QFont(styles.small)
    font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    made.setFont(font)
    made.setForeground(QColor(styles.colors.ink))
    return made
