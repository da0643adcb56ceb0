"""The text of a PDF, page by page, by PDFium: what Chromium copies.

A PDF says where each glyph stands, not what is a heading or a column. PDFium gives the text in the
order in which it was painted, which is that of reading for what TeX, browsers and office programs
write, two columns too. What must hold: a page without text is said to be one, and a document of
such pages is refused as scanned.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from typing import BinaryIO, Final

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from app.reading.document import MAX_FILE_BYTES, PDF, Document, DocumentRefused, Progress
from app.reading.files import too_large
from app.reading.writing import TextWriter, no_text

_HYPHEN: Final = re.compile(r"[\x02\ufffe]\s*")
"""PDFium's mark of a hyphen at a line's end that is no part of the word."""
_MAX_NOTES: Final = 2000
_MAX_LABEL: Final = 20
_LOOKED_AT: Final = 400
"""Of the characters of a page, for how it is turned."""
_LINE_END: Final = re.compile("\r\n( *)")
_RIGHT_TO_LEFT: Final = re.compile("(?=[\u0590-\u08ff]{2})")
_COMBINING: Final = {
    "¨": "\u0308", "´": "\u0301", "ˆ": "\u0302", "˜": "\u0303", "˚": "\u030a", "ˇ": "\u030c",
}  # fmt: skip
_ACCENT: Final = re.compile("([¨´ˆ˜˚ˇ])([A-Za-zıȷ])")
_FORMS: Final = re.compile("[\ufb00-\ufb06\ufb13-\ufb17\ufb1d-\ufdff\ufe70-\ufefc]")
"""Ligatures and letters in the forms of their place in a word."""

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""


def read_pdf(file: BinaryIO, name: str, progress: Progress) -> Document:
    raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise too_large(name, len(raw), MAX_FILE_BYTES)
    pdf = _opened(raw, name)
    writer = TextWriter(name)
    pictures: list[int] = []
    n_pages, has_text = len(pdf), False
    for number in range(1, n_pages + 1):
        writer.place(f"page {number}", f"[Page {number}{_numbered(pdf, number)}]")
        text, is_blank = _text_of(pdf, number - 1)
        if not text and not is_blank:
            pictures.append(number)
        has_text |= bool(text)
        writer.write(text)
        progress(number, n_pages)
    if not has_text:
        raise _no_text(name, len(pictures))
    return writer.document(PDF, len(raw), _note(name, pictures, n_pages))


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
    pdf.init_forms()  # which draws values whose looks the file leaves to the viewer
    return pdf


def _numbered(pdf: pdfium.PdfDocument, number: int) -> str:
    """What is printed on a page as its number, where that is another one."""
    label = " ".join(pdf.get_page_label(number - 1).split())[:_MAX_LABEL]
    return f", numbered {label}" if label not in ("", str(number)) else ""


def _text_of(pdf: pdfium.PdfDocument, index: int) -> tuple[str, bool]:
    """The text of one page, none where the page can't be read; and whether nothing is on it."""
    try:
        page = _filled_in(pdf, index)
    except pdfium.PdfiumError:
        return "", False
    try:
        is_blank = pdfium_c.FPDFPage_CountObjects(page) == 0
        text = _upright_text(page)
    except pdfium.PdfiumError:
        return "", False
    finally:
        page.close()
    text = _HYPHEN.sub("", text)
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = _ACCENT.sub(_with_accent, text)
    lines = (line.rstrip() for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join(lines).strip(), is_blank


def _filled_in(pdf: pdfium.PdfDocument, index: int) -> pdfium.PdfPage:
    """A page on which the values of forms and typed notes are text as all other."""
    page = pdf[index]
    n_notes = min(pdfium_c.FPDFPage_GetAnnotCount(page), _MAX_NOTES)
    for place in range(n_notes):
        note = pdfium_c.FPDFPage_GetAnnot(page, place)
        kind = pdfium_c.FPDFAnnot_GetSubtype(note) if note else -1
        pdfium_c.FPDFPage_CloseAnnot(note)
        if kind in (pdfium_c.FPDF_ANNOT_WIDGET, pdfium_c.FPDF_ANNOT_FREETEXT):
            pdfium_c.FPDFPage_Flatten(page, pdfium_c.FLAT_NORMALDISPLAY)
            page.close()
            return pdf[index]
    return page


def _upright_text(page: pdfium.PdfPage) -> str:
    """The text of a page turned so that most of its letters stand upright: from lines that run
    downwards PDFium makes a text from the last one to the first."""
    text = page.get_textpage()
    angle = _angle(text)
    if page.get_rotation() != -angle % 360:
        text.close()
        page.set_rotation(-angle % 360)
        text = page.get_textpage()
    try:
        seen = _seen_box(page)
        rects = (text.get_rect(place) for place in range(text.count_rects()))
        if any(not _is_within(rect, seen) for rect in rects):
            bounded: str = text.get_text_bounded(*seen)
            return bounded
        return _in_order(text, angle)
    finally:
        text.close()


def _seen_box(page: pdfium.PdfPage) -> Box:
    """What is shown of a page: others cut it to that, with what printers need around it."""
    media, crop = (
        (min(x, x2), min(y, y2), max(x, x2), max(y, y2))
        for x, y, x2, y2 in (page.get_mediabox(), page.get_cropbox())
    )
    left, bottom = max(media[0], crop[0]), max(media[1], crop[1])
    right, top = min(media[2], crop[2]), min(media[3], crop[3])
    return (left, bottom, right, top) if left < right and bottom < top else media


def _is_within(rect: Box, seen: Box) -> bool:
    """Whether most of it is seen."""
    x, y = (rect[0] + rect[2]) / 2, (rect[1] + rect[3]) / 2
    return seen[0] <= x <= seen[2] and seen[1] <= y <= seen[3]


def _angle(page: pdfium.PdfTextPage) -> int:
    """Of most of its letters, in the page as it is written: 0, 90, 180 or 270 degrees."""
    places = range(0, n := page.count_chars(), max(1, n // _LOOKED_AT))
    angles = Counter(
        round(pdfium_c.FPDFText_GetCharAngle(page, place) / (math.pi / 2)) % 4 * 90
        for place in places
        if not pdfium_c.FPDFText_IsGenerated(page, place)
    )
    return angles.most_common(1)[0][0] if angles else 0


def _in_order(page: pdfium.PdfTextPage, angle: int) -> str:
    """The text of a page, with two things put right that PDFium leaves.

    It ends the line before a superscript, and where one glyph is several letters of a script from
    right to left (Arabic's lam-alef) it has them the wrong way round.
    """
    text: str = page.get_text_range()
    if len(text) != page.count_chars():  # then a character's number is not its place in the text
        return text
    chars = list(text)
    for found in _LINE_END.finditer(text):
        at = found.start()
        if at > 0 and found.end() < len(chars):
            before, after = page.get_charbox(at - 1), page.get_charbox(found.end())
            gap = _gap(_turned(before, angle), _turned(after, angle))
            if gap is not None:
                chars[at] = " " if gap and not found[1] else ""
                chars[at + 1] = ""
    for found in _RIGHT_TO_LEFT.finditer(text):
        at = found.start()
        if page.get_charbox(at) == page.get_charbox(at + 1):
            chars[at : at + 2] = chars[at + 1], chars[at]
    return "".join(chars)


def _turned(box: Box, angle: int) -> Box:
    """The box of a letter at this angle as if it stood upright.

    >>> [_turned((1, 2, 3, 5), angle) for angle in (0, 90, 180, 270)]
    [(1, 2, 3, 5), (-5, 1, -2, 3), (-3, -5, -1, -2), (2, -3, 5, -1)]
    """
    left, bottom, right, top = box
    return {
        0: box,
        90: (-top, left, -bottom, right),
        180: (-right, -top, -left, -bottom),
        270: (bottom, -right, top, -left),
    }[angle]


def _gap(before: Box, after: Box) -> bool | None:
    """Whether there is one between two characters; None where they are not in one line.

    >>> _gap((10, 100, 15, 107), (15.4, 103, 18, 108)), _gap((10, 100, 15, 107), (30, 100, 35, 107))
    (False, None)
    >>> _gap((10, 100, 15, 107), (17, 100, 20, 107)), _gap((10, 100, 15, 107), (15, 106, 18, 110))
    (True, False)
    >>> _gap((300, 100, 305, 107), (72, 88, 77, 95)), _gap((10, 100, 15, 107), (40, 700, 45, 707))
    (None, None)
    """
    height = min(before[3] - before[1], after[3] - after[1])
    shared = min(before[3], after[3]) - max(before[1], after[1])
    apart = after[0] - before[2]
    if height <= 0 or shared <= 0 or not -0.4 * height <= apart <= height:
        return None
    return apart > 0.2 * height


def _with_accent(found: re.Match[str]) -> str:
    """TeX's older fonts have accents as glyphs of their own, before the letter."""
    letter = {"ı": "i", "ȷ": "j"}.get(found[2], found[2])
    one = unicodedata.normalize("NFC", letter + _COMBINING[found[1]])
    return one if len(one) == 1 else found[0]


def _no_text(name: str, n_pictures: int) -> DocumentRefused:
    if not n_pictures:
        return no_text(name)
    what = "its pages are pictures" if n_pictures > 1 else "its page is a picture"
    sentence = f"“{name}” has no text in it: {what}. Run text recognition (OCR) on it first."
    return DocumentRefused("No text (scanned)", sentence)


def _note(name: str, pictures: list[int], n_pages: int) -> str:
    if not pictures:
        return ""
    one = len(pictures) == 1
    pages = f"Page {pictures[0]}" if one else f"{len(pictures):,} of {n_pages:,} pages"
    verb = "has" if one else "have"
    return f"{pages} of “{name}” {verb} no text: pictures aren't read."
