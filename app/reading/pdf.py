"""The text of a PDF, page by page, by PDFium: what Chromium copies.

A PDF says where each glyph stands, not what is a heading or a column. PDFium gives the text in the
order in which it was painted, which is that of reading for what TeX, browsers and office programs
write, two columns too. What must hold: a page without text is said to be one, and a document of
such pages is refused as scanned.
"""

from __future__ import annotations

import re
import unicodedata
from typing import BinaryIO, Final

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from app.reading.document import MAX_FILE_BYTES, PDF, Document, DocumentRefused
from app.reading.files import too_large
from app.reading.writing import TextWriter

_HYPHEN: Final = re.compile(r"[\x02\ufffe]\s*")
"""PDFium's mark of a hyphen at a line's end that is no part of the word."""
_FORMS: Final = re.compile("[\ufb00-\ufb06\ufb13-\ufb17\ufb1d-\ufdff\ufe70-\ufefc]")
"""Ligatures and letters in the forms of their place in a word."""


def read_pdf(file: BinaryIO, name: str) -> Document:
    raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise too_large(name, len(raw), MAX_FILE_BYTES)
    pdf = _opened(raw, name)
    writer = TextWriter(name)
    empty: list[int] = []
    n_pages = len(pdf)
    for number in range(1, n_pages + 1):
        writer.place(f"page {number}", f"[Page {number}]")
        text = _text_of(pdf, number - 1)
        if not text:
            empty.append(number)
        writer.write(text)
    if len(empty) == n_pages:
        raise _no_text(name, n_pages)
    return writer.document(PDF, len(raw), _note(name, empty, n_pages))


def _opened(raw: bytes, name: str) -> pdfium.PdfDocument:
    try:
        pdf = pdfium.PdfDocument(raw)
    except pdfium.PdfiumError as error:
        if error.err_code in (pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY):
            sentence = f"“{name}” is protected with a password. Save a copy without it."
            raise DocumentRefused("Protected with a password", sentence) from None
        sentence = f"“{name}” can't be read: the PDF is damaged. Save or download it again."
        raise DocumentRefused("Damaged", sentence) from None
    if not len(pdf):
        raise DocumentRefused("Empty", f"“{name}” has no pages, so there is nothing to attach.")
    return pdf


def _text_of(pdf: pdfium.PdfDocument, index: int) -> str:
    """The text of one page; none where the page can't be read."""
    try:
        page = pdf[index]
    except pdfium.PdfiumError:
        return ""
    try:
        textpage = page.get_textpage()
        text: str = textpage.get_text_range()
        textpage.close()
    except pdfium.PdfiumError:
        return ""
    finally:
        page.close()
    text = _HYPHEN.sub("", text)
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    lines = (line.rstrip() for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join(lines).strip()


def _no_text(name: str, n_pages: int) -> DocumentRefused:
    what = "its pages are pictures" if n_pages > 1 else "its page is a picture"
    sentence = f"“{name}” has no text in it: {what}. Run text recognition (OCR) on it first."
    return DocumentRefused("No text (scanned)", sentence)


def _note(name: str, empty: list[int], n_pages: int) -> str:
    if not empty:
        return ""
    pages = f"Page {empty[0]}" if len(empty) == 1 else f"{len(empty):,} of {n_pages:,} pages"
    verb = "has" if len(empty) == 1 else "have"
    return f"{pages} of “{name}” {verb} no text: pictures aren't read."
