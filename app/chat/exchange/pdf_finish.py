"""What Qt's PDF writer leaves out, added to its file: bookmarks, addresses of links that it would
write wrongly, and the right letters for those that share a shape.

A PDF shows shapes, and says beside them which letters they are. Where a font has one shape for
several letters, Qt names the one with the lowest number: the radical ⽇ for the character 日, an
Arabic letter's old presentation form for the letter. Who searches the text finds nothing then.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pypdf import PdfWriter
from pypdf.generic import NameObject, TextStringObject

MOST_MARKS: Final = 20_000
MOST_BYTES: Final = 64_000_000
"""A larger file (some thousand pages) stays as Qt wrote it: pypdf holds three times of it."""

_STAND_IN: Final = "https://link.invalid/"
_STAND_INS: Final = re.compile("[\u2e80-\u2fdf\uf900-\ufaff\ufb50-\ufdff\ufe70-\ufeff]")
_SAME_SHAPE: Final = {"\u0269": "\u03b9"}
"""Latin and Greek iota."""
_NAMED: Final = re.compile(rb"<([0-9A-F]{4})>")
_LISTS: Final = re.compile(rb"\[[^\]]*\]")


def finish(path: Path, marks: Sequence[tuple[str, int]]) -> None:
    """`marks`: bookmarks, as (title, page from 0). What is there stays as it is; more comes behind
    it."""
    if path.stat().st_size > MOST_BYTES:
        return
    writer = PdfWriter(str(path), incremental=True)
    for title, page in marks[:MOST_MARKS]:
        writer.add_outline_item(title, page)
    _name_letters(writer)
    _put_right(writer)
    writer.write(str(path))


def stand_in(address: str) -> str:
    """What Qt writes as it is, until it is put right here."""
    return _STAND_IN + address.encode().hex()


def _put_right(writer: PdfWriter) -> None:
    for page in writer.pages:
        for link in page.get("/Annots", ()):
            action: Any = link.get_object()["/A"]
            address = str(action["/URI"])
            if address.startswith(_STAND_IN):
                meant = bytes.fromhex(address.removeprefix(_STAND_IN)).decode()
                action[NameObject("/URI")] = TextStringObject(meant)


def right_letter(code: str) -> str:
    """The letter that is meant, as four hexadecimal digits each.

    >>> right_letter("2F47"), right_letter("FEFB"), right_letter("0041")
    ('65E5', '06440627', '0041')
    """
    letter = chr(int(code, 16))
    letter = _SAME_SHAPE.get(letter, letter)
    if _STAND_INS.match(letter):
        letter = unicodedata.normalize("NFKC", letter)
    return letter.encode("utf-16-be").hex().upper()


def _name_letters(writer: PdfWriter) -> None:
    seen: set[int] = set()
    for page in writer.pages:
        resources: Any = page["/Resources"]
        for font in (resources.get("/Font") or {}).values():
            named = font.get_object().get("/ToUnicode")
            if named is None or named.idnum in seen:
                continue
            seen.add(named.idnum)
            stream = named.get_object()
            told = stream.get_data()
            right = _LISTS.sub(lambda found: _NAMED.sub(_right, found[0]), told)
            if right != told:
                stream.set_data(right)


def _right(found: re.Match[bytes]) -> bytes:
    return b"<" + right_letter(found[1].decode()).encode() + b">"
