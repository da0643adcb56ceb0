"""A message's tokens as a picture: with what is tinted, its scale, and who wrote it.

Drawn anew and not taken from the screen, so that it is whole, sharp and on one plane; of a very
long reply it holds the part that is in view and what follows.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter

from ui.look.tints import tint_colors
from ui.markdown.styles import Styles
from ui.transcript.tokens.body import TokenBody

SIDE_PX: Final = 24
HEAD_PX: Final = 44
SCALE: Final = 2
MOST_PX: Final = 3_200
"""As much text as is drawn without anybody's waiting for it."""


def picture_of(
    body: TokenBody, styles: Styles, caption: str, ends: tuple[str, str], top: float = 0.0
) -> QImage:
    """`top`: where a text that is too long for one picture is cut."""
    start = top if body.height > MOST_PX else 0.0
    side, head = round(styles.px(SIDE_PX)), round(styles.px(HEAD_PX))
    body.ensure(start, start + MOST_PX)
    height = min(body.height - start, float(MOST_PX))
    size = QSize(round(body.width) + 2 * side, round(height) + head + 2 * side)
    image = QImage(size * SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SCALE)
    image.fill(QColor(styles.colors.chat))
    painter = QPainter(image)
    _paint_head(painter, QRectF(side, side, body.width, head), styles, caption, ends)
    clip = QRectF(0, side + head, size.width(), height)
    painter.setClipRect(clip)
    painter.setPen(QColor(styles.colors.ink))
    body.paint(painter, QPointF(side, side + head - start), clip)
    painter.end()
    return image


def _paint_head(
    painter: QPainter, room: QRectF, styles: Styles, caption: str, ends: tuple[str, str]
) -> None:
    """The caption left, the scale right of it."""
    metrics = QFontMetricsF(styles.small)
    painter.setFont(styles.small)
    painter.setPen(QColor(styles.colors.dim))
    line = QRectF(room.left(), room.top(), room.width(), metrics.height())
    gap, swatch = styles.px(6), styles.px(80)
    right = line.right() - metrics.horizontalAdvance(ends[1])
    painter.drawText(line, Qt.AlignmentFlag.AlignRight, ends[1])
    colors = tint_colors(styles.colors)
    left = right - gap - swatch
    for at, color in enumerate(colors):
        width = swatch / len(colors)
        box = QRectF(left + at * width, line.top() + line.height() * 0.2, width + 0.5, styles.px(9))
        painter.fillRect(box, color)
    weak = left - gap - metrics.horizontalAdvance(ends[0])
    painter.drawText(QRectF(weak, line.top(), line.width(), line.height()), ends[0])
    shown = metrics.elidedText(
        caption, Qt.TextElideMode.ElideRight, max(weak - gap - line.left(), 1.0)
    )
    painter.drawText(line, Qt.AlignmentFlag.AlignLeft, shown)
