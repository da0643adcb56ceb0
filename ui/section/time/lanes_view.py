"""The lanes themselves: whose rows each pass had, over one axis.

    Rows per pass   ▇▁▁▁▁▁▁▁▁▁▁▁▁▁      prompt rows and token rows told apart
    Slot 1  ▒▒▒▒▒▒██████████████
    Slot 2        ▒█████████████        it joined when the prompt was read
    0       1 s       2 s

The bars' heights grow with the logarithm of the rows: a prompt has hundreds, writing one of each.
Neighbours of one kind that lie on the same pixel are painted as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.engine.protocol.lane_messages import LaneVisit
from app.insight.time.lanes import LaneSpan
from ui.look.theme import Theme
from ui.section.time.line import ZOOM_STEP
from ui.section.time.scale import TimeScale, step_for
from ui.section.time.words import tick_text
from ui.widgets.kit import show_tip

HINT: Final = (
    "Passes: ← and →. Zoom: Ctrl+wheel, + or −. Move: Shift+arrow keys or drag. Show all: Home."
)
_LABEL_PX: Final = 18
_ROWS_PX: Final = 36
_BLOCK_PX: Final = 10
_GAP_PX: Final = 4
_AXIS_PX: Final = 20
_TICK_PX: Final = 72
_CLICK_PX: Final = 4
_KEY_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class LaneShown:
    """A slot: whoever was in it, what it is called, and its figure at the right."""

    slot: int
    visits: tuple[LaneVisit, ...]
    name: str
    figure: str


@dataclass(slots=True)
class _Block:
    left: float
    right: float
    is_reading: bool


class LanesView(QWidget):
    """`pointed`: the span under the pointer or the keys, or None. `words_of` makes the lines of
    its hover card, of the span and the slot."""

    pointed = Signal(object)
    view_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.scale = TimeScale()
        self.lanes: tuple[LaneShown, ...] = ()
        self.spans: tuple[LaneSpan, ...] = ()
        self.start_ms = 0.0
        self.end_ms = 0.0
        self.marked: int | None = None
        self.rows_figure = ""
        self.words_of: Callable[[LaneSpan | None, LaneShown | None], list[str]] = lambda *_: [HINT]
        self._pressed: QPointF | None = None
        self._dragged = False
        self.setObjectName("lanes_view")
        self.setAccessibleName("Slots over time")
        self.setToolTip("")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._fit)

    # --- what it shows --------------------------------------------------------------------------

    def show_lanes(
        self,
        lanes: Sequence[LaneShown],
        spans: Sequence[LaneSpan],
        start_ms: float,
        end_ms: float,
    ) -> None:
        """From `start_ms` to `end_ms` of the engine's clock. Another stretch is seen whole."""
        is_other = start_ms != self.start_ms
        n_before = len(self.lanes)
        self.lanes, self.spans = tuple(lanes), tuple(spans)
        self.start_ms, self.end_ms = start_ms, end_ms
        self.scale.set_whole(end_ms - start_ms)
        if is_other:
            self.scale.fit()
            self.mark(None)
        if self.marked is not None and self._marked_span() is None:
            self.mark(None)
        if n_before != len(self.lanes):
            self.updateGeometry()
        self._changed()

    def mark(self, number: int | None) -> None:
        """A span, by its number."""
        if number != self.marked:
            self.marked = number
            self.update()
            self.pointed.emit(self._marked_span())

    def _marked_span(self) -> LaneSpan | None:
        return next((span for span in self.spans if span.number == self.marked), None)

    def zoom(self, factor: float, x: float | None = None) -> None:
        marked = self._marked_span()
        if x is None:
            x = self._x_of(marked.start_ms) if marked is not None else self.width() / 2
        self.scale.zoom(factor, min(max(x, 0.0), float(self.width())))
        self._changed()

    def fit(self) -> None:
        self.scale.fit()
        self._changed()

    def _changed(self) -> None:
        self.update()
        self.view_changed.emit()

    def _fit(self) -> None:
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(360), round(self._bottom() + self._theme.px(_AXIS_PX)))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(160), self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.scale.set_width(self.width())
        self._changed()

    # --- where things lie -----------------------------------------------------------------------

    def room_of_rows(self) -> QRectF:
        px = self._theme.px
        return QRectF(0, px(_LABEL_PX), self.width(), px(_ROWS_PX))

    def room_of(self, place: int) -> QRectF:
        """Where the blocks of a lane are."""
        px = self._theme.px
        above = self.room_of_rows().bottom() + px(_GAP_PX)
        top = above + place * px(_LABEL_PX + _BLOCK_PX + _GAP_PX) + px(_LABEL_PX)
        return QRectF(0, top, self.width(), px(_BLOCK_PX))

    def _bottom(self) -> float:
        if not self.lanes:
            return self.room_of_rows().bottom()
        return self.room_of(len(self.lanes) - 1).bottom()

    def _x_of(self, moment_ms: float) -> float:
        return self.scale.x_of(moment_ms - self.start_ms)

    def span_at(self, x: float) -> LaneSpan | None:
        """The pass there, or the nearest one within a few pixels."""
        moment = self.scale.ms_at(x) + self.start_ms
        reach = _CLICK_PX / self.scale.px_per_ms if self.scale.px_per_ms > 0 else 0.0
        near = [s for s in self.spans if s.start_ms - reach <= moment <= s.end_ms + reach]
        return min(near, key=lambda s: max(s.start_ms - moment, moment - s.end_ms), default=None)

    def lane_at(self, y: float) -> LaneShown | None:
        for place, lane in enumerate(self.lanes):
            room = self.room_of(place)
            if room.top() - self._theme.px(_LABEL_PX) <= y <= room.bottom():
                return lane
        return None

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self._theme.font_small())
        self._paint_rows(painter)
        for place, lane in enumerate(self.lanes):
            self._paint_lane(painter, place, lane)
        self._paint_mark(painter)
        self._paint_axis(painter)
        if self.hasFocus():
            painter.setPen(QPen(QColor(self._theme.colors.accent), 1))
            painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def _seen(self) -> list[LaneSpan]:
        left, right = self.scale.left_ms + self.start_ms, self.scale.right_ms + self.start_ms
        return [span for span in self.spans if span.end_ms >= left and span.start_ms <= right]

    def _paint_rows(self, painter: QPainter) -> None:
        room = self.room_of_rows()
        self._paint_label(painter, room, "Rows per pass", self.rows_figure)
        painter.fillRect(room, QColor(self._theme.colors.side))
        most = max((s.prompt_rows + s.token_rows for s in self.spans), default=0)
        if not most:
            return
        full = math.log2(1 + most)
        prompt, tokens = self._color(is_reading=True), self._color(is_reading=False)
        for span in self._seen():
            left, right = self._x_of(span.start_ms), self._x_of(span.end_ms)
            width = max(right - left, 1.0)
            whole = room.height() * math.log2(1 + span.prompt_rows + span.token_rows) / full
            # The lower part is as high as the token rows alone would be.
            part = room.height() * math.log2(1 + span.token_rows) / full
            painter.fillRect(QRectF(left, room.bottom() - whole, width, whole - part), prompt)
            painter.fillRect(QRectF(left, room.bottom() - part, width, part), tokens)

    def _paint_lane(self, painter: QPainter, place: int, lane: LaneShown) -> None:
        room = self.room_of(place)
        self._paint_label(painter, room, lane.name, lane.figure)
        painter.fillRect(room, QColor(self._theme.colors.side))
        own = {visit.number for visit in lane.visits}
        for visit in lane.visits:
            left = self._x_of(visit.joined_ms)
            right = self._x_of(visit.left_ms or self.end_ms)
            there = QRectF(left, room.top(), max(right - left, 1.0), room.height())
            painter.fillRect(there.intersected(room), QColor(self._theme.colors.hover))
        for block in self._blocks(own):
            rect = QRectF(block.left, room.top(), max(block.right - block.left, 1.0), room.height())
            painter.fillRect(rect.intersected(room), self._color(is_reading=block.is_reading))

    def _blocks(self, own: set[int]) -> list[_Block]:
        found: list[_Block] = []
        for span in self._seen():
            share = next((one for one in span.shares if one.visit in own), None)
            if share is None:
                continue
            left, right = self._x_of(span.start_ms), self._x_of(span.end_ms)
            last = found[-1] if found else None
            if last and last.is_reading == share.is_reading and left - last.right < 1.0:
                last.right = right
            else:
                found.append(_Block(left, right, share.is_reading))
        return found

    def _color(self, *, is_reading: bool) -> QColor:
        if is_reading:
            return QColor(self._theme.colors.second)
        color = QColor(self._theme.colors.accent)
        color.setAlphaF(0.75)
        return color

    def _paint_label(self, painter: QPainter, room: QRectF, name: str, figure: str) -> None:
        colors, px = self._theme.colors, self._theme.px
        label = QRectF(0, room.top() - px(_LABEL_PX), self.width(), px(_LABEL_PX))
        metrics = painter.fontMetrics()
        elide, middle = Qt.TextElideMode.ElideRight, Qt.AlignmentFlag.AlignVCenter
        shown = metrics.elidedText(figure, elide, round(self.width() * 0.7))
        painter.setPen(QColor(colors.dim))
        painter.drawText(label, Qt.AlignmentFlag.AlignRight | middle, shown)
        free = round(self.width() - metrics.horizontalAdvance(shown) - px(8))
        painter.setPen(QColor(colors.ink))
        words = metrics.elidedText(name, elide, free)
        painter.drawText(label, Qt.AlignmentFlag.AlignLeft | middle, words)

    def _paint_mark(self, painter: QPainter) -> None:
        """The pass that is pointed at: a line over all lanes."""
        span = self._marked_span()
        if span is not None:
            x = (self._x_of(span.start_ms) + self._x_of(span.end_ms)) / 2
            painter.setPen(QPen(QColor(self._theme.colors.ink), self._theme.px(1)))
            painter.drawLine(QPointF(x, self.room_of_rows().top()), QPointF(x, self._bottom()))

    def _paint_axis(self, painter: QPainter) -> None:
        px, top = self._theme.px, self._bottom()
        painter.setPen(QColor(self._theme.colors.dim))
        metrics = QFontMetricsF(painter.font())
        least = px(_TICK_PX)
        step = step_for(least / self.scale.px_per_ms) if self.scale.px_per_ms > 0 else 0.0
        for moment in self.scale.ticks(least):
            x, words = self.scale.x_of(moment), tick_text(moment, step)
            width = metrics.horizontalAdvance(words)
            painter.drawLine(QPointF(x, top), QPointF(x, top + px(3)))
            left = min(max(x - width / 2, 0.0), self.width() - width)
            room = QRectF(left, top + px(3), width + 1, px(_AXIS_PX - 3))
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, words)

    # --- by mouse and keys ----------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        turned = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom(ZOOM_STEP ** (turned.y() / 120), event.position().x())
        elif turned.x() or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._move(-(turned.x() or turned.y()) / 120 * self.width() * _KEY_SHARE)
        else:
            event.ignore()  # the panel scrolls
            return
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        is_shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        sideways = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(key))
        if sideways is not None and is_shifted:
            self._move(sideways * self.width() * _KEY_SHARE)
        elif sideways is not None:
            self._step(sideways)
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom(ZOOM_STEP)
        elif key == Qt.Key.Key_Minus:
            self.zoom(1 / ZOOM_STEP)
        elif key == Qt.Key.Key_Home:
            self.fit()
        else:
            super().keyPressEvent(event)

    def _step(self, by: int) -> None:
        if not self.spans:
            return
        numbers = [span.number for span in self.spans]
        at = numbers.index(self.marked) + by if self.marked in numbers else -(by < 0)
        at = min(max(at, 0), len(numbers) - 1) if self.marked in numbers else at
        span = self.spans[at]
        self.scale.show(span.start_ms - self.start_ms, span.end_ms - self.start_ms)
        self.mark(span.number)
        self._changed()

    def _move(self, px: float) -> None:
        self.scale.move(px)
        self._changed()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed, self._dragged = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position()
        if self._pressed is None:
            return
        moved = at.x() - self._pressed.x()
        if self._dragged or abs(moved) > self._theme.px(_CLICK_PX):
            self._dragged, self._pressed = True, at
            self._move(-moved)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed = self._pressed, None
        if pressed is not None and not self._dragged:
            span = self.span_at(event.position().x())
            self.mark(None if span is None else span.number)

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            self._show_card(event.globalPos(), QPointF(event.pos()))
            return True
        return super().event(event)

    def _show_card(self, where: QPoint, at: QPointF) -> None:
        lines = self.words_of(self.span_at(at.x()), self.lane_at(at.y()))
        show_tip(where, "\n".join(lines), self)
