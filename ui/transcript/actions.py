"""What can be pressed in a transcript, and how it looks at rest, under the pointer, focused."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from ui.look.icons import paint_icon
from ui.markdown.layouts import Pressable
from ui.markdown.styles import Styles
from ui.transcript.chips import OPEN, OPEN_SOUND, paint_chip
from ui.transcript.offers import Offer
from ui.transcript.part_pills import OPEN_MORE, OPEN_PART, paint_pill
from ui.transcript.tiles import MORE_PICTURES, OPEN_COUNTED, OPEN_PICTURE, paint_tile

_ICONS = {
    "copy_code": "copy",
    "copy_message": "copy",
    "retry": "arrow-clockwise",
    "summarize_again": "arrow-clockwise",
    "show_summarized": "arrow-up",
    "continue": "arrow-line-right",
    "edit": "pencil-simple",
    "more": "dots-three-bold",
    "version_previous": "caret-left",
    "version_next": "caret-right",
}
QUIET = frozenset(
    {"copy_message", "retry", "continue", "edit", "more", "summarize_again", "show_summarized"}
)
"""Shown only on the message that is pointed at, focused, or last."""
BUTTONS = frozenset({"try_again", "choose_format", "new_chat", "enlarge", "trim", "shorten_result"})
SIDE = 26
MORE = "More actions for this message"


def paint_action(
    painter: QPainter,
    action: Pressable,
    styles: Styles,
    *,
    is_hovered: bool,
    is_focused: bool,
    is_done: bool,
) -> None:
    """Draw an action where its rectangle is (the painter stands at the item's corner)."""
    colors, rect = styles.colors, action.rect
    radius = styles.px(6)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    if action.name in (OPEN_PICTURE, OPEN_COUNTED, MORE_PICTURES):
        paint_tile(painter, action, styles, is_hovered=is_hovered)
    elif action.name in (OPEN, OPEN_SOUND):
        paint_chip(painter, action, styles, is_hovered=is_hovered)
    elif action.name in (OPEN_PART, OPEN_MORE):
        paint_pill(painter, action, styles, is_hovered=is_hovered)
    elif action.name in BUTTONS:
        painter.setBrush(QColor(colors.hover if is_hovered else colors.card))
        painter.setPen(QPen(QColor(colors.dim if colors.is_dark else colors.line), 1))
        painter.drawRoundedRect(rect, styles.px(8), styles.px(8))
        painter.setFont(styles.text)
        painter.setPen(QColor(colors.ink))
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, action.label)
    else:
        if is_hovered:
            painter.setBrush(QColor(colors.hover))
            painter.drawRoundedRect(rect, radius, radius)
        _paint_icon(painter, action, styles, is_done=is_done, is_lit=is_hovered or is_focused)
    if is_focused:
        paint_focus(painter, rect, styles)


def button_row(offers: list[Offer], right: float, middle: float, styles: Styles) -> list[Pressable]:
    """Small buttons for these and for the menu, ending at `right`, in the order of reading."""
    px = styles.px
    side, step = px(SIDE), px(SIDE + 2)
    named = [(offer.name, offer.label) for offer in offers] + [("more", MORE)]
    left = right - step * (len(named) - 1) - side
    return [
        Pressable(QRectF(left + step * place, middle - side / 2, side, side), name, label, "")
        for place, (name, label) in enumerate(named)
    ]


def copy_button(right: float, middle: float, styles: Styles) -> list[Pressable]:
    side = styles.px(SIDE)
    box = QRectF(right - side, middle - side / 2, side, side)
    return [Pressable(box, "copy_message", "Copy message", "")]


def version_row(right: float, middle: float, styles: Styles) -> list[Pressable]:
    """‹ and ›, with room between them for which version it is."""
    px = styles.px
    side, label = px(SIDE), px(36)
    last = QRectF(right - side, middle - side / 2, side, side)
    first = last.translated(-label - side, 0)
    return [
        Pressable(first, "version_previous", "Previous version", ""),
        Pressable(last, "version_next", "Next version", ""),
    ]


def ways_out_row(offers: list[Offer], box: QRectF, styles: Styles) -> list[Pressable]:
    """Buttons in a box of trouble: one at its right, several in a row along its bottom."""
    px = styles.px
    metrics = QFontMetricsF(styles.text)
    widths = [max(px(96), metrics.horizontalAdvance(offer.label) + px(28)) for offer in offers]
    height = px(32)
    if len(offers) == 1:
        x, y = box.right() - widths[0] - px(8), box.center().y() - height / 2
    else:
        x, y = box.left() + px(12), box.bottom() - height - px(10)
    found = []
    for offer, width in zip(offers, widths, strict=True):
        found.append(Pressable(QRectF(x, y, width, height), offer.name, offer.label, ""))
        x += width + px(8)
    return found


def paint_focus(painter: QPainter, rect: QRectF, styles: Styles) -> None:
    """The ring around what the keyboard is on."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(styles.colors.accent), max(1.5, styles.px(2))))
    painter.drawRoundedRect(rect, styles.px(6), styles.px(6))


def _paint_icon(
    painter: QPainter, action: Pressable, styles: Styles, *, is_done: bool, is_lit: bool
) -> None:
    name = "check" if is_done else _ICONS.get(action.name)
    if name is None:
        return
    side = styles.px(16)
    center = action.rect.center()
    box = QRectF(center.x() - side / 2, center.y() - side / 2, side, side)
    color = styles.colors.ink if is_lit else styles.colors.dim
    paint_icon(painter, box, name, QColor(color))
