"""Text that is painted with “…” where it has no room. `text()` stays whole, for a reader too."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QLabel,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStylePainter,
    QWidget,
)

RIGHT = Qt.TextElideMode.ElideRight


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

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._hint()

    def _hint(self) -> None:
        self.setToolTip("" if self.shown_text() == self.text() else self.text())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        painter.setPen(self.palette().windowText().color())
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(self.contentsRect(), flags, self.shown_text())


class ElidedButton(QPushButton):
    """A button that may be narrower than its words."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def shown_text(self) -> str:
        # Text widths are fractions; a hint is rounded.
        room = self.width() - self._around() + 1
        return self.fontMetrics().elidedText(self.text(), RIGHT, room)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._around() + self.fontMetrics().horizontalAdvance("…"), 0)

    def _around(self) -> int:
        """What padding and border take. (A style sheet's padding is in no sub-element.)"""
        return self.sizeHint().width() - self.fontMetrics().horizontalAdvance(self.text())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = self.shown_text()
        painter.drawControl(QStyle.ControlElement.CE_PushButton, option)
