"""Drawing tokens of a reply again, as the two processes speak of it.

The window knows of each token the 64 best candidates and the number that drew it. Where other
settings leave more, or need more than that, it asks: the engine reads prompt and reply once more,
has all scores of those positions, cuts them with the other chain, and lets the same number fall.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.frames import (
    FEW,
    Amount,
    Bits,
    Count,
    Float32s,
    Int32s,
    Logit,
    ProtocolError,
    Sentence,
    Share,
    TokenId,
    UInt8s,
    WireMessage,
    are_nats,
    check_equal,
)
from app.engine.protocol.stages import Sampling

MAX_ASKED: Final = 64
"""Draws of one question, where each stands for itself."""

MAX_WALKED: Final = 1 << 15
"""The same where the selecting stage remembers the ones before."""

BANNED_BEFORE: Final = 254
FORBIDDEN: Final = 253
"""In `removed_by`, beside SURVIVED: by a ban, and by the grammar, before the first stage."""


class AskedDraw(WireMessage, frozen=True, tag=True):
    """The draw of the token at `position` (counted from the prompt's first token). `uniform`: the
    number of the selecting stage; `deciding`: of the XTC stages, in order. None: not known.
    `again`, `deciding_again`: those of a second draw, if the grammar refuses the first. `banned`:
    tokens that a banned string kept out here."""

    position: int
    uniform: float | None = None
    deciding: list[float | None] = msgspec.field(default_factory=list)
    again: float | None = None
    deciding_again: list[float | None] = msgspec.field(default_factory=list)
    banned: list[int] = msgspec.field(default_factory=list)


class ReplayDraws(WireMessage, frozen=True, tag=True):
    """Draw tokens again with another chain. `token_ids`: prompt and reply; the reply begins at
    `n_prompt`. A selecting stage that remembers its draws remembers those that are asked about, so
    all before the last one must be. `until_change`: end with the first one that is drawn otherwise.
    `explain`: tell of the last one what became of its candidates. Runs in a context of its own: no
    cell changes. -> DrawsReplayed"""

    id: Amount
    token_ids: list[int]
    n_prompt: int
    sampling: Sampling
    asked: list[AskedDraw]
    until_change: bool = False
    explain: bool = False
    adapters: Adapters | None = None


class ReplayedDraw(WireMessage, frozen=True, tag=True):
    """`token_id` would have been drawn, with the share `probability` of the `left` candidates; −1:
    that cannot be told, for `reason`."""

    position: Count
    token_id: TokenId
    probability: Share = 0.0
    left: Count = 0
    reason: Sentence = ""


class DrawExplained(WireMessage, frozen=True, tag=True):
    """What a chain did to the candidates of a draw. Listed are the best before it and after it, and
    the token that was written: logits, log-probabilities before samplers at temperature 1, and
    `shares`, by which the token was drawn. `removed_by`: the stage that removed it, by its place in
    the chain, the selecting stage too; SURVIVED, BANNED_BEFORE or FORBIDDEN. `left`: how many were
    left after each stage. `memory`: what the selecting stage had kept of the draws before: mirostat
    the most surprise that it lets through (bits), adaptive-p the probability that it aims at.
    `is_second`: the grammar refused the first draw."""

    ids: Int32s
    logits: Float32s
    logprobs: Float32s
    shares: Float32s
    removed_by: UInt8s
    left: Annotated[list[Count], FEW]
    entropy_before: Bits
    entropy_after: Bits
    memory: Logit | None = None
    is_second: bool = False

    def check(self) -> None:
        logprobs, shares = self.logprobs.numbers(), self.shares.numbers()
        lengths = (self.ids.size, self.logits.size, len(shares), len(self.removed_by.data))
        check_equal("candidates", len(logprobs), *lengths)
        if not are_nats(logprobs):
            raise ProtocolError("a log-probability is none")
        if not all(0 <= share <= 1.001 for share in shares):
            raise ProtocolError("a share is none")


class DrawsReplayed(WireMessage, frozen=True, tag=True):
    """In the order in which they were asked for."""

    draws: Annotated[list[ReplayedDraw], FEW]
    explained: DrawExplained | None = None
