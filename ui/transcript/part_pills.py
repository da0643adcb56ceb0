"""Which parts of a document went in with a message, below its chip: where each stands, and a bar
for how well it fits. A click opens the document there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from app.chat.attachments.document_parts import PARTS, mode_of, sent_of
from models.records import Attachment
from ui.chat.document_words import by_of, part_text
from ui.markdown.layouts import Pressable
from ui.markdown.styles import Styles

OPEN_PART: Final = "open_part"
OPEN_MORE: Final = "open_more_parts"
HEIGHT: Final = 24
GAP: Final = 4
MOST: Final = 8
"""Of one document: of more, the best ones, and one more that says how many there are besides."""
_SIDES: Final = 18
_WIDEST: Final = 260


def part_of(payload: str) -> tuple[str, int]:
    """Whose part, and which one."""
    own_id, _, rest = payload.partition("#")
    return own_id, int(rest.partition("#")[0] or 0)


def pill_rows(
    attachments: Sequence[Attachment], width: float, top: float, styles: Styles
) -> list[Pressable]:
    """The pills from the right edge on, in lines, below `top`."""
    px, metrics = styles.px, QFontMetricsF(styles.small)
    found: list[Pressable] = []
    scored = [
        each
        for each in attachments
        if mode_of(each) == PARTS and any(part.score for part in sent_of(each) or [])
    ]
    for attachment in scored:
        parts = sent_of(attachment) or []
        by, best = by_of(attachment), max(part.score for part in parts)
        line: list[tuple[float, str, str, str]] = []
        best_first = sorted(range(len(parts)), key=lambda n: -parts[n].score)
        shown = best_first if len(parts) <= MOST else best_first[: MOST - 1]
        rest = [min(best_first[MOST - 1 :])] if len(shown) < len(parts) else []
        for place in [*sorted(shown), *rest]:
            part, is_last = parts[place], place in rest
            words = f"{len(parts) - len(shown):,} more" if is_last else part_text(part, by, place)
            if len(scored) > 1:
                words = f"{words} · {attachment.name}"
            wanted = min(metrics.horizontalAdvance(words) + px(_SIDES), px(_WIDEST), width)
            if line and sum(w + px(GAP) for w, *_ in line) + wanted > width:
                found += _line(line, width, top, px(HEIGHT), px(GAP))
                line, top = [], top + px(HEIGHT + GAP)
            share = 0 if is_last else round(100 * part.score / best)
            name = OPEN_MORE if is_last else OPEN_PART
            line.append((wanted, name, words, f"{attachment.id}#{place}#{share}"))
        found += _line(line, width, top, px(HEIGHT), px(GAP))
        top += px(HEIGHT + GAP)
    return found


def _line(
    line: Sequence[tuple[float, str, str, str]], width: float, top: float, height: float, gap: float
) -> list[Pressable]:
    x = width - sum(w for w, *_ in line) - gap * (len(line) - 1)
    found = []
    for pill_width, name, words, payload in line:
        found.append(Pressable(QRectF(x, top, pill_width, height), name, f"Open {words}", payload))
        x += pill_width + gap
    return found


def paint_pill(painter: QPainter, pill: Pressable, styles: Styles, *, is_hovered: bool) -> None:
    colors, px, rect = styles.colors, styles.px, pill.rect
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colors.hover if is_hovered else colors.bubble))
    painter.drawRoundedRect(rect, px(6), px(6))
    share = int(pill.payload.rpartition("#")[2] or 0) / 100
    if share:
        rail = QRectF(rect.left() + px(7), rect.bottom() - px(5), rect.width() - px(14), px(2))
        painter.setBrush(QColor(colors.line))
        painter.drawRect(rail)
        painter.setBrush(QColor(colors.accent))
        painter.drawRect(QRectF(rail.left(), rail.top(), rail.width() * share, rail.height()))
    room = rect.adjusted(px(7), 0, -px(7), -px(3) if share else 0)
    words = QFontMetricsF(styles.small).elidedText(
        pill.label.removeprefix("Open "), Qt.TextElideMode.ElideRight, room.width()
    )
    painter.setFont(styles.small)
    painter.setPen(QColor(colors.ink))
    painter.drawText(room, Qt.AlignmentFlag.AlignCenter, words)
