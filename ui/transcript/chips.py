"""What was attached to a message, above its bubble: pictures, then chips for all else."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from app.chat.attachments.document_parts import PAGES, PARTS, mode_of, sent_of
from app.chat.attachments.kinds import AUDIO, PICTURE
from app.insight.retrieval.choice import Part
from models.records import Attachment
from ui.chat.document_words import by_of
from ui.look.icons import paint_icon
from ui.markdown.layouts import Pressable
from ui.markdown.styles import Styles
from ui.pictures.words import size_words
from ui.transcript.tiles import tile_rows

OPEN = "open_attachment"
OPEN_SOUND = "open_sound"
HEIGHT = 28
GAP = 6
WIDEST = 340
_SIDES = 38
"""Of a chip's width: the icon and the room around the words."""


def words_of(attachment: Attachment) -> str:
    """What a chip says.

    >>> from datetime import datetime
    >>> words_of(Attachment("a", "c", "notes.txt", "text", 4, datetime(2026, 1, 1), tokens=2))
    'notes.txt · 4 bytes · 2 tokens'
    """
    words = f"{attachment.name} · {size_words(attachment)}"
    parts = sent_of(attachment)
    if parts == [] and mode_of(attachment) == PARTS and not by_of(attachment):
        return attachment.name  # it is being searched
    if parts is not None:
        words = f"{attachment.name} · {_said_of(attachment, parts)}"
    if attachment.tokens is None:
        return words
    return f"{words} · {attachment.tokens:,} token{'' if attachment.tokens == 1 else 's'}"


def _said_of(attachment: Attachment, parts: Sequence[Part]) -> str:
    """What of a document went in."""
    if mode_of(attachment) == PAGES:
        return ", ".join(part.label for part in parts) or "no pages"
    if not parts:
        return "nothing of it"
    if not any(part.score for part in parts):
        return "its beginning"
    return f"{len(parts):,} part{'' if len(parts) == 1 else 's'}"


def chip_row(
    attachments: Sequence[Attachment], width: float, styles: Styles, *, has_costs: bool = False
) -> list[Pressable]:
    """Pictures and chips from the right edge on, in lines; they begin at height 0."""
    tiles = tile_rows(attachments, width, styles, has_costs=has_costs)
    below = tiles[-1].rect.bottom() + styles.px(GAP) if tiles else 0.0
    chips = _chips([each for each in attachments if each.kind != PICTURE], width, styles, below)
    return [*tiles, *chips]


def _chips(
    attachments: Sequence[Attachment], width: float, styles: Styles, y: float
) -> list[Pressable]:
    px, metrics = styles.px, QFontMetricsF(styles.small)
    found: list[Pressable] = []
    line: list[tuple[Attachment, float]] = []

    def end_line() -> None:
        x = width - sum(w for _, w in line) - px(GAP) * (len(line) - 1)
        for attachment, chip_width in line:
            rect = QRectF(x, y, chip_width, px(HEIGHT))
            label = f"Open {words_of(attachment)}"
            name = OPEN_SOUND if attachment.kind == AUDIO else OPEN
            found.append(Pressable(rect, name, label, attachment.id))
            x += chip_width + px(GAP)

    for attachment in attachments:
        wanted = metrics.horizontalAdvance(words_of(attachment)) + px(_SIDES) + 1
        chip_width = min(wanted, px(WIDEST), width)
        taken = sum(w + px(GAP) for _, w in line)
        if line and taken + chip_width > width:
            end_line()
            line, y = [], y + px(HEIGHT + GAP)
        line.append((attachment, chip_width))
    if line:
        end_line()
    return found


def row_height(chips: Sequence[Pressable], styles: Styles) -> float:
    """With the gap to what follows; nothing without chips."""
    return chips[-1].rect.bottom() + styles.px(GAP) if chips else 0.0


def paint_chip(painter: QPainter, chip: Pressable, styles: Styles, *, is_hovered: bool) -> None:
    colors, px, rect = styles.colors, styles.px, chip.rect
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colors.hover if is_hovered else colors.bubble))
    painter.drawRoundedRect(rect, px(8), px(8))
    side = px(14)
    box = QRectF(rect.left() + px(9), rect.center().y() - side / 2, side, side)
    is_sound = chip.name == OPEN_SOUND
    paint_icon(painter, box, "speaker-high" if is_sound else "file-text", QColor(colors.dim))
    room = rect.adjusted(px(28), 0, -px(9), 0)
    words = chip.label.removeprefix("Open ")
    shown = QFontMetricsF(styles.small).elidedText(
        words, Qt.TextElideMode.ElideMiddle, room.width()
    )
    painter.setFont(styles.small)
    painter.setPen(QColor(colors.ink))
    painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, shown)
