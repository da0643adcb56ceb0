"""One segment of Markdown → blocks, by markdown-it-py with GitHub's tables and strikethrough.

What must hold: HTML is text, an entity its character; images become their address; a link keeps its
target only if it is http, https or mailto; a formula keeps its source. Line breaks in a paragraph
stay line breaks, since people and small models mean them; footnotes stay where they are defined and
keep their labels, so that nothing is numbered anew while a reply streams.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from app.markdown import brackets, emphasis, maths
from app.markdown.blocks import (
    Block,
    CodeBlock,
    Frame,
    LiteralBlock,
    MathBlock,
    RuleBlock,
    Span,
    TableBlock,
    TextBlock,
)
from app.markdown.direction import is_right_to_left
from app.markdown.segments import NOTE, Segment, SegmentKind, language_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_OPENABLE = re.compile(r"^(?:https?://[^\s]|mailto:[^\s])", re.IGNORECASE)
_BARE_LINK = re.compile(r"(?<![\w/.@-])(?:https?://|www\.)[^\s<>\"`\]]+", re.IGNORECASE)
_TASK = re.compile(r"^\[([ xX])\](?:\s|$)")
MAX_COLUMNS = 100
"""A table with more is shown as it was written: nobody reads it, and each cell is laid out."""
MARK_CHARS = 2
"""A footnote's label of at most so many letters stands before it, like an item's number."""
SHOWN_DATA = 40
_BULLETS = ("•", "◦", "▪")


@dataclass(frozen=True, slots=True)
class References:
    """What is defined anywhere in a text: targets of links by label, labels of footnotes."""

    links: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: frozenset[str] = frozenset()

    def joined(self, other: References) -> References:
        """Both; what was defined first holds."""
        return References({**other.links, **self.links}, self.notes | other.notes)

    def environment(self) -> dict[str, Any]:
        """As markdown-it and its footnotes want it."""
        refs = {f":{label}": -1 for label in self.notes}
        return {"references": dict(self.links), "footnotes": {"refs": refs, "list": {}}}


def parse_segment(segment: Segment, references: References) -> tuple[Block, ...]:
    """The blocks of one segment. `references` are the definitions of the whole text."""
    if segment.kind is SegmentKind.CODE:
        group = segment.group
        language = group.language if group else ""
        return (CodeBlock(segment.text, language, segment.part == 0, segment.is_last_part),)
    if segment.kind is SegmentKind.MATH:
        return _math_blocks(segment, references)
    if segment.kind is SegmentKind.PLAIN:
        return _plain_blocks(segment)
    source = f"{segment.head}\n{segment.text}" if segment.head else segment.text
    if segment.kind is SegmentKind.TABLE and source.partition("\n")[0].count("|") > MAX_COLUMNS:
        return (LiteralBlock(segment.text, is_mono=True, is_joined=segment.part > 0),)
    blocks = _Walk(references).blocks(source, segment.number)
    return _adjusted(segment, blocks)


def _math_blocks(segment: Segment, references: References) -> tuple[Block, ...]:
    """A formula that is whole; what was begun and not ended shows its source."""
    blocks = tuple(_Walk(references).blocks(segment.text, None))
    if any(isinstance(block, MathBlock) for block in blocks):
        return blocks
    return (LiteralBlock(segment.text, is_mono=True),)


def _plain_blocks(segment: Segment) -> tuple[Block, ...]:
    """One block for neighbouring lines of one direction; lines without letters go along."""
    groups: list[list[str]] = []
    was_rtl = None
    for line in segment.text.split("\n"):
        is_rtl = is_right_to_left(line)
        if groups and (is_rtl is was_rtl or is_rtl is None):
            groups[-1].append(line)
        elif groups and was_rtl is None:
            groups[-1].append(line)
            was_rtl = is_rtl
        else:
            groups.append([line])
            was_rtl = is_rtl
    return tuple(
        LiteralBlock("\n".join(lines), is_joined=i > 0 or segment.is_joined)
        for i, lines in enumerate(groups)
    )


def is_openable(target: str) -> bool:
    """Whether a link's target may be offered for opening."""
    return _OPENABLE.match(target) is not None


def read_definitions(lines: Sequence[str]) -> References:
    """The definitions ("[label]: target", "[^label]: words") in some lines."""
    env: dict[str, Any] = {}
    links = [line for line in lines if not line.lstrip().startswith("[^")]
    _markdown().parse("\n\n".join(links), env)
    notes = (NOTE.match(line) for line in lines)
    labels = frozenset(note[1] for note in notes if note is not None)
    return References(env.get("references", {}), labels)


def _adjusted(segment: Segment, blocks: list[Block]) -> tuple[Block, ...]:
    if not blocks:
        return ()
    first = blocks[0]
    if segment.kind is SegmentKind.LIST:
        # A tight list is tight inside; what stands above it decides about its first line.
        first = replace(first, frame=replace(first.frame, is_tight=segment.is_tight))
    if isinstance(first, TableBlock) and segment.part:
        first = replace(first, is_continuation=True)
    return (first, *blocks[1:])


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    markdown = MarkdownIt("js-default", {"html": False, "linkify": False, "typographer": False})
    markdown.disable(["html_block", "html_inline"])
    maths.use(markdown)
    emphasis.use(markdown)
    brackets.use(markdown)
    footnote_plugin(markdown, inline=False, move_to_end=False)
    return markdown


@dataclass(slots=True)
class _List:
    """number: of the next item; None in a bullet list."""

    number: int | None
    mark: str


class _Walk:
    """Goes through markdown-it's tokens once and flattens them."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._out: list[Block] = []
        self._nest = ""
        self._lists: list[_List] = []
        self._marker = ""
        self._note = ""
        self._quote_start = 0
        self._table: _TableRead | None = None

    def blocks(self, source: str, number: int | None) -> list[Block]:
        tokens = _markdown().parse(source, self._references.environment())
        for i, token in enumerate(tokens):
            self._take(token, tokens, i)
            if token.type == "ordered_list_open" and number is not None:
                self._lists[-1].number = number
                number = None
        return self._out

    def _take(self, token: Token, tokens: Sequence[Token], i: int) -> None:
        kind = token.type
        if kind == "inline":
            self._inline(token, tokens[i - 1])
        elif kind == "fence":
            self._code(token.content, language_of(token.info))
        elif kind == "code_block":
            self._code(token.content, "")
        elif kind == "math_block":
            self._put(MathBlock(token.content.strip(), token.markup, self._frame()))
        elif kind == "hr":
            self._put(RuleBlock(self._frame()))
        elif kind.startswith(("table", "thead", "tbody", "tr_", "th_", "td_")):
            self._take_table(token)
        else:
            self._take_container(token)

    def _take_container(self, token: Token) -> None:
        kind = token.type
        if kind == "blockquote_open":
            self._nest += "q"
            self._quote_start = len(self._out)
        elif kind == "footnote_reference_open":
            self._nest += "l"
            self._marker = self._note = str(token.meta["label"])
            if len(self._marker) > MARK_CHARS:
                self._marker = ""
        elif kind in ("blockquote_close", "list_item_close", "footnote_reference_close"):
            if self._marker:
                self._put(TextBlock((), frame=self._frame(is_tight=True)))
            self._nest = self._nest[:-1]
        elif kind == "bullet_list_open":
            self._lists.append(_List(None, _BULLETS[min(len(self._lists), 2)]))
        elif kind == "ordered_list_open":
            self._lists.append(_List(int(token.attrs.get("start", 1)), "."))
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
        elif kind == "list_item_open":
            self._open_item(token)

    def _open_item(self, token: Token) -> None:
        if self._marker:
            # The item before this one in the nest has no text of its own.
            self._put(TextBlock((), frame=self._frame(is_tight=True)))
        self._nest += "l"
        current = self._lists[-1]
        if current.number is None:
            self._marker = current.mark
        else:
            self._marker = f"{current.number}{token.markup or '.'}"
            current.number += 1

    def _inline(self, token: Token, opener: Token) -> None:
        if self._table is not None:
            self._table.add_cell(_spans(token.children or []))
            return
        children = list(token.children or [])
        level = int(opener.tag[1]) if opener.type == "heading_open" else 0
        spans = _spans(children)
        if self._marker and spans and (task := _TASK.match(spans[0].text)):
            self._marker = "☐" if task[1] == " " else "☑"
            spans = (replace(spans[0], text=spans[0].text[task.end() :]), *spans[1:])
        if self._note:
            if not self._marker:
                spans = (Span(f"[{self._note}]", is_note=True), Span(" "), *spans)
            self._note = ""
        self._put_text(spans, level, is_tight=opener.hidden)

    def _put_text(self, spans: tuple[Span, ...], level: int, *, is_tight: bool) -> None:
        """A paragraph; a formula that is displayed stands between two parts of it."""
        part: list[Span] = []
        for span in spans:
            if not span.is_display:
                part.append(span)
                continue
            if any(other.text.strip() for other in part):
                self._put(TextBlock(_trimmed(part), level, self._frame(is_tight=is_tight)))
                is_tight = True
            part = []
            self._put(MathBlock(span.tex, span.text, self._frame(is_tight=is_tight)))
        if not part and spans:
            return
        if self._takes_in_punctuation(part):
            return
        is_rest = any(span.is_display for span in spans)
        if is_rest and not any(span.text.strip() for span in part):
            return
        words = _trimmed(part) if is_rest else tuple(part)
        self._put(TextBlock(words, level, self._frame(is_tight=is_tight)))

    def _takes_in_punctuation(self, rest: list[Span]) -> bool:
        """A full stop behind a formula that stands alone is set with it."""
        words = "".join(span.text for span in rest)
        last = self._out[-1] if self._out else None
        if not isinstance(last, MathBlock) or words.strip() not in (".", ",", ";", ":", "!", "?"):
            return False
        mark = words.strip()
        self._out[-1] = replace(last, tex=last.tex + mark, source=last.source + words.rstrip())
        return True

    def _code(self, content: str, language: str) -> None:
        code = content.removesuffix("\n")
        self._put(CodeBlock(code, language, frame=self._frame()))

    def _take_table(self, token: Token) -> None:
        if token.type == "table_open":
            self._table = _TableRead()
        elif self._table is not None and token.type == "table_close":
            self._put(self._table.block(self._frame()))
            self._table = None
        elif self._table is not None:
            self._table.take(token)

    def _frame(self, *, is_tight: bool = False) -> Frame:
        joins = "q" in self._nest and len(self._out) > self._quote_start
        frame = Frame(self._nest, self._marker, is_tight, joins)
        self._marker = ""
        return frame

    def _put(self, block: Block) -> None:
        self._out.append(block)


class _TableRead:
    """Collects one table's cells."""

    def __init__(self) -> None:
        self._rows: list[list[tuple[Span, ...]]] = []
        self._aligns: list[str] = []

    def take(self, token: Token) -> None:
        if token.type == "tr_open":
            self._rows.append([])
        elif token.type == "th_open":
            style = str(token.attrs.get("style", ""))
            self._aligns.append(style.rpartition(":")[2] or "left")

    def add_cell(self, spans: tuple[Span, ...]) -> None:
        self._rows[-1].append(spans)

    def block(self, frame: Frame) -> TableBlock:
        rows = [tuple(row) for row in self._rows]
        return TableBlock(rows[0], tuple(rows[1:]), tuple(self._aligns), frame=frame)


def _trimmed(spans: list[Span]) -> tuple[Span, ...]:
    """Without the line breaks beside a formula that stands alone."""
    first = replace(spans[0], text=spans[0].text.lstrip())
    inner = [first, *spans[1:]]
    return (*inner[:-1], replace(inner[-1], text=inner[-1].text.rstrip()))


def _spans(children: Sequence[Token]) -> tuple[Span, ...]:
    """Inline tokens as runs in one style each, neighbours of the same style joined."""
    style = Span("")
    out: list[Span] = []
    depth = {"strong": 0, "em": 0, "s": 0}
    target = ""
    for token in children:
        name, _, end = token.type.rpartition("_")
        if name in depth:
            depth[name] += 1 if end == "open" else -1
        elif token.type == "link_open":
            target = str(token.attrs.get("href", ""))
        elif token.type == "link_close":
            if target and not is_openable(target):
                out.append(replace(style, text=f" ({target})", is_dim=True))
            target = ""
        href = target if is_openable(target) else ""
        style = Span("", depth["strong"] > 0, depth["em"] > 0, depth["s"] > 0, href=href)
        out.extend(_leaf(token, style))
    return _joined(out)


def _leaf(token: Token, style: Span) -> list[Span]:
    if token.type == "math_inline":
        made = _styled(style, token.markup)
        tex = token.content.strip()
        return [replace(made, tex=tex, href="", is_display=token.meta["is_display"])]
    if token.type == "footnote_ref":
        return [replace(_styled(style, f"[{token.meta['label']}]"), is_note=True, href="")]
    if token.type == "code_inline":
        return [_styled(style, token.content, is_code=True)]
    if token.type in ("softbreak", "hardbreak"):
        return [_styled(style, "\n")]
    if token.type == "image":
        address = shown_address(str(token.attrs.get("src", "")))
        href = address if is_openable(address) else ""
        label = f"image: {token.content} " if token.content else "image: "
        return [
            _styled(style, label, is_dim=True),
            _styled(style, address, href=href, is_dim=not href),
        ]
    if not token.content:
        return []
    if style.href:
        return [_styled(style, token.content)]
    return _with_bare_links(token.content, style)


def shown_address(address: str) -> str:
    """An image's address; data in the place of one is cut.

    >>> shown_address("data:image/png;base64," + "A" * 100)
    'data:image/png;base64,AAAAAAAAAAAAAAAAAA… (122 characters)'
    """
    if address[:5].lower() != "data:" or len(address) <= SHOWN_DATA:
        return address
    return f"{address[:SHOWN_DATA]}… ({len(address):,} characters)"


def _with_bare_links(text: str, style: Span) -> list[Span]:
    if "://" not in text and "www." not in text:
        return [_styled(style, text)]
    out = []
    start = 0
    for match in _BARE_LINK.finditer(text):
        address = bare_address(match[0])
        if not address:
            continue
        if match.start() > start:
            out.append(_styled(style, text[start : match.start()]))
        target = address if "://" in address else f"http://{address}"
        out.append(_styled(style, address, href=target))
        start = match.start() + len(address)
    if start < len(text):
        out.append(_styled(style, text[start:]))
    return out


def bare_address(found: str) -> str:
    """An address in running text without the punctuation behind it; a bracket belongs to it
    if it was opened in it.

    >>> bare_address("https://e.test/a_(b)),"), bare_address("www.")
    ('https://e.test/a_(b)', '')
    """
    address = found
    while address:
        is_extra_bracket = address[-1] == ")" and address.count(")") > address.count("(")
        if address[-1] not in ".,:;!?*_~'" and not is_extra_bracket:
            break
        address = address[:-1]
    host = address.rpartition("://")[2]
    return address if host and ("://" in address or "." in host[4:]) else ""


def _styled(
    style: Span, text: str, *, href: str | None = None, is_code: bool = False, is_dim: bool = False
) -> Span:
    """A run in a style. (dataclasses.replace would take most of a table's time.)"""
    return Span(
        text,
        style.is_bold,
        style.is_italic,
        style.is_struck,
        is_code,
        is_dim,
        style.href if href is None else href,
    )


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    out: list[Span] = []
    for style, group in groupby(spans, key=_style_of):
        run = list(group)
        if style[-2] or len(run) == 1:
            out += run
        else:
            out.append(replace(run[0], text="".join(span.text for span in run)))
    return tuple(span for span in out if span.text)


def _style_of(span: Span) -> tuple[object, ...]:
    return (
        span.is_bold,
        span.is_italic,
        span.is_struck,
        span.is_code,
        span.is_dim,
        span.href,
        span.tex,
        span.is_note,
    )
