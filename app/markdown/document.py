"""One message's text: its source, cut into segments, parsed where somebody looks.

What must hold: `source` is exactly what was put in; appending costs the length of what is
appended plus the open segment, never the whole; a segment whose index is below the number
that `take_changes` returned is the same object as before; whoever has no time reads a huge
text in slices.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace

from app.markdown.blocks import Block, LiteralBlock
from app.markdown.parser import References, parse_segment, read_definitions
from app.markdown.segments import (
    MAX_CHARS,
    MAX_TEXT_LINES,
    Segment,
    SegmentKind,
    Tail,
    is_definition,
    is_forming,
)

SLICE_CHARS = 2048
_SURROGATES = re.compile("[\ud800-\udfff]")
_FORMING_TABLE = re.compile(r"^[ \t]*\|?[-|: \t]*$")


class Document:
    """A text that may still grow.

    is_plain: shown letter by letter (what a person wrote), without Markdown. is_mono: that, in
    the fixed-pitch font.
    is_open: more is coming; the end is shown only as far as it is clear what it will be.
    `parsed_segments` and `parsed_chars` count the work done, for tests.
    """

    def __init__(
        self,
        source: str = "",
        *,
        is_plain: bool = False,
        is_mono: bool = False,
        is_open: bool = False,
    ) -> None:
        self._pieces = [source] if source else []
        self._is_plain = is_plain or is_mono
        self._is_mono = is_mono
        self._is_open = is_open
        self._closed: list[Segment] = []
        self._shown: list[Segment] = []
        self._tail = Tail(self._closed.append)
        self._partial = ""
        self._unread: list[str] = [source] if source else []
        self._read_to = 0
        self._length = len(source)
        self._changed_from = 0
        self._references = References()
        self.parsed_segments = 0
        self.parsed_chars = 0

    @property
    def source(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def source_length(self) -> int:
        """Characters of the source."""
        return self._length

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def segments(self) -> list[Segment]:
        """All segments, the open ones last. Reading the text happens here, not before."""
        self._read(None)
        return self._shown

    @property
    def known_segments(self) -> list[Segment]:
        """The segments of what has been read so far."""
        return self._shown

    @property
    def unread_chars(self) -> int:
        """How much of the source `take_changes` has not come to yet."""
        return sum(map(len, self._unread)) - self._read_to

    def append(self, text: str) -> None:
        """Add text at the end. It is read when `segments` or `refresh` is asked."""
        if text:
            self._pieces.append(text)
            self._unread.append(text)
            self._length += len(text)

    def set_open(self, is_open: bool) -> None:
        """Whether more text is coming. When none is, whatever was held back is shown."""
        if is_open != self._is_open:
            self._is_open = is_open
            self._unread.append("")

    def rewritten(self, source: str) -> Document:
        """Another text, read as this one is."""
        return Document(
            source, is_plain=self._is_plain, is_mono=self._is_mono, is_open=self._is_open
        )

    def take_changes(self, seconds: float | None = None) -> int:
        """Read what was appended, for about so long; the index of the first segment that is
        not the object that it was at the last call."""
        self._read(seconds)
        changed, self._changed_from = self._changed_from, len(self._shown)
        return min(changed, len(self._shown))

    def blocks(self, segment: Segment) -> tuple[Block, ...]:
        """The blocks of a segment, parsed once."""
        if segment.blocks is None:
            self.parsed_segments += 1
            self.parsed_chars += len(segment.text)
            segment.blocks = parse_segment(segment, self._references)
            if self._is_mono:
                blocks = (b for b in segment.blocks if isinstance(b, LiteralBlock))
                segment.blocks = tuple(replace(block, is_mono=True) for block in blocks)
        return segment.blocks

    # Reading

    def _read(self, seconds: float | None) -> None:
        if not self._unread:
            return
        if self._is_plain:
            self._unread.clear()
            changed = self._read_plain()
        else:
            changed = self._read_markdown(seconds)
        self._changed_from = min(self._changed_from, changed)

    def _read_plain(self) -> int:
        whole = _SURROGATES.sub("\ufffd", self.source).replace("\r\n", "\n")
        old = self._shown
        self._shown = [
            Segment(SegmentKind.PLAIN, part, is_joined=i > 0)
            for i, part in enumerate(_plain_parts(whole))
        ]
        return _first_difference(old, self._shown)

    def _read_markdown(self, seconds: float | None) -> int:
        """The first index that changed. What was closed before costs nothing."""
        known = len(self._closed)
        old = self._shown[known:]
        redefined = self._read_lines(seconds, known)
        if redefined is not None:
            old = []
        self._closed[known:] = _kept(old, self._closed[known:])
        if self._unread:
            self._shown = self._closed
        else:
            self._shown = self._closed + _kept(old[len(self._closed) - known :], self._open_end())
        if redefined is not None:
            return min(redefined, known)
        return known + _first_difference(old, self._shown[known:])

    def _open_end(self) -> list[Segment]:
        """What the text would be if it ended here."""
        end: list[Segment] = []
        tail = self._tail.copy(end.append)
        if self._is_open:
            self._feed_partial(tail)
        elif self._partial:
            tail.feed(self._partial.replace("\r", ""))
        tail.close(is_open=self._is_open)
        return end

    def _read_lines(self, seconds: float | None, known: int) -> int | None:
        """Feed whole lines to the tail until time is up; what is behind the last line feed is
        kept as `_partial`. The first closed segment that later definitions reach, if any."""
        text = "".join(self._unread) if len(self._unread) > 1 else self._unread[0]
        self._unread = [text]
        latest = None if seconds is None else time.perf_counter() + seconds
        reached: list[int] = []
        while latest is None or time.perf_counter() < latest:
            lines_end = _end_of_lines(text, self._read_to)
            if lines_end >= 0:
                lines = self._partial + _clean(text[self._read_to : lines_end])
                lines = lines.replace("\r\n", "\n").replace("\r", "")
                self._partial, self._read_to = "", lines_end
                self._tail.feed_lines(lines)
                reached += self._note_definitions(lines, known)
            if lines_end < 0 or lines_end == len(text):
                self._partial += _clean(text[self._read_to :])
                self._unread.clear()
                self._read_to = 0
                break
        if not self._unread and not self._is_open:
            reached += self._note_definitions(self._partial, known)
        return min(reached, default=None)

    def _feed_partial(self, tail: Tail) -> None:
        """Show the unfinished line, unless it may still turn into something else."""
        partial = self._partial.replace("\r", "")
        if tail.kind is SegmentKind.CODE:
            if partial.strip() and set(partial.strip()) != {tail.fence[0]}:
                tail.feed(partial)
            return
        if _is_table_head(tail) and _FORMING_TABLE.match(partial):
            tail.lines.pop()
            return
        if partial.strip() and not is_forming(partial):
            tail.feed(_with_closed_marks(partial))

    def _note_definitions(self, text: str, known: int) -> list[int]:
        """Later definitions reach earlier links: what may use them is parsed again. The first
        of these (or the end), where anything was defined."""
        if "]:" not in text:
            return []
        found = [line for line in text.split("\n") if is_definition(line)]
        if not found:
            return []
        self._references = self._references.joined(read_definitions(found))
        first = known
        for i, segment in enumerate(self._closed[:known]):
            if "[" in segment.text and segment.blocks is not None:
                self._closed[i] = replace(segment, blocks=None)
                first = min(first, i)
        return [first]


def _clean(text: str) -> str:
    """Half of a surrogate pair is no character; Qt would not take it."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _end_of_lines(text: str, start: int) -> int:
    """Behind the last line feed of the next slice; -1 where no line feed is left."""
    end = text.rfind("\n", start, start + SLICE_CHARS)
    if end < 0:
        end = text.find("\n", start + SLICE_CHARS)
    return end + 1 if end >= 0 else -1


def _is_table_head(tail: Tail) -> bool:
    return (
        tail.kind is SegmentKind.PROSE
        and bool(tail.lines)
        and tail.lines[-1].lstrip().startswith("|")
    )


def _with_closed_marks(partial: str) -> str:
    """Close bold and code that are still being written, so that their marks do not flicker."""
    text = partial.rstrip(" *`") if partial.endswith(("*", "`")) else partial.rstrip()
    if text.count("`") % 2:
        return text + "`"
    if text.count("**") % 2:
        return text + "**"
    return text or partial


def _kept(old: list[Segment], new: list[Segment]) -> list[Segment]:
    """The new segments, with those replaced by old ones that say the same."""
    out = list(new)
    for i, (before, after) in enumerate(zip(old, new, strict=False)):
        if _is_same(before, after):
            before.group, before.is_open, before.first = after.group, after.is_open, after.first
            out[i] = before
    return out


def _is_same(first: Segment, second: Segment) -> bool:
    return (
        first.kind is second.kind
        and first.text == second.text
        and first.number == second.number
        and first.part == second.part
        and first.is_last_part == second.is_last_part
        and first.is_tight == second.is_tight
    )


def _first_difference(old: list[Segment], new: list[Segment]) -> int:
    for i, (before, after) in enumerate(zip(old, new, strict=False)):
        if before is not after:
            return i
    return min(len(old), len(new))


def _plain_parts(text: str) -> list[str]:
    """Cut plain text into parts of a few kilobytes, at line feeds where there are any."""
    parts = []
    start = 0
    while len(text) - start > MAX_CHARS or text.count("\n", start) > MAX_TEXT_LINES:
        ahead = text[start : start + MAX_CHARS]
        lines = ahead.split("\n", MAX_TEXT_LINES)
        if len(lines) == 1:
            parts.append(ahead)
            start += len(ahead)
        else:
            part = "\n".join(lines[:-1])
            parts.append(part)
            start += len(part) + 1
    parts.append(text[start:])
    return parts
