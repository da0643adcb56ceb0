"""What a file is, by what is in it: a name's ending is only what somebody called it."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

from app.reading.document import Document, DocumentRefused
from app.reading.files import opened, shown_name

Reader = Callable[[BinaryIO, str], Document]

_HEAD_BYTES: Final = 4096
_PDF_WITHIN: Final = 1024
"""Where a PDF's mark may stand: many begin with a few bytes of something else."""


def is_document(path: str) -> bool:
    """Whether a file is one that `read_document` should be asked about. Raises DocumentRefused for
    what can't be opened. Reads only its beginning."""
    with opened(path, shown_name(path), 1 << 62) as file:
        return bool(_family(file.read(_HEAD_BYTES)))


def _family(head: bytes) -> str:
    if b"%PDF-" in head[:_PDF_WITHIN]:
        return "pdf"
    return ""


def reader_of(file: BinaryIO, name: str) -> Reader:
    """Who reads this file. Raises DocumentRefused. The readers, and what they import, are there
    before the process takes its limits: those count what is mapped, too."""
    family = _family(file.read(_HEAD_BYTES))
    file.seek(0)
    if family == "pdf":
        from app.reading.pdf import read_pdf

        return read_pdf
    sentence = f"“{name}” can't be attached: its kind of file isn't supported."
    raise DocumentRefused("Not supported", sentence)
