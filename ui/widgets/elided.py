"""Text that is painted with “…” where it has no room. `text()` stays whole, for a reader too."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

RIGHT = Qt.TextElideMode.ElideRight


PART = " · "


def tip_text(words: str) -> str:
    """Whatever the words are, they are no markup: Qt would take a token like `<s>` for some."""
    if "<" in words:
        for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            words = words.replace(sign, entity)
        words = f'<p style="white-space: pre-wrap">{words}</p>'
    return words


class ElidedLabel(QLabel):
    """One line of plain text; where it is cut, its whole is the tooltip."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def set_text(self, text: str) -> None:
        self.setText(text)
        self._hint()

    def shown_text(self) -> str:
        return self.fontMetrics().elidedText(self.text(), RIGHT, self.contentsRect().width())

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return hint if self.wordWrap() else QSize(hint.width(), self._line_px())

    def minimumSizeHint(self) -> QSize:
        if self.wordWrap():
            return QSize(0, super().minimumSizeHint().height())
        return QSize(0, self._line_px())

    def _line_px(self) -> int:
        """How high a line is: `QLabel` keeps the height that it had to have at another zoom."""
        margins = self.contentsMargins()
        return self.fontMetrics().height() + margins.top() + margins.bottom()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._hint()

    def _hint(self) -> None:
        self.setToolTip("" if self.shown_text() == self.text() else tip_text(self.text()))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(self.contentsRect(), flags, self.shown_text())


class PartsLabel(ElidedLabel):
    """Words in parts ("seed 1 · temperature 0.3"): whole ones leave, the last first, before the
    first one is cut."""

    def shown_text(self) -> str:
        metrics, room = self.fontMetrics(), self.contentsRect().width()
        parts = self.text().split(PART)
        while len(parts) > 1 and metrics.horizontalAdvance(PART.join(parts)) > room:
            parts.pop()
        return metrics.elidedText(PART.join(parts), RIGHT, room)
