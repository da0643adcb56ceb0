"""Code and tables that are wider than the column: moved by wheel, by their bar, by arrow keys."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QWheelEvent

from ui.markdown.layouts import Pressable
from ui.transcript.area import RowsArea
from ui.transcript.body import BlockPlace, Body

WHEEL_PX = 60
KEY_PX = 48


@dataclass(slots=True)
class _Drag:
    body: Body
    place: BlockPlace
    track: QRectF
    x: float


class Sliding:
    """What of the transcript is being moved sideways."""

    def __init__(self, view: RowsArea) -> None:
        self._view = view
        self._drag: _Drag | None = None

    def wheel(self, event: QWheelEvent) -> bool:
        """Whether a turn of the wheel was meant for what is under the pointer."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            return False
        step = self._sideways_step(event)
        found = self._body_at(event.position()) if step else None
        if found is None:
            return False
        body, point = found
        place = body.sideways_at(point)
        if place is None:
            return False
        # At its end it keeps the wheel: else the text would jump up and down.
        self._update(body.move_sideways(place, step))
        event.accept()
        return True

    def press(self, point: QPointF) -> bool:
        """Take hold of the bar at a point, if there is one."""
        found = self._body_at(point)
        hit = found[0].bar_at(found[1]) if found is not None else None
        if found is None or hit is None:
            return False
        self._drag = _Drag(found[0], *hit, point.x())
        return True

    def move(self, point: QPointF) -> bool:
        """Whether a bar is being dragged."""
        drag = self._drag
        if drag is None:
            return False
        self._update(drag.body.drag_sideways(drag.place, drag.track, point.x() - drag.x))
        drag.x = point.x()
        return True

    def release(self) -> bool:
        """Whether a bar was let go."""
        was_dragging, self._drag = self._drag is not None, None
        return was_dragging

    def is_over_bar(self, point: QPointF) -> bool:
        found = self._body_at(point)
        return found is not None and found[0].bar_at(found[1]) is not None

    def step(self, index: int, action: Pressable, direction: int) -> None:
        """Move what the keyboard is on; direction: -1 left, 1 right."""
        section, segment, block = (int(part) for part in action.payload.split(":"))
        body = self._view.rows.item(index).body(section)
        step = direction * self._view.styles.px(KEY_PX)
        self._update(body.move_sideways((segment, block), step))

    def _update(self, has_moved: bool) -> None:
        if has_moved:
            self._view.viewport().update()

    def _sideways_step(self, event: QWheelEvent) -> float:
        """Pixels to the right; 0 where the wheel is turned up and down."""
        pixels, angle = event.pixelDelta(), event.angleDelta()
        x, y = angle.x(), angle.y()
        is_turned = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier) and abs(y) > abs(x)
        if is_turned:
            return -y / 120 * self._view.styles.px(WHEEL_PX)
        if abs(x) <= abs(y):
            return 0.0
        if pixels.x():
            return float(-pixels.x())
        return -x / 120 * self._view.styles.px(WHEEL_PX)

    def _body_at(self, point: QPointF) -> tuple[Body, QPointF] | None:
        """The text at a point of the viewport, and the point in its coordinates."""
        view = self._view
        index = view.index_at(point.y())
        if index is None:
            return None
        item, inside = view.rows.item(index), point - view.item_origin(index)
        for section, body in item.sections():
            rect = item.section_rect(section)
            if rect.contains(inside):
                return body, inside - rect.topLeft()
        return None
