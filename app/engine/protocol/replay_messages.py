"""Drawing tokens of a reply again, as the two processes speak of it.

The window knows of each token the 64 best candidates and the number that drew it. Where other
settings leave more, or need more than that, it asks: the engine reads prompt and reply once more,
has all scores of those positions, cuts them with the other chain, and lets the same number fall.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.frames import FEW, Amount, Count, Sentence, Share, TokenId, WireMessage
from app.engine.protocol.stages import Sampling

MAX_ASKED: Final = 64
"""Draws of one question."""


class AskedDraw(WireMessage, frozen=True, tag=True):
    """The draw of the token at `position` (counted from the prompt's first token). `uniform`: the
    number of the selecting stage; `deciding`: of the XTC stages, in order. None: not known."""

    position: int
    uniform: float | None = None
    deciding: list[float | None] = msgspec.field(default_factory=list)


class ReplayDraws(WireMessage, frozen=True, tag=True):
    """Draw tokens again with another chain. `token_ids`: prompt and reply; the reply begins at
    `n_prompt`. Runs in a context of its own: no cell changes. -> DrawsReplayed"""

    id: Amount
    token_ids: list[int]
    n_prompt: int
    sampling: Sampling
    asked: list[AskedDraw]


class ReplayedDraw(WireMessage, frozen=True, tag=True):
    """`token_id` would have been drawn, with the share `probability` of the `left` candidates; −1:
    that cannot be told, for `reason`."""

    position: Count
    token_id: TokenId
    probability: Share = 0.0
    left: Count = 0
    reason: Sentence = ""


class DrawsReplayed(WireMessage, frozen=True, tag=True):
    """In the order in which they were asked for."""

    draws: Annotated[list[ReplayedDraw], FEW]
