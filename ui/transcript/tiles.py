"""The pictures of a message, above its bubble: one as it is, several in a grid; a click opens them.

Their places follow from what is stored of them, so nothing moves when they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from app.chat.attachments.kinds import PICTURE
from app.chat.attachments.media_details import media_details
from models.records import Attachment
from ui.look.icons import paint_icon
from ui.markdown.layouts import Pressable
from ui.markdown.styles import Styles
from ui.pictures.thumbnails import paint_covering

OPEN_PICTURE: Final = "open_picture"
OPEN_COUNTED: Final = "open_counted_picture"
MORE_PICTURES: Final = "open_more_pictures"
WIDEST: Final = 320
TALLEST: Final = 240
LEAST: Final = 48
SIDE: Final = 116
MOST: Final = 12
"""Of one message: more of them are behind the last one."""
GAP: Final = 6
_RADIUS: Final = 10


def pictures_of(attachments: Sequence[Attachment]) -> list[Attachment]:
    return [each for each in attachments if each.kind == PICTURE]


def size_of(picture: Attachment, styles: Styles) -> tuple[float, float]:
    """Of one that stands alone: as large as it is, within bounds."""
    size = media_details(picture).size
    if size is None:
        return styles.px(SIDE), styles.px(SIDE)
    width, height = size
    scale = min(1.0, styles.px(WIDEST) / width, styles.px(TALLEST) / height)
    least = styles.px(LEAST)
    return max(least, width * scale), max(least, height * scale)


def tile_rows(
    attachments: Sequence[Attachment], width: float, styles: Styles, *, has_costs: bool = False
) -> list[Pressable]:
    """From the right edge on, in lines; the first begins at height 0. `has_costs`: each says how
    many tokens it is, as one block."""
    pictures, px = pictures_of(attachments), styles.px
    if len(pictures) == 1:
        (only,) = pictures
        wide, high = size_of(only, styles)
        shown = min(wide, width)
        rect = QRectF(width - shown, 0, shown, high)
        return [Pressable(rect, *_named(only, has_costs), only.id)]
    side, gap = min(px(SIDE), width), px(GAP)
    in_line = max(1, min(4, int((width * 0.82 + gap) // (side + gap))))
    found: list[Pressable] = []
    shown_ones = pictures[:MOST]
    for place, picture in enumerate(shown_ones):
        row, column = divmod(place, in_line)
        of_row = min(in_line, len(shown_ones) - row * in_line)
        left = width - (of_row - column) * side - (of_row - column - 1) * gap
        rect = QRectF(left, row * (side + gap), side, side)
        name, label = _named(picture, has_costs)
        if place == MOST - 1 and len(pictures) > MOST:
            name, label = MORE_PICTURES, f"{len(pictures) - MOST + 1:,} more pictures"
        found.append(Pressable(rect, name, label, picture.id))
    return found


def _named(picture: Attachment, has_costs: bool) -> tuple[str, str]:
    label = f"Open the picture {picture.name}"
    if not has_costs or picture.tokens is None:
        return OPEN_PICTURE, label
    return OPEN_COUNTED, f"{label}, {picture.tokens:,} tokens"


def _paint_badge(painter: QPainter, tile: Pressable, styles: Styles) -> None:
    """Its tokens, along the lower edge."""
    words, px = tile.label.rpartition(", ")[2], styles.px
    metrics = QFontMetricsF(styles.small)
    width = min(metrics.horizontalAdvance(words) + px(16), tile.rect.width() - px(8))
    box = QRectF(tile.rect.left() + px(6), tile.rect.bottom() - px(28), width, px(22))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(styles.colors.card))
    painter.drawRoundedRect(box, px(6), px(6))
    painter.setFont(styles.small)
    painter.setPen(QColor(styles.colors.ink))
    shown = metrics.elidedText(words, Qt.TextElideMode.ElideRight, box.width() - px(8))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, shown)


def paint_tile(painter: QPainter, tile: Pressable, styles: Styles, *, is_hovered: bool) -> None:
    colors, px, rect = styles.colors, styles.px, tile.rect
    device = painter.device()
    sharp = device.devicePixelRatioF() if device is not None else 1.0
    factor = sharp if rect.width() != rect.height() else 2 * sharp  # the middle of a long one
    source = styles.thumbnails
    image = (
        source.find(tile.payload, rect.width() * factor, rect.height() * factor) if source else None
    )
    if image is not None:
        paint_covering(painter, rect, image, px(_RADIUS))
    else:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colors.bubble))
        painter.drawRoundedRect(rect, px(_RADIUS), px(_RADIUS))
        side = px(20)
        box = QRectF(rect.center().x() - side / 2, rect.center().y() - side / 2, side, side)
        is_lost = source is not None and source.is_lost(tile.payload)
        paint_icon(painter, box, "image-broken" if is_lost else "image", QColor(colors.dim))
    if tile.name == OPEN_COUNTED:
        _paint_badge(painter, tile, styles)
    if tile.name == MORE_PICTURES:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(0, 0, 0, 150))
        painter.drawRoundedRect(rect, px(_RADIUS), px(_RADIUS))
        painter.setFont(styles.bold)
        painter.setPen(QColor("white"))
        words = f"+{tile.label.partition(' ')[0]}"
        if QFontMetricsF(styles.bold).horizontalAdvance(words) < rect.width():
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, words)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(colors.accent if is_hovered else colors.line), px(1)))
    painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), px(_RADIUS), px(_RADIUS))
