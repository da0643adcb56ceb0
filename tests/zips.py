"""Documents that are zip archives, put together by hand: right ones, and such as lie."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def claiming(archive: bytes, part: str, size: int) -> bytes:
    """The same, whose directory says that a part is so large unpacked."""
    at = archive.rindex(part.encode())  # the central directory comes last
    changed = bytearray(archive)
    struct.pack_into("<I", changed, at - 46 + 24, size)
    return bytes(changed)


def encrypted(archive: bytes) -> bytes:
    """The same, whose directory says of each part that it needs a password."""
    changed, at = bytearray(archive), -1
    while (at := changed.find(b"PK\x01\x02", at + 1)) >= 0:
        changed[at + 8] |= 1
    return bytes(changed)


def docx(
    body: str, parts: Mapping[str, str | bytes] | None = None, head: str = "", names: str = W
) -> bytes:
    """A DOCX with this in its body; `head` stands before the root of that part."""
    document = f'{head}<w:document xmlns:w="{names}"><w:body>{body}</w:body></w:document>'
    return zipped(office("word/document.xml") | {"word/document.xml": document} | (parts or {}))


def office(main: str) -> dict[str, str | bytes]:
    """The parts that say which one is the document."""
    return {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": "<Relationships><Relationship "
        f'Type="{_OFFICE}" Target="{main}"/></Relationships>',
    }


NAMES = ("office", "text", "table", "style", "drawing", "presentation")


def opendocument(kind: str, body: str, parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """An ODT (`kind`: text) or ODS (spreadsheet)."""
    root = "urn:oasis:names:tc:opendocument:xmlns:"
    names = " ".join(f'xmlns:{name}="{root}{name}:1.0"' for name in NAMES)
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {names}><office:body><office:{kind}>"
            f"{body}</office:{kind}></office:body></office:document-content>",
        }
        | (parts or {})
    )


def epub(pages: Mapping[str, str | bytes], parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """An EPUB with these pages in its spine."""
    items = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>'
        for n, name in enumerate(pages)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(len(pages)))
    container = '<container><rootfiles><rootfile full-path="OPS/a.opf"/></rootfiles></container>'
    package = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OPS/a.opf": package,
        }
        | {f"OPS/{name}": page for name, page in pages.items()}
        | (parts or {})
    )
