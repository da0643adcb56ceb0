"""Numbers and dates under a format code, against what LibreOffice shows for the same cells."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import openpyxl

from app.reading.number_formats import shown

MADE = Path(__file__).parents[2] / "files" / "documents"
OTHERWISE = {
    # A model should see that there is a number; LibreOffice shows nothing.
    ("#.##", ""): "0",
}


def test_they_read_as_libreoffice_shows_them() -> None:
    book: Any = openpyxl.load_workbook(MADE / "formats.xlsx", read_only=True)
    with (MADE / "formats.csv").open(encoding="utf-8", newline="") as file:
        wanted = list(csv.reader(file, delimiter="\t"))
    n_cells = 0
    for row, (code, *texts) in zip(book.active.iter_rows(), wanted, strict=True):
        for cell, text in zip(row[1:], texts, strict=False):
            if cell.value is None:
                continue
            n_cells += 1
            # `* ` fills a cell up with spaces, as wide as it is.
            text = " ".join(text.split()).replace("- ", "-")
            text = OTHERWISE.get((code, text), text)
            assert shown(cell.value, cell.number_format) == text, (code, cell.value)
    assert n_cells == 300
    book.close()


def test_what_is_not_understood_is_the_plain_value() -> None:
    for code in ("# ?/?", "[>100]0.0;0", "0 0 0", "\\", '"', "[", "yyyy", ";" * 9, "0" * 400):
        assert shown(1234.5, code).strip("0") in ("1234.5", "1235"), code
