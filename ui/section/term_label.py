"""A label in which each term of the glossary has a dotted underline, and opens its entry.

QLabel doesn't tell where its words stand, so they are laid out once more, by the rules by which Qt
draws a plain text: `tests/ui/section/test_term_label.py` looks at the pixels. A click tells the
window (`TermAsked`); whoever has a glossary there answers.
"""

from __future__ import annotations

import math
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.chat.tour.chapters import Term
from app.chat.tour.terms import Found, terms_in
from ui.markdown.text_layout import x_of
from ui.widgets.utf16 import utf16_length

ASKED: Final = QEvent.Type(QEvent.registerEventType())


class TermAsked(QEvent):
    """Sent to the window of a label: this term was clicked in it."""

    def __init__(self, term: Term, label: QWidget) -> None:
        super().__init__(ASKED)
        self.term = term
        self.label = label


class TermLabel(QLabel):
    """Plain text only."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setMouseTracking(True)
        self._laid_out: tuple[object, ...] = ()
        self._places: list[tuple[Found, list[QRectF]]] = []

    def places(self) -> list[tuple[Found, list[QRectF]]]:
        """The terms, and where they stand: a rectangle for each line."""
        room = QRectF(self.contentsRect())
        key = (self.text(), room.size().toTuple(), self.font().key(), self.wordWrap())
        if key != self._laid_out:
            self._laid_out = key
            self._places = self._lay_out(room)
        return self._places

    def _lay_out(self, room: QRectF) -> list[tuple[Found, list[QRectF]]]:
        text = self.text()
        found = terms_in(text)
        if not found:
            return []
        layout = QTextLayout(text, self.font(), self)
        option = QTextOption()
        wraps = QTextOption.WrapMode.WordWrap if self.wordWrap() else QTextOption.WrapMode.NoWrap
        option.setWrapMode(wraps)
        layout.setTextOption(option)
        layout.beginLayout()
        leading = self.fontMetrics().leading()
        height = float(-leading)
        while (line := layout.createLine()).isValid():
            line.setLineWidth(room.width())
            height = math.ceil(height + leading)
            line.setPosition(QPointF(0, height))
            height += line.height()
        layout.endLayout()
        top = room.top()
        if self.alignment() & Qt.AlignmentFlag.AlignVCenter:
            top += max((room.height() - height) / 2, 0)
        corner = QPointF(room.left(), top)
        return [(each, _rects(layout, text, each, corner)) for each in found]

    def _at(self, point: QPointF) -> Term | None:
        for found, rects in self.places():
            if any(rect.contains(point) for rect in rects):
                return found.term
        return None

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        places = self.places()
        if not places:
            return
        painter = QPainter(self)
        color = QColor(self.palette().color(self.foregroundRole()))
        color.setAlphaF(0.55)
        painter.setPen(QPen(color, 1, Qt.PenStyle.DotLine))
        for _found, rects in places:
            for rect in rects:
                y = round(rect.bottom()) - 0.5
                painter.drawLine(QPointF(rect.left(), y), QPointF(rect.right(), y))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        term = self._at(event.position())
        self.setToolTip(term.text if term is not None else "")
        if term is not None:
            self.setCursor(Qt.CursorShape.WhatsThisCursor)
        else:
            self.unsetCursor()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        term = self._at(event.position())
        if term is None or event.button() != Qt.MouseButton.LeftButton:
            super().mouseReleaseEvent(event)
        else:
            QApplication.sendEvent(self.window(), TermAsked(term, self))


def _rects(layout: QTextLayout, text: str, found: Found, corner: QPointF) -> list[QRectF]:
    first, end = utf16_length(text[: found.first]), utf16_length(text[: found.end])
    rects = []
    for at in range(layout.lineCount()):
        line = layout.lineAt(at)
        start, stop = line.textStart(), line.textStart() + line.textLength()
        if first < stop and end > start:
            left = x_of(line, max(first, start))
            right = x_of(line, min(end, stop))
            rects.append(
                QRectF(
                    corner + QPointF(left, line.y()),
                    corner + QPointF(right, line.y() + line.height()),
                )
            )
    return rects
