"""All heads at a glance: a row a layer, a column a head, in each cell the text from left to right.

Columns are bracketed by the KV head whose keys and values they share. A cell has as many bins as it
has pixels; of the tokens in a bin the one that is looked at most counts, so that nothing that a
head looks at can be missed. Colour grows with the square root of the share, or everything but the
strongest look would be pale.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QWidget

from ui.look.theme import Theme
from ui.section.inside.pictures import share_image
from ui.section.inside.rows import STEPS, Picture

Values = npt.NDArray[np.float32]
Head = tuple[int, int]

ROW_PX: Final = 10
GAP_PX: Final = 1
GROUP_GAP_PX: Final = 5
LABEL_PX: Final = 22
TOP_PX: Final = 16


class HeadGrid(Picture):
    """`pointed` carries the (layer, head) under the pointer or None, `chosen` the one that was
    clicked or reached by the arrow keys."""

    pointed = Signal(object)
    chosen = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._rows: Values = np.zeros((0, 0, 0), np.float32)
        self._n_kv_head = 1
        self._images: list[QImage] = []
        self._images_of: tuple[object, ...] = ()
        self._under: Head | None = None
        self.current: Head | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Attention heads, a row for each layer")
        theme.changed.connect(self.updateGeometry)
        theme.changed.connect(self.update)

    # --- what is shown --------------------------------------------------------------------------

    @property
    def n_layer(self) -> int:
        return int(self._rows.shape[0])

    @property
    def n_head(self) -> int:
        return int(self._rows.shape[1])

    def show_rows(self, rows: Values, n_kv_head: int) -> None:
        """[n_layer, n_head, n_tok]; a layer of NaN has no attention and stays empty."""
        self._rows, self._n_kv_head = rows, max(min(n_kv_head, rows.shape[1]), 1)
        self._images_of = ()
        self.updateGeometry()
        self.update()

    def show_current(self, head: Head | None) -> None:
        self.current = head
        self.update()

    def _drawn(self) -> list[QImage]:
        """The pictures of the groups. Made when they are painted: while a layout finds its sizes,
        the grid has many of them."""
        n_tokens = self._rows.shape[2]
        bins = min(max(self._cell(0, 0).width(), 1), n_tokens)
        colors = self._theme.colors
        if self._images_of != (bins, colors):
            self._images_of = (bins, colors)
            starts = np.arange(bins) * n_tokens // max(bins, 1)
            most = np.nan_to_num(np.maximum.reduceat(self._rows, starts, axis=2))
            strength = np.sqrt(most)
            parts = (
                strength[:, at : at + self._group] for at in range(0, self.n_head, self._group)
            )
            self._images = [share_image(part.reshape(self.n_layer, -1), colors) for part in parts]
        return self._images

    # --- places ---------------------------------------------------------------------------------

    @property
    def _group(self) -> int:
        """Query heads of one KV head."""
        return -(-max(self.n_head, 1) // self._n_kv_head)

    def _cell(self, layer: int, head: int) -> QRect:
        px = self._theme.px
        n_groups = -(-max(self.n_head, 1) // self._group)
        room = self.width() - px(LABEL_PX) - (n_groups - 1) * px(GROUP_GAP_PX)
        wide = max(room // max(self.n_head, 1), 1)
        left = px(LABEL_PX) + head * wide + head // self._group * px(GROUP_GAP_PX)
        return QRect(left, px(TOP_PX) + layer * px(ROW_PX), wide, px(ROW_PX))

    def _at(self, point: QPoint) -> Head | None:
        layer = (point.y() - self._theme.px(TOP_PX)) // self._theme.px(ROW_PX)
        if not 0 <= layer < self.n_layer or point.y() < self._theme.px(TOP_PX):
            return None
        heads = (h for h in range(self.n_head) if self._cell(layer, h).contains(point))
        head = next(heads, None)
        return None if head is None else (layer, head)

    def sizeHint(self) -> QSize:
        px = self._theme.px
        return QSize(px(300), px(TOP_PX) + max(self.n_layer, 1) * px(ROW_PX))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._theme.px(120), self.sizeHint().height())

    # --- painting -------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        px, colors = self._theme.px, self._theme.colors
        painter.setFont(self._theme.font_small())
        ink, dim = QColor(colors.ink), QColor(colors.dim)
        has_picture = not self.is_pending and self._rows.size
        for number, image in enumerate(self._drawn() if has_picture else ()):
            first = number * self._group
            last = min(first + self._group, self.n_head) - 1
            box = self._cell(0, first).united(self._cell(self.n_layer - 1, last))
            painter.drawImage(box, image)
            painter.setPen(QPen(QColor(colors.card), px(GAP_PX)))
            for head in range(first + 1, last + 1):
                left = self._cell(0, head).left()
                painter.drawLine(left, box.top(), left, box.bottom())
            self._bracket(painter, number, box)
        painter.setPen(dim)
        every = max(-(-px(14) // px(ROW_PX)), 1)
        for layer in range(0, self.n_layer, every * 2):
            cell = self._cell(layer, 0)
            box = QRect(0, cell.top() - px(4), px(LABEL_PX - 5), cell.height() + px(8))
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, right, str(layer))
        for place, color in ((self._under, dim), (self.current, ink)):
            if place is not None and place[0] < self.n_layer and place[1] < self.n_head:
                painter.setPen(QPen(color, px(1)))
                painter.drawRect(self._cell(*place).adjusted(0, 0, -1, -1))
        if self.hasFocus():
            painter.setPen(QPen(QColor(colors.accent), 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _bracket(self, painter: QPainter, number: int, box: QRect) -> None:
        """The KV head that these columns share; where each head has its own there is no bracket."""
        if self._group < 2:
            return
        px, dim = self._theme.px, QColor(self._theme.colors.dim)
        painter.setPen(QPen(dim, 1))
        line = px(TOP_PX) - px(3)
        painter.drawLine(box.left(), line, box.right() - px(GAP_PX), line)
        words = painter.fontMetrics().elidedText(
            f"KV {number}", Qt.TextElideMode.ElideRight, box.width()
        )
        top = QRect(box.left(), 0, box.width(), line)
        painter.drawText(top, Qt.AlignmentFlag.AlignCenter, words)

    # --- pointer and keys -----------------------------------------------------------------------

    def _point(self, head: Head | None) -> None:
        if head != self._under:
            self._under = head
            self.update()
            self.pointed.emit(head)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(self._at(event.position().toPoint()))

    def leaveEvent(self, event: object) -> None:
        del event
        self._point(None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        head = self._at(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and head is not None:
            self.chosen.emit(head)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = STEPS.get(Qt.Key(event.key()))
        if step is None or not self.n_layer or event.modifiers():
            super().keyPressEvent(event)
            return
        layer, head = self.current or (0, 0)
        if self.current is not None:
            layer = min(max(layer + step[0], 0), self.n_layer - 1)
            head = min(max(head + step[1], 0), self.n_head - 1)
        self.chosen.emit((layer, head))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()
