"""A chat as a Word document, by python-docx: headings, lists, tables and code are real ones, in
styles that can be changed in one place. Formulas stay the text that they were written as.

What must hold: whatever stands in a chat, the file is one that word processors open (characters
that XML doesn't allow become U+FFFD, pictures that it can't hold are named).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from docx import Document
from docx.enum.style import WD_STYLE_TYPE
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.oxml.numbering import CT_Num
from docx.oxml.table import CT_Tbl
from docx.shared import Emu, Mm, Pt, RGBColor
from docx.table import Table, _Cell
from docx.text.paragraph import Paragraph
from docx.text.run import Run

from app.chat.exchange.choices import Choices
from app.chat.exchange.html_page import parts_sent
from app.chat.exchange.reading import Chat, trouble_of, who_said
from app.chat.replies.calls import calls_of
from app.local_time import here
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
    plain_text,
)
from app.markdown.direction import is_right_to_left
from app.markdown.highlight import runs as colored_runs
from app.markdown.whole import whole_blocks
from models.records import Attachment, Message, Role

if TYPE_CHECKING:
    from docx.document import Document as Docx
    from docx.styles.style import BaseStyle

PAPER_MM: Final = {"A4": (210, 297), "Letter": (215.9, 279.4)}
MARGIN_MM: Final = 22
MOST_COLUMNS: Final = 63
"""Of a table in Word."""
MAX_COLOURED: Final = 50_000
MOST_PICTURE: Final = Mm(120)
"""How high a picture is at most."""
MOST_ADDRESS: Final = 2000
"""Of a link: Word refuses files with longer ones."""
MOST_LEVELS: Final = 3
"""Of lists, with styles of their own."""
INDENT: Final = Pt(18)
_NUMBER: Final = re.compile(r"(\d{1,9})[.)]")
_NO_XML: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_COLORS: Final = {
    "code_comment": RGBColor(0x65, 0x61, 0x5A),
    "code_keyword": RGBColor(0x8A, 0x3B, 0x7A),
    "code_string": RGBColor(0x2A, 0x6B, 0x3C),
    "code_number": RGBColor(0x9A, 0x4A, 0x12),
    "code_name": RGBColor(0x24, 0x57, 0xA6),
    "code_type": RGBColor(0x0F, 0x6E, 0x84),
    "code_builtin": RGBColor(0x7A, 0x4F, 0xA8),
}
"""As on the screen, in the light."""
_DIM: Final = _COLORS["code_comment"]
_ALIGNS: Final = {"right": WD_ALIGN_PARAGRAPH.RIGHT, "center": WD_ALIGN_PARAGRAPH.CENTER}


def write(file: BinaryIO, chat: Chat, choices: Choices, now: datetime) -> None:
    """The whole chat; it is held in memory until it is written."""
    writer = _Writer(chat, choices)
    writer.properties(now)
    writer.write()
    writer.document.save(file)


class _Writer:
    def __init__(self, chat: Chat, choices: Choices) -> None:
        self._chat = chat
        self._choices = choices
        self.document: Docx = Document()
        self._ids: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._numbers: dict[int, tuple[int, int]] = {}
        self._body = "Normal"
        body: Any = self.document.element.body
        self._end: Any = body.sectPr
        """What stands behind all else. python-docx looks for it at each paragraph: in a long chat
        that takes minutes."""
        numbering: Any = self.document.part.numbering_part.element
        self._last_num: Any = numbering.num_lst[-1]
        self._abstracts: dict[str, int] = {}
        section = self.document.sections[0]
        wide, high = PAPER_MM[choices.paper]
        section.page_width, section.page_height = Mm(wide), Mm(high)
        for side in ("left_margin", "right_margin", "top_margin", "bottom_margin"):
            setattr(section, side, Mm(MARGIN_MM))
        self._room = Mm(wide - 2 * MARGIN_MM)
        self._make_styles()

    def properties(self, now: datetime) -> None:
        about = self.document.core_properties
        about.title, about.author = _clean(self._chat.title)[:255], "Cutaway"
        about.created = about.modified = now.replace(tzinfo=None)
        about.comments = ""

    def write(self) -> None:
        chat = self._chat
        stretches = chat.stretches(all_versions=self._choices.branches)
        self._add(_line(chat.title), "Title")
        if chat.conversation.system_prompt:
            self._add("System prompt", "Heading 2")
            self._text(chat.conversation.system_prompt, is_plain=True)
        for stretch in stretches:
            if stretch.number:
                self._add(f"Branch {stretch.number}", "Heading 1")
                above = stretch.above
                where = f"after message {chat.numbers[above.id]}" if above else "from the beginning"
                self._add(f"Goes on {where}.", "Dim")
            for message in stretch.messages:
                chat.step()
                self._message(message)

    # --- messages -------------------------------------------------------------------------------

    def _message(self, message: Message) -> None:
        when = f"{here(message.created_at):%Y-%m-%d %H:%M}"
        head = f"{who_said(message)} · {when}"
        if message.sibling_count > 1:
            head += f" · version {message.sibling_index + 1} of {message.sibling_count}"
        self._add(_line(head), "Heading 2")
        for attachment in message.attachments:
            self._attached(attachment)
        if message.reasoning and (self._choices.reasoning or message.role is Role.TOOL):
            is_call = message.role is Role.TOOL
            self._add("Called" if is_call else "Reasoning", "Dim")
            self._body = "Reasoning"
            self._text(message.reasoning, is_plain=is_call)
            self._body = "Normal"
        if message.role is Role.TOOL:
            self._code(message.content, "")
        else:
            self._text(message.content, is_plain=message.role is not Role.ASSISTANT)
        for call in calls_of(message):
            self._add(f"Called: {_line(call.name)}", "Dim")
            self._code(call.arguments, "json")
        if trouble := trouble_of(message):
            self._add(_line(trouble), "Dim")

    def _attached(self, attachment: Attachment) -> None:
        data = self._chat.picture(attachment)
        if data:
            paragraph = self._add("", "Normal")
            try:
                picture = paragraph.add_run().add_picture(io.BytesIO(data))
            except Exception:  # noqa: BLE001 - of whatever kind it is: it is named below
                paragraph._p.getparent().remove(paragraph._p)
            else:
                wide, high = max(1, picture.width), max(1, picture.height)
                scale = min(1.0, self._room / wide, MOST_PICTURE / high)
                picture.width, picture.height = Emu(int(wide * scale)), Emu(int(high * scale))
        parts = parts_sent(attachment)
        self._add(_line(f"Attached: {attachment.name}{f' · {parts}' if parts else ''}"), "Dim")

    def _text(self, text: str, *, is_plain: bool = False) -> None:
        self._numbers.clear()
        for block in whole_blocks(text, is_plain=is_plain):
            self._block(block)

    # --- blocks ---------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        depth = block.frame.nest.count("l")
        for deeper in [level for level in self._numbers if level > depth]:
            del self._numbers[deeper]
        if not depth:
            self._numbers.clear()
        if isinstance(block, TextBlock):
            style = f"Heading {min(9, block.level + 2)}" if block.level else self._body
            self._spans(self._framed(block.frame, style), block.spans)
        elif isinstance(block, CodeBlock):
            self._code(block.code, block.language, block.frame)
        elif isinstance(block, TableBlock):
            self._table(block)
        elif isinstance(block, MathBlock):
            paragraph = self._framed(block.frame, self._body)
            paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
            self._run(paragraph, block.source, "Formula")
        elif isinstance(block, LiteralBlock):
            if block.is_mono:
                self._code(block.text, "", block.frame)
                return
            for lines in re.split(r"\n{2,}", block.text):
                self._run(self._framed(block.frame, self._body, lines), lines)
        else:
            assert isinstance(block, RuleBlock)
            self._add("", "Rule")

    def _framed(self, frame: Frame, style: str, text: str = "") -> Paragraph:
        """A paragraph in its lists and quotes; an item begins with its number or sign."""
        depth = min(frame.nest.count("l"), MOST_LEVELS)
        level = f" {depth}" if depth > 1 else ""
        number = _NUMBER.fullmatch(frame.marker)
        if number:
            paragraph = self._add("", f"List Number{level}")
            self._number(paragraph, depth, int(number[1]), f"List Number{level}")
        elif frame.marker in ("•", "◦", "▪"):
            paragraph = self._add("", f"List Bullet{level}")
        elif frame.marker:
            paragraph = self._add("", f"List Continue{level}")
            paragraph.paragraph_format.first_line_indent = -INDENT
            self._run(paragraph, f"{frame.marker}\t")
        elif depth:
            paragraph = self._add("", f"List Continue{level}")
        else:
            paragraph = self._add("", "Quote" if "q" in frame.nest else style)
        if depth and "q" in frame.nest:
            paragraph.paragraph_format.left_indent = INDENT * (len(frame.nest) + 1)
        _direct(paragraph, text)
        return paragraph

    def _number(self, paragraph: Paragraph, depth: int, number: int, style: str) -> None:
        """Counted by Word; a list that begins anew counts from its own first number."""
        last, num_id = self._numbers.get(depth, (0, 0))
        if not num_id or number != last + 1:
            made = CT_Num.new(self._last_num.numId + 1, self._abstract_of(style))
            made.add_lvlOverride(ilvl=0).add_startOverride(number)
            self._last_num.addnext(made)
            self._last_num, num_id = made, made.numId
        properties: Any = paragraph._p.get_or_add_pPr()
        numbered = properties.get_or_add_numPr()
        numbered.get_or_add_ilvl().val = 0
        numbered.get_or_add_numId().val = num_id
        self._numbers[depth] = (number, num_id)

    def _abstract_of(self, style: str) -> int:
        """How the lists of a style are counted."""
        if style not in self._abstracts:
            found: Any = self.document.styles[style].element
            numbering: Any = self.document.part.numbering_part.element
            usual = numbering.num_having_numId(found.pPr.numPr.numId.val)
            self._abstracts[style] = usual.abstractNumId.val
        return self._abstracts[style]

    def _code(self, code: str, language: str, frame: Frame | None = None) -> None:
        paragraph = self._add("", "Code")
        if frame is not None and frame.nest:
            paragraph.paragraph_format.left_indent = INDENT * len(frame.nest)
        at = 0
        if language and len(code) <= MAX_COLOURED:
            for start, length, color in colored_runs(code, language):
                if start < at:
                    continue
                if start > at:
                    self._run(paragraph, code[at:start])
                self._run(paragraph, code[start : start + length]).font.color.rgb = _COLORS[color]
                at = start + length
        if code[at:]:
            self._run(paragraph, code[at:])

    def _table(self, block: TableBlock) -> None:
        width = len(block.header)
        if not 0 < width <= MOST_COLUMNS:
            self._code(plain_text(block), "")
            return
        rows = (block.header, *block.rows)
        element: Any = CT_Tbl.new_tbl(len(rows), width, self._room)
        element.tblPr.style = self._id_of("Table Grid")
        self._end.addprevious(element)
        table = Table(element, self.document._body)
        for i, (cells, row) in enumerate(zip(rows, element.tr_lst, strict=True)):
            if i == 0:
                row.get_or_add_trPr().append(OxmlElement("w:tblHeader"))
            for spans, cell, align in zip(cells, row.tc_lst, block.aligns, strict=False):
                paragraph = _Cell(cell, table).paragraphs[0]
                self._style(paragraph, "Cell")
                if align in _ALIGNS:
                    paragraph.alignment = _ALIGNS[align]
                self._spans(paragraph, spans, is_bold=i == 0)
        self._add("", "Cell")  # tables that follow each other would be one

    def _spans(self, paragraph: Paragraph, spans: Iterable[Span], *, is_bold: bool = False) -> None:
        found = tuple(spans)
        _direct(paragraph, "".join(span.text for span in found))
        for span in found:
            style = "Formula" if span.tex else "Inline code" if span.is_code else ""
            run = self._run(paragraph, span.text, style)
            if span.is_bold or is_bold:
                run.bold = True
            if span.is_italic:
                run.italic = True
            if span.is_struck:
                run.font.strike = True
            if span.is_note:
                run.font.superscript = True
            if span.is_dim:
                run.font.color.rgb = _DIM
            if 0 < len(span.href) <= MOST_ADDRESS:
                self._link(paragraph, run, span.href)

    def _link(self, paragraph: Paragraph, run: Run, target: str) -> None:
        run.font.underline, run.font.color.rgb = True, _COLORS["code_type"]
        target = _clean(target)
        if target not in self._links:  # python-docx looks through all that there are
            self._links[target] = f"rIdLink{len(self._links) + 1}"
            kind = RELATIONSHIP_TYPE.HYPERLINK
            self.document.part.rels.add_relationship(kind, target, self._links[target], True)
        made = OxmlElement("w:hyperlink")
        made.set(qn("r:id"), self._links[target])
        paragraph._p.replace(run._r, made)
        made.append(run._r)

    # --- one paragraph --------------------------------------------------------------------------

    def _add(self, text: str, style: str) -> Paragraph:
        element = OxmlElement("w:p")
        self._end.addprevious(element)
        paragraph = Paragraph(element, self.document._body)
        self._style(paragraph, style)
        if text:
            self._run(paragraph, text)
            _direct(paragraph, text)
        return paragraph

    def _style(self, paragraph: Paragraph, style: str) -> None:
        if style != "Normal":
            properties: Any = paragraph._p.get_or_add_pPr()
            properties.style = self._id_of(style)

    def _id_of(self, style: str) -> str:
        """python-docx looks each name up among all styles."""
        if style not in self._ids:
            self._ids[style] = self.document.styles[style].style_id
        return self._ids[style]

    def _run(self, paragraph: Paragraph, text: str, style: str = "") -> Run:
        run = paragraph.add_run(_clean(text))
        if style:
            properties: Any = run._r.get_or_add_rPr()
            properties.style = self._id_of(style)
        if is_right_to_left(text):
            run.font.rtl = True
        return run

    def _make_styles(self) -> None:
        styles = self.document.styles
        kinds = WD_STYLE_TYPE

        def made(name: str, kind: Any, size: float = 0, base: str = "") -> Any:
            style: Any = styles.add_style(name, kind)
            if base:
                style.base_style = styles[base]
            if size:
                style.font.size = Pt(size)
            return style

        for name, size in (("Inline code", 9.5), ("Formula", 10)):
            style = made(name, kinds.CHARACTER, size)
            style.font.name = "Consolas" if name == "Inline code" else "Cambria Math"
        code = made("Code", kinds.PARAGRAPH, 9, "Normal")
        code.font.name = "Consolas"
        code.paragraph_format.space_after = Pt(8)
        _shade(code, "F4F2EE")
        dim = made("Dim", kinds.PARAGRAPH, 9, "Normal")
        dim.font.color.rgb = _DIM
        reasoning = made("Reasoning", kinds.PARAGRAPH, 10, "Normal")
        reasoning.font.color.rgb = _DIM
        reasoning.paragraph_format.left_indent = INDENT
        cell = made("Cell", kinds.PARAGRAPH, 0, "Normal")
        cell.paragraph_format.space_after = Pt(2)
        rule = made("Rule", kinds.PARAGRAPH, 0, "Normal")
        _border(rule)


def _shade(style: BaseStyle, color: str) -> None:
    shade = OxmlElement("w:shd")
    for name, value in (("val", "clear"), ("color", "auto"), ("fill", color)):
        shade.set(qn(f"w:{name}"), value)
    properties: Any = style.element.get_or_add_pPr()
    properties.insert_element_before(
        shade, "w:tabs", "w:spacing", "w:ind", "w:jc", "w:rPr", "w:sectPr"
    )


def _border(style: BaseStyle) -> None:
    borders, below = OxmlElement("w:pBdr"), OxmlElement("w:bottom")
    for name, value in (("val", "single"), ("sz", "4"), ("space", "1"), ("color", "E4E0D9")):
        below.set(qn(f"w:{name}"), value)
    borders.append(below)
    properties: Any = style.element.get_or_add_pPr()
    properties.insert_element_before(
        borders, "w:shd", "w:tabs", "w:spacing", "w:ind", "w:jc", "w:rPr", "w:sectPr"
    )


def _direct(paragraph: Paragraph, text: str) -> None:
    """A paragraph that runs from right to left says so."""
    if text and is_right_to_left(text):
        properties: Any = paragraph._p.get_or_add_pPr()
        if properties.find(qn("w:bidi")) is None:
            properties.insert_element_before(
                OxmlElement("w:bidi"), "w:spacing", "w:ind", "w:jc", "w:rPr", "w:sectPr"
            )


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text.replace("\r\n", "\n"))


def _line(text: str) -> str:
    return " ".join(text.split())
