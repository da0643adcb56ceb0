"""A vector as a strip of colours: a number a column, in the order of the array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QSize
from PySide6.QtGui import QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme
from ui.section.inside.pictures import signed_image
from ui.section.inside.rows import Picture
from ui.widgets.figures import signed

Values = npt.NDArray[np.float32]


class VectorStrip(Picture):
    """Hover tells the number under the pointer. Outliers would leave nothing to see of the rest,
    so the colour is full at the 99th percentile of the sizes."""

    def __init__(self, theme: Theme, height_px: int = 24, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._height_px = height_px
        self.values: Values = np.zeros(0, np.float32)
        self.full = 0.0
        self._image = QImage()
        theme.changed.connect(self._draw)

    def show_vector(self, values: Values) -> None:
        self.values = values
        # Not `np.quantile`: the first call imports `numpy.ma`, which the window would wait for.
        place = len(values) * 99 // 100
        self.full = float(np.partition(np.abs(values), place)[place]) if len(values) else 0.0
        self._draw()

    def _draw(self) -> None:
        has_any = len(self.values) > 0
        colors = self._theme.colors
        self._image = signed_image(self.values[None], colors, self.full) if has_any else QImage()
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(240), self._theme.px(self._height_px))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(80), self._theme.px(self._height_px))

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._image.isNull() and not self.is_pending:
            QPainter(self).drawImage(self.rect(), self._image)

    def words_at(self, point: QPointF) -> str:
        """The number in that column."""
        if not len(self.values):
            return ""
        at = int(point.x() / max(self.width(), 1) * len(self.values))
        at = min(max(at, 0), len(self.values) - 1)
        return f"Dimension {at:,} of {len(self.values):,}: {signed(self.values[at], '.4f')}"
