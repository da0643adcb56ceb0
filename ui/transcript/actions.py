"""What can be pressed in a transcript, and how it looks at rest, under the pointer, focused."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from ui.icons import paint_icon
from ui.markdown.layouts import Action
from ui.markdown.styles import Styles

_ICONS = {
    "copy_code": "copy",
    "copy_message": "copy",
    "retry": "arrow-clockwise",
    "version_previous": "caret-left",
    "version_next": "caret-right",
}
QUIET = frozenset({"copy_message", "retry"})
"""Shown only on the message that is pointed at, focused, or last."""


def paint_action(
    painter: QPainter,
    action: Action,
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
    if action.name in ("try_again", "new_chat"):
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


def paint_focus(painter: QPainter, rect: QRectF, styles: Styles) -> None:
    """The ring around what the keyboard is on."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(styles.colors.accent), max(1.5, styles.px(2))))
    painter.drawRoundedRect(rect, styles.px(6), styles.px(6))


def _paint_icon(
    painter: QPainter, action: Action, styles: Styles, *, is_done: bool, is_lit: bool
) -> None:
    name = "check" if is_done else _ICONS.get(action.name)
    if name is None:
        return
    side = styles.px(16)
    center = action.rect.center()
    box = QRectF(center.x() - side / 2, center.y() - side / 2, side, side)
    color = styles.colors.ink if is_lit else styles.colors.dim
    paint_icon(painter, box, name, QColor(color))
