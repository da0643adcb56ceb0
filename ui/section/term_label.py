"""Labels in which each term of the glossary has a dotted underline, and opens its entry.

QLabel doesn't tell where its words stand, so they are laid out once more, by the rules by which Qt
draws a plain text: `tests/ui/section/test_term_label.py` looks at the pixels. A click tells the
window (`TermAsked`), and those that it stands beside; whoever has a glossary there accepts it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QCursor,
    QHideEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QShowEvent,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.chat.tour.chapters import Term
from app.chat.tour.terms import Found, terms_in
from ui.markdown.text_layout import x_of
from ui.section.card_terms import CardTerms
from ui.widgets.elided import ElidedLabel, PartsLabel
from ui.widgets.utf16 import utf16_length

ASKED: Final = QEvent.Type(QEvent.registerEventType())
ALPHA: Final = 0.55
LINE_PART: Final = 20
"""The line's share of the height of the letters."""

Places = list[tuple[Found, list[QRectF]]]
"""A term, and where it stands: a rectangle for each line."""


class TermAsked(QEvent):
    """This term was asked for at `place` of a widget."""

    def __init__(self, term: Term, widget: QWidget, place: QRect) -> None:
        super().__init__(ASKED)
        self.term = term
        self.widget = widget
        self.place = place


def ask_for(term: Term, widget: QWidget, place: QRect) -> None:
    """Tell the widget's window, then the one beside which that stands, until one has a glossary."""
    event, host = TermAsked(term, widget, place), widget.window()
    while host is not None:
        event.ignore()
        QApplication.sendEvent(host, event)
        if event.isAccepted():
            return
        above = host.parentWidget()
        host = above.window() if above is not None else None  # type: ignore[assignment]


if TYPE_CHECKING:
    _Label = QLabel
else:
    _Label = object


class Terms(_Label):
    """Goes before `QLabel`, or one that is made of it. Plain text only."""

    def _begin(self) -> None:
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setMouseTracking(True)
        self._is_marked = True
        self._left_out = ""
        self._card: CardTerms | None = None
        self._laid_out: tuple[object, ...] = ()
        self._places: Places = []
        self._pointed: Term | None = None
        self._before: tuple[str, QCursor | None] = ("", None)

    def set_marked(self, is_marked: bool) -> None:
        """Whether its terms can be asked for: not while a click there means something else."""
        if is_marked != self._is_marked:
            self._is_marked = is_marked
            self._follow()

    def leave_out(self, name: str) -> None:
        """A term that isn't marked here: the one that all of it is about."""
        self._left_out = name

    def seen_text(self) -> str:
        """As it is drawn."""
        return self.text()

    def seen_terms(self) -> Sequence[Found]:
        """Those that are drawn whole."""
        text, seen = self.text(), self.seen_text()
        n_seen = len(text) if seen == text else len(seen.removesuffix("…"))
        return [
            each
            for each in terms_in(text)
            if each.end <= n_seen and each.term.name != self._left_out
        ]

    def places(self) -> Places:
        """What it marks, and where."""
        if self._card is None:
            return []
        share = self._card.share(self)
        if not share:
            return []
        room = QRectF(self.contentsRect())
        key = (self.seen_text(), room.getRect(), self.font().key(), self.wordWrap(), *share)
        if key != self._laid_out:
            self._laid_out = key
            self._places = self._lay_out(room, share)
        return self._places

    def _lay_out(self, room: QRectF, share: Sequence[Found]) -> Places:
        text = self.seen_text()
        layout = QTextLayout(text, self.font(), self)
        option = QTextOption(self.alignment() & Qt.AlignmentFlag.AlignHorizontal_Mask)
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
        return [(each, _rects(layout, text, each, corner)) for each in share]

    def _at(self, point: QPointF) -> tuple[Term, QRect] | None:
        for found, rects in self.places():
            for rect in rects:
                if rect.contains(point):
                    return found.term, rect.toAlignedRect()
        return None

    def _follow(self) -> None:
        if self._card is not None:
            self._card.leave(self)
            self._card = None
        if self._is_marked and self.isVisible():
            self._card = CardTerms.around(self)
            self._card.join(self)
        self.update()

    # --- Qt -------------------------------------------------------------------------------------

    def setText(self, text: str) -> None:
        super().setText(text)
        if self._card is not None:
            self._card.hear()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._card is not None:
            self._card.hear()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._follow()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._point_at(None)
        self._follow()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        places = self.places()
        if not places:
            return
        painter = QPainter(self)
        color = QColor(self.palette().color(self.foregroundRole()))
        color.setAlphaF(ALPHA)
        thick = max(round(self.fontMetrics().height() / LINE_PART), 1)
        painter.setPen(QPen(color, thick, Qt.PenStyle.DotLine, Qt.PenCapStyle.FlatCap))
        for _found, rects in places:
            for rect in rects:
                y = round(rect.bottom()) - thick / 2
                painter.drawLine(QPointF(rect.left(), y), QPointF(rect.right(), y))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        found = self._at(event.position())
        self._point_at(None if found is None else found[0])

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._point_at(None)

    def _point_at(self, term: Term | None) -> None:
        """Its text as the tooltip, and back to what the label had."""
        if term is self._pointed:
            return
        if self._pointed is None:
            has_own = self.testAttribute(Qt.WidgetAttribute.WA_SetCursor)
            self._before = (self.toolTip(), QCursor(self.cursor()) if has_own else None)
        self._pointed = term
        tip, cursor = self._before
        self.setToolTip(tip if term is None else term.text)
        if term is not None:
            self.setCursor(Qt.CursorShape.WhatsThisCursor)
        elif cursor is not None:
            self.setCursor(cursor)
        else:
            self.unsetCursor()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        found = self._at(event.position())
        if found is None or event.button() != Qt.MouseButton.LeftButton:
            super().mouseReleaseEvent(event)
            return
        if self.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse:
            super().mouseReleaseEvent(event)  # its selection ends here
        if not self.hasSelectedText():
            ask_for(found[0], self, found[1])


class TermLabel(Terms, QLabel):
    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._begin()


class ElidedTermLabel(Terms, ElidedLabel):
    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._begin()

    def seen_text(self) -> str:
        return self.shown_text()


class PartsTermLabel(Terms, PartsLabel):
    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._begin()

    def seen_text(self) -> str:
        return self.shown_text()


def term_label(
    text: str = "",
    parent: QWidget | None = None,
    kind: str = "",
    *,
    name: str = "",
    wraps: bool = False,
) -> QLabel:
    """As `plain_label`."""
    label = TermLabel(text, parent)
    label.setWordWrap(wraps)
    if kind:
        label.setProperty("kind", kind)
    if name:
        label.setObjectName(name)
    return label


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
