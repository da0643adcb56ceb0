"""The blocks of a whole text, for who writes it into a file: code and tables that were cut into
parts for the screen are one again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from app.markdown.blocks import Block, CodeBlock, LiteralBlock, TableBlock
from app.markdown.document import Document
from app.markdown.segments import SegmentKind


def whole_blocks(source: str, *, is_plain: bool = False) -> Iterator[Block]:
    """In order. `is_plain`: letter by letter, without Markdown, as one `LiteralBlock`.

    >>> [type(each).__name__ for each in whole_blocks("# A\\n\\n- b\\n\\n```py\\nx = 1\\n```")]
    ['TextBlock', 'TextBlock', 'CodeBlock']
    """
    if is_plain:
        if source.strip():
            yield LiteralBlock(source.replace("\r\n", "\n").strip("\n"))
        return
    parts: list[Block] = []
    for block in _blocks(Document(source)):
        if parts and not _goes_on(parts[0], block):
            yield _joined(parts)
            parts = []
        parts.append(block)
    if parts:
        yield _joined(parts)


def _blocks(document: Document) -> Iterator[Block]:
    for segment in document.segments:
        if segment.kind is SegmentKind.CODE and segment.group is not None:
            if segment.part == 0:
                code = segment.group.code.removesuffix("\n")
                yield CodeBlock(code, segment.group.language)
            continue
        yield from document.blocks(segment)
        segment.blocks = None  # of a long text not all of them at once


def _goes_on(first: Block, block: Block) -> bool:
    if isinstance(first, TableBlock):
        return isinstance(block, TableBlock) and block.is_continuation
    return isinstance(first, LiteralBlock) and isinstance(block, LiteralBlock) and block.is_joined


def _joined(parts: list[Block]) -> Block:
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, TableBlock):
        tables = (part for part in parts if isinstance(part, TableBlock))
        return replace(first, rows=tuple(chain.from_iterable(table.rows for table in tables)))
    assert isinstance(first, LiteralBlock)
    texts = (part.text for part in parts if isinstance(part, LiteralBlock))
    return replace(first, text="\n".join(texts))
