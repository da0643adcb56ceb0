"""The sheets of an XLSX: values as they are shown, by openpyxl, row by row."""

from __future__ import annotations

from typing import BinaryIO, Final

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from app.reading.archive import Archive, damaged
from app.reading.document import XLSX, Document
from app.reading.number_formats import GENERAL, shown
from app.reading.sheets import SheetWriter

_HIDDEN: Final = ("hidden", "veryHidden")


def read_xlsx(file: BinaryIO, name: str) -> Document:
    Archive(file, name)  # its bounds
    file.seek(0)
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    except (OSError, InvalidFileException, LookupError, ValueError, TypeError) as error:
        raise damaged(name) from error
    writer = SheetWriter(name)
    for sheet in book.worksheets:
        hidden = " (hidden)" if sheet.sheet_state in _HIDDEN else ""
        writer.begin_sheet(f"{sheet.title}{hidden}")
        sheet.reset_dimensions()  # what a file claims of its size would be filled up
        for row in sheet.iter_rows():
            writer.write_row(
                (shown(cell.value, getattr(cell, "number_format", GENERAL)), 1) for cell in row
            )
    return writer.document(XLSX, file.seek(0, 2))
