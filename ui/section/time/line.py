"""The time line itself: lanes of blocks and bars over one axis, to be zoomed and moved.

    Waited      ▂▂▂
    Prefill        ████ 31
    Decode             ▃▃▄▃▃▃▅▃▃▃   a bar per token, as high as its milliseconds
    0        50 ms     100 ms

Painting costs the same whatever the length of the reply: where many tokens lie on one pixel, the
slowest of them is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
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

from app.amounts import time_text
from app.insight.time.bars import Bars, bars, full_ms, highest, shared
from app.insight.time.timeline import WRITING, Lane, Stretch, total_ms
from ui.look.theme import Theme
from ui.section.time.scale import TimeScale, step_for
from ui.section.time.words import tick_text
from ui.widgets.kit import show_tip

LANES: Final[dict[Lane, str]] = {"waited": "Waited", "prefill": "Prefill", "decode": "Decode"}
ZOOM_STEP: Final = 1.5
_KEY_SHARE: Final = 0.2
_LABEL_PX: Final = 20
_BLOCK_PX: Final = 16
_BARS_PX: Final = 72
_SHARED_PX: Final = 4
_GAP_PX: Final = 6
_AXIS_PX: Final = 20
_TICK_PX: Final = 72
_REACH_PX: Final = 4
_CLICK_PX: Final = 4

HINT: Final = (
    "Zoom: Ctrl+wheel, + or −. Move: arrow keys or drag. Previous or next token: Shift+arrow "
    "keys. Show all: Home."
)


@dataclass(frozen=True, slots=True)
class Hit:
    """What lies under the pointer: a token of the trace, or a stretch."""

    token: int | None = None
    stretch: int | None = None


NOTHING: Final = Hit()


class TimeLine(QWidget):
    """`token_clicked`: the place of a token in the trace. `step_wanted`: by Shift and an arrow key.
    `view_changed`: another part is in view. `words_of` makes the lines of the hover card."""

    token_clicked = Signal(int)
    step_wanted = Signal(int)
    view_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.scale = TimeScale()
        self.stretches: tuple[Stretch, ...] = ()
        self.bars: Bars = bars((), ())
        self.selected: int | None = None
        self.hovered = NOTHING
        self.figures: dict[Lane, str] = {}
        self.words_of: Callable[[Hit], list[str]] = lambda _hit: [HINT]
        self._full_ms = 0.0
        self._shared: list[tuple[float, float, int]] = []
        self._pressed: QPointF | None = None
        self._dragged = False
        self.setObjectName("time_line")
        self.setAccessibleName("Timeline")
        self.setToolTip("")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._fit)
        self._fit()

    # --- what it shows --------------------------------------------------------------------------

    def show_line(self, stretches: Sequence[Stretch], token_ms: Sequence[float]) -> None:
        self.stretches = tuple(stretches)
        self.bars = bars(self.stretches, token_ms)
        self._full_ms = full_ms(self.bars)
        self._shared = shared(self.bars)
        self.hovered = NOTHING
        self.scale.set_whole(total_ms(self.stretches))
        self._changed()

    def select(self, index: int | None) -> None:
        """Mark a token, and have it in view."""
        self.selected = index
        if index is not None and index < len(self.bars):
            self.scale.show(float(self.bars.starts[index]), float(self.bars.ends[index]))
        self._changed()

    def zoom(self, factor: float, x: float | None = None) -> None:
        """Around `x`; without one around the selected token if it is in view, or the middle."""
        self.scale.zoom(factor, self._anchor() if x is None else x)
        self._changed()

    def fit(self) -> None:
        self.scale.fit()
        self._changed()

    def move_to(self, left_ms: float) -> None:
        self.scale.move_to(left_ms)
        self._changed()

    def _anchor(self) -> float:
        if self.selected is not None and self.selected < len(self.bars):
            x = self.scale.x_of(float(self.bars.starts[self.selected]))
            if 0 <= x <= self.width():
                return x
        return self.width() / 2

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

    def room_of(self, lane: Lane) -> QRectF:
        """Where the blocks or bars of a lane are."""
        px, top = self._theme.px, 0.0
        for name in LANES:
            top += px(_LABEL_PX)
            height = px(_BARS_PX) if name == "decode" else px(_BLOCK_PX)
            if name == lane:
                return QRectF(0, top, self.width(), height)
            top += height + px(_GAP_PX)
        raise KeyError(lane)

    def _bottom(self) -> float:
        return self.room_of("decode").bottom()

    def rect_of_token(self, index: int) -> QRectF:
        """The whole height that belongs to a token."""
        room = self.room_of("decode")
        left = self.scale.x_of(float(self.bars.starts[index]))
        right = self.scale.x_of(float(self.bars.ends[index]))
        return QRectF(left, room.top(), max(right - left, 1.0), room.height())

    def rect_of_stretch(self, number: int) -> QRectF:
        stretch = self.stretches[number]
        room = self.room_of(stretch.lane)
        left, right = self.scale.x_of(stretch.start_ms), self.scale.x_of(stretch.end_ms)
        return QRectF(left, room.top(), max(right - left, 1.0), room.height())

    def hit(self, at: QPointF) -> Hit:
        """What lies there, or a few pixels beside."""
        moment = self.scale.ms_at(at.x())
        for lane in LANES:
            room = self.room_of(lane)
            if not room.top() - self._theme.px(_LABEL_PX) <= at.y() <= room.bottom():
                continue
            if lane == "decode":
                token = self._token_near(at.x(), moment)
                if token is not None:
                    return Hit(token=token)
            return Hit(stretch=self._stretch_near(lane, at.x()))
        return NOTHING

    def _token_near(self, x: float, moment: float) -> int | None:
        """Where several tokens lie on the pixel, the one that is drawn: the slowest."""
        reach = 0.5 / self.scale.px_per_ms if self.scale.px_per_ms > 0 else 0.0
        first, end = self.bars.between(moment - reach, moment + reach)
        if first == end:
            return None
        if end - first <= 2:
            return self.bars.at(moment)
        return first + int(np.argmax(self.bars.ms[first:end]))

    def _stretch_near(self, lane: Lane, x: float) -> int | None:
        reach = self._theme.px(_REACH_PX)
        near: list[tuple[float, float, int]] = []
        for number, stretch in enumerate(self.stretches):
            if stretch.lane != lane:
                continue
            rect = self.rect_of_stretch(number)
            away = max(rect.left() - x, x - rect.right(), 0.0)
            if away <= reach:
                near.append((away, -stretch.ms, number))
        return min(near)[2] if near else None

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self._theme.font_small())
        for lane, name in LANES.items():
            self._paint_lane(painter, lane, name)
        self._paint_axis(painter)
        if self.hasFocus():
            self._paint_focus(painter)

    def _paint_lane(self, painter: QPainter, lane: Lane, name: str) -> None:
        colors, px = self._theme.colors, self._theme.px
        room = self.room_of(lane)
        label = QRectF(0, room.top() - px(_LABEL_PX), self.width(), px(_LABEL_PX))
        painter.setPen(QColor(colors.ink))
        painter.drawText(label, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)
        painter.setPen(QColor(colors.dim))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        metrics = painter.fontMetrics()
        taken = metrics.horizontalAdvance(name) + px(8)
        figure = metrics.elidedText(
            self.figures.get(lane, ""), Qt.TextElideMode.ElideRight, round(self.width() - taken)
        )
        painter.drawText(label, right, figure)
        height = self.height_words() if lane == "decode" else ""
        free = self.width() - taken - metrics.horizontalAdvance(figure) - px(8)
        if metrics.horizontalAdvance(height) <= free:
            painter.drawText(label.adjusted(taken, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, height)
        painter.fillRect(room, QColor(colors.side))
        painter.save()
        painter.setClipRect(room)
        for number, stretch in enumerate(self.stretches):
            if stretch.lane == lane:
                self._paint_stretch(painter, number, stretch)
        if lane == "decode":
            self._paint_bars(painter, room)
            self._paint_shared(painter, room)
            self._paint_mark(painter, room)
        painter.restore()

    def _paint_stretch(self, painter: QPainter, number: int, stretch: Stretch) -> None:
        rect = self.rect_of_stretch(number)
        if rect.right() < 0 or rect.left() > self.width():
            return
        colors, px = self._theme.colors, self._theme.px
        is_hovered = self.hovered.stretch == number
        if stretch.lane == "decode":
            color = QColor(colors.hover)
            if len(self.bars) and stretch.kind in WRITING:
                return
        elif stretch.lane == "prefill":
            color = QColor(colors.second)
        else:
            color = QColor(colors.dim)
            color.setAlphaF(0.75 if is_hovered else 0.5)
        # A line between neighbours, as soon as there is room for one.
        gap = 1.0 if rect.width() >= px(4) else 0.0
        painter.fillRect(rect.adjusted(0, 0, -gap, 0), color)
        if is_hovered:
            painter.setPen(QPen(QColor(colors.ink), px(1)))
            painter.drawRect(rect.adjusted(0.5, 0.5, -gap - 0.5, -0.5))
        if stretch.lane == "prefill" and stretch.tokens:
            self._paint_words(painter, rect, f"{stretch.tokens:,}")

    def _paint_words(self, painter: QPainter, rect: QRectF, words: str) -> None:
        """In the part that is in view, where there is room."""
        seen = rect.intersected(QRectF(0, rect.top(), self.width(), rect.height()))
        needed = QFontMetricsF(painter.font()).horizontalAdvance(words) + self._theme.px(6)
        if needed <= seen.width():
            # Ochre is light in both themes: what stands on it is dark in both.
            colors = self._theme.colors
            painter.setPen(QColor(colors.chat if colors.is_dark else colors.ink))
            painter.drawText(seen, Qt.AlignmentFlag.AlignCenter, words)

    def _paint_bars(self, painter: QPainter, room: QRectF) -> None:
        first, end = self.bars.between(self.scale.left_ms, self.scale.right_ms)
        if first == end or self._full_ms <= 0:
            return
        color = QColor(self._theme.colors.accent)
        color.setAlphaF(0.55)
        if end - first > self.width() / 2:
            self._paint_columns(painter, room, first, end, color)
            return
        for index in range(first, end):
            rect = self._bar(room, index)
            lit = index in (self.selected, self.hovered.token)
            painter.fillRect(rect, QColor(self._theme.colors.accent) if lit else color)
            if self.bars.ms[index] > self._full_ms:
                self._paint_cut(painter, rect)

    def _paint_columns(
        self, painter: QPainter, room: QRectF, first: int, end: int, color: QColor
    ) -> None:
        xs = (self.bars.starts[first:end] - self.scale.left_ms) * self.scale.px_per_ms
        columns, slowest = highest(self.bars, first, end, xs)
        full = self._room_of_bars(room)
        heights = np.maximum(np.minimum(slowest / self._full_ms, 1.0) * full.height(), 1.0)
        widths = np.diff(columns, append=columns[-1:] + 1)
        for x, width, height in zip(
            columns.tolist(), widths.tolist(), heights.tolist(), strict=True
        ):
            painter.fillRect(QRectF(x, full.bottom() - height, min(width, 2), height), color)

    def _room_of_bars(self, room: QRectF) -> QRectF:
        return room.adjusted(0, self._theme.px(_SHARED_PX + 4), 0, 0)

    def _bar(self, room: QRectF, index: int) -> QRectF:
        left = self.scale.x_of(float(self.bars.starts[index]))
        right = self.scale.x_of(float(self.bars.ends[index]))
        full = self._room_of_bars(room)
        share = min(float(self.bars.ms[index]) / self._full_ms, 1.0)
        height = max(share * full.height(), 1.0)
        gap = 1.0 if right - left >= self._theme.px(4) else 0.0
        return QRectF(left, full.bottom() - height, max(right - left - gap, 1.0), height)

    def _paint_cut(self, painter: QPainter, bar: QRectF) -> None:
        """It is higher than there is room: a gap near its top says so."""
        px = self._theme.px
        gap = QRectF(bar.left(), bar.top() + px(4), bar.width(), px(2))
        painter.fillRect(gap, QColor(self._theme.colors.side))

    def _paint_shared(self, painter: QPainter, room: QRectF) -> None:
        """Above the bars: how many replies were in each pass, where there was more than one."""
        colors, px = self._theme.colors, self._theme.px
        for start, end, slots in self._shared:
            if slots < 2:
                continue
            left, right = self.scale.x_of(start), self.scale.x_of(end)
            thickness = min(slots, 4) * px(1)
            line = QRectF(left, room.top() + px(1), max(right - left, 1.0), thickness)
            painter.fillRect(line, QColor(colors.ink))

    def _paint_mark(self, painter: QPainter, room: QRectF) -> None:
        """The selected token: a line over the whole lane."""
        if self.selected is None or self.selected >= len(self.bars):
            return
        rect = self.rect_of_token(self.selected)
        x = rect.center().x()
        painter.setPen(QPen(QColor(self._theme.colors.ink), self._theme.px(1)))
        top = self._bar(room, self.selected).top() if self._full_ms > 0 else room.bottom()
        painter.drawLine(QPointF(x, room.top()), QPointF(x, top))

    def height_words(self) -> str:
        """What a bar of full height stands for."""
        return f"full bar {time_text(self._full_ms)}" if self._full_ms > 0 else ""

    def _paint_axis(self, painter: QPainter) -> None:
        colors, px = self._theme.colors, self._theme.px
        top = self._bottom()
        painter.setPen(QColor(colors.dim))
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

    def _paint_focus(self, painter: QPainter) -> None:
        painter.setPen(QPen(QColor(self._theme.colors.accent), 1))
        painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    # --- by mouse and keys ----------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        turned = event.angleDelta()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom(ZOOM_STEP ** (turned.y() / 120), event.position().x())
        elif turned.x() or event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.scale.move(-(turned.x() or turned.y()) / 120 * self.width() * _KEY_SHARE)
            self._changed()
        else:
            event.ignore()  # the panel scrolls
            return
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        is_shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        sideways = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(key))
        if sideways is not None and is_shifted:
            self.step_wanted.emit(sideways)
        elif sideways is not None:
            self.scale.move(sideways * self.width() * _KEY_SHARE)
            self._changed()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Up):
            self.zoom(ZOOM_STEP)
        elif key in (Qt.Key.Key_Minus, Qt.Key.Key_Down):
            self.zoom(1 / ZOOM_STEP)
        elif key == Qt.Key.Key_Home:
            self.fit()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed, self._dragged = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position()
        if self._pressed is None:
            self._hover(self.hit(at))
            return
        moved = at.x() - self._pressed.x()
        if self._dragged or abs(moved) > self._theme.px(_CLICK_PX):
            self._dragged, self._pressed = True, at
            self.scale.move(-moved)
            self._changed()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed = self._pressed, None
        if pressed is None or self._dragged:
            return
        token = self.hit(event.position()).token
        if token is not None:
            self.token_clicked.emit(token)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(NOTHING)

    def _hover(self, hit: Hit) -> None:
        if hit != self.hovered:
            self.hovered = hit
            self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            self._show_card(event.globalPos(), QPointF(event.pos()))
            return True
        return super().event(event)

    def _show_card(self, where: QPoint, at: QPointF) -> None:
        """The hover card."""
        hit = self.hit(at)
        lines = [HINT] if hit in (NOTHING, Hit()) else self.words_of(hit)
        show_tip(where, "\n".join(lines), self)


def lane_figure(ms: float, share: float, tokens: str) -> str:
    """What stands at the right of a lane's name."""
    parts = [tokens, time_text(ms), f"{share:.0%}"]
    return " · ".join(part for part in parts if part)
