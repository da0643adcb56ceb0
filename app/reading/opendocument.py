"""The text of an ODT, and the sheets of an ODS: what stands on their pages, as Markdown.

What must hold: cells are as they are shown (the file has both), deleted text of tracked changes
and comments are left out, and a cell that is repeated a million times costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final

from app.reading.archive import Archive, damaged, protected
from app.reading.document import ODP, ODS, ODT, Document
from app.reading.flow import Flow
from app.reading.numbering import BULLET, Level, Numbering
from app.reading.sheets import SheetWriter
from app.reading.writing import TextWriter
from app.reading.xml import Element, child, children, local, number, parsed, value

_SKIPPED: Final = frozenset(
    (
        "tracked-changes", "annotation", "annotation-end", "sequence-decls", "variable-decls",
        "user-field-decls", "forms", "desc", "title", "image", "ruby-text", "event-listeners",
        "bibliography-configuration", "table-of-content-source", "illustration-index-source",
        "alphabetical-index-source", "bibliography-source", "user-index-source",
        "table-index-source", "object-index-source",
    )
)  # fmt: skip
_MAX_HEADING: Final = 6
_DRAWN: Final = frozenset(
    (
        "frame", "g", "custom-shape", "rect", "ellipse", "circle", "line", "polyline", "polygon",
        "regular-polygon", "path", "connector", "caption", "measure",
    )
)  # fmt: skip
"""What hangs on a paragraph, and may have paragraphs of its own."""
_ROLES: Final = {
    "title": "# ",
    "notes": "[Notes] ",
    **dict.fromkeys(("page-number", "footer", "date-time", "header", "page"), None),
}
"""What a frame is for on a slide, and what its text begins with; None: it is on each of them."""
_MAX_REPEATED: Final = 1000
_MAX_STYLES: Final = 20


def _content(archive: Archive, name: str) -> Element:
    """The root of the part with the text. Raises DocumentRefused."""
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise protected(name)
    root = parsed(archive.read("content.xml"))
    if root is None:
        raise damaged(name)
    return root


def read_odt(file: BinaryIO, name: str) -> Document:
    return _document(file, name, ODT, "text", _Reader.read)


def read_odp(file: BinaryIO, name: str) -> Document:
    return _document(file, name, ODP, "presentation", _Reader.read_slides)


def _document(
    file: BinaryIO, name: str, media_type: str, kind: str, read: Callable[[_Reader, Element], None]
) -> Document:
    archive = Archive(file, name)
    root = _content(archive, name)
    body = child(root, "body", kind)
    if body is None:
        raise damaged(name)
    writer = TextWriter(name)
    read(_Reader(root, parsed(archive.read("styles.xml")), Flow(writer)), body)
    return writer.document(media_type, file.seek(0, 2))


class _Reader:
    def __init__(self, root: Element, styles: Element | None, flow: Flow) -> None:
        self._flow = flow
        self._numbering = Numbering()
        self._lists: dict[str, dict[int, Level]] = {}
        self._outline: dict[int, Level] = {}
        self._styles: dict[tuple[str, str], Element] = {}
        self._boxes: list[Element] = []
        self._margins: list[tuple[str, Element]] = []
        sources = [each for each in (styles, root) if each is not None]
        for source in sources:
            for each in source.iter("{*}list-style", "{*}outline-style", "{*}style"):
                self._keep_style(each)
        for page in sources[0].iter("{*}master-page"):
            for part in page:
                if (kind := local(part).partition("-")[0]) in ("header", "footer"):
                    self._margins.append((kind.title(), part))
        self._page = 0

    def _keep_style(self, style: Element) -> None:
        kind = local(style)
        if kind == "style":
            self._styles[value(style, "family"), value(style, "name")] = style
            return
        levels = {number(value(each, "level"), 1) - 1: _level(each) for each in style}
        if kind == "outline-style":
            self._outline = levels
        else:
            self._lists[value(style, "name")] = levels

    def read(self, text: Element) -> None:
        if next(text.iter("{*}soft-page-break"), None) is not None:
            self._turn_page()
        for kind in ("Header", "Footer"):
            if kind == "Footer":
                self._blocks(text)
            for words in dict.fromkeys(_plain(part) for own, part in self._margins if own == kind):
                if any(map(str.isalpha, words)):
                    self._flow.begin()
                    self._flow.add(f"[{kind}] {words}")
        self._flow.end()

    def read_slides(self, slides: Element) -> None:
        for count, slide in enumerate(children(slides, "page"), 1):
            style = self._styles.get(("drawing-page", value(slide, "style-name")))
            is_hidden = value(child(style, "drawing-page-properties"), "visibility") == "hidden"
            hidden = " (hidden)" if is_hidden else ""
            self._flow.mark(f"slide {count}", f"[Slide {count}{hidden}]")
            self._blocks(slide)
            self._flow.end()

    def _frame_of_slide(self, frame: Element, words: str | None) -> None:
        if words is not None and (text := _plain(frame)):
            self._flow.begin(words if words == "# " else "")
            self._flow.add(text if words == "# " else f"{words}{text}")

    def _turn_page(self) -> None:
        self._page += 1
        self._flow.mark(f"page {self._page}", f"[Page {self._page}]")

    # --- blocks ---------------------------------------------------------------------------------

    def _blocks(self, parent: Iterable[Element]) -> None:
        for element in parent:
            kind = local(element)
            if kind == "h":
                self._heading(element)
            elif kind == "p":
                self._paragraph(element)
            elif kind == "list":
                self._list(element, "", "", 0)
            elif kind == "table":
                self._table(element)
            elif kind == "soft-page-break":
                self._turn_page()
            elif kind == "frame" and (role := value(element, "class")) in _ROLES:
                self._frame_of_slide(element, _ROLES[role])
            elif kind and kind not in _SKIPPED and value(element, "display") != "none":
                # sections, indexes, frames
                self._blocks(element)

    def _heading(self, element: Element) -> None:
        level = max(1, number(value(element, "outline-level"), 1))
        marker = self._numbering.next("outline", self._outline, level - 1) if self._outline else ""
        if value(element, "is-list-header") == "true" or marker == BULLET:
            marker = ""
        self._paragraph(element, "#" * min(level, _MAX_HEADING) + " " + marker)

    def _paragraph(self, element: Element, prefix: str = "", depth: int = 0) -> None:
        styles = self._chain("paragraph", element)
        if _hides(styles):
            return
        names = (value(element, "style-name"), *(value(each, "name") for each in styles[1:2]))
        if not prefix and "Title" in names:
            prefix = "# "
        self._flow.begin(prefix, depth)
        if prefix.startswith("#") and not self._page:
            self._flow.place("")
            self._flow.begin(prefix, depth)
        n_pages = self._inline(element)
        self._flow.end()
        boxes, self._boxes = self._boxes, []
        self._blocks(boxes)
        for _ in range(n_pages):
            self._turn_page()

    def _chain(self, family: str, element: Element) -> list[Element]:
        """The style of an element and those that it is based on."""
        chain: list[Element] = []
        name = value(element, "style-name")
        while (family, name) in self._styles and len(chain) < _MAX_STYLES:
            chain.append(self._styles[family, name])
            name = value(chain[-1], "parent-style-name")
        return chain

    def _list(self, element: Element, style: str, key: str, level: int) -> None:
        style = value(element, "style-name") or style
        key = key or value(element, "continue-list") or value(element, "id") or str(id(element))
        levels = self._lists.get(style, {})
        for item in element:
            kind = local(item)
            if kind not in ("list-item", "list-header"):
                continue
            marker = self._numbering.next(key, levels, level) if kind == "list-item" else ""
            for each in item:
                if local(each) == "list":
                    self._list(each, style, key, level + 1)
                elif local(each) == "h":  # a heading that is numbered as a list
                    self._heading(each)
                elif local(each) == "p":
                    self._paragraph(each, marker, level + 1)
                    marker = ""
                elif local(each):
                    self._blocks([each])

    def _table(self, table: Element) -> None:
        self._flow.begin_table()
        self._rows(table)
        self._flow.end_table()

    def _rows(self, parent: Element) -> None:
        for element in parent:
            kind = local(element)
            if kind == "table-row":
                self._flow.begin_row()
                for cell in element:
                    if local(cell) == "table-cell":
                        self._flow.begin_cell()
                        self._blocks(cell)
                    elif local(cell) == "covered-table-cell":
                        self._flow.begin_cell()
            elif kind.startswith("table-") and "row" in kind:  # header rows, groups of rows
                self._rows(element)

    # --- within a paragraph ---------------------------------------------------------------------

    def _inline(self, parent: Element) -> int:
        """Returns how many pages begin within it."""
        add = self._flow.add
        add(parent.text or "")
        n_pages = 0
        for element in parent:
            kind = local(element)
            if kind == "s":
                add(" " * min(number(value(element, "c"), 1), _MAX_REPEATED))
            elif kind == "tab":
                add("\t")
            elif kind == "line-break":
                add("\n")
            elif kind == "soft-page-break":
                n_pages += 1
            elif kind == "note":
                label = _plain(child(element, "note-citation"))
                add(f"[^{label}]")
                self._flow.note(label, _plain(child(element, "note-body")))
            elif kind in _DRAWN:
                self._drawn(element)
            elif kind == "span" and _hides(self._chain("text", element)):
                pass
            elif kind and kind not in _SKIPPED and value(element, "is-hidden") != "true":
                n_pages += self._inline(element)
            add(element.tail or "")
        return n_pages

    def _drawn(self, element: Element) -> None:
        """Its paragraphs follow those that it hangs on; of a picture what it is said to show."""
        if next(element.iter("{*}p", "{*}h"), None) is not None:
            self._boxes.append(element)
        elif words := _plain(child(element, "desc")) or _plain(child(element, "title")):
            self._flow.add(f"[Picture: {words}]")


def _hides(styles: Iterable[Element]) -> bool:
    """Whether text of these styles is there but not shown."""
    displays = (value(child(style, "text-properties"), "display") for style in styles)
    return next(filter(None, displays), "") == "none"


def _level(element: Element) -> Level:
    if local(element) == "list-level-style-bullet":
        return Level("-", "")
    form = value(element, "num-format")
    depth = number(value(element, "level"), 1)
    shown = max(1, min(number(value(element, "display-levels"), 1), depth))
    numbers = ".".join(f"%{n}" for n in range(depth - shown + 1, depth + 1))
    template = f"{value(element, 'num-prefix')}{numbers}{value(element, 'num-suffix')}"
    return Level(form, template if form else "", number(value(element, "start-value"), 1))


def _plain(parent: Element | None) -> str:
    """All text of an element, as one line."""
    if parent is None:
        return ""
    words: list[str] = []

    def collect(element: Element) -> None:
        words.append(element.text or "")
        for each in element:
            kind = local(each)
            if kind in ("s", "tab", "line-break"):
                words.append(" ")
            elif kind and kind not in _SKIPPED:
                collect(each)
                if kind in ("p", "h", "table-cell"):
                    words.append(" ")
            words.append(each.tail or "")

    collect(parent)
    return " ".join("".join(words).split())


# --- spreadsheets -------------------------------------------------------------------------------


def read_ods(file: BinaryIO, name: str) -> Document:
    archive = Archive(file, name)
    root = _content(archive, name)
    sheets = child(root, "body", "spreadsheet")
    if sheets is None:
        raise damaged(name)
    unseen = {
        value(style, "name")
        for source in (root, parsed(archive.read("styles.xml")))
        if source is not None
        for style in source.iter("{*}style")
        if value(child(style, "table-properties"), "display") == "false"
    }
    writer = SheetWriter(name)
    for table in children(sheets, "table"):
        hidden = " (hidden)" if value(table, "style-name") in unseen else ""
        writer.begin_sheet(f"{value(table, 'name')}{hidden}")
        for repeated, row in _sheet_rows(table):
            cells = [
                (_plain(cell), number(value(cell, "number-columns-repeated"), 1))
                for cell in row
                if local(cell) in ("table-cell", "covered-table-cell")
            ]
            writer.write_row(cells, repeated)
    return writer.document(ODS, file.seek(0, 2))


def _sheet_rows(parent: Element) -> Iterator[tuple[int, Element]]:
    for element in parent:
        kind = local(element)
        if kind == "table-row":
            yield number(value(element, "number-rows-repeated"), 1), element
        elif kind.startswith("table-") and "row" in kind:
            yield from _sheet_rows(element)
