"""One text on screen: its segments, laid out only where somebody looks.

Heights of what was never laid out are guessed from the number of characters; what was laid
out once keeps its height when its layout is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from app.markdown.document import Document
from app.markdown.highlight import needs_group_highlight
from app.markdown.segments import CodeGroup, Segment, SegmentKind
from ui.markdown.layouts import Pressable, SegmentLayout, sideways_of
from ui.markdown.sideways import grip
from ui.markdown.styles import Styles
from ui.transcript.heights import Heights

KEPT_AROUND_PX = 2000
"""Layouts this far outside of the view are kept."""
FIRST_READ_S, READ_S = 0.03, 0.01
"""How long a text is read at once; the rest of a huge one follows in slices."""
UNREAD_WORDS = "Loading the rest of this message…"

Spot = tuple[int, int, int]
"""Segment, block, UTF-16 position."""


BlockPlace = tuple[int, int]
"""Segment and block."""


@dataclass(slots=True)
class _Box:
    segment: Segment
    layout: SegmentLayout | None = None


class Body:
    """A document in a column of some width."""

    first_read_s = FIRST_READ_S

    def __init__(self, document: Document, styles: Styles, width: float) -> None:
        self.document = document
        self._styles = styles
        self._width = width
        self._boxes: list[_Box] = []
        self._heights = Heights()
        self._is_read = False
        self._shifts: dict[BlockPlace, float] = {}

    @property
    def is_read(self) -> bool:
        """Whether anything of the text was needed so far."""
        return self._is_read

    @property
    def styles(self) -> Styles:
        return self._styles

    @property
    def width(self) -> float:
        return self._width

    @property
    def height(self) -> float:
        if not self._is_read:
            return self._guess(self.document.source_length)
        return self._heights.total + self._unread_height()

    @property
    def natural_width(self) -> float:
        """How wide the text is where that is known at once; else the whole column."""
        if len(self._boxes) != 1 or self._boxes[0].layout is None:
            return self._width
        return min(self._width, self._boxes[0].layout.natural_width + 1)

    def restyle(self, styles: Styles, width: float) -> None:
        """Drop the layouts where the look or the width changed; heights become guesses."""
        if styles is self._styles and width == self._width:
            return
        self._styles, self._width = styles, width
        self._boxes = []
        self._heights = Heights()
        self._is_read = False
        self._shifts.clear()

    @property
    def is_whole(self) -> bool:
        """Whether all of the text was read; else `read` goes on with it."""
        return self._is_read and not self.document.unread_chars

    def read(self) -> None:
        """Take over what the document says now; segments that did not change stay."""
        changed = self.document.take_changes(READ_S if self._is_read else self.first_read_s)
        segments = self.document.known_segments
        if not self._is_read:
            changed = 0
            self._is_read = True
        del self._boxes[changed:]
        self._heights.truncate(len(self._boxes))
        for segment in segments[len(self._boxes) :]:
            self._boxes.append(_Box(segment))
            self._heights.append(self._guess_segment(segment))

    def ensure(self, top: float, bottom: float) -> bool:
        """Lay out what stands between two heights; whether anything above or in it moved."""
        moved = False
        if not self._is_read:
            self.read()
            moved = True
        if top > self._heights.total and not self.is_whole:
            return moved
        i = self._heights.at(top)
        while i < len(self._boxes) and self._heights.top(i) <= bottom:
            moved = self._lay_out(i) or moved
            i += 1
        return moved

    def release(self, top: float, bottom: float) -> None:
        """Drop the layouts that are far outside of two heights."""
        if not self._boxes:
            return
        first = self._heights.at(top - KEPT_AROUND_PX)
        last = self._heights.at(bottom + KEPT_AROUND_PX)
        for i, box in enumerate(self._boxes):
            if box.layout is not None and not first <= i <= last:
                box.layout = None

    def release_all(self) -> None:
        for box in self._boxes:
            box.layout = None

    @property
    def laid_out(self) -> int:
        """How many segments have a layout now."""
        return sum(box.layout is not None for box in self._boxes)

    def groups(self) -> list[CodeGroup]:
        """The code blocks with a layout that wait for the colours of the whole."""
        found = {
            id(box.segment.group): box.segment.group
            for box in self._boxes
            if box.layout is not None and box.segment.group is not None
        }
        return [group for group in found.values() if needs_group_highlight(group)]

    def recolor(self, group: CodeGroup) -> None:
        """Lay the parts of a code block out again, with the colours that its group has now."""
        for i, box in enumerate(self._boxes):
            if box.segment.group is group and box.layout is not None:
                box.layout = None
                self._lay_out(i)

    def refresh_formulas(self) -> None:
        """Lay out again what waits for pictures of formulas."""
        for i, box in enumerate(self._boxes):
            if box.layout is not None and box.layout.waits:
                box.layout = None
                self._lay_out(i)

    # Painting and hitting

    def paint(
        self,
        painter: QPainter,
        at: QPointF,
        clip: QRectF,
        selection: tuple[Spot, Spot] | None = None,
    ) -> None:
        i = self._heights.at(clip.top() - at.y())
        while i < len(self._boxes) and at.y() + self._heights.top(i) <= clip.bottom():
            layout = self._boxes[i].layout
            if layout is not None:
                parts = _parts(selection, i, layout.n_blocks)
                place = QPointF(at.x(), at.y() + self._heights.top(i))
                layout.paint(painter, place, parts, clip)
            i += 1
        if self._unread_height():
            self._paint_unread(painter, at, clip)

    def spot_at(self, point: QPointF) -> Spot:
        """The nearest place in the text."""
        if not self._boxes:
            return 0, 0, 0
        i = self._heights.at(point.y())
        self._lay_out(i)
        layout = self._boxes[i].layout
        if layout is None:
            return i, 0, 0
        block, position = layout.position_at(point - QPointF(0, self._heights.top(i)))
        return i, block, position

    def rects(self, spot: Spot, end: int) -> list[QRectF]:
        """Where a part of a block's text stands; nothing where it is not laid out."""
        segment, block, start = spot
        layout = self._boxes[segment].layout if segment < len(self._boxes) else None
        if layout is None:
            return []
        top = self._heights.top(segment)
        return [rect.translated(0, top) for rect in layout.rects(block, start, end)]

    def link_at(self, point: QPointF) -> str:
        if not self._boxes or not 0 <= point.y() < self._heights.total:
            return ""
        i = self._heights.at(point.y())
        layout = self._boxes[i].layout
        return layout.link_at(point - QPointF(0, self._heights.top(i))) if layout else ""

    def actions(self, top: float, bottom: float) -> list[Pressable]:
        """What can be pressed between two heights, with rectangles relative to this body."""
        found: list[Pressable] = []
        if not self._boxes:
            return found
        for i in range(self._heights.at(top), self._heights.at(bottom) + 1):
            layout = self._boxes[i].layout
            if layout is None:
                continue
            y = self._heights.top(i)
            for action in layout.actions():
                rect = action.rect.translated(0, y)
                payload = action.payload
                if action.name == "scroll_sideways":
                    payload = f"{i}:{payload}"
                found.append(Pressable(rect, action.name, action.label, payload))
        return found

    def first_known(self, top: float, bottom: float) -> int | None:
        """The first segment between two heights that has a layout."""
        if not self._boxes or bottom < 0 or top > self._heights.total:
            return None
        for i in range(self._heights.at(top), self._heights.at(bottom) + 1):
            if self._boxes[i].layout is not None:
                return i
        return None

    def top_of(self, segment: int) -> float:
        return self._heights.top(min(segment, len(self._heights)))

    def end_point(self) -> QPointF | None:
        """Where the text ends now, for a mark of growth; None where that is not laid out."""
        if not self._boxes or self._boxes[-1].layout is None:
            return None
        point = self._boxes[-1].layout.end_point()
        return point + QPointF(0, self._heights.top(len(self._boxes) - 1)) if point else None

    # Sideways

    def sideways_at(self, point: QPointF) -> BlockPlace | None:
        """What can be moved sideways at a point."""
        found = self._at(point)
        if found is None:
            return None
        i, layout, inside = found
        for j, placed in enumerate(layout.placed):
            view = sideways_of(placed.layout)
            if view is not None and view.limit and placed.rect.contains(inside):
                return i, j
        return None

    def bar_at(self, point: QPointF) -> tuple[BlockPlace, QRectF] | None:
        """The bar at a point: what it moves, and its track."""
        found = self._at(point)
        if found is None:
            return None
        i, layout, inside = found
        for block, track in layout.bars():
            if grip(track, self._styles).contains(inside):
                return (i, block), track
        return None

    def move_sideways(self, place: BlockPlace, step: float) -> bool:
        """Move code or a table by so many pixels, all its parts; whether anything moved."""
        i, block = place
        layout = self._boxes[i].layout if i < len(self._boxes) else None
        if layout is None or block >= len(layout.placed):
            return False
        view = sideways_of(layout.placed[block].layout)
        if view is None or not view.move(step):
            return False
        first = i - self._boxes[i].segment.part
        self._shifts[first, block] = view.shift
        for j, box in enumerate(self._boxes[first:], first):
            if j - box.segment.part != first:
                break
            self._shift(j)
        return True

    def reveal(self, spot: Spot, end: int) -> None:
        """Move code or a table sideways so that a part of its text is in view."""
        segment, block, start = spot
        layout = self._boxes[segment].layout if segment < len(self._boxes) else None
        if layout is not None:
            self.move_sideways((segment, block), layout.step_to(block, start, end))

    def drag_sideways(self, place: BlockPlace, track: QRectF, dx: float) -> bool:
        """Move what a bar belongs to as its handle is dragged by so many pixels."""
        layout = self._boxes[place[0]].layout if place[0] < len(self._boxes) else None
        if layout is None or place[1] >= len(layout.placed):
            return False
        view = sideways_of(layout.placed[place[1]].layout)
        return view is not None and self.move_sideways(place, view.step_of_drag(dx, track))

    def _at(self, point: QPointF) -> tuple[int, SegmentLayout, QPointF] | None:
        if not self._boxes or not 0 <= point.y() < self._heights.total:
            return None
        i = self._heights.at(point.y())
        layout = self._boxes[i].layout
        return (i, layout, point - QPointF(0, self._heights.top(i))) if layout else None

    def _shift(self, i: int) -> None:
        """Bring a segment's layout to where its parts were moved."""
        box = self._boxes[i]
        if not self._shifts or box.layout is None:
            return
        for j, placed in enumerate(box.layout.placed):
            view, place = sideways_of(placed.layout), (i - box.segment.part, j)
            if view is not None and place in self._shifts:
                view.set(self._shifts[place])

    # Inside

    def _lay_out(self, i: int) -> bool:
        box = self._boxes[i]
        if box.layout is not None:
            return False
        box.layout = self._layout_of(box.segment, self._width, is_first=i == 0)
        if self._is_mirrored_bubble(box):
            width = box.layout.natural_width + 1
            box.layout = self._layout_of(box.segment, width, is_first=True)
        self._shift(i)
        old = self._heights[i]
        self._heights.set(i, box.layout.height)
        return old != box.layout.height

    def _layout_of(self, segment: Segment, width: float, *, is_first: bool) -> SegmentLayout:
        return SegmentLayout(self.document, segment, self._styles, width, is_first=is_first)

    def _is_mirrored_bubble(self, box: _Box) -> bool:
        """Right-to-left text that a bubble fits closely must be laid out as narrow as that."""
        layout = box.layout
        return (
            layout is not None
            and box.segment.kind is SegmentKind.PLAIN
            and len(self._boxes) == 1
            and layout.natural_width + 1 < self._width
            and any(placed.is_rtl for placed in layout.placed)
        )

    def _unread_height(self) -> float:
        """As much for each character as what is read already takes."""
        unread = self.document.unread_chars
        read = self.document.source_length - unread
        if not unread:
            return 0.0
        return self._heights.total / read * unread if read else self._guess(unread)

    def _paint_unread(self, painter: QPainter, at: QPointF, clip: QRectF) -> None:
        """Words in the place of what is not read yet, where that is in view."""
        styles = self._styles
        top = max(at.y() + self._heights.total, clip.top())
        painter.setFont(styles.small)
        painter.setPen(QColor(styles.colors.dim))
        box = QRectF(at.x(), top, self._width, 2 * styles.line_step)
        painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, UNREAD_WORDS)

    def _guess(self, chars: int) -> float:
        per_line = max(1.0, self._width / self._styles.char_width)
        return max(1.0, chars / per_line + chars / 400) * self._styles.line_step

    def _guess_segment(self, segment: Segment) -> float:
        if segment.kind in (SegmentKind.CODE, SegmentKind.TABLE):
            return (segment.text.count("\n") + 3) * self._styles.code_step
        per_line = max(1.0, self._width / self._styles.char_width)
        lines = len(segment.text) / per_line + segment.text.count("\n") + 1
        return lines * self._styles.line_step


def _parts(
    selection: tuple[Spot, Spot] | None, segment: int, blocks: int
) -> dict[int, tuple[int, int]]:
    """The selected part of each block of one segment."""
    if selection is None or not selection[0][0] <= segment <= selection[1][0]:
        return {}
    start, end = selection
    parts = {}
    for block in range(blocks):
        place = (segment, block)
        if place < start[:2] or place > end[:2]:
            continue
        low = start[2] if place == start[:2] else 0
        high = end[2] if place == end[:2] else 1 << 30
        parts[block] = (low, high)
    return parts
