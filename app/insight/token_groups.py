"""Tokens in groups of whole characters, put together as the tokens come.

`tokens_shown.groups` says what a group is; here the same comes out piece by piece, and a piece
that was met before costs one look into a table. A character that is unfinished at the end stands
as its bytes until the rest of it comes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from typing import Final

from app.engine.text import CharacterStream
from app.insight.tokens_shown import visible

EMPTY: Final = "⟨⟩"
"""A token without any bytes."""


class Spelling:
    """What a group of tokens spells: `raw` as text (a byte that is no UTF-8 is one U+FFFD), and
    `shown`, in which nothing is invisible. `breaks_line`: a line ends in it."""

    __slots__ = ("_ends", "breaks_line", "length", "marks", "raw", "shown")

    def __init__(self, data: bytes) -> None:
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


@lru_cache(maxsize=50_000)
def spelling(data: bytes) -> Spelling:
    return Spelling(data)


@lru_cache(maxsize=50_000)
def _whole(piece: bytes) -> Spelling | None:
    """Of a piece that spells whole characters by itself; None of any other."""
    stream = CharacterStream()
    stream.feed(piece)
    return None if stream.state[0] else spelling(piece)


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
        for piece in pieces:
            found = None if self._held else _whole(piece)
            if found is not None:
                self._add(self.n_tokens, found)
            else:
                self._take_part(piece)
            self.n_tokens += 1
        if self._held:
            self._add(self._held_from, spelling(self._held))
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

    def _take_part(self, piece: bytes) -> None:
        if not self._held:
            self._held_from = self.n_tokens
        self._held += piece
        self._stream.feed(piece)
        if not self._stream.state[0]:
            self._add(self._held_from, spelling(self._held))
            self._held = b""

    def _add(self, first: int, spelled: Spelling) -> None:
        self.firsts.append(first)
        self.spellings.append(spelled)
