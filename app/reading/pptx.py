"""The text of a PPTX, slide by slide: titles, texts and tables in their order, then the notes."""

from __future__ import annotations

from typing import BinaryIO, Final

from app.reading.archive import Archive, beside, damaged
from app.reading.document import PPTX, Document
from app.reading.flow import Flow
from app.reading.numbering import BULLET
from app.reading.writing import TextWriter
from app.reading.xml import Element, child, children, local, number, parsed, value

_TITLES: Final = ("title", "ctrTitle")
_ON_EACH_SLIDE: Final = ("ftr", "sldNum", "dt", "hdr")
_MAX_DEPTH: Final = 8


def read_pptx(file: BinaryIO, name: str, main: str) -> Document:
    """`main`: the part that lists the slides."""
    archive = Archive(file, name)
    slides = child(parsed(archive.read(main)), "sldIdLst")
    if slides is None:
        raise damaged(name)
    targets = _relations(archive, main)
    writer = TextWriter(name)
    flow = Flow(writer)
    for count, slide in enumerate(children(slides, "sldId"), 1):
        # Of its two attributes called `id` the one of a namespace is the relation's.
        own = next((v for key, v in slide.attrib.items() if key.endswith("}id")), "")
        part = targets.get(own, ("", ""))[1]
        root = parsed(archive.read(part))
        hidden = " (hidden)" if value(root, "show") == "0" else ""
        flow.mark(f"slide {count}", f"[Slide {count}{hidden}]")
        if root is None:
            continue
        _Slide(flow).read(root)
        for kind, target in _relations(archive, part).values():
            if kind == "notesSlide":
                notes = parsed(archive.read(target))
                if notes is not None:
                    _Slide(flow, is_notes=True).read(notes)
    return writer.document(PPTX, file.seek(0, 2))


def _relations(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """ID -> kind and part."""
    folder, _, own = part.rpartition("/")
    root = parsed(archive.read(f"{folder}/_rels/{own}.rels"))
    return {
        value(each, "Id"): (
            value(each, "Type").rpartition("/")[2],
            beside(part, value(each, "Target")),
        )
        for each in children(root, "Relationship")
    }


class _Slide:
    def __init__(self, flow: Flow, *, is_notes: bool = False) -> None:
        self._flow = flow
        self._is_notes = is_notes

    def read(self, root: Element) -> None:
        tree = child(root, "cSld", "spTree")
        if tree is not None:
            self._shapes(tree)
        self._flow.end()

    def _shapes(self, parent: Element) -> None:
        for shape in parent:
            kind = local(shape)
            if kind == "sp":
                self._shape(shape)
            elif kind == "graphicFrame":
                for table in shape.iter("{*}tbl"):
                    self._table(table)
            elif kind == "pic":
                words = value(child(shape, "nvPicPr", "cNvPr"), "descr").strip()
                if words:
                    self._flow.begin()
                    self._flow.add(f"[Picture: {words}]")
            elif kind in ("grpSp", "AlternateContent", "Choice"):
                self._shapes(shape)

    def _shape(self, shape: Element) -> None:
        place = child(shape, "nvSpPr", "nvPr", "ph")
        kind = value(place, "type", "body" if place is not None else "")
        if kind in _ON_EACH_SLIDE or (self._is_notes and kind != "body"):
            return
        for paragraph in children(child(shape, "txBody"), "p"):
            level = min(number(value(child(paragraph, "pPr"), "lvl")), _MAX_DEPTH)
            if kind in _TITLES:
                self._flow.begin("# ")
            elif kind == "body" and not self._is_notes:
                self._flow.begin(BULLET, level + 1)
            else:
                self._flow.begin()
                if self._is_notes and _text(paragraph):
                    self._flow.add("[Notes] ")
            self._flow.add(_text(paragraph))
        self._flow.end()

    def _table(self, table: Element) -> None:
        self._flow.begin_table()
        for row in children(table, "tr"):
            self._flow.begin_row()
            for cell in children(row, "tc"):
                self._flow.begin_cell()
                for paragraph in children(child(cell, "txBody"), "p"):
                    self._flow.begin()
                    self._flow.add(_text(paragraph))
        self._flow.end_table()


def _text(paragraph: Element) -> str:
    found = paragraph.iter("{*}t", "{*}br")
    return "".join("\n" if local(each) == "br" else each.text or "" for each in found)
