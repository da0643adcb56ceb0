"""Where a shown word was written in the source, and where a part of the source is shown.

Markdown keeps no record of that: marks go, entities become characters, cells and lines lose what
stood around them. So it is tried. Letters of the source are exchanged for some that occur nowhere,
and the text is read once more:

    source  Say **hello**, say *hello*    shown  Say hello, say hello
    tried   Say **①ello**, say *②ello*    shown  Say ①ello, say ②ello    the second is the second

What must hold: a place is told only where all else in its segment reads as before, so the parser
itself has said where it is. What no letter of the source stands for (a formula, an entity, an
address that was made of something else) has none. Nothing is computed before somebody asks; then
the text is read once, and more often where one of the letters means something to Markdown, within
`MOST_READ`: a reply may be full of such letters, and the window waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from app.markdown.blocks import Block, MathBlock, Span, TableBlock, TextBlock, plain_text
from app.markdown.document import Document
from app.markdown.emphasis import is_cjk
from app.markdown.segments import Segment
from ui.widgets.utf16 import slice_utf16, utf16_length

MOST_TRIED: Final = 50_000
"""Letters that are exchanged at once; each takes one of a plane's 65,534."""
MOST_READ: Final = 1_000_000
"""Characters that are read for one question, all trials together; the first is always made."""
MOST_LETTERS: Final = 32
"""Of a word are looked for, in the source."""
_PRIVATE: Final = 0xF0000
_IDEOGRAPHS: Final = 0x30000
"""What letters are exchanged for: private ones, and for those that part words by themselves, such
as do that, too."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A part of a block's text, in UTF-16 units."""

    segment: int
    block: int
    start: int
    end: int


def source_of(document: Document, word: Shown) -> int | None:
    """Where in the source the first letter of a shown word is; None where nothing says so."""
    segments = document.known_segments
    if word.segment >= len(segments):
        return None
    blocks = document.blocks(segments[word.segment])
    if word.block >= len(blocks):
        return None
    block = blocks[word.block]
    text = plain_text(block)
    letters = slice_utf16(text, word.start, word.end)[:MOST_LETTERS]
    at = len(slice_utf16(text, 0, word.start))
    if not letters or _is_formula(block, at):
        return None
    trials, before = _Trials(document), list[int]()
    about = _about(trials.source, segments[: word.segment + 1])
    for length in range(len(letters), 0, -1):  # marks may stand within the word
        offsets = _occurrences(trials.source, letters[:length])
        if offsets == before:
            continue
        before = offsets
        near = [offset for offset in offsets if offset in about]
        for some in (near, offsets) if len(near) < len(offsets) else (offsets,):
            if (found := _source_at(trials, word, at, some)) is not None:
                return found
    return None


def shown_of(document: Document, start: int, end: int) -> list[Shown]:
    """Where the letters of source[start:end] are shown, as far as the document is read: a part of
    each block that shows some. Where there are no letters, other characters."""
    trials = _Trials(document)
    source = trials.source
    inside = [at for at in range(start, min(end, len(source))) if not source[at].isspace()]
    letters = [at for at in inside if source[at].isalnum()]
    return _shown_at(trials, letters or inside) if inside else []


class _Trials:
    """Of one question about a document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.source = _read_source(document)
        self._known = frozenset(self.source)
        self._n_read = 0

    def of(self, offsets: Sequence[int]) -> _Trial | None:
        """With these letters exchanged; None where nothing is to be tried, or too much was."""
        if not offsets or len(offsets) > MOST_TRIED or self._n_read >= MOST_READ:
            return None
        self._n_read += len(self.source)
        letters = [self.source[offset] for offset in offsets]
        planes = {plane: self._unknown(plane) for plane in (_PRIVATE, _IDEOGRAPHS)}
        marks = [next(planes[_IDEOGRAPHS if is_cjk(each) else _PRIVATE]) for each in letters]
        return _Trial(self.document, self.source, dict(zip(marks, offsets, strict=True)))

    def _unknown(self, plane: int) -> Iterator[str]:
        """Letters that the source does not have: icons of terminals are private ones, too."""
        return (letter for at in count(plane) if (letter := chr(at)) not in self._known)


class _Trial:
    """The document with some letters exchanged for marks, read again."""

    def __init__(self, document: Document, text: str, marks: dict[str, int]) -> None:
        self._document = document
        self.marks = marks
        source = list(text)
        self._letters = {ord(mark): source[offset] for mark, offset in self.marks.items()}
        for mark, offset in self.marks.items():
            source[offset] = mark
        self._tried = document.rewritten("".join(source))
        self.segments = self._tried.segments

    def texts(self, segment: int) -> list[str] | None:
        """What its blocks show now; None where anything else in them is not as it was."""
        known = self._document.known_segments
        if segment >= len(known) or segment >= len(self.segments):
            return None
        texts = _texts(self._tried, self.segments[segment])
        as_before = [text.translate(self._letters) for text in texts]
        return texts if as_before == _texts(self._document, known[segment]) else None

    def holding(self) -> list[int]:
        """The segments with exchanged letters."""
        found = self.marks.keys()
        return [at for at, each in enumerate(self.segments) if not found.isdisjoint(each.text)]


def _source_at(trials: _Trials, word: Shown, at: int, offsets: Sequence[int]) -> int | None:
    """Which of the offsets is shown as the letter `at` of the word's block."""
    trial = trials.of(offsets)
    if trial is None:
        return None
    texts = trial.texts(word.segment)
    if texts is not None:
        return trial.marks.get(texts[word.block][at])
    for half in _halves(offsets):
        if (found := _source_at(trials, word, at, half)) is not None:
            return found
    return None


def _shown_at(trials: _Trials, offsets: Sequence[int]) -> list[Shown]:
    trial, found = trials.of(offsets), list[Shown]()
    if trial is None:
        return found
    for segment in trial.holding():
        texts = trial.texts(segment)
        if texts is None:
            halves = (_shown_at(trials, half) for half in _halves(offsets))
            return _joined([each for half in halves for each in half])
        for block, text in enumerate(texts):
            places = [at for at, letter in enumerate(text) if letter in trial.marks]
            if places:
                found.append(
                    _shown_part(trials.document, segment, block, places[0], places[-1] + 1)
                )
    return found


def _shown_part(document: Document, segment: int, block: int, first: int, end: int) -> Shown:
    text = _texts(document, document.known_segments[segment])[block]
    return Shown(segment, block, utf16_length(text[:first]), utf16_length(text[:end]))


def _joined(parts: Sequence[Shown]) -> list[Shown]:
    """One part for each block."""
    found: dict[tuple[int, int], Shown] = {}
    for part in parts:
        place = (part.segment, part.block)
        known = found.get(place, part)
        ends = min(known.start, part.start), max(known.end, part.end)
        found[place] = Shown(*place, *ends)
    return list(found.values())


def _halves(offsets: Sequence[int]) -> list[Sequence[int]]:
    """One of the letters means something where it stands (a list's number, an address): the others
    may not."""
    middle = len(offsets) // 2
    return [offsets[:middle], offsets[middle:]] if middle else []


def _read_source(document: Document) -> str:
    """As far as it is shown."""
    return document.source[: document.source_length - document.unread_chars]


def _texts(document: Document, segment: Segment) -> list[str]:
    return [plain_text(block) for block in document.blocks(segment)]


def _about(source: str, segments: Sequence[Segment]) -> range:
    """Where the last of these segments seems to be written: what is tried first."""
    start = end = 0
    for segment in segments:
        line = segment.text.strip().partition("\n")[0]
        start = max(source.find(line, end), end)
        end = start + len(segment.text)
    return range(start, end)


def _occurrences(source: str, letters: str) -> list[int]:
    found, at = [], source.find(letters)
    while at >= 0:
        found.append(at)
        at = source.find(letters, at + 1)
    return found


def _is_formula(block: Block, at: int) -> bool:
    """Whether what stands there is drawn, and not written."""
    if isinstance(block, MathBlock):
        return True
    cells: list[tuple[Span, ...]] = []
    if isinstance(block, TextBlock):
        cells = [block.spans]
    elif isinstance(block, TableBlock):
        rows = block.rows if block.is_continuation else (block.header, *block.rows)
        cells = [cell for row in rows for cell in row]
    start = 0
    for cell in cells:
        for span in cell:
            if start <= at < start + len(span.text):
                return bool(span.tex)
            start += len(span.text)
        start += 1  # what parts cells and rows
    return False
