"""How Unigram cuts a text into tokens: of all ways to do it the one with the best sum of scores.

A score is the logarithm of how probable a piece is, so the best sum is the most probable cut.
There are far too many ways to try them all, but the best way to reach a place is the best way to
reach some earlier place, and one token from there. So one walk from left to right finds it:

    scores    a −3   b −3   c −3   ab −4   bc −5   abc −9      text "abc"

    place 1   a                     −3
    place 2   a b  −6,  ab  −4                   ab is better
    place 3   ab c −7,  a bc −8,  abc −9         ab c is the best

What no token spells becomes the unknown token, which costs more than any other.
"""

from __future__ import annotations

import math
from typing import Final

from app.gguf.vocabulary import NORMAL, UNUSED, USER_DEFINED, FileVocabulary

SPACE: Final = "▁"
_PENALTY: Final = 10.0
_FITS: Final = frozenset((NORMAL, USER_DEFINED, UNUSED))


def normalised(text: str, vocabulary: FileVocabulary) -> str:
    """Spaces become ▁; one may be put before the text, and several may count as one. What else a
    file may ask for (a table of characters) is not done here."""
    if vocabulary.merges_spaces:
        return "".join(SPACE + word for word in text.split(" ") if word)
    prefix = SPACE if vocabulary.add_space_prefix else ""
    bare = text.lstrip(" ")
    # The one before the text stands behind the spaces that it begins with.
    return SPACE * (len(text) - len(bare)) + (prefix if bare else "") + bare.replace(" ", SPACE)


def best_cut(text: str, vocabulary: FileVocabulary) -> list[tuple[str, int | None]]:
    """The tokens of a normalised text: (what it spells, ID). None: unknown, neighbours joined.

    >>> from array import array
    >>> scores = array("f", [-3, -3, -3, -4, -5, -9])
    >>> tokens = ("a", "b", "c", "ab", "bc", "abc")
    >>> vocabulary = FileVocabulary("t5", "", tokens, bytes([NORMAL] * 6), scores, (), False)
    >>> best_cut("abcxy", vocabulary)
    [('ab', 3), ('c', 2), ('xy', None)]
    """
    scores = _scores(vocabulary)
    longest = max(map(len, scores), default=1)
    unknown = min((score for _, score in scores.values()), default=0.0) - _PENALTY
    # For each place: the best sum, where its last token begins, and that token.
    best: list[tuple[float, int, int | None]] = [(0.0, 0, None)]
    best += [(-math.inf, 0, None)] * len(text)
    for start in range(len(text)):
        sum_here = best[start][0]
        for end in range(start + 1, min(start + longest, len(text)) + 1):
            token = scores.get(text[start:end])
            if token is None:
                if end > start + 1:
                    continue
                token = (-1, unknown)
            token_id, score = token
            if sum_here + score > best[end][0]:
                best[end] = (sum_here + score, start, None if token_id < 0 else token_id)
    return _walked_back(text, best)


def _scores(vocabulary: FileVocabulary) -> dict[str, tuple[int, float]]:
    """Text → (ID, score) of what may be found; user-defined tokens cost nothing."""
    types, scores = vocabulary.types, vocabulary.scores
    return {
        text: (token_id, 0.0 if types[token_id] == USER_DEFINED else scores[token_id])
        for token_id, text in enumerate(vocabulary.tokens[: len(scores)])
        if text and types[token_id] in _FITS
    }


def _walked_back(
    text: str, best: list[tuple[float, int, int | None]]
) -> list[tuple[str, int | None]]:
    found: list[tuple[str, int | None]] = []
    end = len(text)
    while end > 0:
        _, start, token_id = best[end]
        if token_id is None and found and found[-1][1] is None:
            found[-1] = (text[start:end] + found[-1][0], None)
        else:
            found.append((text[start:end], token_id))
        end = start
    return found[::-1]
