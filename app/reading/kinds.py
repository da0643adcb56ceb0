"""What a file is, by what is in it: a name's ending is only what somebody called it.

One exception: HTML is a page to read where it is called one. A template or a script that begins
with the same words is source code, and is attached as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import BinaryIO, Final

from app.reading.document import MAX_FILE_BYTES, Document, DocumentRefused, Progress
from app.reading.files import opened, shown_name

Reader = Callable[[BinaryIO, str], Document]

_HEAD_BYTES: Final = 4096
_PDF_WITHIN: Final = 1024
"""Where a PDF's mark may stand: many begin with a few bytes of something else."""
_PAGE_NAMES: Final = (".html", ".htm", ".xhtml", ".xht", "")
_PAGE: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.I | re.S,
)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")


def is_document(path: str) -> bool:
    """Whether a file is one that `read_document` should be asked about. Raises DocumentRefused for
    what can't be opened. Reads only its beginning."""
    name = shown_name(path)
    with opened(path, name, 1 << 62) as file:
        return bool(_family(file.read(_HEAD_BYTES), name))


def _family(head: bytes, name: str) -> str:
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return "zip"
    if head.startswith(_OLE):
        return "ole"
    # UTF-16 has the same letters, with a 0 beside each.
    plain = head.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    if PurePath(name).suffix.lower() in _PAGE_NAMES and _PAGE.match(plain):
        return "html"
    return "pdf" if b"%PDF-" in head[:_PDF_WITHIN] else ""


def reader_of(file: BinaryIO, name: str, progress: Progress) -> Reader:
    """Who reads this file, telling how far it is where that may take long. Raises
    DocumentRefused."""
    family = _family(file.read(_HEAD_BYTES), name)
    file.seek(0)
    if family == "pdf":
        from app.reading.pdf import read_pdf

        return partial(read_pdf, progress=progress)
    if family == "html":
        from app.reading.html import read_html

        return read_html
    if family == "zip":
        return _reader_of_archive(file, name)
    if family == "ole":
        raise _old_office(file, name)
    raise _not_supported(name)


def _reader_of_archive(file: BinaryIO, name: str) -> Reader:
    from app.reading.archive import Archive, beside
    from app.reading.xml import children, parsed, value

    archive = Archive(file, name)
    file.seek(0)
    kind = archive.read("mimetype", 1000).strip().decode("ascii", "replace")
    if kind == "application/epub+zip" or (not kind and "META-INF/container.xml" in archive):
        from app.reading.epub import read_epub

        return read_epub
    if kind.startswith("application/vnd.oasis.opendocument."):
        from app.reading.opendocument import read_odp, read_ods, read_odt

        if kind.endswith((".text", ".text-template", ".text-master", ".text-web")):
            return read_odt
        if kind.endswith((".spreadsheet", ".spreadsheet-template")):
            return read_ods
        if kind.endswith((".presentation", ".presentation-template")):
            return read_odp
    for relation in children(parsed(archive.read("_rels/.rels")), "Relationship"):
        if value(relation, "Type").endswith("/officeDocument"):
            main = beside("", value(relation, "Target"))
            if main.startswith("word/"):
                from app.reading.docx import read_docx

                return partial(read_docx, main=main)
            if main.startswith("ppt/") and main.endswith(".xml"):
                from app.reading.pptx import read_pptx

                return partial(read_pptx, main=main)
            if main.startswith("xl/") and main.endswith(".xml"):
                from app.reading.xlsx import read_xlsx

                return read_xlsx
    if kind or "[Content_Types].xml" in archive:
        raise _not_supported(name)
    sentence = f"“{name}” is an archive. Unpack it and attach the files in it."
    raise DocumentRefused("Archive", sentence)


def _old_office(file: BinaryIO, name: str) -> DocumentRefused:
    if _ENCRYPTED in file.read(MAX_FILE_BYTES):
        from app.reading.archive import protected

        return protected(name)
    sentence = f"“{name}” is in an old Office format. Save it as DOCX, XLSX, PPTX or PDF."
    return DocumentRefused("Old Office format", sentence)


def _not_supported(name: str) -> DocumentRefused:
    sentence = f"“{name}” is a kind of document that can't be read. Save it as PDF."
    return DocumentRefused("Not supported", sentence)
