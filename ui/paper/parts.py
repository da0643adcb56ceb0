"""What stands on paper of a chat, part by part, made on the export's thread: parsed texts, names,
pictures. No Qt: nothing here is laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from app.chat.exchange.choices import Choices
from app.chat.exchange.html_page import parts_sent
from app.chat.exchange.pictures import type_of
from app.chat.exchange.reading import Chat, trouble_of, who_said
from app.chat.replies.calls import calls_of
from app.local_time import here
from app.markdown.blocks import Block, MathBlock, Span, TableBlock, TextBlock
from app.markdown.document import Document
from app.markdown.formula_drawings import Drawing
from app.markdown.highlight import GroupHighlight, needs_group_highlight
from app.markdown.segments import Segment
from models.records import Attachment, Message, Role

MARKED: Final = 60
"""Letters of a message in its bookmark."""
COLOURING_S: Final = 5.0


class Look(StrEnum):
    REPLY = "reply"
    SAID = "said"
    DIM = "dim"


@dataclass(slots=True)
class Line:
    """Small words on a line of their own. `is_head`: over a message, and never the last line of a
    page; `bold` comes first in it. `mark`: its bookmark."""

    words: str
    bold: str = ""
    is_head: bool = False
    is_title: bool = False
    mark: str = ""


@dataclass(slots=True)
class Text:
    """A segment of a text, with its formulas. `is_first`: the text begins with it."""

    document: Document
    segment: Segment
    look: Look
    is_first: bool
    is_last: bool
    drawn: dict[tuple[str, bool], Drawing] = field(default_factory=dict)


@dataclass(slots=True)
class Image:
    data: bytes
    name: str


Part = Line | Text | Image


def parts_of_chat(chat: Chat, choices: Choices) -> Iterator[Part]:
    stretches = chat.stretches(all_versions=choices.branches)
    yield Line(chat.title, is_title=True)
    if chat.conversation.system_prompt:
        yield Line("", "System prompt", is_head=True, mark="System prompt")
        yield from _texts(chat, Document(chat.conversation.system_prompt, is_plain=True), Look.DIM)
    for stretch in stretches:
        if stretch.number:
            name, above = f"Branch {stretch.number}", stretch.above
            where = f"after message {chat.numbers[above.id]}" if above else "from the beginning"
            yield Line(f"Goes on {where}.", name, is_head=True, mark=name)
        for message in stretch.messages:
            chat.step()
            yield from parts_of_message(chat, message, choices)


def parts_of_message(chat: Chat, message: Message, choices: Choices) -> Iterator[Part]:
    words = f"{here(message.created_at):%Y-%m-%d %H:%M}"
    if message.sibling_count > 1:
        words += f" · version {message.sibling_index + 1} of {message.sibling_count}"
    who = who_said(message)
    begins = " ".join(message.content[: 2 * MARKED].split())[:MARKED]
    yield Line(words, who, is_head=True, mark=f"{who}: {begins}" if begins else who)
    yield from _attached(chat, message.attachments)
    is_result = message.role is Role.TOOL
    if message.reasoning and (choices.reasoning or is_result):
        yield Line("Called" if is_result else "Reasoning")
        yield from _texts(chat, Document(message.reasoning, is_plain=is_result), Look.DIM)
    if is_result:
        yield from _texts(chat, Document(message.content, is_mono=True), Look.DIM)
    elif message.role is Role.ASSISTANT:
        yield from _texts(chat, Document(message.content), Look.REPLY)
    else:
        look = Look.SAID if message.role is Role.USER else Look.REPLY
        yield from _texts(chat, Document(message.content.strip("\n"), is_plain=True), look)
    for call in calls_of(message):
        yield Line(f"Called: {call.name}")
        yield from _texts(chat, Document(call.arguments, is_mono=True), Look.DIM)
    if trouble := trouble_of(message):
        yield Line(trouble)


def _texts(chat: Chat, document: Document, look: Look) -> Iterator[Text]:
    segments = document.segments
    if not document.source.strip():
        return
    for place, segment in enumerate(segments):
        chat.check()
        group = segment.group
        if group is not None and needs_group_highlight(group):
            GroupHighlight(group).step(COLOURING_S)
        drawn = _drawn(chat, document.blocks(segment))
        yield Text(document, segment, look, place == 0, place == len(segments) - 1, drawn)
        segment.blocks = None if segment.first is None else segment.blocks


def _drawn(chat: Chat, blocks: Sequence[Block]) -> dict[tuple[str, bool], Drawing]:
    wanted: dict[tuple[str, bool], None] = {}
    for block in blocks:
        if isinstance(block, MathBlock):
            wanted[block.tex, True] = None
        for span in _spans(block):
            if span.tex:
                wanted[span.tex, False] = None
    found = {key: chat.drawings.find(key[0], is_display=key[1]) for key in wanted}
    return {key: drawing for key, drawing in found.items() if drawing is not None}


def _spans(block: Block) -> Iterator[Span]:
    if isinstance(block, TextBlock):
        yield from block.spans
    elif isinstance(block, TableBlock):
        for row in (block.header, *block.rows):
            for cell in row:
                yield from cell


def _attached(chat: Chat, attachments: Sequence[Attachment]) -> Iterator[Part]:
    for attachment in attachments:
        data = chat.picture(attachment)
        if data and type_of(data):
            yield Image(data, attachment.name)
        parts = parts_sent(attachment)
        yield Line(f"{attachment.name} · {parts}" if parts else attachment.name)
