"""The text of a DOCX: what stands on its pages, in order, as Markdown.

Word's own elements are read, since what matters for a reader is where libraries stop: text within
content controls and text boxes, inserted but not deleted text of tracked changes, footnotes,
formulas, and the numbers of lists and clauses, which the file has only as rules. What must hold:
the text is the one that Word shows with all changes accepted.

Pages are those of the last time that Word laid it out; a file by another program has none, and its
headings are its places.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Final

from app.reading.archive import Archive, beside, damaged
from app.reading.document import DOCX, Document
from app.reading.flow import Flow
from app.reading.numbering import BULLET, Level, Numbering
from app.reading.writing import TextWriter
from app.reading.xml import Element, child, children, local, number, parsed, value

_FORMS: Final = {
    "bullet": "-",
    "none": "",
    "lowerLetter": "a",
    "upperLetter": "A",
    "lowerRoman": "i",
    "upperRoman": "I",
}
_SKIPPED: Final = frozenset(
    (
        "del", "moveFrom", "instrText", "delText", "delInstrText", "pPr", "rPr", "tblPr",
        "tblGrid", "trPr", "tcPr", "sectPr", "sdtPr", "sdtEndPr", "rt", "fldData",
        "commentReference", "annotationRef", "footnoteRef", "endnoteRef", "altChunk", "Fallback",
        "posOffset", "posH", "posV",
    )
)  # fmt: skip
_MAX_HEADING: Final = 6


def read_docx(file: BinaryIO, name: str, main: str) -> Document:
    """`main`: the part with the text."""
    archive = Archive(file, name)
    body = child(parsed(archive.read(main)), "body")
    if body is None:
        raise damaged(name)
    writer = TextWriter(name)
    _Reader(archive, main, Flow(writer)).read(body)
    size = file.seek(0, 2)
    return writer.document(DOCX, size)


class _Reader:
    def __init__(self, archive: Archive, main: str, flow: Flow) -> None:
        self._archive = archive
        self._main = main
        self._flow = flow
        self._numbering = Numbering()
        self._styles = {
            value(style, "styleId"): style
            for style in children(parsed(archive.read(beside(main, "styles.xml"))), "style")
        }
        lists = parsed(archive.read(beside(main, "numbering.xml")))
        self._abstract = {
            value(each, "abstractNumId"): _levels(each) for each in children(lists, "abstractNum")
        }
        self._lists = {value(each, "numId"): each for each in children(lists, "num")}
        self._notes = {
            kind: {value(note, "id"): note for note in children(self._part(f"{kind}s.xml"), kind)}
            for kind in ("footnote", "endnote")
        }
        self._note_numbers: dict[tuple[str, str], str] = {}
        self._hiding: dict[str, Element | None] = {"": None}
        self._page = 0
        self._boxes: list[Element] = []

    def _part(self, target: str) -> Element | None:
        return parsed(self._archive.read(beside(self._main, target)))

    def read(self, body: Element) -> None:
        has_pages = next(body.iter("{*}lastRenderedPageBreak"), None) is not None
        flow = self._flow
        if has_pages:
            self._turn_page()
        for text in self._margins("header"):
            flow.begin()
            flow.add(f"[Header] {text}")
        self._blocks(body)
        for text in self._margins("footer"):
            flow.begin()
            flow.add(f"[Footer] {text}")
        flow.end()

    def _turn_page(self) -> None:
        self._page += 1
        self._flow.mark(f"page {self._page}", f"[Page {self._page}]")

    def _margins(self, kind: str) -> list[str]:
        """What stands above or below the pages, each text once; numbers of pages are none."""
        folder = beside(self._main, f"{kind}")
        parts = sorted(p for p in self._archive.parts if p.startswith(folder) and p[-4:] == ".xml")
        texts = (self._plain(parsed(self._archive.read(part))) for part in parts[:20])
        return list(dict.fromkeys(text for text in texts if any(map(str.isalpha, text))))

    # --- blocks ---------------------------------------------------------------------------------

    def _blocks(self, parent: Element) -> None:
        for element in parent:
            kind = local(element)
            if kind == "p":
                self._paragraph(element)
            elif kind == "tbl":
                self._table(element)
            elif kind and kind not in _SKIPPED:  # content controls, insertions, custom XML
                self._blocks(element)

    def _paragraph(self, paragraph: Element) -> None:
        properties = child(paragraph, "pPr")
        prefix, depth = self._prefix(properties)
        # A page that begins with the paragraph begins before it.
        for run in paragraph:
            if local(run) == "r":
                if child(run, "lastRenderedPageBreak") is not None:
                    self._turn_page()
                break
        self._flow.begin(prefix, depth)
        if prefix.startswith("#") and not self._page:
            self._flow.place("")
            self._flow.begin(prefix, depth)
        self._inline(paragraph)
        self._flow.end()
        boxes, self._boxes = self._boxes, []
        for box in boxes:
            self._blocks(box)
        n_later = sum(1 for _ in paragraph.iter("{*}lastRenderedPageBreak"))
        for _ in range(n_later - self._at_start(paragraph)):
            self._turn_page()

    def _at_start(self, paragraph: Element) -> int:
        first = next((each for each in paragraph if local(each) == "r"), None)
        return int(child(first, "lastRenderedPageBreak") is not None)

    def _inline(self, parent: Element) -> None:
        add = self._flow.add
        for element in parent:
            kind = local(element)
            if kind == "t":
                add(element.text or "")
            elif kind in ("tab", "ptab"):
                add("\t")
            elif kind in ("br", "cr"):
                add("\n" if value(element, "type") in ("", "textWrapping") else " ")
            elif kind == "noBreakHyphen":
                add("-")
            elif kind == "sym":
                add(_symbol(value(element, "char")))
            elif kind in ("footnoteReference", "endnoteReference"):
                self._note(kind.removesuffix("Reference"), value(element, "id"))
            elif kind == "txbxContent":
                self._boxes.append(element)
            elif kind == "docPr" and (words := value(element, "descr").strip()):
                add(f"[Picture: {words}]")
            elif kind == "r" and self._is_hidden(element):
                continue
            elif kind and kind not in _SKIPPED:
                self._inline(element)

    def _is_hidden(self, run: Element) -> bool:
        """Whether Word shows it only together with its marks for paragraphs and spaces."""
        own = child(run, "rPr")
        hides = child(own, "vanish")
        if hides is None:
            hides = self._hides(value(child(own, "rStyle")))
        if hides is None:
            paragraph = next(run.iterancestors("{*}p"), None)
            hides = self._hides(value(child(paragraph, "pPr", "pStyle")))
        return hides is not None and value(hides, default="1") not in ("0", "false", "off")

    def _hides(self, style: str) -> Element | None:
        if style not in self._hiding:
            own = (child(each, "rPr") for each in self._chain(style))
            self._hiding[style] = _first(own, "vanish")
        return self._hiding[style]

    def _note(self, kind: str, own: str) -> None:
        note = self._notes[kind].get(own)
        if note is None or value(note, "type") not in ("", "normal"):
            return
        # Endnotes have Roman numbers, so that both can be told apart.
        n_before = sum(each == kind for each, _ in self._note_numbers)
        shown = str(n_before + 1) if kind == "footnote" else f"e{n_before + 1}"
        label = self._note_numbers.setdefault((kind, own), shown)
        self._flow.add(f"[^{label}]")
        self._flow.note(label, self._plain(note))

    def _table(self, table: Element) -> None:
        self._flow.begin_table()
        self._rows(table)
        self._flow.end_table()

    def _rows(self, parent: Element) -> None:
        for row in parent:
            if local(row) == "tr":
                self._flow.begin_row()
                self._cells(row)
            elif local(row) and local(row) not in _SKIPPED:
                self._rows(row)

    def _cells(self, parent: Element) -> None:
        for cell in parent:
            if local(cell) == "tc":
                properties = child(cell, "tcPr")
                self._flow.begin_cell(number(value(child(properties, "gridSpan")), 1))
                merge = child(properties, "vMerge")
                if merge is None or value(merge) == "restart":
                    self._blocks(cell)
            elif local(cell) and local(cell) not in _SKIPPED:
                self._cells(cell)

    def _plain(self, parent: Element | None) -> str:
        """All text of a part, as one line: of notes, headers and footers."""
        words: list[str] = []

        def collect(element: Element) -> None:
            for each in element:
                kind = local(each)
                if kind == "t":
                    words.append(each.text or "")
                elif kind in ("tab", "br", "cr"):
                    words.append(" ")
                elif kind == "r" and self._is_hidden(each):
                    continue
                elif kind and kind not in _SKIPPED:
                    collect(each)
                    if kind in ("p", "tc"):
                        words.append(" ")

        if parent is not None:
            collect(parent)
        return " ".join("".join(words).split())

    # --- what a paragraph is --------------------------------------------------------------------

    def _prefix(self, properties: Element | None) -> tuple[str, int]:
        """Its heading's or item's marker, and how deep in a list it is."""
        styles = self._chain(value(child(properties, "pStyle")))
        sources = [properties, *(child(style, "pPr") for style in styles)]
        heading = self._heading(styles, sources)
        numbering = _first(sources, "numPr")
        list_id = value(child(numbering, "numId"))
        marker, level = "", 0
        if list_id and list_id != "0" and list_id in self._lists:
            level = min(number(value(child(numbering, "ilvl"))), 8)
            marker = self._marker(list_id, level)
        if heading:
            return "#" * heading + " " + (marker if marker != BULLET else ""), 0
        return marker, level + 1 if marker else 0

    def _chain(self, style_id: str) -> list[Element]:
        """A style and those that it is based on."""
        chain: list[Element] = []
        while style_id in self._styles and len(chain) < 20:
            chain.append(self._styles[style_id])
            style_id = value(child(chain[-1], "basedOn"))
        return chain

    def _heading(self, styles: list[Element], sources: list[Element | None]) -> int:
        """1 to 6; 0 for what is none."""
        outline = _first(sources, "outlineLvl")
        if outline is not None:
            level = number(value(outline), 9)
            return min(level + 1, _MAX_HEADING) if 0 <= level < 9 else 0
        names = {value(child(style, "name")).lower() for style in styles}
        if "title" in names:
            return 1
        levels = [n for n in range(1, 10) if f"heading {n}" in names]
        return min(levels[0], _MAX_HEADING) if levels else 0

    def _marker(self, list_id: str, level: int) -> str:
        own = self._lists[list_id]
        abstract = value(child(own, "abstractNumId"))
        levels = dict(self._abstract.get(abstract, {}))
        counted = abstract
        for override in children(own, "lvlOverride"):
            at = number(value(override, "ilvl"))
            start = child(override, "startOverride")
            if (changed := child(override, "lvl")) is not None:
                levels[at] = _level(changed)
            if at in levels and start is not None:
                levels[at] = Level(levels[at].form, levels[at].template, number(value(start), 1))
                counted = f"{abstract} {list_id}"  # it begins anew
        return self._numbering.next(counted, levels, level)


def _levels(abstract: Element) -> dict[int, Level]:
    return {number(value(each, "ilvl")): _level(each) for each in children(abstract, "lvl")}


def _level(element: Element) -> Level:
    form = _FORMS.get(value(child(element, "numFmt")), "1")
    return Level(form, value(child(element, "lvlText")), number(value(child(element, "start")), 1))


def _first(sources: Iterable[Element | None], name: str) -> Element | None:
    return next((found for each in sources if (found := child(each, name)) is not None), None)


def _symbol(code: str) -> str:
    """A character of a font of symbols: most lie in the private area, and say nothing."""
    try:
        char = chr(int(code, 16))
    except (ValueError, OverflowError):
        return ""
    return "" if "\ue000" <= char <= "\uf8ff" else char
