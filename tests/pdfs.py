"""Small PDFs, written by hand: right ones, and such as nobody should write."""

from __future__ import annotations

from collections.abc import Sequence

PICTURE = b"q 200 0 0 200 72 400 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \x80 EI Q"
"""What is on a page that was scanned."""


def pdf(pages: Sequence[str | bytes], extra: Sequence[bytes] = (), trailer: bytes = b"") -> bytes:
    """A PDF whose pages hold these texts, a line a line; bytes are a page's content stream as it
    is. `extra`: objects after the pages, from number `3 + 2 * len(pages)` + 1 on."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for number, page in enumerate(pages):
        content = page if isinstance(page, bytes) else _shown(page)
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents %d 0 R"
            b"/Resources<</Font<</F1 3 0 R>>>>>>" % (5 + 2 * number)
        )
        objects.append(stream(content))
    return assembled([*objects, *extra], trailer)


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<<%s/Length %d>>\nstream\n%s\nendstream" % (entries, len(content), content)


def assembled(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A file of these objects, numbered from 1; the first is the catalog."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    at = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<</Size %d/Root 1 0 R%s>>\n" % (len(objects) + 1, trailer)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % at)


def form(label: str, filled_in: str, *, is_drawn: bool = True) -> bytes:
    """A page with a label, and a field beside it with a value. `is_drawn`: the file has its looks,
    too; else the viewer is to draw it."""
    font = b"/Resources<</Font<</F1 3 0 R>>>>"
    value = b"/AP<</N 7 0 R>>" if is_drawn else b"/V(%s)/DA(/F1 9 Tf)" % filled_in.encode()
    needs = b"" if is_drawn else b"/NeedAppearances true/DR<</Font<</F1 3 0 R>>>>"
    drawn = b"BT /F1 10 Tf 2 5 Td (%s) Tj ET" % filled_in.encode()
    return assembled(
        [
            b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[6 0 R]%s>>>>" % needs,
            b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            b"<</Type/Page/MediaBox[0 0 300 300]/Contents 5 0 R/Annots[6 0 R]%s>>" % font,
            stream(b"BT /F1 12 Tf 20 200 Td (%s) Tj ET" % label.encode()),
            b"<</Type/Annot/Subtype/Widget/FT/Tx/T(n)/Rect[80 195 180 215]%s/F 4>>" % value,
            stream(drawn, b"/Type/XObject/Subtype/Form/BBox[0 0 100 20]" + font),
        ]
    )


def _shown(text: str) -> bytes:
    lines = [
        b"(%s) Tj T*" % line.encode("cp1252").replace(b"(", b"\\(").replace(b")", b"\\)")
        for line in text.split("\n")
    ]
    return b"BT /F1 12 Tf 14 TL 72 770 Td %s ET" % b" ".join(lines) if text else b""
