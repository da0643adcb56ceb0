"""Banned strings: texts that never appear in a reply, whatever the weights say.

Tokens are held back while they may be the beginning of a banned string, and taken back when it is
complete: up to the token in which it begins. It is matched on bytes, exactly and with case, so
token borders and split characters make no difference.

    banned: "red rose"        held back, in tokens
    a  red                    | red|
    a  red ro                 | red| ro|
    a  red rope               ||                  a near miss: released
    a  red rose               take back 2 tokens: "rose" completes it, " red" began it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.text.text import overlap


@dataclass(frozen=True, slots=True)
class _Match:
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Held:
    """A held token: where its bytes begin, and how many were held when it came."""

    start: int
    n_before: int


class BannedMatcher:
    """Which of the last tokens may begin a banned string, and which one did.

    >>> matcher = BannedMatcher(["red rose"])
    >>> [matcher.feed(piece) for piece in (b"a", b" red", b" ro")], matcher.n_held
    ([0, 0, 0], 2)
    >>> matcher.feed(b"se!"), matcher.n_held
    (3, 0)

    What is held may be taken back, and then the token before it is the last one again. So where
    a possible match begins right behind another one that has just failed, both stay held:

    >>> matcher = BannedMatcher(["ab", "cd"])
    >>> [matcher.feed(piece) for piece in (b"a", b"c", b"d", b"b")]
    [0, 0, 2, 2]
    """

    def __init__(self, banned: Sequence[str]) -> None:
        self._banned = [text.encode() for text in banned]
        self._bytes = b""
        self._tokens: list[_Held] = []

    @property
    def n_held(self) -> int:
        """How many of the last tokens a banned string may begin or go on in."""
        return len(self._tokens)

    def feed(self, piece: bytes) -> int:
        """Take one more token; how many of the last tokens (this one too) are to be taken back.
        They are forgotten here, as if they had never come."""
        self._tokens.append(_Held(len(self._bytes), len(self._tokens)))
        self._bytes += piece
        match = self._first_match()
        if match is None:
            self._let_go()
            return 0
        first = self._token_at(match.start)
        taken = len(self._tokens) - first
        self._bytes = self._bytes[: self._tokens[first].start]
        n_before = self._tokens[first].n_before
        del self._tokens[first:]
        self._keep_last(n_before)
        return taken

    def _first_match(self) -> _Match | None:
        """The match that ends first; of those that end together, the longest."""
        found = [
            _Match(start, start + len(text))
            for text in self._banned
            if (start := self._bytes.find(text)) >= 0
        ]
        return min(found, key=lambda match: (match.end, match.start), default=None)

    def _token_at(self, position: int) -> int:
        """The token that holds this byte. Tokens without bytes hold none."""
        return max(i for i, token in enumerate(self._tokens) if token.start <= position)

    def _let_go(self) -> None:
        """Forget the tokens in which no banned string can begin any more, whatever is taken back.

        If a match may begin in token k, any token from k on may become the next one again; then
        what had to be held before it has to be held still.
        """
        n_begun = max((overlap(self._bytes, text) for text in self._banned), default=0)
        if n_begun == 0:
            self._bytes, self._tokens = b"", []
            return
        first = self._token_at(len(self._bytes) - n_begun)
        start = min(i - self._tokens[i].n_before for i in range(first, len(self._tokens)))
        self._keep_last(len(self._tokens) - start)

    def _keep_last(self, n_tokens: int) -> None:
        if n_tokens == 0:
            self._bytes, self._tokens = b"", []
            return
        kept = self._tokens[len(self._tokens) - n_tokens :]
        cut = kept[0].start
        self._bytes = self._bytes[cut:]
        self._tokens = [_Held(token.start - cut, token.n_before) for token in kept]
