"""The line in a conversation above which nothing goes along with the next message.

It stands in the gap below the last message that the context policy leaves out, so it moves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ui.transcript.item import GAP_BELOW

if TYPE_CHECKING:
    from ui.transcript.view import TranscriptView

WORDS: Final = "Messages above this line are dropped from the next prompt"
HINT: Final = "Pinned messages and the system prompt stay. Nothing is deleted."


class CutLine(QWidget):
    """Follows the transcript as it scrolls and grows. It takes no clicks."""

    def __init__(self, view: TranscriptView) -> None:
        super().__init__(view.viewport())
        self._view = view
        self._message_id = ""
        self.setObjectName("cut_line")
        self.setAccessibleName(WORDS)
        self.setAccessibleDescription(HINT)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        view.settled.connect(self._place)

    def set_below(self, message_id: str) -> None:
        """The last message that is left out; none without an id."""
        if message_id != self._message_id:
            self._message_id = message_id
            self._place()

    def _place(self) -> None:
        view = self._view
        index = view.rows.index_of(self._message_id) if self._message_id else None
        if index is None:
            self.hide()
            return
        gap = view.theme.px(GAP_BELOW)
        bottom = round(view.item_origin(index).y() + view.rows.height(index))
        is_in_view = bottom > 0 and bottom - gap < view.viewport().height()
        if is_in_view:
            self.setGeometry(round(view.column_x), bottom - gap, round(view.rows.width), gap)
        self.setVisible(is_in_view)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = self._view.theme
        painter = QPainter(self)
        painter.setFont(theme.font_small())
        metrics, beside = painter.fontMetrics(), theme.px(10)
        words = metrics.elidedText(WORDS, Qt.TextElideMode.ElideRight, self.width() - 2 * beside)
        width = metrics.horizontalAdvance(words)
        left, middle = (self.width() - width) / 2, self.height() / 2
        painter.setPen(QColor(theme.colors.dim))
        box = QRectF(left, 0, width + 1, self.height())
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)
        painter.setPen(QPen(QColor(theme.colors.second), theme.px(1)))
        for start, end in ((0.0, left - beside), (left + width + beside, float(self.width()))):
            if end > start:
                painter.drawLine(round(start), round(middle), round(end), round(middle))
        painter.end()
