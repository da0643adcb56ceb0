"""Spreadsheets as text: each sheet under its name, a row a line, cells parted by tabs.

Tabs cost a model one token a cell, a Markdown table two and more. What must hold: a cell stands in
its column (empty ones before it are there, those behind it not), several empty rows are one, and
what a file repeats or claims costs nothing before it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from app.reading.document import MAX_TEXT_BYTES, Document, DocumentRefused
from app.reading.writing import TextWriter

MAX_COLUMNS: Final = 16_384


class SheetWriter:
    def __init__(self, name: str) -> None:
        self._name = name
        self._writer = TextWriter(name)
        self._has_cells = False
        self._gap = False
        self._is_first = True

    def begin_sheet(self, title: str) -> None:
        title = " ".join(title.split()) or "Sheet"
        self._writer.place(title, f"# {title}")
        self._gap, self._is_first = False, True

    def write_row(self, cells: Iterable[tuple[str, int]], repeated: int = 1) -> None:
        """`cells`: text and how many columns it fills; the row is there `repeated` times."""
        row: list[str] = []
        last = 0
        for text, times in cells:
            shown = " ".join(text.split())
            if not shown:
                row.append("\t" * min(times, MAX_COLUMNS))
                continue
            row.append(f"{shown}\t" * min(times, MAX_COLUMNS))
            last = len(row)
        line = "".join(row[:last])[:-1]
        if not line:
            self._gap = True
            return
        self._has_cells = True
        # The writer refuses at its own bound; this keeps the copies from being made at all.
        line = "\n".join([line] * min(repeated, MAX_TEXT_BYTES // len(line) + 1))
        self._writer.write(line, "\n\n" if self._is_first or self._gap else "\n")
        self._gap = self._is_first = False

    def document(self, media_type: str, size_bytes: int) -> Document:
        if not self._has_cells:
            sentence = f"“{self._name}” has no filled cells, so there is nothing to attach."
            raise DocumentRefused("No text", sentence)
        return self._writer.document(media_type, size_bytes)
