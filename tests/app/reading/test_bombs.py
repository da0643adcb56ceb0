"""A few kB that unpack to gigabytes, or to millions of elements: the process that reads them is
bounded in memory and time, and the app's own does not grow."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pdfs import assembled, stream
from zips import docx, opendocument

from app.reading.client import DEADLINE_S, Reading
from app.reading.document import DocumentRefused
from app.reading.limits import MEMORY_BYTES

HEAD = [
    b"<</Type/Catalog/Pages 2 0 R>>",
    b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
]
PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 5 0 R/Resources<<%s>>>>"
FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<<%s>>"
FONT = b"/Font<</F1 3 0 R>>"


def twice_packed() -> bytes:
    """1.5 GB of spaces as a page's content."""
    content = zlib.compress(zlib.compress(b" " * 1_500_000_000, 1), 9)
    page = stream(content, b"/Filter[/FlateDecode/FlateDecode]")
    return assembled([*HEAD, PAGE % FONT, page])


def forms_in_forms() -> bytes:
    """30 times a form that is 30 times a form, twelve deep."""
    x = b"/XObject<</X %d 0 R>>"
    inner = [stream(b"/X Do " * 30, FORM % (x % (7 + n))) for n in range(12)]
    last = stream(b"BT /F1 9 Tf (a) Tj ET", FORM % FONT)
    return assembled([*HEAD, PAGE % (x % 6), stream(b"/X Do"), *inner, last])


def many_paragraphs() -> bytes:
    return docx("<w:p><w:r><w:t>word</w:t></w:r></w:p>" * 2_000_000)


def one_paragraph() -> bytes:
    return docx(f"<w:p><w:r><w:t>{' ' * 90_000_000}</w:t></w:r></w:p>")


def repeated_rows() -> bytes:
    row = (
        '<table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
    )
    return opendocument("spreadsheet", f"<table:table>{row * 400_000}</table:table>")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (twice_packed, "Damaged or too large"),
        (forms_in_forms, "Damaged or too large"),
        (many_paragraphs, "More text than 8 MB"),
        (one_paragraph, "Damaged"),
        (repeated_rows, "No text"),
    ],
)
def test_it_is_refused_within_bounds(make: Callable[[], bytes], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(make())
    peak = 0
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(0.02):
            for child in psutil.Process().children():
                try:
                    if "--child=documents" in child.cmdline():
                        peak = max(peak, child.memory_info().rss)
                except psutil.Error:
                    continue

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with pytest.raises(DocumentRefused) as refused:
            Reading(deadline_s=DEADLINE_S).read(str(path))
    finally:
        is_over.set()
        watching.join()
    assert refused.value.kind == kind
    assert 0 < peak <= MEMORY_BYTES
