"""What is selected in a transcript, and the text that copying it gives.

A message that is selected whole is copied as it was written (its Markdown); a part of one as
it is read. Who wants the other gets it: `RAW` is the source of every message that the selection
touches, `SHOWN` all of it as it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.markdown.blocks import Block, CodeBlock, plain_text
from app.markdown.document import Document
from models.records import Message, Role
from ui.transcript.body import Body, Spot
from ui.transcript.item import CONTENT, REASONING, ItemSpot, MessageItem
from ui.transcript.rows import Rows
from ui.widgets.utf16 import slice_utf16

RowSpot = tuple[int, int, int, int, int]
"""Message index, section, segment, block, UTF-16 position."""

MIXED, RAW, SHOWN = "mixed", "raw", "shown"
_END = 1 << 30


@dataclass(slots=True)
class Selection:
    """From where the mouse went down to where it is."""

    anchor: RowSpot
    focus: RowSpot

    @property
    def ordered(self) -> tuple[RowSpot, RowSpot]:
        return (self.anchor, self.focus) if self.anchor <= self.focus else (self.focus, self.anchor)

    @property
    def is_empty(self) -> bool:
        return self.anchor == self.focus

    def moved_by(self, count: int) -> Selection:
        """The same after so many messages came before all others."""
        first, second = self.anchor, self.focus
        if first == (0, 0, 0, 0, 0) and second[1] == _END:  # everything: what came, too
            return Selection(first, (second[0] + count, *second[1:]))
        return Selection((first[0] + count, *first[1:]), (second[0] + count, *second[1:]))

    def part_of(self, index: int) -> tuple[ItemSpot, ItemSpot] | None:
        """The part that falls into one message."""
        start, end = self.ordered
        if self.is_empty or not start[0] <= index <= end[0]:
            return None
        low: ItemSpot = start[1:] if start[0] == index else (0, 0, 0, 0)
        high: ItemSpot = end[1:] if end[0] == index else (_END, _END, _END, _END)
        return low, high


def whole(count: int) -> Selection:
    """Everything in a conversation of `count` messages."""
    return Selection((0, 0, 0, 0, 0), (count - 1, _END, _END, _END, _END))


def selected_text(rows: Rows, selection: Selection, form: str = MIXED) -> str:
    """The text to copy."""
    start, end = selection.ordered
    texts = []
    for index in range(start[0], min(end[0] + 1, len(rows))):
        part = selection.part_of(index)
        if part is None:
            continue
        is_inner = start[0] < index < end[0]
        if form == SHOWN:
            text = _inner_text(rows.message(index)) if is_inner else ""
            text = text or item_text(rows.item(index), part, form)
        elif form == RAW and rows.has_item(index):
            text = rows.item(index).source
        elif form == RAW or is_inner:
            text = rows.message(index).content
        else:
            text = item_text(rows.item(index), part)
        if text:
            texts.append(text)
    return "\n\n".join(texts)


def _inner_text(message: Message) -> str:
    """A whole message as it is read, without an item made for it."""
    text = message.content or (message.reasoning if message.role is Role.TOOL else "")
    document = Document(text, is_plain=message.role is not Role.ASSISTANT)
    return _shown_text(document, (0, 0, 0), (_END, _END, _END))


def item_text(item: MessageItem, part: tuple[ItemSpot, ItemSpot], form: str = MIXED) -> str:
    """The selected text of one message."""
    if item.tokens is not None:
        return item.tokens.text_between(part[0][1:], part[1][1:])
    texts = []
    if item.reasoning is not None and item.is_reasoning_open and part[0][0] == REASONING:
        high = part[1][1:] if part[1][0] == REASONING else (_END, _END, _END)
        texts.append(_body_text(item.reasoning, part[0][1:], high, form))
    if part[1][0] >= CONTENT:
        low = part[0][1:] if part[0][0] == CONTENT else (0, 0, 0)
        high = part[1][1:] if part[1][0] == CONTENT else (_END, _END, _END)
        texts.append(_body_text(item.content, low, high, form))
    return "\n\n".join(text for text in texts if text)


def _body_text(body: Body, low: Spot, high: Spot, form: str) -> str:
    if form == MIXED and low == (0, 0, 0) and _is_behind_end(body, high):
        return body.document.source
    return _shown_text(body.document, low, high)


def _shown_text(document: Document, low: Spot, high: Spot) -> str:
    segments = document.segments
    text = ""
    last: Block | None = None
    for i in range(low[0], min(high[0] + 1, len(segments))):
        for j, block in enumerate(document.blocks(segments[i])):
            if not low[:2] <= (i, j) <= high[:2]:
                continue
            whole_text = plain_text(block)
            start = low[2] if (i, j) == low[:2] else 0
            end = high[2] if (i, j) == high[:2] else _END
            piece = slice_utf16(whole_text, start, end)
            if start == 0 and block.frame.marker:
                depth = block.frame.nest.count("l") - 1
                piece = f"{'  ' * depth}{block.frame.marker} {piece}"
            text += (_between(last, block) if last is not None else "") + piece
            last = block
    return text


def _is_behind_end(body: Body, spot: Spot) -> bool:
    if spot[0] == _END:
        return True
    segments = body.document.segments
    if not segments:
        return True
    blocks = body.document.blocks(segments[-1])
    length = len(plain_text(blocks[-1]).encode("utf-16-le")) // 2 if blocks else 0
    return spot >= (len(segments) - 1, max(0, len(blocks) - 1), length)


def _between(first: Block, second: Block) -> str:
    if isinstance(second, CodeBlock) and not second.is_first:
        return "\n"
    return "\n" if first.frame.nest and second.frame.is_tight else "\n\n"
