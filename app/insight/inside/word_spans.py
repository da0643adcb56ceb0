"""Words of a text that is cut into tokens: which tokens a word is, and two to be exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Span = tuple[int, int]
"""Tokens [first, end)."""

MOST_TOKENS: Final = 8
"""Of a word; where a script has no spaces, each token is one."""


def _goes_on(before: str, piece: str) -> bool:
    """Whether a token continues the word of the one before it."""
    return before[-1:].isalnum() and piece[:1].isalnum()


def words_of(pieces: Sequence[str]) -> list[Span]:
    """All tokens, grouped.

    >>> words_of([" a", " straw", "berry", ".", " x"])
    [(0, 1), (1, 3), (3, 4), (4, 5)]
    """
    found: list[Span] = []
    for at, piece in enumerate(pieces):
        if at and _goes_on(pieces[at - 1], piece):
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return [
        part
        for first, end in found
        for part in (
            [(first, end)]
            if end - first <= MOST_TOKENS
            else [(at, at + 1) for at in range(first, end)]
        )
    ]


def last_words(pieces: Sequence[str]) -> tuple[Span, Span] | None:
    """Two different words near the end of a text, before its last word. Long ones say more than
    short ones.

    >>> last_words(["The", " capital", " of", " France", " is"])
    ((1, 2), (3, 4))
    """
    spans = words_of(pieces)[:-1]
    texts = {span: "".join(pieces[span[0] : span[1]]).strip() for span in spans}
    for n_letters in (4, 1):
        long = [s for s in spans if texts[s].isalpha() and len(texts[s]) >= n_letters]
        for before in reversed(long[:-1]):
            if texts[before] != texts[long[-1]]:
                return before, long[-1]
    return None
