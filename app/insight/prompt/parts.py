"""A prompt as the engine showed it: its tokens, where each came from, and how surprising it was.

What must hold: every token has exactly one origin, so the counts of all origins add up to the
whole. `PromptShown.check` has seen to it that what comes from the engine holds together.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from app.engine.protocol.cache_messages import CellPart
from app.engine.protocol.media_messages import MediaSpan
from app.engine.protocol.messages import PromptScores
from app.engine.protocol.pieces import unpack
from app.engine.protocol.prompt_messages import PromptShown, ShownPart

P = TypeVar("P", CellPart, ShownPart)

BOS: Final = "bos"
"""Of a plain text, which has no template: the token that begins it."""

ORIGINS: Final = (
    BOS,
    "scaffold",
    "system",
    "tools",
    "summary",
    "user",
    "attachment",
    "passage",
    "assistant",
    "tool",
    "text",
    "unknown",
)
"""In the order of a legend."""


ORIGIN_WORDS: Final = {
    "bos": "BOS",
    "scaffold": "template",
    "system": "system",
    "tools": "tool definitions",
    "summary": "summary",
    "user": "you",
    "attachment": "attachment",
    "passage": "part of a document",
    "assistant": "reply",
    "tool": "tool result",
    "text": "text",
    "unknown": "not distinguished",
}
"""How each is called."""


def origin_words(origin: str) -> str:
    return ORIGIN_WORDS.get(origin, origin)


class PromptTokens:
    """Tokens by their place in the prompt."""

    def __init__(
        self,
        ids: Sequence[int],
        offsets: Sequence[int],
        blob: bytes,
        attributes: Sequence[int],
        controls: Sequence[int],
        parts: Sequence[ShownPart],
        media: Sequence[MediaSpan] = (),
    ) -> None:
        """`media`: which of them are cells of pictures and sounds."""
        self.media = tuple(media)
        self.ids = array("i", ids)
        self.blob = blob
        self.parts = tuple(parts)
        self._offsets = array("q", offsets)
        self._attributes = array("i", attributes)
        self._controls = bytes(controls)
        self._starts = [part.start for part in self.parts]

    def __len__(self) -> int:
        return len(self.ids)

    def piece(self, place: int) -> bytes:
        return self.blob[self._offsets[place] : self._offsets[place + 1]]

    def pieces(self, first: int, end: int) -> list[bytes]:
        """The bytes of tokens [first, end)."""
        offsets, blob = self._offsets, self.blob
        end = min(end, len(self))
        return [blob[offsets[i] : offsets[i + 1]] for i in range(first, end)]

    def is_control(self, place: int) -> bool:
        return bool(self._controls[place])

    def attribute(self, place: int) -> int:
        """llama.cpp's token attribute."""
        return self._attributes[place]

    def part(self, place: int) -> ShownPart:
        """The part that a token belongs to."""
        return self.parts[bisect_right(self._starts, place) - 1]

    def n_bytes(self, first: int, end: int) -> int:
        return self._offsets[end] - self._offsets[first]


def tokens_of(shown: PromptShown) -> PromptTokens:
    return PromptTokens(
        shown.token_ids.numbers(),
        shown.offsets.numbers(),
        shown.blob,
        shown.attributes.numbers(),
        shown.controls.numbers(),
        named(shown.parts),
        shown.media,
    )


def named(parts: Sequence[P]) -> list[P]:
    """The parts of one prompt. A plain text has no template, so what stands around it is its BOS.

    >>> [part.origin for part in named([ShownPart(0, 1, "scaffold"), ShownPart(1, 6, "text")])]
    ['bos', 'text']
    """
    is_plain = any(part.origin == "text" for part in parts)
    return [
        msgspec.structs.replace(part, origin=BOS)
        if is_plain and part.origin == "scaffold"
        else part
        for part in parts
    ]


@dataclass(frozen=True, slots=True)
class OriginCount:
    """How much of a prompt comes from one place. `share` of its tokens, from 0 to 1."""

    origin: str
    n_tokens: int
    n_bytes: int
    n_parts: int
    share: float


def counts(tokens: PromptTokens) -> tuple[OriginCount, ...]:
    """By origin, in the order of `ORIGINS`; what is not there is left out."""
    found: dict[str, list[ShownPart]] = {}
    for part in tokens.parts:
        found.setdefault(part.origin, []).append(part)
    known = [origin for origin in ORIGINS if origin in found]
    names = known + [origin for origin in found if origin not in ORIGINS]
    return tuple(_count(tokens, name, found[name]) for name in names)


def _count(tokens: PromptTokens, origin: str, parts: Sequence[ShownPart]) -> OriginCount:
    n_tokens = sum(part.end - part.start for part in parts)
    n_bytes = sum(tokens.n_bytes(part.start, part.end) for part in parts)
    return OriginCount(origin, n_tokens, n_bytes, len(parts), n_tokens / len(tokens))


class Surprise:
    """How surprising each token of a prompt was after those before it, as it becomes known."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens
        self._bits = array("f", [math.nan]) * n_tokens
        self._ranks = array("i", [0]) * n_tokens
        self.n_known = 0

    def take(self, event: PromptScores) -> None:
        """One chunk. What does not fit this prompt is left out."""
        logprobs, ranks = unpack(event.logprobs), unpack(event.ranks)
        end = event.start + min(len(logprobs), len(ranks))
        if not 0 < event.start < end <= self.n_tokens:
            return
        for place, (logprob, rank) in enumerate(zip(logprobs, ranks, strict=False), event.start):
            self._bits[place] = max(-logprob / math.log(2), 0.0)
            self._ranks[place] = rank
        self.n_known = max(self.n_known, end - 1)

    def bits(self, place: int) -> float | None:
        """−log2 of its probability; None where it is not known (nothing stands before the first).

        A token that the weights think impossible has infinitely many.
        """
        bits = self._bits[place]
        return None if math.isnan(bits) else bits

    def rank(self, place: int) -> int | None:
        return self._ranks[place] or None

    def mean(self, first: int, end: int) -> float | None:
        """Of the known ones of tokens [first, end), in bits per token."""
        known = [bits for bits in self._bits[first:end] if not math.isnan(bits)]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one prompt to the next, in tokens.

    `common`: so many tokens at the beginning are the same, which is what the KV cache reuses.
    `removed` of the earlier ones and `added` come after it. `same_end`: so many at the end are
    the same again; they stand at other places, so they were evaluated all the same.
    """

    common: int
    removed: int
    added: int
    same_end: int


def difference(before: Sequence[int], now: Sequence[int]) -> Difference:
    """`before`: all that was in the cache, the earlier prompt and the reply that followed it.

    >>> difference([1, 2, 3, 9], [1, 2, 4, 5, 9])
    Difference(common=2, removed=2, added=3, same_end=1)
    """
    most = min(len(before), len(now))
    common = next((i for i in range(most) if before[i] != now[i]), most)
    left = most - common
    same_end = next((i for i in range(left) if before[-1 - i] != now[-1 - i]), left)
    return Difference(common, len(before) - common, len(now) - common, same_end)
