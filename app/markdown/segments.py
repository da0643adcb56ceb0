"""Cut a growing Markdown text into segments that can be parsed one by one.

A segment ends where no later line can change it: before a heading, around a fence, where a
blank line is followed by a line that starts at the margin, between items of a list at the
margin. So while a reply streams only its last segment is parsed again, and a message of
megabytes is parsed only where somebody looks. Long code, tables, paragraphs are cut into
parts of a few kilobytes, which bounds the work for one segment whatever a model writes.

    "# Title\\n\\nSome\\ntext.\\n\\n```py\\nx = 1\\n```\\n"
    → PROSE "# Title" · PROSE "Some\\ntext." · CODE "x = 1" (language "py")

Not cutting is always right; cutting must be. So the rules are narrower than CommonMark's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.markdown.blocks import Block

MAX_CHARS = 3000
MAX_CODE_LINES = 64
MAX_TABLE_LINES = 18
MAX_TEXT_LINES = 150

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})(.*)$")
_INNER_FENCE = re.compile(r"^[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+|>[ \t]?)*(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r"^#{1,6}(?:[ \t]|$)")
_ITEM = re.compile(r"^(?:[-*+]|(\d{1,9})([.)]))[ \t]+\S")
_DELIMITER = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_DEFINITION = re.compile(r"^ {0,3}\[(?!\^)[^\]\[]+\]:[ \t]*\S")
NOTE = re.compile(r"^ {0,3}\[\^([^\]\[\s]+)\]:")
"""The beginning of a footnote."""
# The beginning of a line that may still become a fence, a heading, an item, a rule, a table:
# shown only once it is known what it is.
_FORMING = re.compile(
    r"^ {0,3}(?:`{1,2}|`{3,}[^`]*|~{1,2}|~{3,}.*|#{1,6}|[-*+]|\d{1,9}[.)]?|\|[-|: \t]*"
    r"|>|-{2,}|={1,}|\*{2,3}|_{1,3}|\$\$?|\\|\\\[|\[)[ \t]*$"
)


# Lines inside a paragraph that can only be more of it: many are taken in one go.
_PLAIN_RUN = re.compile(r"(?:(?:[A-Za-z]|\d+(?![\d.)]))[^\n|]{0,1000}\n){1,150}")


class SegmentKind(StrEnum):
    PROSE = "prose"
    LIST = "list"
    CODE = "code"
    TABLE = "table"
    MATH = "math"
    PLAIN = "plain"


@dataclass(slots=True, eq=False)
class CodeGroup:
    """The parts of one fenced block: the unit of copying and highlighting.

    `is_broken`: a line was too long for one part, so the parts' lines are not the code's.
    `runs` are the colours of the whole code, by line, once they were computed: parts that are
    coloured alone do not know that they begin inside a string. `longest` is the line that takes
    the most columns: how wide all parts are.
    """

    language: str = ""
    lines: list[str] = field(default_factory=list)
    is_closed: bool = False
    is_broken: bool = False
    runs: list[list[tuple[int, int, str]]] | None = None
    longest: str = ""

    def add(self, line: str) -> None:
        self.lines.append(line)
        if columns_of(line) > columns_of(self.longest):
            self.longest = line

    @property
    def code(self) -> str:
        """The code as it was written, with its final line feed."""
        return "".join(f"{line}\n" for line in self.lines)


@dataclass(slots=True, eq=False)
class Segment:
    """A part of the source. `blocks` is filled when it is first looked at.

    `number` continues an ordered list whose earlier items are in other segments.
    `head` holds the two head lines of a table that was cut, `first` its first part; `line` is
    where a part of a code block begins. `is_joined`: no space above.
    """

    kind: SegmentKind
    text: str
    is_tight: bool = False
    is_joined: bool = False
    number: int | None = None
    head: str = ""
    first: Segment | None = None
    group: CodeGroup | None = None
    part: int = 0
    line: int = 0
    is_last_part: bool = True
    is_open: bool = False
    blocks: tuple[Block, ...] | None = None


def is_definition(line: str) -> bool:
    """Whether a line defines a link's target, "[label]: target", or begins a footnote."""
    return _DEFINITION.match(line) is not None or NOTE.match(line) is not None


def is_forming(line: str) -> bool:
    """Whether an unfinished line may still become the start of another kind of block."""
    return _FORMING.match(line) is not None


def indent_of(line: str) -> int:
    """Columns of white space at the start of a line; a tab counts as four."""
    width = 0
    for char in line:
        if char == " ":
            width += 1
        elif char == "\t":
            width += 4
        else:
            break
    return width


def columns_of(line: str) -> int:
    """About how many columns of a fixed-pitch font a line takes; wide letters take two."""
    if line.isascii():
        return len(line) + 3 * line.count("\t")
    return len(line) + 3 * line.count("\t") + sum(char > "\u10ff" for char in line)


class Tail:
    """The open end of a text: reads line by line and emits the segments that are complete."""

    def __init__(self, emit: Callable[[Segment], None]) -> None:
        self.emit = emit
        self.kind: SegmentKind | None = None
        self.lines: list[str] = []
        self.n_lines = 0
        self.chars = 0
        self.blanks = 0
        self.fence = ""
        self.fence_indent = 0
        self.fence_nest = ""
        self.is_joined = False
        self.is_tight = False
        self.number: int | None = None
        self.last_item: tuple[int, str] | None = None
        self.head: list[str] = []
        self.first: Segment | None = None
        self.group: CodeGroup | None = None
        self.part = 0

    def copy(self, emit: Callable[[Segment], None]) -> Tail:
        """A tail in the same state, for looking at what an unfinished line would do."""
        twin = Tail(emit)
        twin.__dict__.update(self.__dict__)
        twin.emit = emit
        twin.lines = list(self.lines)
        if self.group is not None:
            twin.group = replace(self.group, lines=list(self.group.lines))
        return twin

    def feed_lines(self, text: str) -> None:
        """Take whole lines, each with its line feed."""
        start = 0
        while start < len(text):
            if self.kind is SegmentKind.PROSE and self.lines and not (self.blanks or self.fence):
                start = self._feed_run(text, start)
                if start == len(text):
                    return
            end = text.index("\n", start)
            self.feed(text[start:end])
            start = end + 1

    def _feed_run(self, text: str, start: int) -> int:
        """Add lines to a paragraph as long as that is all that they can be; where they end."""
        room, rows = MAX_CHARS - self.chars, MAX_TEXT_LINES - self.n_lines
        run = (
            _PLAIN_RUN.match(text, start, start + MAX_CHARS + 1500) if min(room, rows) > 0 else None
        )
        if run is None:
            return start
        # The line that reaches the limit is the last one in its part, as in `feed`.
        end = text.find("\n", start + room - 1, run.end())
        end = end if end >= 0 else run.end() - 1
        lines = text[start:end].split("\n", rows)[:rows]
        taken = "\n".join(lines)
        self.lines.append(taken)
        self.n_lines += len(lines)
        self.chars += len(taken) + 1
        return start + len(taken) + 1

    def feed(self, line: str) -> None:
        """Take one whole line (without its line feed)."""
        if self.kind is SegmentKind.CODE:
            self._feed_code(line)
        elif self.kind is SegmentKind.MATH:
            self._feed_math(line)
        elif self.fence and self._stays_in_inner_fence(line):
            self._add(line)
            self._cut_if_large()
        elif not line.strip():
            self._feed_blank()
        else:
            self._feed_text(line)

    def close(self, *, is_open: bool = False) -> None:
        """Emit what is there. is_open: more may come (only said of a copy)."""
        kind, text = self.kind, "\n".join(self.lines)
        if kind is None or (not text.strip() and kind is not SegmentKind.CODE):
            self._reset()
            return
        segment = Segment(
            kind=kind,
            text=text if kind is SegmentKind.CODE else text.rstrip(),
            is_tight=self.is_tight,
            is_joined=self.is_joined,
            number=self.number,
            head="\n".join(self.head) if kind is SegmentKind.TABLE and self.part else "",
            first=self.first,
            group=self.group,
            part=self.part,
            line=len(self.group.lines) - len(self.lines) if self.group else 0,
            is_open=is_open,
        )
        self._reset()
        self.emit(segment)

    # Inside something that ends on a mark

    def _feed_code(self, line: str) -> None:
        group = self.group
        if group is None or is_fence_end(line, self.fence, self.fence_indent):
            if group is not None:
                group.is_closed = True
            self.close()
            return
        if self.lines and (len(self.lines) >= MAX_CODE_LINES or self.chars >= MAX_CHARS):
            self._cut_part()
        line = line[min(self.fence_indent, len(line) - len(line.lstrip(" "))) :]
        group.add(line)
        for i, piece in enumerate(_pieces(line, MAX_CHARS)):
            if i:
                group.is_broken = True
                self._cut_part()
            self._add(piece)

    def _feed_math(self, line: str) -> None:
        if not line.strip():
            self.close()
            self.is_tight = False
            return
        self._add(line)
        is_end = ("$$" in line and len(self.lines) > 1) or "\\]" in line
        if is_end or self.chars > MAX_CHARS:
            self.close()

    def _stays_in_inner_fence(self, line: str) -> bool:
        """Whether a fence inside a list or a quote goes on with this line, or ends with it."""
        is_quote = ">" in self.fence_nest
        if is_quote and not line.lstrip().startswith(">"):
            self.fence = ""
            return False
        if not is_quote and line.strip() and indent_of(line) < 2:
            self.fence = ""
            return False
        body = line.strip().lstrip("> \t") if is_quote else line.strip()
        if body and set(body) == {self.fence[0]} and len(body) >= len(self.fence):
            self.fence = ""
        return True

    # Text

    def _feed_blank(self) -> None:
        self.blanks += 1
        if self.kind is SegmentKind.TABLE:
            self.close()
            self.is_tight = False
        elif self.lines:
            self._add("")
        else:
            self.is_tight = False

    def _feed_text(self, line: str) -> None:
        indent = indent_of(line)
        in_list = self.kind is SegmentKind.LIST
        if indent < (2 if in_list else 4):
            if self._opens_block(line):
                return
            starts_item = indent == 0 and self._starts_item(line)
            if self.lines and (self.blanks or starts_item):
                self.close()
        if self._becomes_table(line):
            return
        self._note_inner_fence(line)
        self._add_text(line)

    def _starts_item(self, line: str) -> bool:
        """Whether a line begins a list item here; inside a paragraph only "1." can, or a bullet."""
        item = _ITEM.match(line)
        if item is None:
            return False
        return self.kind is SegmentKind.LIST or item[1] is None or int(item[1]) == 1

    def _opens_block(self, line: str) -> bool:
        """Start what a line at the margin opens by itself: a fence, a formula, a heading."""
        if (match := _FENCE.match(line)) and not ("`" in match[3] and match[2][0] == "`"):
            self.close()
            self.kind = SegmentKind.CODE
            self.fence, self.fence_indent = match[2], len(match[1])
            self.group = CodeGroup(language=language_of(match[3]))
            self.last_item = None
            return True
        stripped = line.strip()
        if _opens_math(stripped):
            self.close()
            self._begin(SegmentKind.MATH)
            self._add(line)
            return True
        if _HEADING.match(line):
            self.close()
            self._begin(SegmentKind.PROSE)
            self._add(line)
            self.close()
            return True
        return False

    def _becomes_table(self, line: str) -> bool:
        if self.kind is SegmentKind.TABLE and line.lstrip().startswith(">"):
            self.close()
        if self.kind is SegmentKind.TABLE:
            if len(self.lines) >= MAX_TABLE_LINES or self.chars >= MAX_CHARS:
                self._cut_table()
            self._add(line)
            return True
        previous = self.lines[-1] if self.lines else ""
        if self.kind is not SegmentKind.PROSE or "|" not in previous or self.blanks:
            return False
        if "|" not in line or not _DELIMITER.match(line):
            return False
        self.lines.pop()
        self.n_lines -= 1
        self.close()
        self._begin(SegmentKind.TABLE)
        self.head = [previous, line]
        self.part = 0
        self._add(previous)
        self._add(line)
        return True

    def _note_inner_fence(self, line: str) -> None:
        is_nested = self.kind is SegmentKind.LIST or line.lstrip()[0] in ">-*+0123456789"
        if is_nested and (match := _INNER_FENCE.match(line)) and "`" not in match[2]:
            self.fence = match[1]
            self.fence_nest = line[: match.start(1)]

    def _add_text(self, line: str) -> None:
        if self.kind is None:
            item = _ITEM.match(line)
            self._begin(SegmentKind.LIST if item else SegmentKind.PROSE)
            self._number(item)
        self._cut_if_large()
        for i, piece in enumerate(_pieces(line, MAX_CHARS)):
            if i:
                self._cut()
            self._add(piece)

    # Keeping count

    def _begin(self, kind: SegmentKind) -> None:
        self.kind = kind
        if kind is not SegmentKind.LIST:
            self.last_item = None

    def _number(self, item: re.Match[str] | None) -> None:
        """Number the first item of a segment on from the one before."""
        self.number = None
        if item is None or item[1] is None:
            self.last_item = None
            return
        number, mark = int(item[1]), item[2]
        if self.last_item is not None and self.last_item[1] == mark:
            number = self.last_item[0] + 1
        self.number = number
        self.last_item = (number, mark)

    def _add(self, line: str) -> None:
        self.lines.append(line)
        self.n_lines += 1
        self.chars += len(line) + 1
        if line.strip():
            self.blanks = 0

    def _cut_if_large(self) -> None:
        if self.lines and (self.chars >= MAX_CHARS or self.n_lines >= MAX_TEXT_LINES):
            self._cut()

    def _cut(self) -> None:
        """End the segment where it is, and go on in one that stands right below."""
        kind = self.kind
        fence, nest = self.fence, self.fence_nest
        self.close()
        self.is_joined = True
        if fence and ">" not in nest:
            # A very long fence in a list goes on as one at the margin.
            self.kind = SegmentKind.CODE
            self.fence, self.fence_indent = fence, len(nest)
            self.group = CodeGroup()
        else:
            self.kind = SegmentKind.PROSE if kind is SegmentKind.LIST else kind

    def _cut_part(self) -> None:
        group, part, fence, indent = self.group, self.part, self.fence, self.fence_indent
        emit = self.emit
        self.emit = lambda segment: emit(_not_last(segment))
        self.close()
        self.emit = emit
        self.kind = SegmentKind.CODE
        self.group, self.part, self.fence, self.fence_indent = group, part + 1, fence, indent
        self.is_joined = True

    def _cut_table(self) -> None:
        head, part, emit = self.head, self.part, self.emit
        parts = [self.first] if self.first is not None else []

        def keep(segment: Segment) -> None:
            segment.is_last_part = False
            parts.append(segment)
            emit(segment)

        self.emit = keep
        self.close()
        self.emit = emit
        self._begin(SegmentKind.TABLE)
        self.head, self.part, self.is_joined = head, part + 1, True
        self.first = parts[0]

    def _reset(self) -> None:
        self.is_tight = self.blanks == 0
        self.kind = None
        self.lines = []
        self.n_lines = self.chars = 0
        self.blanks = 0
        self.fence = self.fence_nest = ""
        self.fence_indent = 0
        self.is_joined = False
        self.number = None
        self.head = []
        self.first = None
        self.group = None
        self.part = 0


def is_fence_end(line: str, fence: str, fence_indent: int = 0) -> bool:
    """Whether a line closes the fence that was opened by `fence` ("```")."""
    stripped = line.strip()
    return (
        len(stripped) >= len(fence)
        and set(stripped) == {fence[0]}
        and indent_of(line) <= fence_indent + 3
    )


def language_of(info: str) -> str:
    """The language in a fence's info string: " python title=x" → "python"."""
    match = re.search(r"[\w+#.-]+", info)
    return match[0][:40].strip(".") if match else ""


def _opens_math(stripped: str) -> bool:
    if stripped.startswith("$$"):
        return stripped.count("$$") == 1
    return stripped.startswith("\\[") and "\\]" not in stripped


def _not_last(segment: Segment) -> Segment:
    segment.is_last_part = False
    return segment


def _pieces(line: str, size: int) -> list[str]:
    """Cut a very long line, at spaces where there are any."""
    if len(line) <= size + size // 2:
        return [line]
    pieces = []
    start = 0
    while len(line) - start > size:
        space = line.rfind(" ", start + size // 2, start + size)
        end = space + 1 if space > 0 else start + size
        pieces.append(line[start:end])
        start = end
    pieces.append(line[start:])
    return pieces
