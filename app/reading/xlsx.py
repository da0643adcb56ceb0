"""The sheets of an XLSX: values as they are shown, by openpyxl, row by row.

A file has the values that its program computed last. One that a script wrote may have none: then
the formula is shown, since an empty cell would be a lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from app.reading.archive import Archive, damaged
from app.reading.document import XLSX, Document
from app.reading.number_formats import GENERAL, shown
from app.reading.sheets import SheetWriter

_HIDDEN: Final = ("hidden", "veryHidden")
_WITHOUT_VALUE: Final = re.compile(rb"(?:</f>|<f(?:\s[^>]*)?/>)\s*(?:<v\s*/>|<v></v>)?\s*</c>")
_LOOKED_AT: Final = 2_000_000
"""Bytes of a sheet: one that has such cells has them near its beginning."""


def read_xlsx(file: BinaryIO, name: str) -> Document:
    archive = Archive(file, name)
    is_computed = not any(
        _WITHOUT_VALUE.search(archive.read(part)[:_LOOKED_AT])
        for part in archive.parts
        if part.startswith("xl/worksheets/") and part.endswith(".xml")
    )
    values = _opened(file, name, data_only=True)
    formulas = None if is_computed else _opened(file, name, data_only=False)
    writer = SheetWriter(name)
    for place, sheet in enumerate(values.worksheets):
        hidden = " (hidden)" if sheet.sheet_state in _HIDDEN else ""
        writer.begin_sheet(f"{sheet.title}{hidden}")
        if formulas is None:
            for row in _rows(sheet):
                writer.write_row((_text(cell), 1) for cell in row)
        else:
            both = zip(_rows(sheet), _rows(formulas.worksheets[place]), strict=True)
            for row, own in both:
                cells = zip(row, own, strict=True)
                writer.write_row((_text(cell) or _text(formula), 1) for cell, formula in cells)
    return writer.document(XLSX, file.seek(0, 2))


def _opened(file: BinaryIO, name: str, *, data_only: bool) -> Any:
    file.seek(0)
    try:
        return openpyxl.load_workbook(file, read_only=True, data_only=data_only, keep_links=False)
    except (OSError, InvalidFileException, LookupError, ValueError, TypeError) as error:
        raise damaged(name) from error


def _rows(sheet: Any) -> Iterator[Any]:
    sheet.reset_dimensions()  # what a file claims of its size would be filled up
    return iter(sheet.iter_rows())


def _text(cell: Any) -> str:
    return shown(cell.value, getattr(cell, "number_format", GENERAL))
