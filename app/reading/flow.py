"""What the readers of DOCX, ODT, HTML and EPUB write into: blocks of text as Markdown.

    flow.begin("## ")           # a heading
    flow.add("Results")
    flow.begin("- ", depth=1)   # an item of a list
    flow.add("first")
    flow.begin_table() … flow.begin_row() … flow.begin_cell() … flow.end_table()

Headings, items and tables are marked so that a model sees them; bold and italic are not, and links
are their words. A table of one column, or of long texts, is there for the layout: its cells are
written one after another. What must hold: text keeps its order, and nothing is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.reading.document import cleaned
from app.reading.writing import TextWriter

BREAK: Final = "\x1e"
"""A line's end that is meant, where others are only spaces."""
MAX_SPAN: Final = 200
_LONG_CELL: Final = 1000
_MANY_BLOCKS: Final = 6
_SPACES: Final = re.compile(r"[ \t\r\n\f]+")
_AT_BREAKS: Final = re.compile(rf" ?{BREAK} ?")
_TABLE_DEPTH: Final = 40


@dataclass(frozen=True, slots=True)
class _Mark:
    """A page that begins within a table."""

    label: str
    words: str


_Cell = list[str | _Mark]


class _Table:
    def __init__(self) -> None:
        self.rows: list[list[_Cell]] = []
        self.before: _Cell = []
        """What stands before the first cell: its caption."""
        self.open = self.before
        """The blocks of the cell that is written now."""
        self._below: dict[int, int] = {}  # column -> rows that a cell from above still reaches

    def begin_row(self) -> None:
        self.rows.append([])

    def begin_cell(self, columns: int, rows: int) -> None:
        if not self.rows:
            self.begin_row()
        row = self.rows[-1]
        self._skip_reached(row)
        own: _Cell = []
        for n in range(max(1, min(columns, MAX_SPAN))):
            if rows > 1:
                self._below[len(row)] = min(rows, MAX_SPAN) - 1
            row.append(own if n == 0 else [])
        self.open = own

    def _skip_reached(self, row: list[_Cell]) -> None:
        while self._below.get(len(row), 0) > 0:
            self._below[len(row)] -= 1
            row.append([])


class Flow:
    """`collapses`: runs of white space are one space, as in HTML."""

    def __init__(self, writer: TextWriter, *, collapses: bool = False) -> None:
        self._writer = writer
        self._collapses = collapses
        self._parts: list[str] = []
        self._prefix = ""
        self._depth = 0
        self._was_item = False
        self._tables: list[_Table] = []
        self._after: list[str] = []
        self._places: list[str] = []

    # --- text -----------------------------------------------------------------------------------

    def add(self, text: str) -> None:
        """More of the block that is open."""
        self._parts.append(text)

    def begin(self, prefix: str = "", depth: int = 0) -> None:
        """End the block that is open; the next one begins with `prefix` ("# ", "- ", "3. ")."""
        self.end()
        self._prefix = prefix
        self._depth = depth

    def go_on(self, prefix: str = "", depth: int = 0) -> None:
        """As `begin`, but an item whose marker still waits for its first words keeps it."""
        is_waiting = depth and depth == self._depth and self._prefix
        if not (is_waiting and not "".join(self._parts).strip()):
            self.begin(prefix, depth)

    def end(self) -> None:
        text = "".join(self._parts)
        self._parts.clear()
        if self._collapses:
            text = _AT_BREAKS.sub("\n", _SPACES.sub(" ", text))
        else:
            text = text.replace(BREAK, "\n")
        text = cleaned(text).strip()
        if text:
            self._write(text)
        for note in self._after:
            self._write(note)
        self._after.clear()

    def verbatim(self, text: str) -> None:
        """A block of its own, as it is: a program's source."""
        self.end()
        text = cleaned(text).strip("\n")
        if text.strip():
            longest = max(map(len, re.findall("`{3,}", text)), default=2)
            fence = "`" * (longest + 1)
            self._prefix = ""
            self._write(text if self._tables else f"{fence}\n{text}\n{fence}")

    def note(self, label: str, text: str) -> None:
        """A footnote: it follows the block that is open."""
        text = " ".join(cleaned(text).split())
        if text:
            self._after.append(f"[^{label}]: {text}")

    def place(self, label: str) -> None:
        """What is written from the next block on is there; its own words say so."""
        self.end()
        self._places.append(label)

    def mark(self, label: str, words: str) -> None:
        """As `place`, with a block of words of its own. A table ends there, and goes on."""
        self.end()
        self._put(_Mark(label, words))

    def _put(self, block: str | _Mark) -> None:
        if isinstance(block, str):
            self._write(block)
        elif self._tables:
            self._tables[0].open.append(block)
        else:
            self._writer.place(block.label, block.words)
            self._was_item = False

    def _write(self, text: str) -> None:
        prefix, self._prefix = self._prefix, ""
        if self._tables:
            self._tables[-1].open.append(prefix.lstrip("# ") + text)
            return
        is_item = self._depth > 0
        lead = "  " * (self._depth - 1) if is_item else ""
        if is_item:
            hang = lead + " " * (len(prefix) or 2)
            text = (lead + prefix if prefix else hang) + text.replace("\n", f"\n{hang}")
        elif prefix.startswith("#"):
            text = prefix + " ".join(text.split())
        else:
            text = prefix + text.replace("\n", f"\n{prefix}" if prefix == "> " else "\n")
        for label in self._places:
            self._writer.place(label or text.lstrip("# "))
        self._places.clear()
        self._writer.write(text, "\n" if is_item and self._was_item and prefix else "\n\n")
        self._was_item = is_item

    # --- tables ---------------------------------------------------------------------------------

    def begin_table(self) -> None:
        self.end()
        if len(self._tables) < _TABLE_DEPTH:
            self._tables.append(_Table())
        else:
            raise RecursionError("tables within tables")

    def begin_row(self) -> None:
        self.end()
        if self._tables:
            self._tables[-1].begin_row()

    def begin_cell(self, columns: int = 1, rows: int = 1) -> None:
        self.begin()
        if self._tables:
            self._tables[-1].begin_cell(columns, rows)

    def end_table(self) -> None:
        self.begin()
        if not self._tables:
            return
        table = self._tables.pop()
        for block in table.before:
            self._put(block)
        rows = _trimmed(table.rows)
        cells = [cell for row in rows for cell in row]
        is_layout = max(map(len, rows), default=0) <= 1 or any(
            len(cell) > _MANY_BLOCKS or sum(map(len, _texts(cell))) > _LONG_CELL for cell in cells
        )
        if self._tables:  # within a cell of another one: a line for each row
            for row in rows:
                if line := " · ".join(filter(None, (" ".join(_texts(cell)) for cell in row))):
                    self._write(line)
        else:
            for block in (block for cell in cells for block in cell) if is_layout else _parts(rows):
                self._put(block)


def _texts(cell: _Cell) -> list[str]:
    return [block for block in cell if isinstance(block, str)]


def _parts(rows: list[list[_Cell]]) -> Iterator[str | _Mark]:
    """A table for each page. One that begins within a row stands behind it."""
    own: list[list[str]] = []
    for row in rows:
        blocks = [block for cell in row for block in cell]
        marks = [block for block in blocks if isinstance(block, _Mark)]
        texts = [" ".join(_texts(cell)) for cell in row]
        begins = bool(marks) and blocks[0] is marks[0]
        if any(texts) and not begins:
            own.append(texts)
        if marks:
            if own:
                yield markdown_table(own)
            yield from marks
            own = []
        if any(texts) and begins:
            own.append(texts)
    if own:
        yield markdown_table(own)


def _trimmed(rows: list[list[_Cell]]) -> list[list[_Cell]]:
    """Without columns and rows in which nothing stands."""
    rows = [row for row in rows if any(row)]
    width = max(map(len, rows), default=0)
    used = [n for n in range(width) if any(len(row) > n and row[n] for row in rows)]
    return [[row[n] if len(row) > n else [] for n in used] for row in rows]


def markdown_table(rows: list[list[str]]) -> str:
    """
    >>> print(markdown_table([["Name", "Price"], ["a|b", "1.20"], ["two\\nlines"]]))
    | Name | Price |
    | --- | --- |
    | a\\|b | 1.20 |
    | two lines |  |
    """
    width = max(map(len, rows), default=0)
    lines = [
        f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in row)} |"
        for row in ([*row, *[""] * (width - len(row))] for row in rows)
    ]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)
