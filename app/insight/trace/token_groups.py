"""Tokens in groups of whole characters, put together as the tokens come.

`tokens_shown.groups` says what a group is; here the same comes out piece by piece, and a piece
that was met before costs one look into a table. A character that is unfinished at the end stands
as its bytes until the rest of it comes.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from app.engine.text.text import CharacterStream
from app.insight.trace.tokens_shown import begins_anew, visible

SPACE: Final = visible(b" ")
_SPACES: Final = re.compile(" +")
MOST_KEPT: Final = 50_000
EMPTY: Final = "⟨⟩"
"""A token without any bytes."""


class Spelling:
    """What a group of tokens spells: `raw` as text (a byte that is no UTF-8 is one U+FFFD), and
    `shown`, in which nothing is invisible. `breaks_line`: a line ends in it."""

    __slots__ = ("_ends", "breaks_line", "length", "marks", "raw", "shown")

    def __init__(self, data: bytes) -> None:
        self._ends: Sequence[int]
        if data and data.isascii() and data.decode().isprintable():
            self._take_simple(data.decode())
        else:
            self._take_any(data)

    def _take_simple(self, text: str) -> None:
        """Most pieces: a word, perhaps with a space before it."""
        self.raw, self.shown = text, text.replace(" ", SPACE)
        self.breaks_line, self.length = False, len(text)
        self._ends = range(len(text) + 1)
        self.marks = tuple(run.span() for run in _SPACES.finditer(text)) if " " in text else ()

    def _take_any(self, data: bytes) -> None:
        characters = data.decode("utf-8", "surrogateescape")
        parts = [visible(c.encode("utf-8", "surrogateescape")) for c in characters]
        self.raw = "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in characters)
        self.shown = "".join(parts) or EMPTY
        self.breaks_line = "\n" in self.raw
        self.length = sum(1 + (c > "\uffff") for c in self.raw)
        self._ends = tuple(accumulate(map(len, parts), initial=0))
        self.marks = _marks(characters, parts) if parts else ((0, len(EMPTY)),)

    def shown_at(self, position: int) -> int:
        """Where in `shown` a UTF-16 position of `raw` is.

        >>> Spelling(b"a\\xffb").shown_at(2)
        5
        """
        if position >= self.length:
            return len(self.shown)
        at, left = 0, position
        for character in self.raw:
            left -= 1 + (character > "\uffff")
            if left < 0:
                break
            at += 1
        return self._ends[at]


def _marks(characters: str, parts: list[str]) -> tuple[tuple[int, int], ...]:
    """The stretches of `shown` that stand for something else than themselves."""
    found: list[tuple[int, int]] = []
    at = 0
    for character, part in zip(characters, parts, strict=True):
        end = at + len(part)
        if part != character:
            if found and found[-1][1] == at:
                found[-1] = (found[-1][0], end)
            else:
                found.append((at, end))
        at = end
    return tuple(found)


_wholes: dict[bytes, Spelling] = {}
"""What pieces spell that are whole characters by themselves: nearly all, and again and again."""


def _whole(piece: bytes) -> Spelling | None:
    """None of a piece that ends within a character."""
    stream = CharacterStream()
    stream.feed(piece)
    if stream.state[0]:
        return None
    if len(_wholes) >= MOST_KEPT:
        _wholes.clear()
    found = _wholes[piece] = Spelling(piece)
    return found


class Groups:
    """`spellings` of the groups in order, and the first token of each in `firsts`."""

    def __init__(self) -> None:
        self.spellings: list[Spelling] = []
        self.firsts = array("I")
        self.n_tokens = 0
        self._held, self._held_from = b"", 0
        self._stream = CharacterStream()

    def __len__(self) -> int:
        return len(self.spellings)

    def feed(self, pieces: Iterable[bytes]) -> int:
        """More tokens. The first group that is not what it was.

        >>> groups = Groups()
        >>> groups.feed([b"T", b"\\xc3"]), [one.shown for one in groups.spellings]
        (0, ['T', '⟨C3⟩'])
        >>> groups.feed([b"\\xbcr"]), [one.shown for one in groups.spellings]
        (1, ['T', 'ür'])
        """
        first = self._open()
        add, put, known = self.spellings.append, self.firsts.append, _wholes.get
        for number, piece in enumerate(pieces, self.n_tokens):
            if self._held and begins_anew(piece):
                self._add(self._held_from, Spelling(self._held))
                self._held, self._stream = b"", CharacterStream()
            found = None if self._held else known(piece) or _whole(piece)
            if found is not None:
                add(found)
                put(number)
            else:
                self._take_part(number, piece)
            self.n_tokens = number + 1
        if self._held:
            self._add(self._held_from, Spelling(self._held))
        return first

    def group_of(self, token: int) -> int:
        """The group that a token is in."""
        return max(bisect_right(self.firsts, token) - 1, 0)

    def end_of(self, group: int) -> int:
        """The token behind a group's last one."""
        return self.firsts[group + 1] if group + 1 < len(self.firsts) else self.n_tokens

    def _open(self) -> int:
        """Take the unfinished group at the end back: it goes on."""
        if self._held:
            self.spellings.pop()
            self.firsts.pop()
        return len(self.spellings)

    def _take_part(self, number: int, piece: bytes) -> None:
        if not self._held:
            self._held_from = number
        self._held += piece
        self._stream.feed(piece)
        if not self._stream.state[0]:
            self._add(self._held_from, Spelling(self._held))
            self._held = b""

    def _add(self, first: int, spelled: Spelling) -> None:
        self.firsts.append(first)
        self.spellings.append(spelled)
