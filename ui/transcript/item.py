"""One message on screen: its text, the folded reasoning, the trouble box, the quiet line.

Coordinates are relative to the item's top left corner in the transcript's column. While a
widget lies over the item (its editor), `room` is that widget's height and nothing is painted;
`room_below` is kept free for one that stands below the item.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from app.chat.replies.calls import lines_of
from app.chat.replies.summary_nodes import stands_of
from app.markdown.document import Document
from models.records import Message, MessageState, Role
from ui.look.icons import paint_icon
from ui.markdown import hidden
from ui.markdown.layouts import Pressable
from ui.markdown.styles import Styles
from ui.markdown.text_layout import TextLines
from ui.transcript.actions import (
    QUIET,
    SIDE,
    button_row,
    copy_button,
    paint_action,
    paint_focus,
    version_row,
    ways_out_row,
)
from ui.transcript.body import Body, Spot
from ui.transcript.chips import chip_row, row_height
from ui.transcript.offers import quick_offers, ways_out
from ui.transcript.part_pills import pill_rows
from ui.transcript.results import is_bad, is_result, label as result_label
from ui.transcript.summary import figures_text, trouble_text, version_text
from ui.widgets.figures import seconds_text

if TYPE_CHECKING:
    from ui.transcript.tokens.body import TokenBody
    from ui.transcript.tokens.document import TokenDocument

REASONING, CONTENT = 0, 1

BUBBLE_SHARE = 0.82
BUBBLE_PAD_X = 16
BUBBLE_PAD_Y = 9
ROW = 28
GAP_BELOW = 24

ItemSpot = tuple[int, int, int, int]
"""Section, segment, block, UTF-16 position."""


@dataclass(frozen=True, slots=True)
class ItemLook:
    """How an item is painted this time. `done`: the action that has just been carried out."""

    is_lit: bool = False
    is_current: bool = False
    hovered: Pressable | None = None
    focused: Pressable | None = None
    done: Pressable | None = None
    selection: tuple[ItemSpot, ItemSpot] | None = None


class MessageItem:
    """Lays out and paints one message in a column of `width`."""

    def __init__(self, message: Message, styles: Styles, width: float) -> None:
        self.message = message
        self.progress = ""
        self.is_reasoning_open = self.is_raw = False
        self.room = self.room_below = 0.0
        self.is_bare = False
        self._styles = styles
        self._width = width
        self._content = self._new_body(
            message.content, styles, self._text_width(), is_plain=self.is_quoted
        )
        self._reasoning: Body | None = None
        self._tokens: TokenBody | None = None
        self._trouble: TextLines | None = None
        self._set_reasoning(message.reasoning)
        self._hidden = self._hidden_note()

    @property
    def is_reply(self) -> bool:
        return self.message.role is Role.ASSISTANT

    @property
    def is_quoted(self) -> bool:
        """Whether the text is shown letter by letter, in a bubble."""
        return not self.is_reply and not self.is_result

    @property
    def is_result(self) -> bool:
        """It is of a tool: folded to a line, with its buttons in that."""
        return is_result(self.message)

    @property
    def source(self) -> str:
        """The text as it is copied, with what was called."""
        shown = self._reasoning if self.is_result and self._reasoning else self._content
        text, calls = shown.document.source, lines_of(self.message)
        return "\n\n".join(part for part in (text.strip("\n"), calls) if part) if calls else text

    @property
    def is_summary(self) -> bool:
        """Nobody has said it: its bubble stands at the left, and its buttons below it."""
        return stands_of(self.message) is not None

    @property
    def is_streaming(self) -> bool:
        return self.message.state is MessageState.STREAMING

    @property
    def has_room(self) -> bool:
        """Whether a widget stands over or below the item."""
        return bool(self.room or self.room_below)

    @property
    def is_kept(self) -> bool:
        """Whether the item knows something that its message does not say."""
        is_changed = self.is_reasoning_open or self.is_raw or self.has_room
        return self.is_streaming or is_changed or bool(self.progress)

    @property
    def content(self) -> Body:
        """The text as Markdown, or letter by letter, also while its tokens are shown."""
        return self._content

    @property
    def tokens(self) -> TokenBody | None:
        """The tokens in place of reasoning and content, where they are shown."""
        return self._tokens

    @property
    def note(self) -> str:
        """A sentence about its tokens."""
        return self._tokens.tokens.tokens.note if self._tokens else self._hidden

    @property
    def _shown(self) -> Body:
        return self._tokens or self._content

    @property
    def reasoning(self) -> Body | None:
        return self._reasoning

    def bodies(self) -> list[Body]:
        """The texts that are shown."""
        return [body for _section, body in self._bodies()]

    def sections(self) -> list[tuple[int, Body]]:
        """The texts that are shown, with the section that each is."""
        return self._bodies()

    # Changing

    def set_message(self, message: Message) -> None:
        """Take over another state of the same message; text already there is kept."""
        was_streaming, self.message = self.is_streaming, message
        self._trouble = None
        self._content = self._grown(self._content, message.content, self.is_quoted)
        if self._reasoning is None:
            self._set_reasoning(message.reasoning)
        else:
            self._reasoning = self._grown(self._reasoning, message.reasoning, self.is_result)
        if was_streaming and not self.is_streaming:
            self.progress = ""
        self._hidden = self._hidden_note()

    def _hidden_note(self) -> str:
        """Looked for once, in texts that are whole."""
        if self.is_streaming:
            return ""
        stands = stands_of(self.message)
        if stands is not None:
            return stands.words
        return hidden.note(f"{self.message.content}\n{self.message.reasoning or ''}")

    def append(self, text: str, part: str) -> None:
        """More text of a streaming reply. It is read by `read`."""
        self.progress = ""
        if part == "call":
            return
        if part == "reasoning":
            if self._reasoning is None:
                self._set_reasoning(text)
            else:
                self._reasoning.document.append(text)
        else:
            self._content.document.append(text)

    def read(self) -> None:
        """Read what was appended since."""
        if self._tokens is not None:
            self._tokens.read()
            return
        self._content.read()
        if self._reasoning is not None and self.is_reasoning_open:
            self._reasoning.read()

    def restyle(self, styles: Styles, width: float) -> None:
        self._styles, self._width = styles, width
        self._trouble = None
        self._content.restyle(styles, self._text_width())
        if self._reasoning is not None:
            self._reasoning.restyle(styles.dimmed, self._reasoning_width())
        if self._tokens is not None:
            self._tokens.restyle(styles, self._text_width())

    def show_tokens(self, document: TokenDocument | None) -> None:
        """Show these tokens in place of the texts; None: the texts again. What a tool said was
        generated by nobody here."""
        if self.is_result:
            return
        if document is None:
            self._tokens = None
            for body in (self._content, self._reasoning):
                if body is not None and body.is_read:
                    body.read()
            return
        from ui.transcript.tokens.body import TokenBody

        self._tokens = TokenBody(document, self._styles, self._text_width())

    def toggle_reasoning(self) -> None:
        self.is_reasoning_open = not self.is_reasoning_open

    def toggle_raw(self) -> None:
        """Between the text as it was written, letter by letter, and as Markdown."""
        self.is_raw = not self.is_raw
        content, reasoning = self._content, self._reasoning
        self._content = self._new_body(
            content.document.source, content.styles, content.width, is_plain=self.is_quoted
        )
        if reasoning is not None:
            source = reasoning.document.source
            self._reasoning = self._new_body(source, reasoning.styles, reasoning.width)

    # Geometry

    @property
    def height(self) -> float:
        bottom = (
            self.room or (self._note_rect() if self.is_result else self._footer_rect()).bottom()
        )
        return bottom + self.room_below + self._styles.px(GAP_BELOW)

    def section_rect(self, section: int) -> QRectF:
        """Where a text stands; empty for reasoning that is folded or not there."""
        px = self._styles.px
        if section == REASONING:
            if self._reasoning is None or not self._is_reasoning_shown:
                return QRectF()
            top = self._reasoning_row().bottom() + row_height(self._result_chips(), self._styles)
            return QRectF(px(16), top, self._reasoning_width(), self._reasoning.height)
        if self._is_attachments_alone:
            return QRectF()
        if self.is_quoted:
            bubble = self._bubble_rect()
            pad_x, pad_y = px(BUBBLE_PAD_X), px(BUBBLE_PAD_Y)
            return bubble.adjusted(pad_x, pad_y, -pad_x, -pad_y)
        top = 0.0
        if self._has_reasoning_row:
            opened = self.section_rect(REASONING)
            top = opened.bottom() + px(12) if opened.height() else self._reasoning_row().bottom()
        if self.is_result:
            chips = self._result_chips()
            return QRectF(0, max(top, chips[-1].rect.bottom() if chips else 0), self._width, 0)
        return QRectF(0, top, self._width, self._content_height())

    def ensure(self, top: float, bottom: float) -> bool:
        """Lay out what stands between two heights; whether the item's height changed."""
        before = self.height
        for section, body in self._bodies():
            rect = self.section_rect(section)
            body.ensure(top - rect.top(), bottom - rect.top())
        return self.height != before

    def release(self, top: float, bottom: float) -> None:
        """Drop layouts far from two heights."""
        for section, body in self._bodies():
            rect = self.section_rect(section)
            body.release(top - rect.top(), bottom - rect.top())

    def release_all(self) -> None:
        for _section, body in self._bodies():
            body.release_all()

    # Hitting

    def spot_section(self, point: QPointF) -> int:
        """Which of the item's texts is nearest to a point."""
        opened = self.section_rect(REASONING)
        return REASONING if opened.height() and point.y() < opened.bottom() else CONTENT

    def spot_at(self, point: QPointF) -> ItemSpot:
        """The nearest place in the item's texts."""
        section = self.spot_section(point)
        body = self.body(section)
        return (section, *body.spot_at(point - self.section_rect(section).topLeft()))

    def body(self, section: int) -> Body:
        if section == REASONING and self._reasoning is not None:
            return self._reasoning
        return self._shown

    def text_at(self, point: QPointF) -> bool:
        """Whether a point is on a text that can be selected."""
        return any(self.section_rect(section).contains(point) for section, _ in self._bodies())

    def words_at(self, point: QPointF) -> str:
        """The quiet line in full, for where it does not fit."""
        is_there = self.is_reply and not self.is_streaming and self._footer_rect().contains(point)
        if self._note_rect().contains(point):
            return self.note
        return figures_text(self.message) if is_there else ""

    def link_at(self, point: QPointF) -> str:
        for section, body in self._bodies():
            rect = self.section_rect(section)
            if rect.contains(point):
                return body.link_at(point - rect.topLeft())
        return ""

    def actions(self, top: float, bottom: float) -> list[Pressable]:
        """What can be pressed between two heights, in the order of the Tab key."""
        found: list[Pressable] = []
        if self.room:
            return found
        found += self._chips()
        if self._has_reasoning_row:
            what = "result" if self.is_result else "reasoning"
            label = f"{'Hide' if self.is_reasoning_open else 'Show'} the {what}"
            found.append(Pressable(self._reasoning_row(), "toggle_reasoning", label, ""))
        for section, body in self._bodies():
            rect = self.section_rect(section)
            for action in body.actions(top - rect.top(), bottom - rect.top()):
                moved, payload = action.rect.translated(rect.topLeft()), action.payload
                if action.name == "scroll_sideways":
                    payload = f"{section}:{payload}"
                found.append(Pressable(moved, action.name, action.label, payload))
        if (trouble := self._trouble_lines()) and not self.is_bare:
            found += ways_out_row(ways_out(self.message), self._trouble_rect(trouble), self._styles)
        return [*found, *self._footer_actions()]

    # Painting

    def paint(self, painter: QPainter, clip: QRectF, look: ItemLook) -> None:
        """Paint with the painter standing at the item's corner."""
        if self.room:
            return
        if look.is_current:
            self._paint_current(painter)
        if self.is_quoted:
            self._paint_bubble(painter)
        if self._has_reasoning_row:
            self._paint_reasoning_row(painter, look)
        for section, body in self._bodies():
            rect = self.section_rect(section)
            painter.setPen(QColor(body.styles.colors.ink))
            part = _section_part(look.selection, section)
            body.paint(painter, rect.topLeft(), clip, part)
        self._paint_growth(painter)
        self._paint_note(painter)
        if trouble := self._trouble_lines():
            self._paint_trouble(painter, trouble, clip)
        self._paint_footer(painter, look)
        for action in self.actions(clip.top(), clip.bottom()):
            if action.name in QUIET and not look.is_lit:
                continue
            paint_action(
                painter,
                action,
                self._styles,
                is_hovered=action == look.hovered,
                is_focused=action == look.focused,
                is_done=action == look.done,
            )

    # Inside: texts

    def _bodies(self) -> list[tuple[int, Body]]:
        if self._reasoning is not None and self._is_reasoning_shown:
            return [(REASONING, self._reasoning), (CONTENT, self._shown)]
        return [(CONTENT, self._shown)]

    @property
    def _has_reasoning_row(self) -> bool:
        return self._reasoning is not None and self._tokens is None

    @property
    def _is_reasoning_shown(self) -> bool:
        return self._has_reasoning_row and self.is_reasoning_open

    def _new_body(self, text: str, styles: Styles, width: float, *, is_plain: bool = False) -> Body:
        document = Document(
            text,
            is_plain=is_plain or self.is_raw,
            is_mono=self.is_raw or self.is_result,
            is_open=self.is_streaming,
        )
        return Body(document, styles, width)

    def _set_reasoning(self, text: str) -> None:
        if text.strip():
            self._reasoning = self._new_body(
                text, self._styles.dimmed, self._reasoning_width(), is_plain=self.is_result
            )

    def _grown(self, body: Body, text: str, is_plain: bool) -> Body:
        """The body for a text that is mostly the one it shows already."""
        document = body.document
        source = document.source
        if text.startswith(source):
            document.append(text[len(source) :])
        elif not (self.is_streaming and document.is_open and source.startswith(text)):
            return self._new_body(text, body.styles, body.width, is_plain=is_plain)
        document.set_open(self.is_streaming)
        if body.is_read:
            body.read()
        return body

    # Inside: geometry

    def _text_width(self) -> float:
        if self.is_reply:
            return self._width
        return self._width * BUBBLE_SHARE - 2 * self._styles.px(BUBBLE_PAD_X)

    def _reasoning_width(self) -> float:
        return self._width - self._styles.px(16)

    def _content_height(self) -> float:
        if self.is_streaming and not self._shown.document.source_length:
            return self._styles.line_step
        return self._shown.height

    def _bubble_rect(self) -> QRectF:
        px, chips = self._styles.px, self._chips()
        if self._is_attachments_alone:
            left = min(chip.rect.left() for chip in chips)
            return QRectF(left, 0, self._width - left, chips[-1].rect.bottom())
        width = self._shown.natural_width + 2 * px(BUBBLE_PAD_X)
        height = self._shown.height + 2 * px(BUBBLE_PAD_Y)
        left = 0.0 if self.is_summary else self._width - width
        return QRectF(left, row_height(chips, self._styles), width, height)

    @property
    def _is_attachments_alone(self) -> bool:
        return bool(self.message.attachments) and self.is_quoted and not self.message.content

    def _chips(self) -> list[Pressable]:
        """What was attached, above the bubble; of a result in full, below its line."""
        if self.is_result:
            return self._result_chips()
        if not self.message.attachments or not self.is_quoted:
            return []
        attached, styles = self.message.attachments, self._styles
        has_costs = self._tokens is not None
        chips = chip_row(attached, self._width, styles, has_costs=has_costs)
        return [*chips, *pill_rows(attached, self._width, row_height(chips, styles), styles)]

    def _result_chips(self) -> list[Pressable]:
        if not (self.is_result and self.message.attachments):
            return []
        chips, down = chip_row(self.message.attachments, self._width, self._styles), QPointF(0, 0)
        down.setY(self._reasoning_row().bottom())
        return [dataclasses.replace(chip, rect=chip.rect.translated(down)) for chip in chips]

    def _reasoning_row(self) -> QRectF:
        return QRectF(0, 0, self._width, self._styles.px(ROW))

    def _trouble_lines(self) -> TextLines | None:
        sentence = trouble_text(self.message)
        if not sentence:
            return None
        if self._trouble is None:
            width = self._width - self._styles.px(16 + 16 + 96 + 16)
            styles = self._styles
            step = round(styles.text.pixelSize() * 1.45)
            self._trouble = TextLines(sentence, styles.text, width, step)
        return self._trouble

    def _trouble_rect(self, lines: TextLines) -> QRectF:
        px = self._styles.px
        content = self.section_rect(CONTENT)
        top = self._note_rect().bottom() + (px(12) if content.height() > 1 else 0)
        buttons = px(42) if len(ways_out(self.message)) > 1 else 0
        return QRectF(0, top, self._width, max(lines.height + px(20), px(48)) + buttons)

    def _footer_rect(self) -> QRectF:
        px = self._styles.px
        if self.is_result:
            return self._reasoning_row()
        if self.is_quoted:
            bottom = self._bubble_rect().bottom()
            has_row = self.message.sibling_count > 1 or bool(self.progress or self.note)
            return QRectF(0, bottom, self._width, px(ROW) if has_row else 0)
        if lines := self._trouble_lines():
            top = self._trouble_rect(lines).bottom() + px(4)
        else:
            top = self._note_rect().bottom() + px(8)
        return QRectF(0, top, self._width, px(ROW))

    def _note_rect(self) -> QRectF:
        """Below the text of a reply; without height where there is no note."""
        height = self._styles.px(ROW) if self.note and self.is_reply else 0.0
        return QRectF(0, self.section_rect(CONTENT).bottom(), self._width, height)

    def _footer_actions(self) -> list[Pressable]:
        """What stands beside a bubble or under a reply; versions where there are several."""
        if self.is_streaming:
            return []
        px, row, middle = self._styles.px, self._footer_rect(), self._footer_rect().center().y()
        versions: list[Pressable] = []
        if self.message.sibling_count > 1 and not self.is_bare:
            versions = version_row(row.right(), middle, self._styles)
        if self.is_quoted and not self.is_summary:
            bubble = self._bubble_rect()
            right, middle = bubble.left() - px(6), bubble.bottom() - px(7) - px(SIDE) / 2
            fitting = max(0, int(right // px(SIDE + 2)) - 1)
            offered = quick_offers(self.message)[-fitting:] if fitting and not self.is_bare else []
            return [*button_row(offered, right, middle, self._styles), *versions]
        if self.is_bare:
            return copy_button(row.right(), middle, self._styles)
        offered = quick_offers(self.message)
        ways = [offer.name for offer in ways_out(self.message)]
        if self._trouble_lines() and "try_again" in ways:
            offered = [offer for offer in offered if offer.name != "retry"]
        right = versions[0].rect.left() - px(4) if versions else row.right()
        return [*button_row(offered, right, middle, self._styles), *versions]

    # Inside: painting

    def _paint_current(self, painter: QPainter) -> None:
        """A bar beside the text: left of a reply or summary, right of what the user wrote."""
        px = self._styles.px
        is_right = self.is_quoted and not self.is_summary
        left = self._width + px(11) if is_right else -px(14)
        bar = QRectF(left, 0, px(3), self._footer_rect().bottom())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._styles.colors.accent))
        painter.drawRoundedRect(bar, px(1.5), px(1.5))

    def _paint_bubble(self, painter: QPainter) -> None:
        px = self._styles.px
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._styles.colors.bubble))
        if not self._is_attachments_alone:
            painter.drawRoundedRect(self._bubble_rect(), px(14), px(14))

    def _paint_reasoning_row(self, painter: QPainter, look: ItemLook) -> None:
        styles, row = self._styles, self._reasoning_row()
        px = styles.px
        is_hot = look.hovered is not None and look.hovered.name == "toggle_reasoning"
        color = QColor(styles.colors.ink if is_hot else styles.colors.dim)
        if is_bad(self.message) and not is_hot:
            color = QColor(styles.colors.error)
        side = px(12)
        box = QRectF(0, row.center().y() - side / 2, side, side)
        paint_icon(painter, box, "caret-down" if self.is_reasoning_open else "caret-right", color)
        painter.setFont(styles.small)
        painter.setPen(color)
        label = row.adjusted(px(18), 0, 0, 0)
        words = self.reasoning_label()
        if self.is_result:
            label.setRight(
                min((a.rect.left() for a in self._footer_actions()), default=row.right())
            )
            elide = Qt.TextElideMode.ElideRight
            words = painter.fontMetrics().elidedText(words, elide, round(label.width()))
        painter.drawText(label, Qt.AlignmentFlag.AlignVCenter, words)
        if self.is_reasoning_open:
            body = self.section_rect(REASONING)
            painter.fillRect(QRectF(px(5), body.top(), px(2), body.height()), styles.colors.line)
        if look.focused is not None and look.focused.name == "toggle_reasoning":
            paint_focus(painter, row, styles)

    def reasoning_label(self) -> str:
        """What the fold is called: how long it took, or that the model is still at it."""
        if self.is_result:
            return result_label(self.message)
        if self.is_streaming and not self._content.document.source_length:
            return "Thinking…"
        seconds = self.message.counts.reasoning_s
        return "Reasoning" if seconds is None else f"Reasoning · {seconds_text(seconds)}"

    def _paint_growth(self, painter: QPainter) -> None:
        """A mark where a streaming reply grows, or what it waits for."""
        if not self.is_streaming:
            return
        styles, rect = self._styles, self.section_rect(CONTENT)
        if not self._shown.document.source_length:
            painter.setFont(styles.small)
            painter.setPen(QColor(styles.colors.dim))
            words = self.progress or (
                "" if self._reasoning is not None else "Waiting for the reply…"
            )
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, words)
            return
        end = self._shown.end_point()
        if end is not None:
            mark = QRectF(0, 0, styles.px(7), styles.reply.pixelSize() * 1.15)
            mark.moveTopLeft(rect.topLeft() + end + QPointF(styles.px(3), styles.px(1)))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(styles.colors.accent))
            painter.drawRoundedRect(mark, styles.px(2), styles.px(2))

    def _paint_note(self, painter: QPainter) -> None:
        styles, rect = self._styles, self._note_rect()
        if rect.height():
            painter.setFont(styles.small)
            painter.setPen(QColor(styles.colors.dim))
            metrics, room = painter.fontMetrics(), round(rect.width())
            words = metrics.elidedText(self.note, Qt.TextElideMode.ElideRight, room)
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, words)

    def _paint_trouble(self, painter: QPainter, lines: TextLines, clip: QRectF) -> None:
        styles = self._styles
        box = self._trouble_rect(lines)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(styles.colors.error_tone))
        painter.drawRoundedRect(box, styles.px(10), styles.px(10))
        painter.setPen(QColor(styles.colors.ink))
        above = styles.px(42) if len(ways_out(self.message)) > 1 else 0
        at = QPointF(styles.px(16), box.center().y() - (lines.height + above) / 2)
        lines.paint(painter, at, None, styles, clip)

    def _paint_footer(self, painter: QPainter, look: ItemLook) -> None:
        styles, row = self._styles, self._footer_rect()
        painter.setFont(styles.small)
        painter.setPen(QColor(styles.colors.dim))
        actions = self._footer_actions()
        shown = [a for a in actions if look.is_lit or a.name not in QUIET]
        beside = [action.rect.left() for action in shown if action.rect.top() >= row.top()]
        right = min(beside, default=row.right() + styles.px(8))
        metrics = painter.fontMetrics()
        room = row.adjusted(0, 0, right - styles.px(8) - row.right(), 0)
        if words := self._footer_words(lambda t: metrics.horizontalAdvance(t) <= room.width()):
            words = metrics.elidedText(words, Qt.TextElideMode.ElideRight, round(room.width()))
            is_right = self.is_quoted and not self.is_summary
            side = Qt.AlignmentFlag.AlignRight if is_right else Qt.AlignmentFlag.AlignLeft
            painter.drawText(room, side | Qt.AlignmentFlag.AlignVCenter, words)
        versions = [a.rect for a in actions if a.name.startswith("version")]
        if versions:
            label = QRectF(versions[0].topRight(), versions[1].bottomLeft())
            painter.drawText(label, Qt.AlignmentFlag.AlignCenter, version_text(self.message))

    def _footer_words(self, fits: Callable[[str], bool]) -> str:
        """The quiet line: why nothing happens yet, else the figures of a reply that has ended."""
        if self.is_streaming or self.is_result:
            return ""
        return self.progress or (self.note if self.is_quoted else figures_text(self.message, fits))


def _section_part(
    selection: tuple[ItemSpot, ItemSpot] | None, section: int
) -> tuple[Spot, Spot] | None:
    """The part of an item's selection that falls into one of its texts."""
    if selection is None or not selection[0][0] <= section <= selection[1][0]:
        return None
    first, last = selection
    end = 1 << 30
    low = first[1:] if first[0] == section else (0, 0, 0)
    high = last[1:] if last[0] == section else (end, end, end)
    return low, high
