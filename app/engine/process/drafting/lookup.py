"""Drafts without a model: what followed the last words where they stood before, in prompt or reply.

    … the red fox sat. … the red fox ▮        "the red fox" stood before; behind it came " sat", "."

The place is where the longest run of last tokens stood before (three at least), the latest one of
those. It is kept as long as it tells the next token right, so a passage that is copied is followed
to its end, and a loop around and around. What it would have proposed is compared with what is drawn
whether or not it was proposed, so what a match of a length is worth is known before anything is
spent on it. (Prompt lookup decoding: A. Saxena, 2023; n-grams of prompt and reply.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from app.engine.prompts.media import is_media

_SHORTEST: Final = 3
_LONGEST: Final = 32
"""Tokens that are compared to find the best of several places."""

_PLACES: Final = 8
"""The latest ones of a run are kept."""

BY_LENGTH: Final = ((3, 0.45), (4, 0.5), (5, 0.55), (7, 0.65), (10, 0.75), (16, 0.85))
"""From this length of a match on, the chance of the next token, before anything was seen."""

_WEIGHT: Final = 6.0
_MOST_SEEN: Final = 64.0


class Chances:
    """How often the next token was told right, by what is known of it: the length of the match
    before it, or what a draft model gives it. `first`: from such a value on, the chance before
    anything was seen."""

    def __init__(self, first: Sequence[tuple[float, float]] = BY_LENGTH) -> None:
        self._least = [least for least, _ in first]
        self._hits = [_WEIGHT * chance for _, chance in first]
        self._seen = [_WEIGHT] * len(first)

    def learn(self, known: float, hit: bool) -> None:
        at = self._class_of(known)
        self._hits[at] += hit
        self._seen[at] += 1
        if self._seen[at] > _MOST_SEEN:
            self._hits[at] /= 2
            self._seen[at] /= 2

    def of(self, known: float) -> float:
        at = self._class_of(known)
        return self._hits[at] / self._seen[at]

    def _class_of(self, known: float) -> int:
        return max(bisect_right(self._least, known) - 1, 0)


class Lookup:
    """Follows the tokens of one reply.

    >>> lookup = Lookup([5, 6, 7, 8, 9, 1, 5, 6, 7])
    >>> lookup.propose(4), lookup.length
    ([8, 9, 1, 5], 3)
    >>> lookup.feed(8)
    >>> lookup.propose(2), lookup.length
    ([9, 1], 4)
    """

    def __init__(self, ids: Iterable[int], chances: Chances | None = None) -> None:
        self.chances = chances or Chances()
        self.length = 0
        """Tokens before the next one that stand before its place as well; 0: nowhere."""
        self._ids: list[int] = []
        self._next: dict[tuple[int, ...], list[int]] = {}
        self._at = 0
        for token_id in ids:
            self._ids.append(token_id)
            self._note_end()
        self._find(but_last=True)

    def __len__(self) -> int:
        return len(self._ids)

    def feed(self, token_id: int) -> None:
        """This was drawn."""
        is_hit = self.length > 0 and self._ids[self._at] == token_id
        if self.length:
            self.chances.learn(self.length, is_hit)
        self._ids.append(token_id)
        if is_hit:
            self._at += 1
            self.length += 1
        else:
            self._find()
        self._note_end()

    def propose(self, most: int) -> list[int]:
        """The next tokens as they stood there; what goes beyond the end goes around."""
        found: list[int] = []
        n_known = len(self._ids)
        for at in range(self._at, self._at + most if self.length else 0):
            next_id = self._ids[at] if at < n_known else found[at - n_known]
            if is_media(next_id):
                break
            found.append(next_id)
        return found

    def _note_end(self) -> None:
        if len(self._ids) >= _SHORTEST:
            places = self._next.setdefault(tuple(self._ids[-_SHORTEST:]), [])
            places.append(len(self._ids))
            if len(places) > _PLACES:
                del places[0]

    def _find(self, *, but_last: bool = False) -> None:
        """The place to go on from. `but_last`: the end is noted already, and is no place."""
        ids, self.length = self._ids, 0
        places = self._next.get(tuple(ids[-_SHORTEST:]), [])
        for place in reversed(places[:-1] if but_last else places):
            length = _SHORTEST
            while length < min(_LONGEST, place) and ids[place - 1 - length] == ids[-1 - length]:
                length += 1
            if length > self.length:
                self._at, self.length = place, length
