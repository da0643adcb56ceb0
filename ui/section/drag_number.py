"""A number that is typed, stepped with ↑ and ↓, or dragged to the left and right.

Dragging starts on a field that is not being typed in; a press without dragging begins to type.
Shift makes it ten times finer. Stepping and dragging end at the bounds; typed, more is possible,
and whoever owns the field says why it cannot be used.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QStyle, QStyleOptionFrame, QWidget

from ui.settings.fields import NumberField, number_text

PX_PER_STEP: Final = 6
_START_PX: Final = 4


class DragNumber(NumberField):
    """`changed_by_user` while it is dragged too, once per step. `drag_ended`: it was let go.
    `taken_back`: Escape, while it holds something that was refused."""

    drag_ended = Signal()
    taken_back = Signal()

    # Asked for while Qt still builds the field.
    _is_refused = False
    _least_width = 0

    def __init__(
        self,
        *,
        is_whole: bool,
        step: float,
        automatic: object = ...,
        placeholder: str = "",
        bounds: tuple[float, float] | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(
            is_whole=is_whole,
            step=step,
            automatic=automatic,
            placeholder=placeholder,
            parent=parent,
        )
        self.setProperty("kind", "tight")
        self._bounds = bounds
        self._pressed_x: float | None = None
        self._from = 0.0
        self._is_dragging = False
        self.textChanged.connect(lambda _text: self._fit_width())
        # A press shall not take the focus: only a click does, when it is over.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._dress()

    @property
    def is_dragging(self) -> bool:
        return self._is_dragging

    def mousePressEvent(self, event: QMouseEvent) -> None:
        value = self.value()
        is_number = isinstance(value, int | float)
        if self.hasFocus() or event.button() is not Qt.MouseButton.LeftButton or not is_number:
            self.setFocus(Qt.FocusReason.MouseFocusReason)
            super().mousePressEvent(event)
            return
        assert isinstance(value, int | float)
        self._pressed_x, self._from = event.position().x(), float(value)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed_x is None:
            super().mouseMoveEvent(event)
            return
        by = event.position().x() - self._pressed_x
        if self._is_dragging or abs(by) >= _START_PX:
            self._is_dragging = True
            is_fine = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._drag_to(int(by / PX_PER_STEP), 0.1 if is_fine else 1.0)

    def _drag_to(self, steps: int, fineness: float) -> None:
        size = max(round(self._step * fineness), 1) if self._is_whole else self._step * fineness
        moved = self._inside(self._from, round(self._from + steps * size, 6))
        self._put(int(moved) if self._is_whole else moved)

    def _inside(self, start: float, moved: float) -> float:
        """No further than the bounds, if it started between them."""
        if self._bounds is None or not self._bounds[0] <= start <= self._bounds[1]:
            return moved
        return min(max(moved, self._bounds[0]), self._bounds[1])

    def _put(self, number: float) -> None:
        text = f"{number:.6g}" if isinstance(number, float) else str(number)
        if text != self.text():
            self.setText(text)
            self._tell()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._pressed_x is None:
            super().mouseReleaseEvent(event)
            return
        self._pressed_x = None
        if self._is_dragging:
            self._is_dragging = False
            self.drag_ended.emit()
        else:
            self.setFocus(Qt.FocusReason.MouseFocusReason)
            self.selectAll()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.AltModifier:
            event.ignore()
        elif event.key() == Qt.Key.Key_Escape and self._is_refused:
            self.taken_back.emit()
        else:
            before = self.value()
            super().keyPressEvent(event)
            if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
                self._stay_inside(before)

    def _stay_inside(self, before: object) -> None:
        after = self.value()
        if isinstance(before, int | float) and isinstance(after, int | float):
            inside = self._inside(before, after)
            if inside != after:
                self.setText(number_text(int(inside) if self._is_whole else float(inside)))

    def event(self, event: QEvent) -> bool:
        """Escape is this field's while it has something to take back."""
        if (
            self._is_refused
            and event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def set_least_width(self, width: int) -> None:
        """As wide as that; wider where the number needs it."""
        self._least_width = width
        self._fit_width()

    def _fit_width(self) -> None:
        if self._least_width:
            room = self.fontMetrics().horizontalAdvance(self.text() + "0") + self._around()
            self.setFixedWidth(max(self._least_width, min(room, 3 * self._least_width)))

    def _around(self) -> int:
        """What its edge and its padding take."""
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        inner = self.style().subElementRect(QStyle.SubElement.SE_LineEditContents, option, self)
        return self.width() - inner.width()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._fit_width()

    def show_refused(self, is_refused: bool) -> None:
        """Whether what stands in it can be used."""
        if is_refused != self._is_refused:
            self._is_refused = is_refused
            self.setProperty("refused", is_refused)
            self.style().unpolish(self)
            self.style().polish(self)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._dress()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._dress()

    def _dress(self) -> None:
        shape = Qt.CursorShape.IBeamCursor if self.hasFocus() else Qt.CursorShape.SizeHorCursor
        self.setCursor(shape)
