"""What a document is once it was read: a text, and where its pages, sheets or chapters begin.

What must hold for a text: it is as it is stored (one kind of line end, no NUL, no lone surrogate),
so that a place is the same character for everybody, and each place begins with words that say where
it is (`[Page 12]`, `# Sheet1`, a chapter's heading), for those that read the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.refusal import Refusal

MAX_FILE_BYTES: Final = 256_000_000
"""Scans and pictures make large files of little text."""
MAX_TEXT_BYTES: Final = 8_000_000
"""As of a text file: more than any context window holds."""
MAX_PLACES: Final = 20_000

PDF: Final = "application/pdf"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ODT: Final = "application/vnd.oasis.opendocument.text"
ODS: Final = "application/vnd.oasis.opendocument.spreadsheet"
PPTX: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
ODP: Final = "application/vnd.oasis.opendocument.presentation"
EPUB: Final = "application/epub+zip"
HTML: Final = "text/html"

KINDS: Final = {
    PDF: "PDF",
    DOCX: "Word document",
    XLSX: "Excel workbook",
    ODT: "OpenDocument text",
    ODS: "OpenDocument spreadsheet",
    PPTX: "PowerPoint presentation",
    ODP: "OpenDocument presentation",
    EPUB: "EPUB book",
    HTML: "Web page",
}
"""What a media type is called on screen."""
PLACES: Final = {
    PDF: "page", XLSX: "sheet", ODS: "sheet", PPTX: "slide", ODP: "slide", EPUB: "chapter",
}  # fmt: skip
"""What its places are; of others sections, or pages where they are called so."""

_NOT_STORED: Final = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


Progress = Callable[[int, int], None]
"""Told how many pages are read, and of how many; 0 of 0 where it is not known."""


class DocumentRefused(Refusal):
    """The file can't be read as a document: why, in a word or two (`kind`), and the sentence that
    says what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """At which character of the text something begins, and what it is called: "page 12"."""

    start: int
    label: str


@dataclass(frozen=True, slots=True)
class Document:
    """`note`: what to know about it, in a sentence; empty where there is nothing."""

    name: str
    media_type: str
    text: str
    places: tuple[Place, ...]
    size_bytes: int
    note: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """As its attachment has them."""
        note = {"note": self.note} if self.note else {}
        return {
            "media_type": self.media_type,
            "places": [[place.start, place.label] for place in self.places],
            "mode": "whole",
            "pages": "",
            **note,
        }


def cleaned(text: str) -> str:
    """Text as it is stored: without what no text has, and with one kind of line end.

    >>> cleaned("one\\r\\ntwo\\x00\\x0cthree\\ufffe")
    'one\\ntwothree'
    """
    return _NOT_STORED.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
