"""Blocks → things with a height that paint themselves, and the segment that stacks them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from app.markdown.blocks import (
    Block,
    CodeBlock,
    Frame,
    LiteralBlock,
    MathBlock,
    RuleBlock,
    TableBlock,
    TextBlock,
)
from app.markdown.direction import is_right_to_left
from app.markdown.document import Document
from app.markdown.highlight import Run, runs_of_part
from app.markdown.segments import MAX_CHARS, CodeGroup, Segment, SegmentKind
from ui.look.icons import paint_icon
from ui.markdown import hidden
from ui.markdown.code_layout import CodeLayout
from ui.markdown.math_layout import MathLayout
from ui.markdown.sideways import Sideways
from ui.markdown.styles import Styles, text_option
from ui.markdown.table_layout import TableLayout
from ui.markdown.text_layout import TextLines, inline_of

LIST_INDENT = 24
QUOTE_INDENT = 16


@dataclass(frozen=True, slots=True)
class Pressable:
    """A place inside a layout that can be pressed: "copy_code", "open_link".

    "scroll_sideways" is a place for the keyboard only: the arrow keys move what is in it.
    """

    rect: QRectF
    name: str
    label: str
    payload: str


class BlockLayout(Protocol):
    """A laid-out block. Points are relative to its top left corner, positions UTF-16 units."""

    height: float
    natural_width: float
    text: str

    def breaks(self) -> list[float]:
        """Heights at which it may be cut, where a page ends."""
        ...

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None: ...

    def rects(self, start: int, end: int) -> list[QRectF]: ...

    def position_at(self, point: QPointF) -> int: ...

    def link_at(self, point: QPointF) -> str: ...


class TextLayout:
    """A paragraph or a heading."""

    def __init__(self, block: TextBlock, styles: Styles, width: float) -> None:
        self._styles = styles
        level = block.level
        self.is_heading = level > 0
        inline = inline_of(block.spans, styles, width, level=level)
        self.text, self._links, self.waits = inline.text, inline.links, inline.waits
        self._places: list[tuple[QRectF, str]] | None = None
        font = styles.heading(level) if level else styles.reply
        step = styles.heading_step(level) if level else styles.line_step
        self._lines = TextLines(
            self.text, font, width, step, runs=inline.runs, inlays=inline.inlays
        )
        self.height = self._lines.height
        self.natural_width = self._lines.natural_width

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        self._lines.paint(painter, at, selection, self._styles, clip)

    def breaks(self) -> list[float]:
        return self._lines.tops[1:]

    def rects(self, start: int, end: int) -> list[QRectF]:
        return self._lines.rects(start, end)

    def position_at(self, point: QPointF) -> int:
        return self._lines.position_at(point)

    def links(self) -> list[tuple[QRectF, str]]:
        """Where the links are, and where they lead. Every frame asks."""
        if self._places is None:
            self._places = [
                (reduce(QRectF.united, self.rects(start, end), QRectF()), target)
                for start, end, target in self._links
                if start < end
            ]
        return self._places

    def end_point(self) -> QPointF:
        return self._lines.rect_at(self._lines.length).topLeft()

    def link_at(self, point: QPointF) -> str:
        if not self._links or not 0 <= point.y() < self.height:
            return ""
        position = self._lines.position_at(point)
        for start, end, target in self._links:
            if start <= position <= end and any(
                rect.left() <= point.x() <= rect.right() for rect in self.rects(start, end)
            ):
                return target
        return ""


class LiteralLayout:
    """Text letter by letter, in the reply's font or the fixed-pitch one."""

    def __init__(self, block: LiteralBlock, styles: Styles, width: float) -> None:
        self._styles = styles
        self.text = block.text
        font, step = styles.reply, styles.line_step
        option = text_option(is_rtl=bool(is_right_to_left(block.text)))
        if block.is_mono:
            font, step, option = styles.code, styles.code_step, text_option(is_code=True)
        self._lines = TextLines(hidden.shown(block.text), font, width, step, option=option)
        self.height = self._lines.height
        self.natural_width = self._lines.natural_width

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        painter.setPen(QColor(self._styles.colors.ink))
        self._lines.paint(painter, at, selection, self._styles, clip)

    def breaks(self) -> list[float]:
        return self._lines.tops[1:]

    def rects(self, start: int, end: int) -> list[QRectF]:
        return self._lines.rects(start, end)

    def position_at(self, point: QPointF) -> int:
        return self._lines.position_at(point)

    def link_at(self, point: QPointF) -> str:
        return ""


class RuleLayout:
    """A thin line."""

    def __init__(self, styles: Styles, width: float) -> None:
        self._styles = styles
        self._width = width
        self.height = styles.px(9)
        self.natural_width = width
        self.text = ""

    def breaks(self) -> list[float]:
        return []

    def paint(
        self, painter: QPainter, at: QPointF, selection: tuple[int, int] | None, clip: QRectF
    ) -> None:
        y = round(at.y() + self.height / 2)
        rect = QRectF(at.x(), y, self._width, max(1.0, self._styles.px(1)))
        painter.fillRect(rect, QColor(self._styles.colors.line))

    def rects(self, start: int, end: int) -> list[QRectF]:
        return []

    def position_at(self, point: QPointF) -> int:
        return 0

    def link_at(self, point: QPointF) -> str:
        return ""


@dataclass(slots=True)
class PlacedBlock:
    """A block layout and where it stands in its segment; the frame draws bars and markers."""

    layout: BlockLayout
    frame: Frame
    rect: QRectF
    space_above: float
    is_rtl: bool


class SegmentLayout:
    """The laid-out blocks of one segment, one below the other, in a column of `width`."""

    def __init__(
        self,
        document: Document,
        segment: Segment,
        styles: Styles,
        width: float,
        *,
        is_first: bool = False,
    ) -> None:
        self.segment = segment
        self._document = document
        self._styles = styles
        self._width = width
        self.placed: list[PlacedBlock] = []
        y = 0.0
        for i, block in enumerate(document.blocks(segment)):
            space = 0.0 if is_first and i == 0 else self._space_above(block)
            y = self._place(block, y, space)
        if self.placed and segment.kind is SegmentKind.LIST and _is_card(self.placed[-1]):
            y += styles.px(8)
        self.height = y
        self.natural_width = max((self._natural(p) for p in self.placed), default=0.0)

    @property
    def n_blocks(self) -> int:
        return len(self.placed)

    @property
    def waits(self) -> bool:
        """Whether the picture of a formula is still being made."""
        return any(
            isinstance(placed.layout, TextLayout | TableLayout | MathLayout) and placed.layout.waits
            for placed in self.placed
        )

    @property
    def group(self) -> CodeGroup | None:
        return self.segment.group

    def paint(
        self,
        painter: QPainter,
        at: QPointF,
        selections: dict[int, tuple[int, int]],
        clip: QRectF,
    ) -> None:
        """Paint what lies inside `clip`; selections by block index."""
        for i, placed in enumerate(self.placed):
            rect = placed.rect.translated(at)
            if rect.bottom() < clip.top() or rect.top() - placed.space_above > clip.bottom():
                continue
            self._paint_frame(painter, at, placed, clip)
            placed.layout.paint(painter, rect.topLeft(), selections.get(i), clip)

    def block_at(self, y: float) -> int:
        """The index of the block at or nearest to a height."""
        for i, placed in enumerate(self.placed):
            if y < placed.rect.bottom() + placed.space_above / 2:
                return i
        return max(0, len(self.placed) - 1)

    def rects(self, block: int, start: int, end: int) -> list[QRectF]:
        """Where a part of a block's text stands."""
        if block >= len(self.placed):
            return []
        placed = self.placed[block]
        found = [r.translated(placed.rect.topLeft()) for r in placed.layout.rects(start, end)]
        view = sideways_of(placed.layout)
        if view is None or not view.limit:
            return found
        seen = (rect.intersected(placed.rect) for rect in found)
        return [rect for rect in seen if not rect.isEmpty()]

    def step_to(self, block: int, start: int, end: int) -> float:
        """How far a block must be moved sideways to have a part of its text in view."""
        if block >= len(self.placed):
            return 0.0
        placed = self.placed[block]
        view, rects = sideways_of(placed.layout), placed.layout.rects(start, end)
        if view is None or not view.limit or not rects:
            return 0.0
        margin = min(self._styles.px(32), view.room / 4)
        left, right = margin, placed.rect.width() - margin
        if rects[0].left() < left:
            return rects[0].left() - left
        return min(max(0.0, rects[0].right() - right), max(0.0, rects[0].left() - left))

    def position_at(self, point: QPointF) -> tuple[int, int]:
        """Block index and position in its text."""
        if not self.placed:
            return 0, 0
        index = self.block_at(point.y())
        placed = self.placed[index]
        return index, placed.layout.position_at(point - placed.rect.topLeft())

    def link_at(self, point: QPointF) -> str:
        for placed in self.placed:
            if placed.rect.contains(point):
                return placed.layout.link_at(point - placed.rect.topLeft())
        return ""

    def actions(self) -> list[Pressable]:
        """What can be pressed in this segment."""
        found = []
        for i, placed in enumerate(self.placed):
            layout = placed.layout
            if (view := sideways_of(layout)) is not None and view.limit and self._is_stop(layout):
                label = f"Scroll the {_NAMES[type(layout)]} sideways with the arrow keys"
                found.append(Pressable(placed.rect, "scroll_sideways", label, str(i)))
            if isinstance(layout, CodeLayout) and layout.has_header:
                code = self.group.code if self.group is not None else f"{layout.text}\n"
                rect = layout.copy_rect().translated(placed.rect.topLeft())
                found.append(Pressable(rect, "copy_code", "Copy code", code))
            if isinstance(layout, TextLayout):
                for rect, target in layout.links():
                    place = rect.translated(placed.rect.topLeft())
                    found.append(Pressable(place, "open_link", f"Open {target}", target))
        return found

    def _is_stop(self, layout: BlockLayout) -> bool:
        """Whether the keyboard stops at this part: once in long code, once in a long table."""
        if isinstance(layout, CodeLayout):
            return layout.has_header
        return not self.segment.part

    def bars(self) -> list[tuple[int, QRectF]]:
        """The tracks of the bars under what is wider than the column, by block."""
        found = []
        for i, placed in enumerate(self.placed):
            if isinstance(placed.layout, _WIDE):
                rect = placed.layout.bar_rect()
                if not rect.isEmpty():
                    found.append((i, rect.translated(placed.rect.topLeft())))
        return found

    def end_point(self) -> QPointF | None:
        """Where the text ends: the top of its last caret."""
        if not self.placed or not isinstance(self.placed[-1].layout, TextLayout):
            return None
        return self.placed[-1].rect.topLeft() + self.placed[-1].layout.end_point()

    # Placing

    def _place(self, block: Block, y: float, space: float) -> float:
        frame = block.frame
        indent = sum(QUOTE_INDENT if c == "q" else LIST_INDENT for c in frame.nest)
        left = min(self._styles.px(indent), self._width * 0.6)
        width = max(self._styles.px(40), self._width - left)
        layout = self._layout(block, width)
        is_rtl = not isinstance(block, CodeBlock | MathBlock) and bool(
            is_right_to_left(layout.text)
        )
        x = 0.0 if is_rtl else left
        rect = QRectF(x, y + space, width, layout.height)
        self.placed.append(PlacedBlock(layout, frame, rect, space, is_rtl))
        return rect.bottom()

    def _layout(self, block: Block, width: float) -> BlockLayout:
        styles = self._styles
        if isinstance(block, TextBlock):
            return TextLayout(block, styles, width)
        if isinstance(block, CodeBlock):
            return self._code_layout(block, width)
        if isinstance(block, TableBlock):
            is_last = self.segment.is_last_part
            return TableLayout(block, styles, width, self._first_table(), is_last=is_last)
        if isinstance(block, MathBlock):
            return MathLayout(block, styles, width)
        if isinstance(block, LiteralBlock):
            return LiteralLayout(block, styles, width)
        return RuleLayout(styles, width)

    def _code_layout(self, block: CodeBlock, width: float) -> CodeLayout:
        group = self.segment.group if self.segment.kind is SegmentKind.CODE else None
        wraps = group.is_broken if group else len(block.code) > MAX_CHARS
        whole = self._styles.code_width(group.longest) if group and not wraps else 0.0
        # A line that does not fit into one part is data: coloured, it takes longer than it helps.
        colored = [] if group is not None and group.is_broken else self._colored()
        return CodeLayout(block, self._styles, width, colored, content_width=whole, wraps=wraps)

    def _colored(self) -> list[Run] | None:
        """The colours of this part of a long code block, where the whole has been coloured."""
        segment = self.segment
        if segment.group is None or segment.kind is not SegmentKind.CODE:
            return None
        return runs_of_part(segment.group, segment.line, segment.text.count("\n") + 1)

    def _first_table(self) -> TableBlock | None:
        if self.segment.first is None:
            return None
        blocks = self._document.blocks(self.segment.first)
        return blocks[0] if blocks and isinstance(blocks[0], TableBlock) else None

    def _natural(self, placed: PlacedBlock) -> float:
        return self._width - placed.rect.width() + placed.layout.natural_width

    def _space_above(self, block: Block) -> float:
        if isinstance(block, TextBlock) and block.level:
            return self._styles.px(24 if block.level <= 2 else 20)
        if isinstance(block, CodeBlock) and not block.is_first:
            return 0.0
        if isinstance(block, TableBlock) and block.is_continuation:
            return 0.0
        if isinstance(block, LiteralBlock) and block.is_joined:
            return 0.0
        if isinstance(block, RuleBlock):
            return self._styles.px(16)
        return self._styles.px(4 if block.frame.is_tight else 12)

    # Bars and markers

    def _paint_frame(
        self, painter: QPainter, at: QPointF, placed: PlacedBlock, clip: QRectF
    ) -> None:
        styles, nest = self._styles, placed.frame.nest
        rect = placed.rect.translated(at)
        x = 0.0
        for letter in nest:
            if letter == "q":
                top = rect.top() - (placed.space_above if placed.frame.joins_quote else 0)
                left = at.x() + (self._width - x - styles.px(3) if placed.is_rtl else x)
                bar = QRectF(left, top, styles.px(3), rect.bottom() - top)
                painter.fillRect(bar, QColor(styles.colors.line))
            x += styles.px(QUOTE_INDENT if letter == "q" else LIST_INDENT)
        if placed.frame.marker and rect.top() + styles.line_step > clip.top():
            self._paint_marker(painter, rect, placed)

    def _paint_marker(self, painter: QPainter, rect: QRectF, placed: PlacedBlock) -> None:
        styles = self._styles
        marker, step = placed.frame.marker, styles.line_step
        gap, color = styles.px(8), QColor(styles.colors.dim)
        if marker in TASKS:
            side = styles.px(16)
            left = rect.right() + gap if placed.is_rtl else rect.left() - gap - side
            box = QRectF(left, rect.top() + (step - side) / 2, side, side)
            paint_icon(painter, box, TASKS[marker], color)
            return
        painter.setFont(styles.reply)
        painter.setPen(color)
        wide = styles.px(60)
        middle = Qt.AlignmentFlag.AlignVCenter
        if placed.is_rtl:
            box = QRectF(rect.right() + gap, rect.top(), wide, step)
            painter.drawText(box, middle | Qt.AlignmentFlag.AlignLeft, marker)
        else:
            box = QRectF(rect.left() - gap - wide, rect.top(), wide, step)
            painter.drawText(box, middle | Qt.AlignmentFlag.AlignRight, marker)


TASKS = {"☐": "square", "☑": "check-square"}
"""Boxes as icons: as letters they come from any font, and their tick is hardly seen."""
_NAMES: dict[type, str] = {CodeLayout: "code", TableLayout: "table", MathLayout: "formula"}
_WIDE = (CodeLayout, TableLayout, MathLayout)


def sideways_of(layout: BlockLayout) -> Sideways | None:
    """How far a layout is moved, where it can be."""
    return layout.sideways if isinstance(layout, _WIDE) else None


def _is_card(placed: PlacedBlock) -> bool:
    return isinstance(placed.layout, CodeLayout | TableLayout)
