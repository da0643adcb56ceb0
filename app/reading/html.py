"""The text of a web page, as Markdown: what one would see of it, scripts and styles left out.

The tree is walked without recursion: pages nest as deeply as their makers' tools let them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html.entities import html5
from typing import BinaryIO, Final

from lxml import etree, html

from app.reading.archive import damaged
from app.reading.document import HTML, Document
from app.reading.files import too_large
from app.reading.flow import BREAK, Flow
from app.reading.numbering import BULLET
from app.reading.writing import TextWriter
from app.reading.xml import Element, local, number, parsed

MAX_HTML_BYTES: Final = 64_000_000
"""Pictures may be written into the page."""
_UNSEEN: Final = frozenset(
    (
        "script", "style", "template", "noscript", "title", "svg", "canvas", "iframe", "object",
        "audio", "video", "datalist", "map", "select", "button", "rp", "rt",
    )
)  # fmt: skip
_BLOCKS: Final = frozenset(
    (
        "p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "address",
        "figure", "figcaption", "form", "fieldset", "legend", "details", "summary", "dl", "dt",
        "dd", "hgroup", "body", "center", "blockquote", "caption", "hr", "ul", "ol", "menu",
    )
)  # fmt: skip
_TYPED: Final = frozenset(("text", "search", "url", "tel", "email", "number", "date", "time"))
"""Fields that show what is in them."""
_HEADINGS: Final = {f"h{n}": "#" * n + " " for n in range(1, 7)}
_HIDDEN: Final = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.I)
_NAMED: Final = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)(\w{2,31});")
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def read_html(file: BinaryIO, name: str) -> Document:
    raw = file.read(MAX_HTML_BYTES + 1)
    if len(raw) > MAX_HTML_BYTES:
        raise too_large(name, file.seek(0, 2), MAX_HTML_BYTES)
    writer = TextWriter(name)
    root = parsed_html(raw)
    if root is None:
        raise damaged(name)
    note = ""
    if any(each.type_name == "ERR_RESOURCE_LIMIT" for each in root.getroottree().parser.error_log):
        note = f"“{name}” is nested too deeply to be read to its end: some of its text is missing."
    flow = Flow(writer, collapses=True)
    PageReader(flow, places=True).read(root)
    return writer.document(HTML, len(raw), note)


def parsed_html(raw: bytes, encoding: str = "") -> Element | None:
    """The root of a page; None where nothing is in it."""
    text = raw.decode(encoding or _encoding(raw), "replace").replace("\0", "")
    # lxml takes no text that says in its first line that it is bytes of some encoding.
    text = re.sub(r"^\ufeff?\s*<\?xml[^>]*\?>", "", text, count=1)
    parser = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        return html.document_fromstring(text, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        return None


def parsed_xhtml(raw: bytes) -> Element | None:
    """As XML where it is that: there `<title/>` and `<script/>` are closed."""
    text = raw.decode(_encoding(raw), "replace")
    text = _NAMED.sub(lambda found: html5.get(f"{found[1]};", found[0]), text)
    root = parsed(re.sub(r"^\ufeff?\s*<\?xml[^>]*\?>", "", text, count=1).encode())
    return root if root is not None else parsed_html(raw)


def _encoding(raw: bytes) -> str:
    """A mark, what the page says of itself, UTF-8, or what browsers take for the rest."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return encoding
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    found = _CHARSET.search(raw[:4096])
    named = found[1].decode("ascii", "replace").lower() if found else "cp1252"
    try:
        "".encode(named)
    except (LookupError, UnicodeError):
        return "cp1252"
    return "cp1252" if named in ("iso-8859-1", "latin1", "latin-1", "us-ascii", "utf-8") else named


class PageReader:
    """Writes a page into a flow. `places`: headings are places; `anchors`: what elements with
    these IDs are called, where a table of contents says so."""

    def __init__(
        self, flow: Flow, *, places: bool = False, anchors: Mapping[str, str] | None = None
    ) -> None:
        self._flow = flow
        self._places = places
        self._anchors = dict(anchors or {})
        self._lists: list[int] = []  # the last number; -1 of one with bullets
        self._quotes = 0
        self._acts: dict[str, Callable[[Element], None]] = {
            "br": lambda _: flow.add(BREAK),
            "li": self._begin_item,
            "ul": lambda _: self._begin_list(-1),
            "menu": lambda _: self._begin_list(-1),
            "ol": lambda each: self._begin_list(number(each.get("start", ""), 1) - 1),
            "table": lambda _: flow.begin_table(),
            "tr": lambda _: flow.begin_row(),
            "td": self._begin_cell,
            "th": self._begin_cell,
            "img": lambda each: flow.add(f" {each.get('alt') or ''} "),
            "input": self._add_typed,
            "blockquote": lambda _: self._quote(1),
        }

    def read(self, root: Element) -> None:
        skipped: Element | None = None
        for event, element in etree.iterwalk(root, events=("start", "end")):
            if skipped is not None:
                if event == "end" and element is skipped:
                    skipped = None
                    self._flow.add(element.tail or "")
                continue
            if event == "start":
                if _is_unseen(element):
                    skipped = element
                elif local(element) == "pre":
                    self._flow.verbatim("".join(element.itertext()))
                    skipped = element
                elif local(element) == "math":
                    self._flow.add(_formula(element))
                    skipped = element
                else:
                    self._begin(element)
            else:
                self._end(element)
        self._flow.end()

    def _begin(self, element: Element) -> None:
        kind = local(element)
        own = element.get("id") or element.get("name") or ""
        label = self._anchors.pop(own, None) if own else None
        if label is not None:
            self._flow.place(label)
        if (act := self._acts.get(kind)) is not None:
            act(element)
        elif (heading := _HEADINGS.get(kind)) is not None:
            self._flow.begin()
            if self._places:
                self._flow.place("")
            self._flow.begin(heading)
        elif kind in _BLOCKS:
            self._block()
        self._flow.add(element.text or "")

    def _end(self, element: Element) -> None:
        kind = local(element)
        if kind in ("ul", "ol", "menu"):
            if self._lists:
                self._lists.pop()
            self._block()
        elif kind == "table":
            self._flow.end_table()
        elif kind == "blockquote":
            self._quote(-1)
        elif kind in _BLOCKS or kind in _HEADINGS or kind in ("li", "td", "th", "tr"):
            self._block()
        elif kind in ("option", "label"):
            self._flow.add(" ")
        self._flow.add(element.tail or "")

    def _block(self) -> None:
        """A block within an item goes on under it."""
        self._flow.go_on("> " if self._quotes else "", len(self._lists))

    def _begin_list(self, before: int) -> None:
        self._block()
        self._lists.append(before)

    def _begin_item(self, element: Element) -> None:
        marker = BULLET
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] = number(element.get("value", ""), self._lists[-1] + 1)
            marker = f"{self._lists[-1]}. "
        self._flow.begin(marker, max(1, len(self._lists)))

    def _begin_cell(self, element: Element) -> None:
        columns, rows = (number(element.get(key, ""), 1) for key in ("colspan", "rowspan"))
        self._flow.begin_cell(columns, rows)

    def _add_typed(self, element: Element) -> None:
        if element.get("type", "text").lower() in _TYPED:
            self._flow.add(f" {element.get('value') or ''} ")

    def _quote(self, more: int) -> None:
        self._quotes += more
        self._block()


def _formula(math: Element) -> str:
    """Once, where a page has it as TeX, too: that is what models write themselves."""
    tex = next(math.iter("{*}annotation"), None)
    parts = (each.text or "" for each in math.iter("{*}mi", "{*}mn", "{*}mo", "{*}mtext", "{*}ms"))
    return math.get("alttext") or (tex.text if tex is not None else "") or "".join(parts)


def _is_unseen(element: Element) -> bool:
    return (
        not isinstance(element.tag, str)
        or local(element) in _UNSEEN
        or (local(element) == "dialog" and "open" not in element.attrib)
        or "katex-html" in element.get("class", "")  # beside the formula itself
        or "hidden" in element.attrib
        or bool(_HIDDEN.search(element.get("style", "")))
    )
