"""The parts of a prompt as one bar, each as long as its share of the tokens, and its legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.engine.protocol.prompt_messages import ShownPart
from ui.look.theme import Theme
from ui.section.term_label import TermLabel
from ui.tokens.origins import origin_color
from ui.widgets.kit import show_tip


class Swatch(TermLabel):
    """Words behind a square of what they stand for. `color` is asked at each painting."""

    def __init__(
        self,
        theme: Theme,
        words: str,
        color: Callable[[], QColor | QBrush],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(words, parent)
        self._theme = theme
        self._color = color
        self.setProperty("kind", "small")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.font(self, Theme.font_small)
        theme.space(self, margins=(14, 0, 0, 0))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._color())
        side, radius = self._theme.px(9), self._theme.px(2)
        square = QRectF(0, (self.height() - side) / 2, side, side)
        painter.drawRoundedRect(square, radius, radius)
        painter.end()


class PartsBar(QWidget):
    """`part_chosen` carries the first token of a part. The arrow keys go from part to part."""

    part_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._parts: tuple[ShownPart, ...] = ()
        self._words: Callable[[ShownPart], str] = lambda part: part.origin
        self._current = -1
        self.setObjectName("prompt_parts")
        self.setAccessibleName("Parts of the prompt")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def show_parts(self, parts: Sequence[ShownPart], words: Callable[[ShownPart], str]) -> None:
        self._parts, self._words, self._current = tuple(parts), words, -1
        self.setAccessibleDescription("; ".join(map(words, self._parts[:12])))
        self.setVisible(bool(parts))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(200), self._theme.px(14))

    minimumSizeHint = sizeHint

    def _n_tokens(self) -> int:
        return self._parts[-1].end if self._parts else 0

    def _left(self, token: int) -> float:
        return self.width() * token / max(self._n_tokens(), 1)

    def part_at(self, x: float) -> int:
        """By number; −1 without any."""
        token = int(x / max(self.width(), 1) * self._n_tokens())
        found = (i for i, part in enumerate(self._parts) if part.start <= token < part.end)
        return next(found, -1)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colors, px = self._theme.colors, self._theme.px
        top, height = px(2), self.height() - 2 * px(2)
        for part in self._parts:
            left, right = self._left(part.start), self._left(part.end)
            painter.fillRect(
                QRectF(left, top, right - left, height), origin_color(colors, part.origin)
            )
            if right - left > px(3):
                painter.fillRect(QRectF(right - 1, top, 1, height), QColor(colors.card))
        if self.hasFocus():
            frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
            if 0 <= self._current < len(self._parts):
                part = self._parts[self._current]
                frame.setLeft(self._left(part.start) + 0.5)
                frame.setRight(max(self._left(part.end), self._left(part.start) + px(3)) - 0.5)
            painter.setPen(QColor(colors.accent))
            painter.drawRect(frame)
        painter.end()

    def _choose(self, number: int) -> None:
        if 0 <= number < len(self._parts):
            self._current = number
            self.setAccessibleDescription(self._words(self._parts[number]))
            self.part_chosen.emit(self._parts[number].start)
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._choose(self.part_at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is None or not self._parts:
            super().keyPressEvent(event)
        else:
            self._choose(min(max(self._current + step, 0), len(self._parts) - 1))

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            number = self.part_at(event.pos().x())
            if number >= 0:
                show_tip(event.globalPos(), self._words(self._parts[number]), self)
            return True
        return super().event(event)
