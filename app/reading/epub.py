"""The text of an EPUB book: its files in the order of the spine, chapters by its contents."""

from __future__ import annotations

from collections import defaultdict
from typing import BinaryIO, Final

from app.reading.archive import Archive, beside, damaged
from app.reading.document import EPUB, Document, DocumentRefused
from app.reading.flow import Flow
from app.reading.html import PageReader, parsed_xhtml
from app.reading.writing import TextWriter
from app.reading.xml import Element, child, parsed, value

_OBFUSCATED_FONTS: Final = (
    "http://www.idpf.org/2008/embedding",
    "http://ns.adobe.com/pdf/enc#RC",
)
"""Names of algorithms: fonts may be so, texts are then not."""
_PAGES: Final = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")

Labels = dict[str, dict[str, str]]
"""Part -> ID within it ("" is its beginning) -> what the table of contents calls that."""


def read_epub(file: BinaryIO, name: str) -> Document:
    archive = Archive(file, name)
    _refuse_protected(archive, name)
    container = parsed(archive.read("META-INF/container.xml"))
    roots = container.iter("{*}rootfile") if container is not None else iter(())
    package = next((beside("", value(each, "full-path")) for each in roots), "")
    root = parsed(archive.read(package))
    if root is None:
        raise damaged(name)
    items = {value(item, "id"): item for item in root.iter("{*}item")}
    pages = [
        beside(package, value(item, "href"))
        for ref in root.iter("{*}itemref")
        if (item := items.get(value(ref, "idref"))) is not None
        and value(item, "media-type") in _PAGES
    ]
    labels = _labels(archive, package, root, items)
    writer = TextWriter(name)
    flow = Flow(writer, collapses=True)
    for part in dict.fromkeys(pages):
        page = parsed_xhtml(archive.read(part))
        if page is None:
            continue
        own = labels.get(part, {})
        if "" in own:
            flow.place(own[""])
        PageReader(flow, places=not labels, anchors=own).read(page)
    return writer.document(EPUB, file.seek(0, 2))


def _refuse_protected(archive: Archive, name: str) -> None:
    encryption = parsed(archive.read("META-INF/encryption.xml"))
    methods = encryption.iter("{*}EncryptionMethod") if encryption is not None else ()
    if any(value(each, "Algorithm") not in _OBFUSCATED_FONTS for each in methods):
        sentence = f"“{name}” is copy-protected (DRM), so its text can't be read."
        raise DocumentRefused("Copy-protected", sentence)


def _labels(archive: Archive, package: str, root: Element, items: dict[str, Element]) -> Labels:
    """What the table of contents says: EPUB 3's page, or EPUB 2's file."""
    found: Labels = defaultdict(dict)

    def keep(source: str, href: str, label: str) -> None:
        label = " ".join(label.split())
        if label and href:
            found[beside(source, href)].setdefault(href.partition("#")[2], label)

    for item in items.values():
        part = beside(package, value(item, "href"))
        if "nav" in value(item, "properties").split():
            page = parsed(archive.read(part))
            for nav in page.iter("{*}nav") if page is not None else ():
                if value(nav, "type") in ("toc", ""):
                    for link in nav.iter("{*}a"):
                        keep(part, value(link, "href"), "".join(link.itertext()))
                    break
    if found:
        return found
    spine = next(root.iter("{*}spine"), None)
    ncx = items.get(value(spine, "toc")) if spine is not None else None
    if ncx is not None:
        part = beside(package, value(ncx, "href"))
        contents = parsed(archive.read(part))
        for point in contents.iter("{*}navPoint") if contents is not None else ():
            text = child(point, "navLabel", "text")
            source = value(child(point, "content"), "src")
            keep(part, source, (text.text or "") if text is not None else "")
    return found
