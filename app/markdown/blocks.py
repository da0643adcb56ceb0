"""What a message consists of, once parsed: flat blocks, each with the containers around it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A run of characters in one style. `href` is set only for targets that may be opened.

    `tex` is what a formula says; its `text` is the source, delimiters included, `is_display`
    those that ask for a line of its own. `is_note` marks a reference to a footnote.
    """

    text: str
    is_bold: bool = False
    is_italic: bool = False
    is_struck: bool = False
    is_code: bool = False
    is_dim: bool = False
    href: str = ""
    tex: str = ""
    is_display: bool = False
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a block stands.

    `nest` has one letter per container from the outside in: q for a block quote, l for a list
    item ("ql": a list in a quote). `marker` is set on the first block of an item.
    """

    nest: str = ""
    marker: str = ""
    is_tight: bool = False
    joins_quote: bool = False


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph (level 0) or a heading (1 to 6)."""

    spans: tuple[Span, ...]
    level: int = 0
    frame: Frame = Frame()


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Code, or one part of a long one. `code` has no final line feed."""

    code: str
    language: str = ""
    is_first: bool = True
    is_last: bool = True
    frame: Frame = Frame()


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Cells are runs of spans; `aligns` says left, right or center for each column.

    A continuation shows no header: its head stands in an earlier part of the same table.
    """

    header: tuple[tuple[Span, ...], ...]
    rows: tuple[tuple[tuple[Span, ...], ...], ...]
    aligns: tuple[str, ...]
    is_continuation: bool = False
    frame: Frame = Frame()


@dataclass(frozen=True, slots=True)
class RuleBlock:
    """A horizontal rule."""

    frame: Frame = Frame()


@dataclass(frozen=True, slots=True)
class MathBlock:
    """A formula on a line of its own. `source` is what was written, delimiters included."""

    tex: str
    source: str
    frame: Frame = Frame()


@dataclass(frozen=True, slots=True)
class LiteralBlock:
    """Text shown letter by letter: what a person wrote, or a formula that is not whole."""

    text: str
    is_mono: bool = False
    is_joined: bool = False
    frame: Frame = Frame()


Block = TextBlock | CodeBlock | TableBlock | RuleBlock | LiteralBlock | MathBlock


def plain_text(block: Block) -> str:
    """What a block says, as it is selected and copied: a table's cells stand between tabs."""
    if isinstance(block, TextBlock):
        return "".join(span.text for span in block.spans)
    if isinstance(block, CodeBlock):
        return block.code
    if isinstance(block, LiteralBlock):
        return block.text
    if isinstance(block, MathBlock):
        return block.source
    if isinstance(block, RuleBlock):
        return ""
    rows = block.rows if block.is_continuation else (block.header, *block.rows)
    return "\n".join("\t".join(_cell_text(cell) for cell in row) for row in rows)


def _cell_text(spans: tuple[Span, ...]) -> str:
    return "".join(span.text for span in spans).replace("\n", " ")
