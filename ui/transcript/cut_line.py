"""The lines in a conversation between which nothing goes along with the next message.

One stands in the gap below the last message that the context policy leaves out; another one above
the first of them, where something above it still goes along. They move nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ui.transcript.item import GAP_BELOW

if TYPE_CHECKING:
    from app.chat.events import ContextCounted
    from ui.transcript.view import TranscriptView

ABOVE: Final = "Messages above this line are dropped from the next prompt"
BELOW: Final = "Messages below this line are dropped from the next prompt"
BETWEEN: Final = "Messages between the lines are dropped from the next prompt"
TO_SUMMARIZE: Final = "Messages above this line are summarized before your next message is sent"
SUMMARIZED: Final = "Messages above this line are sent as a summary"
HINT: Final = "Pinned messages and the system prompt stay. Nothing is deleted."


class CutLines:
    """Where the messages that are left out begin and end."""

    def __init__(self, view: TranscriptView) -> None:
        self._view = view
        self._begin = CutLine(view, "cut_line_begin")
        self._end = CutLine(view, "cut_line")

    def show(self, count: ContextCounted) -> None:
        """Where the next prompt will be cut. A summary stands for all above it."""
        if count.is_summarized:
            last_id = count.last_cut or count.covered
            self._begin.set_below("", BELOW)
            self._end.set_below(last_id, TO_SUMMARIZE if count.last_cut else SUMMARIZED)
        else:
            self._show_gap(count.first_cut, count.last_cut or "")

    def _show_gap(self, first_id: str, last_id: str) -> None:
        rows = self._view.rows
        first = rows.index_of(first_id) if first_id else None
        above = rows.message(first - 1).id if first else ""
        self._begin.set_below(above, BELOW)
        self._end.set_below(last_id, BETWEEN if above else ABOVE)


class CutLine(QWidget):
    """Follows the transcript as it scrolls and grows. It takes no clicks."""

    def __init__(self, view: TranscriptView, name: str) -> None:
        super().__init__(view.viewport())
        self._view = view
        self._message_id = self._words = ""
        self.setObjectName(name)
        self.setAccessibleDescription(HINT)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()
        view.settled.connect(self._place)

    def set_below(self, message_id: str, words: str) -> None:
        """The message that it stands below, and what it says; none without an id."""
        if (message_id, words) != (self._message_id, self._words):
            self._message_id, self._words = message_id, words
            self.setAccessibleName(words)
            self._place()
            self.update()

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
        room = self.width() - 2 * beside
        words = metrics.elidedText(self._words, Qt.TextElideMode.ElideRight, room)
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
