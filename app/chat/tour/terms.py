"""Where terms of the glossary stand in a text, so that each can be looked up in its place."""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple

from app.chat.tour.chapters import Term, glossary

_KEPT: Final = 1024


class Found(NamedTuple):
    """Characters [first, end) of the text are one of the term's words."""

    first: int
    end: int
    term: Term


@functools.lru_cache(_KEPT)
def terms_in(text: str) -> tuple[Found, ...]:
    """The first place of each term, the longest words first ("KV cache" before "cache").

    A word with a capital inside (KV, ID, RoPE) is found as it is written, others at the start of a
    sentence, too. What stands in quotes is somebody's text, and no term.

    >>> [(found.term.name, text[found.first : found.end]) for text in ["Logits and the KV cache"]
    ...     for found in terms_in(text)]
    [('logit', 'Logits'), ('KV cache', 'KV cache')]
    """
    found: dict[str, Found] = {}
    for match in _pattern().finditer(text):
        if match[0].startswith("“"):
            continue
        term = _by_word()[match[0]]
        found.setdefault(term.name, Found(match.start(), match.end(), term))
    return tuple(found.values())


@functools.cache
def _by_word() -> dict[str, Term]:
    words: dict[str, Term] = {}
    for term in glossary():
        for word in term.words:
            words[word] = term
            words.setdefault(word[0].upper() + word[1:], term)
    return words


@functools.cache
def _pattern() -> re.Pattern[str]:
    words = sorted(_by_word(), key=len, reverse=True)
    return re.compile(rf"“[^”]*”|(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])")
