"""Tokens in lines: where each piece stands, and how it is painted.

Before a piece that came in place of a proposed one stands that one, struck through; a proposed
piece that came has a line above it.

A piece is a box with the text that its tokens spell; a line is filled with them as with words,
and a word of a few pieces is not torn apart where it fits on the next line. A piece that is wider
than the column goes on in the next line.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from math import ceil
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPen, QPixmap

from app.insight.trace.token_groups import Spelling
from ui.look.tints import tint_colors
from ui.markdown.layouts import SegmentLayout
from ui.markdown.recent import Recent
from ui.markdown.styles import Styles
from ui.transcript.tokens.document import LEVELS, UNTINTED, TokenDocument, TokenSegment

LINE_HEIGHT: Final = 1.9
BOX_HEIGHT: Final = 1.55
PAD_PX: Final = 1.5
GAP_PX: Final = 1.0
RADIUS_PX: Final = 3.0
TOGETHER: Final = 6
"""So many pieces of one word go to the next line together."""
UNDER_PX: Final = 1.5
_BLEED: Final = 2
FROM_LEVEL: Final = 3
"""From this level on a line under the piece says how strong it is, beside the tint."""
MAX_SIZES: Final = 20_000

Run = tuple[float, str, bool]
"""Where in its piece a stretch of text begins, the text, and whether it is a mark."""

Looks = tuple[bytes, float, bytes, str, Styles]
"""What the picture of a line is made of: tints, scale, places, the last piece, and the styles."""


class Sizes:
    """How wide pieces are in one font, measured once each."""

    def __init__(self, styles: Styles) -> None:
        self._metrics = QFontMetricsF(styles.reply)
        self._widths: dict[str, float] = Recent(MAX_SIZES)
        self._runs: dict[object, tuple[Run, ...]] = Recent(MAX_SIZES)

    def width(self, shown: str) -> float:
        found = self._widths.get(shown)
        if found is None:
            found = self._widths[shown] = self._metrics.horizontalAdvance(shown)
        return found

    def fitting(self, text: str, width: float) -> int:
        """How many characters fit, at least one."""
        low, high = 1, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self._metrics.horizontalAdvance(text[:middle]) <= width:
                low = middle
            else:
                high = middle - 1
        return low

    def runs(self, spelling: Spelling, start: int, end: int) -> tuple[Run, ...]:
        """The text [start, end) of a piece, marks apart from letters."""
        key = (spelling.shown, spelling.marks, start, end)
        found = self._runs.get(key)
        if found is None:
            found = self._runs[key] = tuple(self._made(spelling, start, end))
        return found

    def _made(self, spelling: Spelling, start: int, end: int) -> list[Run]:
        found: list[Run] = []
        at = start
        for first, last in (*spelling.marks, (end, end)):
            for stop, is_mark in ((first, False), (last, True)):
                stop = min(max(stop, start), end)
                if stop > at:
                    x = self.width(spelling.shown[start:at])
                    found.append((x, spelling.shown[at:stop], is_mark))
                    at = stop
        return found


def sizes_of(styles: Styles) -> Sizes:
    """Those of a font; they live as long as the styles do."""
    found = styles.measures.get("tokens")
    if found is None:
        found = styles.measures["tokens"] = Sizes(styles)
    assert isinstance(found, Sizes)
    return found


class TokenLayout(SegmentLayout):
    """One segment of tokens in a column of `width`. A part is a piece, or its share of a line."""

    def __init__(
        self, document: TokenDocument, segment: TokenSegment, styles: Styles, width: float
    ) -> None:
        self.segment = segment
        self.placed = []
        self._tokens = document
        self._group = segment.first_group
        self._styles = styles
        self._width = width
        self._spellings: list[Spelling] = []
        self._sizes = sizes_of(styles)
        self._step = round(styles.reply.pixelSize() * LINE_HEIGHT)
        self._pad, self._gap = styles.px(PAD_PX), styles.px(GAP_PX)
        self._x, self._w = array("d"), array("d")
        self._of = array("I")
        self._first_part = array("I")
        self._cuts: dict[int, tuple[int, int]] = {}
        self._ghosts: dict[int, tuple[str, float]] = {}
        """By part: what a draft proposed in its place, and the room that takes before it."""
        self._lines = array("I", [0])
        self.changed_y = 0.0
        self.grow(segment)

    @property
    def n_blocks(self) -> int:
        return 1

    # --- laying out -----------------------------------------------------------------------------

    def grow(self, segment: TokenSegment) -> None:
        """The same segment with more in it, or with another end: only the last lines are laid out
        anew, as all of it would be. `changed_y`: above it all looks as before."""
        old, new = self._spellings, self._tokens.spellings_of(segment)
        same = min(len(old), len(new))
        while same and old[same - 1] is not new[same - 1]:
            same -= 1
        if old[:same] != new[:same] or segment.first_group != self._group:
            same = 0
        self.segment, self._group, self._spellings = segment, segment.first_group, new
        last_line, x, w = len(self._lines) - 2, self._x, self._w
        self._x, self._w = x[:], w[:]
        first = self._go_back_to(same)
        anew = len(self._x)
        self._lay_out(first)
        part = self._first_part[same] if same < len(self._first_part) else len(self._x)
        for at in range(anew, min(part, len(x))):
            if x[at] != self._x[at] or w[at] != self._w[at]:
                part = at
                break
        # A mark at the end of what was there goes, too.
        self.changed_y = float(self._step * max(min(self._line_of(part), last_line), 0))
        self.height = float(self._step * (len(self._lines) - 1))
        ends = self._lines[1:]
        self.natural_width = max((self._x[end - 1] + self._w[end - 1] for end in ends), default=0.0)

    def _go_back_to(self, group: int) -> int:
        """Take away the line that ends before a group, the one above it (a word of the line may
        have come from there), and all below; the first group that has no place now."""
        before = (self._first_part[group] if group < len(self._first_part) else len(self._x)) - 1
        line = max(self._line_of(before) - 1, 0) if group else 0
        while line and self._first_part[self._of[self._lines[line]]] != self._lines[line]:
            line -= 1
        part = self._lines[line]
        first = self._of[part] if part < len(self._of) else 0
        for parts in (self._x, self._w, self._of):
            del parts[part:]
        del self._first_part[first:], self._lines[line + 1 :]
        for cut in [cut for cut in self._cuts if cut >= part]:
            del self._cuts[cut]
        for ghost in [ghost for ghost in self._ghosts if ghost >= part]:
            del self._ghosts[ghost]
        return first

    def _lay_out(self, first: int) -> None:
        """Place the groups from `first` on, which begins a line."""
        x, word = 0.0, len(self._x)
        width, gap, extra = self._width, self._gap, 2 * self._pad
        widths, xs, ws, of = self._sizes.width, self._x, self._w, self._of
        has_ghosts = self._tokens.has_drafts
        for i in range(first, len(self._spellings)):
            spelling = self._spellings[i]
            wide = widths(spelling.shown) + extra
            ghost = self._tokens.ghost(self._group + i) if has_ghosts else ""
            beside = widths(ghost) + gap + extra if ghost else 0.0
            if wide + beside > width:
                ghost, beside = "", 0.0
            if spelling.raw[:1].isspace():
                word = len(xs)
            if x and x + beside + wide > width:
                x = self._end_line(word if wide <= width else len(xs))
                if x and x + beside + wide > width:
                    x = self._end_line(len(xs))
            if ghost:
                self._ghosts[len(xs)] = (ghost, beside)
                x += beside
            self._first_part.append(len(xs))
            if wide > width:
                x = self._place_in_shares(i, spelling, x)
            else:
                xs.append(x)
                ws.append(wide)
                of.append(i)
                x += wide + gap
            if spelling.breaks_line:
                self._lines.append(len(xs))
                x, word = 0.0, len(xs)
        if self._lines[-1] < len(xs):
            self._lines.append(len(xs))

    def _end_line(self, word: int) -> float:
        """Where the next piece stands: behind the beginning of its word, if that comes along."""
        n_parts, began = len(self._x), self._lines[-1]
        if not began < word < n_parts or n_parts - word > TOGETHER:
            self._lines.append(n_parts)
            return 0.0
        self._lines.append(word)
        x = 0.0
        for part in range(word, n_parts):
            x += self._ghosts[part][1] if part in self._ghosts else 0.0
            self._x[part] = x
            x += self._w[part] + self._gap
        return x

    def _place_in_shares(self, i: int, spelling: Spelling, x: float) -> float:
        """A piece that is wider than a line."""
        start, room, extra = 0, self._width - 2 * self._pad, 2 * self._pad
        while start < len(spelling.shown):
            count = self._sizes.fitting(spelling.shown[start:], room)
            end = start + count
            self._cuts[len(self._x)] = (start, end)
            wide = self._sizes.width(spelling.shown[start:end]) + extra
            self._x.append(0.0)
            self._w.append(min(wide, self._width))
            self._of.append(i)
            if end < len(spelling.shown):
                self._lines.append(len(self._x))
            start, x = end, wide + self._gap
        return x

    # --- where things are -----------------------------------------------------------------------

    def _line_of(self, part: int) -> int:
        return bisect_right(self._lines, part) - 1

    def _box(self, part: int) -> QRectF:
        height = round(self._styles.reply.pixelSize() * BOX_HEIGHT)
        top = self._line_of(part) * self._step + (self._step - height) // 2
        return QRectF(self._x[part], top, self._w[part], height)

    def _parts_of(self, i: int) -> range:
        end = self._first_part[i + 1] if i + 1 < len(self._first_part) else len(self._x)
        return range(self._first_part[i], end)

    def _part_near(self, point: QPointF) -> int | None:
        """The part at a point or the nearest one in its line; None where there is none."""
        if not self._x:
            return None
        line = min(max(int(point.y() // self._step), 0), len(self._lines) - 2)
        first, end = self._lines[line], self._lines[line + 1]
        return min(max(bisect_right(self._x, point.x(), first, end) - 1, first), end - 1)

    def group_at(self, point: QPointF) -> tuple[int, float] | None:
        """The group under a point, and how far along in it the point is, 0 to 1."""
        part = self._part_near(point)
        if part is None:
            return None
        around = (self._step - self._box(part).height()) / 2
        box = self._box(part).adjusted(-self._gap, -around, self._gap, around)
        if not box.contains(point):
            return None
        share = (point.x() - self._x[part]) / max(self._w[part], 1.0)
        return self._group + self._of[part], min(max(share, 0.0), 1.0)

    def group_near(self, point: QPointF) -> int | None:
        """The group at a point or the nearest one in its line."""
        part = self._part_near(point)
        return None if part is None else self._group + self._of[part]

    def group_boxes(self, group: int) -> list[QRectF]:
        return [self._box(part) for part in self._parts_of(group - self._group)]

    def group_beside(self, group: int, lines: int) -> int | None:
        """The group that stands so many lines below, about there; None outside."""
        part = self._parts_of(group - self._group).start
        line = self._line_of(part) + lines
        if not 0 <= line < len(self._lines) - 1:
            return None
        x = self._x[part] + self._w[part] / 2
        return self.group_near(QPointF(x, line * self._step + 1))

    def group_in_line(self, is_last: bool, x: float) -> int | None:
        """In the first line, or the last one: the group at `x`."""
        y = (len(self._lines) - 2) * self._step + 1 if is_last else 1
        return self.group_near(QPointF(x, y))

    def end_point(self) -> QPointF | None:
        if not self._x:
            return None
        last = self._box(len(self._x) - 1)
        ends_line = self._spellings[-1].breaks_line
        return QPointF(0, last.top() + self._step) if ends_line else last.topRight()

    # --- as any segment -------------------------------------------------------------------------

    def rects(self, block: int, start: int, end: int) -> list[QRectF]:
        """Where the text [start, end) stands."""
        starts = self._tokens.starts_of(self.segment)  # type: ignore[arg-type]
        first = max(bisect_right(starts, start) - 1, 0)
        found: list[QRectF] = []
        for i in range(first, len(self._spellings)):
            if starts[i] >= end:
                break
            spelling = self._spellings[i]
            low = spelling.shown_at(max(start - starts[i], 0))
            high = spelling.shown_at(end - starts[i])
            found += self._shown_rects(i, low, high)
        return found

    def _shown_rects(self, i: int, low: int, high: int) -> list[QRectF]:
        """Where [low, high) of what a piece shows stands; a whole piece with its sides."""
        shown, found = self._spellings[i].shown, []
        for part in self._parts_of(i):
            first, end = self._cuts.get(part, (0, len(shown)))
            start, stop = max(low, first), min(high, end)
            if start >= stop:
                continue
            box = self._box(part)
            left = self._pad + self._sizes.width(shown[first:start]) if start > first else 0.0
            right = self._pad + self._sizes.width(shown[first:stop]) if stop < end else box.width()
            found.append(QRectF(box.left() + left, box.top(), right - left, box.height()))
        return found

    def position_at(self, point: QPointF) -> tuple[int, int]:
        """The nearest end of a token: what is selected with the mouse are whole tokens."""
        part = self._part_near(point)
        if part is None:
            return 0, 0
        i = self._of[part]
        is_behind = point.x() > self._x[part] + self._w[part] / 2
        return 0, self._tokens.starts_of(self.segment)[i + is_behind]  # type: ignore[arg-type]

    # --- painting -------------------------------------------------------------------------------

    def paint(
        self,
        painter: QPainter,
        at: QPointF,
        selections: dict[int, tuple[int, int]],
        clip: QRectF,
    ) -> None:
        n_lines = len(self._lines) - 1
        first = min(max(int((clip.top() - at.y()) // self._step), 0), n_lines)
        end = min(max(int((clip.bottom() - at.y()) // self._step) + 1, first), n_lines)
        if first == end:
            return
        painter.save()
        painter.translate(at)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        marked = self.rects(0, *selections[0]) if selections else []
        marked_lines = {int(rect.center().y() // self._step) for rect in marked}
        for line in range(first, end):
            if line in marked_lines:
                self._paint_line(painter, line, self._levels(line), marked)
            else:
                painter.drawPixmap(
                    QPointF(-_BLEED, line * self._step), self._picture(painter, line)
                )
        self._paint_frames(painter)
        painter.restore()

    def _levels(self, line: int) -> bytes:
        """How strongly each part of a line is tinted, less `UNTINTED`."""
        level_of, group, of = self._tokens.level, self._group, self._of
        parts = range(self._lines[line], self._lines[line + 1])
        return bytes([level_of(group + of[part]) - UNTINTED for part in parts])

    def _picture(self, painter: QPainter, line: int) -> QPixmap:
        """A line as it was painted last, while it looks the same: a reply that grows, or is
        scrolled, is painted in a tenth of the time. To one that grew, what came is added."""
        levels, scale = self._levels(line), painter.device().devicePixelRatioF()
        begin, end = self._lines[line], self._lines[line + 1]
        key = (self._group + self._of[begin], self._cuts.get(begin))
        last = self._spellings[self._of[end - 1]].shown
        looks: Looks = (levels, scale, self._x[begin:end].tobytes(), last, self._styles)
        kept = self._tokens.pictures.get(key)
        if kept is not None and kept[0] == looks:
            return kept[1]
        n_there = self._n_painted(line, kept[0], looks) if kept is not None else 0
        if kept is not None and n_there:
            picture = kept[1]
        else:
            size = QSizeF(self._width + 2 * _BLEED, self._step) * scale
            picture = QPixmap(ceil(size.width()), ceil(size.height()))
            picture.setDevicePixelRatio(scale)
            picture.fill(Qt.GlobalColor.transparent)
        inner = QPainter(picture)
        inner.setRenderHint(QPainter.RenderHint.Antialiasing)
        inner.translate(_BLEED, -line * self._step)
        self._paint_line(inner, line, levels, [], n_there)
        inner.end()
        self._tokens.pictures[key] = (looks, picture)
        return picture

    def _n_painted(self, line: int, old: Looks, new: Looks) -> int:
        """How many parts of the line stand in its old picture as they are to be now, if it only
        grew; 0 where it is painted anew."""
        count = len(old[0])
        if not 0 < count <= len(new[0]) or old[1] != new[1] or old[4] != new[4]:
            return 0
        last = self._spellings[self._of[self._lines[line] + count - 1]].shown
        is_same = new[0].startswith(old[0]) and new[2].startswith(old[2]) and last == old[3]
        return count if is_same else 0

    def _paint_line(
        self,
        painter: QPainter,
        line: int,
        levels: bytes,
        marked: list[QRectF],
        n_there: int = 0,
    ) -> None:
        """The parts of a line behind the first `n_there`."""
        self._paint_boxes(painter, line, levels, n_there)
        color = QColor(self._styles.colors.selection)
        for rect in marked:
            if int(rect.center().y() // self._step) == line:
                painter.fillRect(rect, color)
        self._paint_texts(painter, line, levels, n_there)

    def _paint_boxes(self, painter: QPainter, line: int, levels: bytes, n_there: int) -> None:
        """The tints, and under each piece a line as long as the tint is strong."""
        paths: dict[int, QPainterPath] = defaultdict(QPainterPath)
        lines_under, drafted = QPainterPath(), QPainterPath()
        has_drafts = self._tokens.has_drafts
        radius, under = self._styles.px(RADIUS_PX), self._styles.px(UNDER_PX)
        height = round(self._styles.reply.pixelSize() * BOX_HEIGHT)
        top = line * self._step + (self._step - height) // 2
        has_boxes, begin = self._tokens.tokens.are_tokens, self._lines[line]
        for at, stored in enumerate(levels[n_there:], n_there):
            level = stored + UNTINTED
            x, w = self._x[begin + at], self._w[begin + at]
            if has_boxes:
                paths[level].addRoundedRect(x, top, w, height, radius, radius)
            if has_drafts and self._tokens.is_drafted(self._group + self._of[begin + at]):
                drafted.addRect(x + radius, top - under, w - 2 * radius, under)
            if level >= FROM_LEVEL:
                lines_under.addRect(x, top + height - under, w * (level + 1) / LEVELS, under)
        colors = self._styles.colors
        tints = tint_colors(colors)
        for level, path in paths.items():
            painter.fillPath(path, QColor(colors.line) if level == UNTINTED else tints[level])
        shade = QColor(colors.dim)
        shade.setAlphaF(0.6)
        painter.fillPath(lines_under, shade)
        painter.fillPath(drafted, QColor(colors.accent))

    def _paint_texts(self, painter: QPainter, line: int, levels: bytes, n_there: int) -> None:
        styles, pad, begin = self._styles, self._pad, self._lines[line]
        painter.setFont(styles.reply)
        metrics = painter.fontMetrics()
        y = round(line * self._step + (self._step + metrics.ascent() - metrics.descent()) / 2)
        ink, dim = QColor(styles.colors.ink), QColor(styles.colors.dim)
        for at, stored in enumerate(levels[n_there:], n_there):
            spelling = self._spellings[self._of[begin + at]]
            start, stop = self._cuts.get(begin + at, (0, len(spelling.shown)))
            is_strong = stored + UNTINTED >= LEVELS // 2
            x = self._x[begin + at] + pad
            for left, text, is_mark in self._sizes.runs(spelling, start, stop):
                painter.setPen(dim if is_mark and not is_strong else ink)
                painter.drawText(QPointF(x + left, y), text)
            if begin + at in self._ghosts:
                self._paint_ghost(painter, begin + at, y)

    def _paint_ghost(self, painter: QPainter, part: int, y: float) -> None:
        """Struck through, before the piece that came in its place."""
        text, beside = self._ghosts[part]
        font = painter.font()
        font.setStrikeOut(True)
        painter.setFont(font)
        painter.setPen(QColor(self._styles.colors.dim))
        painter.drawText(QPointF(self._x[part] - beside + self._pad, y), text)
        font.setStrikeOut(False)
        painter.setFont(font)

    def _paint_frames(self, painter: QPainter) -> None:
        """Around the chosen token, and around the one that the keyboard is on."""
        colors, px = self._styles.colors, self._styles.px
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for number, color, width in (
            (self._tokens.cursor, colors.dim, px(1.5)),
            (self._tokens.chosen, colors.accent, px(2)),
        ):
            if number is None:
                continue
            painter.setPen(QPen(QColor(color), width))
            for box in self.token_boxes(number):
                painter.drawRoundedRect(box, px(RADIUS_PX), px(RADIUS_PX))

    def token_boxes(self, number: int) -> list[QRectF]:
        """Where a token stands; several that are one character share its box."""
        groups = self._tokens.groups
        group = groups.group_of(number)
        i = group - self._group
        if number >= groups.n_tokens or not 0 <= i < len(self._spellings):
            return []
        boxes = self.group_boxes(group)
        first, end = groups.firsts[group], groups.end_of(group)
        if end - first > 1 and len(boxes) == 1:
            share = boxes[0].width() / (end - first)
            left = boxes[0].left() + share * (number - first)
            return [QRectF(left, boxes[0].top(), share, boxes[0].height())]
        return boxes
