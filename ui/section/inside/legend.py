"""Which colour is which, in one line that is painted by hand."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.look.theme import Theme
from ui.section.inside.rows import LEFT
from ui.section.term_label import TermLabel


class BarLegend(QWidget):
    """Entries (words, a colour of the theme) at the left, what stands above the right column, and
    between them the scale, as far as they fit. `end_room`: how wide that column is."""

    def __init__(
        self,
        theme: Theme,
        end_room: Callable[[Theme, float], float],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._end_room = end_room
        self._entries: tuple[tuple[str, str], ...] = ()
        self._labels: list[TermLabel] = []
        self._end = self._scale = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)
        theme.changed.connect(self._lay_out)

    def show_entries(self, *entries: tuple[str, str]) -> None:
        if entries == self._entries:
            return
        self._entries = entries
        for label in self._labels:
            label.hide()
            label.deleteLater()
        self._labels = []
        for words, _ in entries:
            label = TermLabel(words, self)
            self._theme.font(label, Theme.font_small)
            label.show()
            self._labels.append(label)
        self._lay_out()

    def _lay_out(self) -> None:
        """Each label behind its square."""
        px, metrics, left = self._theme.px, QFontMetrics(self._theme.font_small()), 0
        for label in self._labels:
            left += px(8) + px(4)
            width = metrics.horizontalAdvance(label.text()) + px(2)
            label.setGeometry(left, 0, width, self.height())
            left += width + px(10)
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()

    def show_end(self, words: str, scale: str) -> None:
        self._end, self._scale = words, scale
        self.setAccessibleName(", ".join([*(name for name, _ in self._entries), scale, words]))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(200), QFontMetrics(self._theme.font_small()).height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        px, colors = self._theme.px, self._theme.colors
        painter = QPainter(self)
        painter.setFont(self._theme.font_small())
        metrics, left = painter.fontMetrics(), 0.0
        for label, (_, color) in zip(self._labels, self._entries, strict=True):
            side = px(8)
            square = QRectF(label.x() - px(4) - side, (self.height() - side) / 2, side, side)
            painter.fillRect(square, QColor(getattr(colors, color)))
            left = label.geometry().right() + 1 + px(10)
        painter.setPen(QColor(colors.dim))
        needed = metrics.horizontalAdvance(self._end) + px(2)
        end = self.width() - max(self._end_room(self._theme, self.width()), needed)
        if left + metrics.horizontalAdvance(self._scale) + px(12) <= end:
            painter.drawText(QRectF(left, 0, end - left, self.height()), LEFT, self._scale)
        end = max(left, end)
        if end + needed <= self.width():
            painter.drawText(QRectF(end, 0, self.width() - end, self.height()), LEFT, self._end)
