"""Lines of text that can be painted, hit and selected: the piece all block layouts use.

Positions count UTF-16 units, as Qt does; `ui.widgets.utf16.slice_utf16` turns them back into text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QTextCharFormat,
    QTextLayout,
    QTextLine,
    QTextOption,
)

from app.markdown.blocks import Span
from app.markdown.direction import is_mixed, is_right_to_left
from ui.markdown import hidden
from ui.markdown.styles import Styles, text_option
from ui.widgets.utf16 import utf16_length

if TYPE_CHECKING:
    from ui.markdown.formulas import Picture

FORMULA_SCALE = 1.05
"""Letters of the mathematical font are a little smaller than those around."""
LINE_SEPARATOR = "\u2028"

FormatRun = tuple[int, int, QTextCharFormat]

_HOLD, _FILL = "\u00a0", "\u2060"
"""What stands in the laid-out text for a formula: a space as wide as its picture, then letters
without a width, so that positions are those of the source."""


HANG_LETTERS = 2
"""How far the rest of a wrapped line of code stands behind the line's own indent."""
MAX_HANG = 0.5
"""Of the width: what is indented deeper still has room for its words."""


@dataclass(frozen=True, slots=True)
class Inlay:
    """A formula in a line: where it is, in UTF-16 units, and how large."""

    start: int
    length: int
    picture: Picture
    em_px: float

    @property
    def ascent(self) -> float:
        return self.picture.ascent * self.em_px

    @property
    def descent(self) -> float:
        return self.picture.descent * self.em_px


class TextLines:
    """A wrapped text in one font with formats on top. `text` uses line feeds; `tops` is where each
    line begins.

    `hangs`: the rest of a line that wraps stands behind the line's own indent (code). Where
    `option` does not wrap, `natural_width` may be more than `width`.
    """

    def __init__(
        self,
        text: str,
        font: QFont,
        width: float,
        step: float,
        *,
        runs: Sequence[FormatRun] = (),
        option: QTextOption | None = None,
        hangs: bool = False,
        inlays: Sequence[Inlay] = (),
    ) -> None:
        self.text = text
        self.width = width
        self._inlays = inlays
        self._layout = QTextLayout(text.replace("\n", LINE_SEPARATOR), font)
        self._layout.setCacheEnabled(True)
        self._layout.setTextOption(option or text_option(is_rtl=bool(is_right_to_left(text))))
        self._set_runs(runs)
        self.height = 0.0
        self.natural_width = 0.0
        self.tops: list[float] = []
        self._break_lines(step, _indents(text) if hangs else {})

    def _set_runs(self, runs: Sequence[FormatRun]) -> None:
        """Formats by UTF-16 position; those that only colour leave the lines as they are."""
        self._layout.setFormats([_format_range(*run) for run in runs])

    def _break_lines(self, step: float, indents: dict[int, int]) -> None:
        """`indents`: for each line that begins in the text, where its indent ends."""
        layout = self._layout
        layout.beginLayout()
        y = hang = 0.0
        while (line := layout.createLine()).isValid():
            start = line.textStart()
            x = 0.0 if start in indents else hang
            line.setLineWidth(self.width - x)
            above, height = self._room(line, step)
            line.setPosition(QPointF(x, y + above))
            self.tops.append(y)
            self.natural_width = max(self.natural_width, x + line.naturalTextWidth())
            if start in indents:
                hang = min(x_of(line, indents[start]) + self._letters(), self.width * MAX_HANG)
            y += height
        layout.endLayout()
        self.height = y

    def _room(self, line: QTextLine, step: float) -> tuple[float, float]:
        """What a line's own top is moved down by, and how high it is with all of its formulas."""
        height = max(step, line.height())
        above = (height - line.height()) / 2
        start, end = line.textStart(), line.textStart() + line.textLength()
        inside = [inlay for inlay in self._inlays if start <= inlay.start < end]
        if not inside:
            return above, height
        ascent = max(inlay.ascent for inlay in inside) + 2
        descent = max(inlay.descent for inlay in inside) + 2
        below = height - above - line.ascent()
        above = max(above, ascent - line.ascent())
        return above, above + line.ascent() + max(below, descent)

    def _letters(self) -> float:
        return HANG_LETTERS * QFontMetricsF(self._layout.font()).horizontalAdvance(" ")

    @property
    def length(self) -> int:
        """UTF-16 units."""
        return len(self._layout.text()) if self.text.isascii() else utf16_length(self.text)

    def paint(
        self,
        painter: QPainter,
        at: QPointF,
        selection: tuple[int, int] | None,
        styles: Styles,
        clip: QRectF,
    ) -> None:
        if styles.draws_by_line:
            self._paint_by_line(painter, at, styles, clip)
            return
        selections = []
        if selection is not None and selection[1] > selection[0]:
            start, end = selection[0], min(selection[1], self.length)
            selections = [_format_range(start, end - start, styles.selection_format)]
        self._layout.draw(painter, at, selections, clip)
        for inlay in self._inlays:
            line = self._layout.lineForTextPosition(inlay.start)
            place = at + QPointF(_left_of(line, inlay), line.y() + line.ascent())
            if place.y() + inlay.descent < clip.top() or place.y() - inlay.ascent > clip.bottom():
                continue
            color = QColor(styles.colors.ink)
            inlay.picture.paint(painter, place.x(), place.y(), inlay.em_px, color)

    def _paint_by_line(self, painter: QPainter, at: QPointF, styles: Styles, clip: QRectF) -> None:
        """The lines that begin inside `clip`, and no other one: Qt also draws the one above it,
        unseen, and a PDF would say it twice."""
        color = QColor(styles.colors.ink)
        for number, top in enumerate(self.tops):
            if not clip.top() - 0.5 <= at.y() + top < clip.bottom() - 0.5:
                continue
            line = self._layout.lineAt(number)
            line.draw(painter, at)
            first, end = line.textStart(), line.textStart() + line.textLength()
            for inlay in self._inlays:
                if first <= inlay.start < end:
                    place = at + QPointF(_left_of(line, inlay), line.y() + line.ascent())
                    inlay.picture.paint(painter, place.x(), place.y(), inlay.em_px, color)

    def position_at(self, point: QPointF) -> int:
        """The position between characters that is nearest to a point."""
        layout = self._layout
        count = layout.lineCount()
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            rect = layout.lineAt(middle).rect()
            if point.y() >= _bottom(layout, middle, rect):
                low = middle + 1
            else:
                high = middle
        if count == 0:
            return 0
        return self._outside(layout.lineAt(low).xToCursor(point.x()))

    def _outside(self, position: int) -> int:
        """A formula is selected whole: from inside of it to its end."""
        for inlay in self._inlays:
            if inlay.start < position < inlay.start + inlay.length:
                return inlay.start + inlay.length
        return position

    def rects(self, start: int, end: int) -> list[QRectF]:
        """Where a part of the text stands: a rectangle for each line of it, or for each stretch of
        a line that runs in two directions."""
        found = []
        for number in range(self._layout.lineForTextPosition(start).lineNumber(), self.line_count):
            line = self._layout.lineAt(number)
            first, last = line.textStart(), line.textStart() + line.textLength()
            if first >= end:
                break
            for x, right in self._stretches(line, max(start, first), min(end, last)):
                found.append(QRectF(x, line.y(), right - x, line.height()))
        return found

    def _stretches(self, line: QTextLine, start: int, end: int) -> list[tuple[float, float]]:
        """From the left. Where directions meet a position stands in two places, of which a line
        tells one: there the letters themselves are asked."""
        found: list[tuple[float, float]] = []
        for left, right in _letters_of(line, start, end) if self._is_mixed else ():
            if found and left - found[-1][1] < 1:
                left, right = found[-1][0], max(right, found.pop()[1])
            found.append((left, right))
        x, right = x_of(line, start), x_of(line, end)
        return found or [(min(x, right), max(x, right))]

    @cached_property
    def _is_mixed(self) -> bool:
        return is_mixed(self.text)

    @property
    def line_count(self) -> int:
        return self._layout.lineCount()

    def rect_at(self, position: int) -> QRectF:
        """A thin rectangle where a caret at this position would stand."""
        line = self._layout.lineForTextPosition(min(position, self.length))
        if not line.isValid():
            return QRectF(0, 0, 1, self.height)
        return QRectF(x_of(line, position), line.y(), 1, line.height())


def x_of(line: QTextLine, position: int) -> float:
    """Where a position stands in its line."""
    # The binding answers (x, position) where C++ has an in-out argument.
    found: Any = line.cursorToX(position)
    return float(found[0] if isinstance(found, tuple) else found)


def _letters_of(line: QTextLine, start: int, end: int) -> list[tuple[float, float]]:
    """Where the letters of a part stand, from the left."""
    if end <= start:
        return []
    runs = [run.boundingRect() for run in line.glyphRuns(start, end - start)]
    return sorted((rect.left(), rect.right()) for rect in runs)


def _left_of(line: QTextLine, inlay: Inlay) -> float:
    """Where a formula begins, also in text that runs from right to left."""
    return min(x_of(line, inlay.start), x_of(line, inlay.start + 1))


def _indents(text: str) -> dict[int, int]:
    """Where each line begins, and where its indent ends, in UTF-16 units.

    >>> _indents("a\\n  b")
    {0: 0, 2: 4}
    """
    found, start = {}, 0
    for line in text.split("\n"):
        found[start] = start + len(line) - len(line.lstrip(" \t"))
        start += utf16_length(line) + 1
    return found


def _bottom(layout: QTextLayout, index: int, rect: QRectF) -> float:
    if index + 1 < layout.lineCount():
        return (rect.bottom() + layout.lineAt(index + 1).y()) / 2
    return rect.bottom()


def _format_range(start: int, length: int, made: QTextCharFormat) -> QTextLayout.FormatRange:
    made_range = QTextLayout.FormatRange()
    made_range.start = start
    made_range.length = length
    made_range.format = made
    return made_range


@dataclass(slots=True)
class Inline:
    """Some spans, ready to be laid out: formats, links as (start, end, target), formulas.

    `waits`: the picture of a formula is still being made; its source stands there so long.
    """

    text: str = ""
    runs: list[FormatRun] = field(default_factory=list)
    links: list[tuple[int, int, str]] = field(default_factory=list)
    inlays: list[Inlay] = field(default_factory=list)
    waits: bool = False


def inline_of(
    spans: Sequence[Span],
    styles: Styles,
    width: float,
    *,
    is_heading: bool = False,
    level: int = 0,
) -> Inline:
    """The text of some spans with everything on it. No formula becomes wider than `width`."""
    found = Inline()
    pieces = []
    start = 0
    for span in spans:
        length = utf16_length(span.text)
        picture = styles.picture(span.tex) if span.tex else None
        if picture is not None:
            inlay, made = _inlay(start, length, picture, styles, level, width)
            found.inlays.append(inlay)
            found.runs.append((start, 1, made))
            pieces.append(_HOLD + _FILL * (length - 1))
        else:
            made = styles.span_format(span, is_heading=is_heading, level=level)
            found.runs.append((start, length, made))
            pieces.append(hidden.shown(span.text))
            found.waits = found.waits or bool(span.tex and not styles.is_known(span.tex))
        if span.href:
            found.links.append((start, start + length, span.href))
        start += length
    found.text = "".join(pieces)
    return found


def _inlay(
    start: int, length: int, picture: Picture, styles: Styles, level: int, width: float
) -> tuple[Inlay, QTextCharFormat]:
    """A formula in the size of its text, and the format of the space that it stands on."""
    font = QFont(styles.heading(level) if level else styles.reply)
    em_px = min(font.pixelSize() * FORMULA_SCALE, max(1.0, width - 2) / picture.width)
    own = QFontMetricsF(font).horizontalAdvance(_HOLD)
    font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, picture.width * em_px - own)
    made = QTextCharFormat()
    made.setFont(font)
    return Inlay(start, length, picture, em_px), made
