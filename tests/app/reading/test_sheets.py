"""Cells of spreadsheets: in their columns, and formulas where no program has computed them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import openpyxl

from app.reading.document import Document
from app.reading.sheets import SheetWriter


def test_a_formula_without_a_value_is_shown(
    read_here: Callable[[Path], Document], tmp_path: Path
) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    for row in (["a", 1], ["b", 2], ["sum", "=SUM(B1:B2)"]):
        sheet.append(row)
    hidden = book.create_sheet("Two")
    hidden.append([1, None, "=A1"])
    hidden.sheet_state = "hidden"
    book.save(tmp_path / "a.xlsx")
    document = read_here(tmp_path / "a.xlsx")
    assert document.text == "# Sheet\n\na\t1\nb\t2\nsum\t=SUM(B1:B2)\n\n# Two (hidden)\n\n1\t\t=A1"


def test_rows_and_columns_that_are_empty_cost_nothing() -> None:
    writer = SheetWriter("a")
    writer.begin_sheet("A")
    writer.write_row([("", 3), ("x", 1), ("", 16_000)])
    writer.write_row([("", 16_384)], 1_000_000)
    writer.write_row([("a\tb\nc", 2)], 2)
    document = writer.document("x", 1)
    assert document.text == "# A\n\n\t\t\tx\n\na b c\ta b c\na b c\ta b c"
