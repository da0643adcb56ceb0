"""A table: wide columns give way first, and what still does not fit is moved sideways."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from app.markdown.blocks import Span, TableBlock, plain_text
from app.markdown.direction import is_right_to_left
from ui.markdown.sideways import BAR, Sideways, paint_bar
from ui.markdown.styles import Styles, text_option
from ui.markdown.text_layout import FORMULA_SCALE, Inline, TextLines, inline_of
from ui.widgets.utf16 import utf16_length

PAD_X = 10
PAD_Y = 5
COMFORT = 150
"""Text in cells wraps down to this width, no further: then the table is moved sideways."""
NEARLY = 1.15
"""A table that would be so much wider than its column is rather squeezed into it."""
BAR_ROOM = 12

_ALIGNS = {
    "right": Qt.AlignmentFlag.AlignRight,
    "center": Qt.AlignmentFlag.AlignHCenter,
}


@dataclass(slots=True)
class _Cell:
    lines: TextLines
    links: list[tuple[int, int, str]]
    x: float
    y: float
    start: int


class TableLayout:
    """`text` has a tab between cells and a line feed between rows.

    `is_last`: no further part of the same table follows.
    """

    def __init__(
        self,
        block: TableBlock,
        styles: Styles,
        width: float,
        first: TableBlock | None = None,
        *,
        is_last: bool = True,
    ) -> None:
        self._styles = styles
        self._aligns = block.aligns
        rows = [] if block.is_continuation else [block.header]
        rows += list(block.rows)
        # All parts of a long table are as wide as the first one wants to be.
        model = first or block
        measured = [model.header, *model.rows]
        self._widths = column_widths(measured, styles, width)
        self._width = sum(self._widths)
        self.sideways = Sideways(self._width, width)
        self._cells: list[list[_Cell]] = []
        self._tops: list[float] = []
        self._has_header = not block.is_continuation
        self.waits = False
        self.text = plain_text(block)
        # A right-to-left table begins at the right.
        self._is_rtl = bool(is_right_to_left(plain_text(model)))
        self._left = max(0.0, width - self._width) if self._is_rtl else 0.0
        self._rows_height = self.height = self._place(rows)
        self._has_bar = is_last and self.sideways.limit > 0
        if self._has_bar:
            self.height += styles.px(BAR_ROOM)
        self.natural_width = min(self._width, width)
        if self._is_rtl:
            self.sideways.set(self.sideways.limit)

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        if not self.sideways.limit:
            self._paint_rows(painter, at, selection, clip)
            return
        painter.save()
        room = QRectF(at.x(), at.y(), self.sideways.room, self._rows_height)
        painter.setClipRect(room, Qt.ClipOperation.IntersectClip)
        self._paint_rows(painter, at - QPointF(self.sideways.shift, 0), selection, clip)
        painter.restore()
        if self._has_bar:
            paint_bar(painter, self.sideways, self.bar_rect().translated(at), self._styles)

    def bar_rect(self) -> QRectF:
        """The track of the bar; empty where there is none."""
        if not self._has_bar:
            return QRectF()
        px = self._styles.px
        y = self._rows_height + px(BAR_ROOM / 2) - px(BAR) / 2
        return QRectF(0, y, self.sideways.room, px(BAR))

    def _paint_rows(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        line = QColor(self._styles.colors.line)
        thick = max(1.0, round(self._styles.px(1)))
        for i, (row, top) in enumerate(zip(self._cells, self._tops, strict=True)):
            bottom = self._tops[i + 1] if i + 1 < len(self._tops) else self._rows_height
            if at.y() + bottom < clip.top() or at.y() + top > clip.bottom():
                continue
            y = round(at.y() + bottom)
            painter.fillRect(QRectF(at.x() + self._left, y - thick, self._width, thick), line)
            for cell in row:
                part = _part_of(selection, cell)
                place = QPointF(at.x() + cell.x, at.y() + cell.y)
                painter.setPen(QColor(self._styles.colors.ink))
                cell.lines.paint(painter, place, part, self._styles, clip)

    def breaks(self) -> list[float]:
        """Between rows."""
        return self._tops[1:]

    def rects(self, start: int, end: int) -> list[QRectF]:
        """Where a part of the cells' text stands."""
        found = []
        for cell in (cell for row in self._cells for cell in row):
            part = _part_of((start, end), cell)
            if part is not None:
                moved = QPointF(cell.x - self.sideways.shift, cell.y)
                found += [rect.translated(moved) for rect in cell.lines.rects(*part)]
        return found

    def position_at(self, point: QPointF) -> int:
        point = point + QPointF(self.sideways.shift, 0)
        cell = self._cell_at(point)
        if cell is None:
            return 0
        return cell.start + cell.lines.position_at(point - QPointF(cell.x, cell.y))

    def link_at(self, point: QPointF) -> str:
        point = point + QPointF(self.sideways.shift, 0)
        cell = self._cell_at(point)
        if cell is None or not cell.links:
            return ""
        position = cell.lines.position_at(point - QPointF(cell.x, cell.y))
        hits = [target for start, end, target in cell.links if start <= position <= end]
        return hits[0] if hits else ""

    def _place(self, rows: list[tuple[tuple[Span, ...], ...]]) -> float:
        pad_x, pad_y = self._styles.px(PAD_X), self._styles.px(PAD_Y)
        lefts = [0.0, *accumulate(self._widths)]
        y, start = 0.0, 0
        for i, row in enumerate(rows):
            cells = []
            for column, spans in enumerate(row[: len(self._widths)]):
                cell = self._cell(spans, column, is_head=i == 0 and self._has_header)
                left = lefts[column]
                if self._is_rtl:
                    left = self._left + self._width - left - self._widths[column]
                cell.x, cell.y, cell.start = left + pad_x, y + pad_y, start
                start += cell.lines.length + 1
                cells.append(cell)
            self._tops.append(y)
            self._cells.append(cells)
            y += max((cell.lines.height for cell in cells), default=0) + 2 * pad_y
        return y

    def _cell(self, spans: tuple[Span, ...], column: int, *, is_head: bool) -> _Cell:
        styles = self._styles
        align = self._aligns[column] if column < len(self._aligns) else "left"
        width = max(1.0, self._widths[column] - 2 * styles.px(PAD_X))
        key = (spans, width, align, is_head)
        if key in styles.cells:
            # A growing table is laid out at every repaint: its old cells are still right.
            lines, links = styles.cells[key]
            return _Cell(lines, links, 0, 0, 0)
        inline = inline_of(spans, styles, width, is_heading=is_head)
        lines = _cell_lines(inline, styles, width, align, is_head)
        if inline.waits:
            self.waits = True
        else:
            styles.cells[key] = (lines, inline.links)
        return _Cell(lines, inline.links, 0, 0, 0)

    def _cell_at(self, point: QPointF) -> _Cell | None:
        if not self._cells:
            return None
        row = max((i for i, top in enumerate(self._tops) if top <= point.y()), default=0)
        pad = self._styles.px(PAD_X)
        cells = sorted(self._cells[row], key=lambda cell: cell.x)
        begun = [cell for cell in cells if cell.x - pad <= point.x()]
        return begun[-1] if begun else next(iter(cells), None)


def _cell_lines(
    inline: Inline, styles: Styles, width: float, align: str, is_head: bool
) -> TextLines:
    option = text_option(is_rtl=bool(is_right_to_left(inline.text)))
    if align in _ALIGNS:
        option.setAlignment(_ALIGNS[align] | Qt.AlignmentFlag.AlignAbsolute)
    font = styles.bold if is_head else styles.reply
    return TextLines(
        inline.text.replace("\n", " "),
        font,
        width,
        styles.line_step,
        runs=inline.runs,
        option=option,
        inlays=inline.inlays,
    )


def column_widths(
    rows: list[tuple[tuple[Span, ...], ...]], styles: Styles, width: float
) -> list[float]:
    """Widths of the columns: as wide as they like where that fits. Else the widest give way,
    down to a common width, so that short columns stay on one line. No column becomes narrower
    than its longest word, or than a comfortable width where its text is longer than that: so
    all of them together may be wider than `width`."""
    count = max((len(row) for row in rows), default=0)
    pad = 2 * styles.px(PAD_X) + 2
    wanted = [pad] * count
    least = [pad] * count
    for i, row in enumerate(rows):
        for column, spans in enumerate(row):
            whole, word = _measured(spans, styles, is_head=i == 0)
            wanted[column] = max(wanted[column], whole + pad)
            least[column] = max(least[column], word + pad)
    if sum(wanted) <= width:
        return wanted
    comfort = min(styles.px(COMFORT), width)
    narrow = [max(a, min(b, comfort)) for a, b in zip(least, wanted, strict=True)]
    if sum(narrow) >= width * NEARLY or (sum(narrow) >= width and sum(least) >= width):
        return narrow
    least = narrow if sum(narrow) < width else least
    return _levelled(wanted, least, width)


def _levelled(wanted: list[float], least: list[float], width: float) -> list[float]:
    """Cut the widest down to one level, so that all of them together are `width`.

    The level is found by halving: the sum grows with it.

    >>> [round(w) for w in _levelled([60, 300, 400], [20, 50, 50], 460)]
    [60, 200, 200]
    """
    low, high = 0.0, max(wanted)
    for _ in range(30):
        level = (low + high) / 2
        total = sum(max(a, min(b, level)) for a, b in zip(least, wanted, strict=True))
        low, high = (level, high) if total <= width else (low, level)
    return [max(a, min(b, low)) for a, b in zip(least, wanted, strict=True)]


def _measured(spans: tuple[Span, ...], styles: Styles, *, is_head: bool) -> tuple[float, float]:
    """How wide a cell's text and its longest word are, measured once."""
    key = (spans, is_head)
    if key in styles.measures:
        whole, longest = styles.measures[key]
        return float(whole), float(longest)
    metrics = QFontMetricsF(styles.bold if is_head else styles.reply)
    pictures = [styles.picture(span.tex) if span.tex else None for span in spans]
    texts = [span.text for span, made in zip(spans, pictures, strict=True) if made is None]
    text = "".join(texts)[:400]
    scale = 1.1 if any(span.is_code or span.is_bold or span.tex for span in spans) else 1.0
    em_px = styles.reply.pixelSize() * FORMULA_SCALE
    formulas = [made.width * em_px for made in pictures if made is not None]
    word = max(text.split(), key=len, default="")[:24]
    whole = metrics.horizontalAdvance(text) * scale + sum(formulas)
    longest = max(metrics.horizontalAdvance(word) * scale, *formulas, 0.0)
    if all(styles.is_known(span.tex) for span in spans if span.tex):
        styles.measures[key] = (whole, longest)
    return whole, longest


def _part_of(selection: tuple[int, int] | None, cell: _Cell) -> tuple[int, int] | None:
    if selection is None:
        return None
    length = utf16_length(cell.lines.text)
    start = max(0, selection[0] - cell.start)
    end = min(length, selection[1] - cell.start)
    return (start, end) if end > start else None
