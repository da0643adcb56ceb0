"""Speculative decoding as the two processes speak of it: what is wished for one reply, and what
came of it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from app.engine.protocol.bounds import Bounds, check_number
from app.engine.protocol.frames import (
    Count,
    Nats,
    Piece,
    ProtocolError,
    Seconds,
    Sentence,
    TokenId,
    WireMessage,
    Word,
    check_equal,
    is_nats,
)

DraftKind = Literal["lookup", "model"]

MAX_DRAFT: Final = 15
"""Tokens proposed at once: with the one that is certain, as many rows as may ask for scores."""

_SHORT = msgspec.Meta(max_length=MAX_DRAFT)


class Drafts(WireMessage, frozen=True, tag=True):
    """Propose tokens for a reply and check them in one pass. lookup: what followed the same words
    in prompt and reply; model: the draft model that was loaded with the weights. `most`: tokens at
    once. `always`: as many as there are, whatever they cost, to measure and to prove."""

    kind: DraftKind = "lookup"
    most: int = 8
    always: bool = False


def check_drafts(drafts: Drafts | None) -> None:
    """Raise BadSetting."""
    if drafts is not None:
        bounds = Bounds(1, MAX_DRAFT, f"between 1 and {MAX_DRAFT}", whole=True)
        check_number(drafts.most, "The number of draft tokens", "draft_tokens", bounds)


class Rejected(WireMessage, frozen=True, tag=True):
    """What was proposed from a token on and not taken. The first was judged there: `logprob` (nat)
    is what the weights gave it, before samplers. Those behind it went with it, unjudged.
    `draft_logprobs`: what the draft model gave each of them; of a lookup none."""

    ids: Annotated[list[TokenId], _SHORT]
    pieces: Annotated[list[Piece], _SHORT]
    logprob: Nats
    draft_logprobs: Annotated[list[Nats], _SHORT] = msgspec.field(default_factory=list)

    def check(self) -> None:
        check_equal("rejected tokens and pieces", len(self.ids), len(self.pieces))
        if self.draft_logprobs:
            check_equal(
                "rejected tokens and their numbers", len(self.ids), len(self.draft_logprobs)
            )
        if not self.ids or not all(map(is_nats, (self.logprob, *self.draft_logprobs))):
            raise ProtocolError("a rejected draft is none")


class DraftPosition(WireMessage, frozen=True, tag=True):
    """Of all that was proposed at one place in a proposal."""

    proposed: Count
    accepted: Count


class DraftReport(WireMessage, frozen=True, tag=True):
    """What drafts did for one reply. `passes` had proposals: `proposed` tokens, of which `accepted`
    were drawn (what the reply ended before is in neither). `by_position`: both, by position in the
    proposal. `drafted_s` for `drafted_tokens` of the reply, drafting included, and `plain_s` for
    `plain_tokens` that were written without, in the same reply. `off`: why it was switched off."""

    kind: DraftKind
    name: Word = ""
    passes: Count = 0
    proposed: Count = 0
    accepted: Count = 0
    by_position: Annotated[list[DraftPosition], _SHORT] = msgspec.field(default_factory=list)
    drafted_s: Seconds = 0.0
    drafted_tokens: Count = 0
    plain_s: Seconds = 0.0
    plain_tokens: Count = 0
    off: Sentence = ""
