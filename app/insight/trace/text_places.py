"""Where the tokens of a reply stand in its text, and which token stands at a place of it.

The tokens spell all that was written; the text of a message is what is shown of it: without the
tags around reasoning, the line breaks beside them, and what a stop string ended.

    tokens     <think> · \\n2 · +2 · </think> · \\n\\n · It · is · 4
    reasoning  2+2       content  It is 4

What must hold: a place is told only where the tokens spell that part of the text in one stretch,
and nothing else could be meant.
"""

from __future__ import annotations

from bisect import bisect_right
from codecs import register_error
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from app.engine.protocol.tool_messages import Part
from app.engine.text.reasoning import USUAL
from app.insight.trace.message_tokens import MessageTokens

_TAGS: Final = tuple(
    dict.fromkeys(text for tags in USUAL for text in (tags.start, tags.opening, tags.closing))
)
_BAD: Final = 0xDC00
"""For each U+FFFD that the text has for bytes that are no UTF-8, a lone surrogate is decoded: this
one and how many bytes they are, so that they can be counted again."""
_SHOWN: Final = {_BAD + length: "\ufffd" for length in range(1, 4)}


def _counted(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        return chr(_BAD + error.end - error.start), error.end
    assert isinstance(error, UnicodeEncodeError)
    lengths = (ord(each) - _BAD for each in error.object[error.start : error.end])
    return bytes(sum(lengths)), error.end


_COUNTED: Final = "cutaway.counted"
register_error(_COUNTED, _counted)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a message's text, in characters."""

    part: Part
    start: int
    end: int


class TextPlaces:
    """Of these tokens, and the texts of their message."""

    def __init__(self, tokens: MessageTokens, reasoning: str, content: str) -> None:
        pieces = tokens.pieces(0, len(tokens))
        self._data = b"".join(pieces)
        self._ends = list(accumulate(map(len, pieces)))
        self._text = self._data.decode("utf-8", _COUNTED)
        self._parts = _parts(self._text.translate(_SHOWN), reasoning, content)

    def token_at(self, part: Part, place: int) -> int | None:
        """The number of the token in which a character begins."""
        known = self._parts.get(part)
        if known is None or not 0 <= place < len(known):
            return None
        before = self._text[: known.start + place].encode("utf-8", _COUNTED)
        return bisect_right(self._ends, len(before))

    @property
    def behind(self) -> int | None:
        """The number of the token with which begins what stands behind the text that is shown, tags
        and white space aside: of a reply that called tools, its calls. None: nothing does."""
        shown = max((part.stop for part in self._parts.values()), default=0)
        at = _behind_tags(self._text, shown)
        at += len(self._text[at:]) - len(self._text[at:].lstrip())
        if at >= len(self._text):
            return None
        return bisect_right(self._ends, len(self._text[:at].encode("utf-8", _COUNTED)))

    def part_of(self, number: int) -> TextPart | None:
        """The characters that a token stands for, or has a share in; None of one that is not shown,
        or shown in both parts."""
        if not 0 <= number < len(self._ends):
            return None
        data, end = self._data, self._ends[number]
        start = self._ends[number - 1] if number else 0
        if start == end:
            return None
        while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
            start -= 1
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        first = len(data[:start].decode("utf-8", _COUNTED))
        behind = first + len(data[start:end].decode("utf-8", _COUNTED))
        found = [
            TextPart(part, max(first, at.start) - at.start, min(behind, at.stop) - at.start)
            for part, at in self._parts.items()
            if max(first, at.start) < min(behind, at.stop)
        ]
        return found[0] if len(found) == 1 else None


def _parts(text: str, reasoning: str, content: str) -> dict[Part, range]:
    """Where each part stands in what the tokens spell.

    >>> _parts("<think>\\n2+2</think>4", "2+2", "4")
    {'reasoning': range(8, 11), 'content': range(19, 20)}
    """
    found: dict[Part, range] = {}
    at = 0
    texts: tuple[tuple[Part, str], ...] = (("reasoning", reasoning), ("content", content))
    for part, words in texts:
        start = _start_of(text, words, at) if words else None
        if start is not None:
            at = start + len(words)
            found[part] = range(start, at)
    return found


def _start_of(text: str, words: str, at: int) -> int | None:
    """Behind white space and tags; where something else stands before it, too, if there is just
    one place."""
    for begin in (at, _behind_tags(text, at)):
        found = text.find(words, begin)
        if found >= 0 and not text[begin:found].strip():
            return found
    found = text.find(words, at)
    return found if found >= 0 and text.find(words, found + 1) < 0 else None


def _behind_tags(text: str, at: int) -> int:
    while True:
        bare = len(text) - len(text[at:].lstrip())
        tag = next((tag for tag in _TAGS if text.startswith(tag, bare)), "")
        if not tag:
            return at
        at = bare + len(tag)
