"""What stands in a transcript without messages: what to do first."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from ui.markdown.styles import Styles


def paint_nothing(
    painter: QPainter, middle: QRectF, styles: Styles, title: str, sentence: str
) -> None:
    """Title and sentence around the middle of a rectangle."""
    half = middle.height() / 2
    painter.setFont(styles.bold)
    painter.setPen(QColor(styles.colors.ink))
    flags = Qt.AlignmentFlag.AlignHCenter | Qt.TextFlag.TextWordWrap
    box = middle.adjusted(0, 0, 0, -half - styles.px(4))
    painter.drawText(box, flags | Qt.AlignmentFlag.AlignBottom, title)
    painter.setFont(styles.text)
    painter.setPen(QColor(styles.colors.dim))
    box = middle.adjusted(0, half + styles.px(4), 0, 0)
    painter.drawText(box, flags | Qt.AlignmentFlag.AlignTop, sentence)
