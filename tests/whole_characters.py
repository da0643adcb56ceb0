"""The tokens of a text in groups of whole characters, as simply as that can be written.

`app/insight/trace/token_groups.py` finds the same while a reply grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.engine.text.text import CharacterStream
from app.insight.trace.tokens_shown import begins_anew, visible


@dataclass(frozen=True, slots=True)
class Shown:
    """Tokens [first, end) of a reply, and the text that they spell together, visible."""

    first: int
    end: int
    text: str
    breaks_line: bool = False


def groups(pieces: Sequence[bytes]) -> list[Shown]:
    """The tokens of a reply in groups of whole characters.

    >>> [(one.first, one.end, one.text) for one in groups([b"T", b"\\xc3", b"\\xbcr", b" x"])]
    [(0, 1, 'T'), (1, 3, 'ür'), (3, 4, '·x')]

    One that never becomes whole, as behind a branch, ends where another one begins.

    >>> [(one.first, one.end, one.text) for one in groups([b"\\xc3", b"!"])]
    [(0, 1, '⟨C3⟩'), (1, 2, '!')]
    """
    return list(_groups(pieces))


def _groups(pieces: Sequence[bytes]) -> Iterator[Shown]:
    first, held, stream = 0, b"", CharacterStream()
    for at, piece in enumerate(pieces):
        if held and begins_anew(piece):
            yield Shown(first, at, visible(held), b"\n" in held)
            first, held, stream = at, b"", CharacterStream()
        held += piece
        stream.feed(piece)
        is_unfinished = bool(stream.state[0])
        if is_unfinished and at + 1 < len(pieces):
            continue
        yield Shown(first, at + 1, visible(held), b"\n" in held)
        first, held = at + 1, b""
