"""Blocks of Markdown as HTML: each text is escaped, each element is one of ours.

The parser's blocks are flat, and say what stands around them with letters (`Frame.nest`); here
lists and quotes are elements again. A formula is a drawing whose shapes are copied one by one, so
that nothing else can come with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from xml.etree import ElementTree

from app.insight.tour.page.markup import Markup, escaped, joined, tag
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
from app.markdown.formula_child import INK
from app.markdown.formula_drawings import Drawing, FormulaDrawings
from app.markdown.highlight import runs

MAX_COLOURED: Final = 200_000
"""Letters of code: more stays plain ink, as on the screen."""
FORMULA_EM: Final = 1.05
_SHAPES: Final = {
    "path": ("d", "fill", "stroke", "stroke-width"),
    "rect": ("x", "y", "width", "height", "fill", "stroke", "stroke-width"),
    "line": ("x1", "y1", "x2", "y2", "stroke", "stroke-width"),
}
_SAFE: Final = re.compile(r"[\w#.,()%+\- ]*")
"""What a shape's attribute may hold: numbers, commands of a path, a colour."""
_NUMBER: Final = re.compile(r"(\d+)[.)]")


class BlockWriter:
    """Of one text: `pieces` gives its HTML, block by block."""

    def __init__(self, drawings: FormulaDrawings) -> None:
        self._drawings = drawings
        self._open: list[str] = []

    def pieces(self, blocks: Iterable[Block]) -> Iterator[Markup]:
        for block in blocks:
            yield from self._containers(block.frame)
            yield self._block(block)
        yield from self._close(0)

    # --- lists and quotes -----------------------------------------------------------------------

    def _containers(self, frame: Frame) -> Iterator[Markup]:
        """End what the block isn't in any more, begin what it is in."""
        nest, now = frame.nest, [each[0] for each in self._open]
        kept = 0
        while kept < min(len(nest), len(now)) and nest[kept] == now[kept]:
            kept += 1
        item = nest.rfind("l") if frame.marker else -1
        if item >= 0:
            kept = min(kept, item)
        if "q" in nest and not frame.joins_quote:
            kept = min(kept, nest.rindex("q"))
        wanted = _list_of(frame.marker)
        goes_on = item == kept < len(self._open) and self._open[item] == f"l{wanted}"
        yield from self._close(kept + goes_on)
        if goes_on:
            yield Markup("</li>")
            yield _item(wanted, frame.marker)
        for place in range(kept + goes_on, len(nest)):
            if nest[place] == "q":
                self._open.append("q")
                yield Markup("<blockquote>")
                continue
            kind = wanted if place == item else "ul"
            self._open.append(f"l{kind}")
            yield Markup('<ul class="marks">' if kind == "marks" else f"<{kind}>")
            yield _item(kind, frame.marker) if place == item else Markup("<li>")

    def _close(self, kept: int) -> Iterator[Markup]:
        while len(self._open) > kept:
            last = self._open.pop()
            if last == "q":
                yield Markup("</blockquote>")
            else:
                yield Markup("</li></ol>" if last == "lol" else "</li></ul>")

    # --- blocks ---------------------------------------------------------------------------------

    def _block(self, block: Block) -> Markup:
        if isinstance(block, TextBlock):
            name = f"h{block.level}" if block.level else "p"
            kind = "tight" if block.frame.is_tight and not block.level else None
            return tag(name, self._spans(block.spans), class_=kind, dir="auto")
        if isinstance(block, CodeBlock):
            return code_card(block.code, block.language)
        if isinstance(block, TableBlock):
            return self._table(block)
        if isinstance(block, MathBlock):
            drawing = self._drawings.find(block.tex, is_display=True)
            if drawing is None:
                return tag("pre", block.source)
            return tag("div", formula(drawing, block.source), class_="formula")
        if isinstance(block, LiteralBlock):
            if block.is_mono:
                return tag("pre", block.text, dir="auto")
            return tag("p", block.text, class_="plain", dir="auto")
        assert isinstance(block, RuleBlock)
        return Markup("<hr>")

    def _table(self, block: TableBlock) -> Markup:
        def row(name: str, cells: Iterable[tuple[Span, ...]]) -> Markup:
            aligned = zip(cells, block.aligns, strict=False)
            return tag(
                "tr",
                *(
                    tag(name, self._spans(cell), class_=_align(align), dir="auto")
                    for cell, align in aligned
                ),
            )

        body = tag("tbody", *(row("td", cells) for cells in block.rows))
        table = tag("table", tag("thead", row("th", block.header)), body)
        return tag("div", table, class_="wide")

    def _spans(self, spans: Iterable[Span]) -> Markup:
        return joined(self._span(span) for span in spans)

    def _span(self, span: Span) -> Markup:
        if span.tex:
            drawing = self._drawings.find(span.tex, is_display=False)
            if drawing is not None:
                return formula(drawing, span.text)
        made = escaped(span.text)
        if span.is_code or span.tex:
            made = tag("code", made)
        if span.is_note:
            made = tag("sup", made)
        if span.is_struck:
            made = tag("s", made)
        if span.is_italic:
            made = tag("i", made)
        if span.is_bold:
            made = tag("b", made)
        if span.is_dim:
            made = tag("span", made, class_="dim")
        if span.href:
            made = tag("a", made, href=span.href, rel="noopener noreferrer")
        return made


def code_card(code: str, language: str) -> Markup:
    """As on the screen: the language above, the lines coloured."""
    label = tag("div", language, class_="language") if language else Markup("")
    return tag("div", label, tag("pre", tag("code", _coloured(code, language))), class_="card")


def _coloured(code: str, language: str) -> Markup:
    if not language or len(code) > MAX_COLOURED:
        return escaped(code)
    parts, at = [], 0
    for start, length, color in runs(code, language):
        if start < at:
            continue
        name = f"c-{color.removeprefix('code_')}"
        parts += [code[at:start], tag("span", code[start : start + length], class_=name)]
        at = start + length
    return joined([*parts, code[at:]])


def formula(drawing: Drawing, source: str) -> Markup:
    """`source` is what a screen reader says."""
    try:
        svg = ElementTree.fromstring(drawing.svg)
    except ElementTree.ParseError:
        return tag("code", source)
    box = svg.get("viewBox", "")
    if not _SAFE.fullmatch(box):
        return tag("code", source)
    shapes = []
    for shape in svg.iter():
        name = shape.tag.rpartition("}")[2]
        known = {key: shape.get(key) for key in _SHAPES.get(name, ())}
        values = {key: value for key, value in known.items() if value and _SAFE.fullmatch(value)}
        if values:
            ink = {
                key.replace("-", "_"): "currentColor" if value == INK else value
                for key, value in values.items()
            }
            shapes.append(tag(name, **ink))
    high = (drawing.ascent + drawing.descent) * FORMULA_EM
    style = f"height:{high:.3f}em;width:{drawing.width * FORMULA_EM:.3f}em;"
    style += f"vertical-align:{-drawing.descent * FORMULA_EM:.3f}em"
    return tag(
        "svg",
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=box,
        class_="tex",
        style=style,
        role="img",
        aria_label=source,
    )


def _item(kind: str, marker: str) -> Markup:
    if kind == "ol" and (number := _NUMBER.fullmatch(marker)):
        return Markup(f'<li value="{int(number[1])}">')
    if kind == "marks":
        return Markup(f"<li>{tag('span', marker, class_='mark')}")
    return Markup("<li>")


def _list_of(marker: str) -> str:
    """
    >>> [_list_of(marker) for marker in ("•", "3.", "☑", "a")]
    ['ul', 'ol', 'marks', 'marks']
    """
    if marker in ("•", "◦", "▪"):
        return "ul"
    return "ol" if _NUMBER.fullmatch(marker) else "marks"


def _align(align: str) -> str | None:
    return align if align in ("right", "center") else None
