"""Beam search as the two processes speak of it: what is asked, and the tree as it grows.

Nodes are numbered from 1 in the order in which they come; 0 is the text that is searched from. A
node is a token behind its parent's. Sums are of natural logarithms, over the whole vocabulary at
temperature 1, before any sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.bounds import Bounds, check_number
from app.engine.protocol.frames import (
    FEW,
    Amount,
    Count,
    Piece,
    ProtocolError,
    Seconds,
    Sentence,
    TokenId,
    WireMessage,
)
from app.engine.protocol.stages import Sampling

MAX_WIDTH: Final = 8
MAX_LENGTH: Final = 256
MAX_LENGTH_PENALTY: Final = 4.0

STOPS_NOTHING: Final = "Stop strings don't end beams."

LogSum = Annotated[float, msgspec.Meta(ge=-1e9, le=1.0)]
"""Of log-probabilities. What cannot be is no candidate, so none is -inf."""

NodeKind = Literal["alive", "finished", "pruned", "greedy"]
Ended = Literal["length", "finished", "bound"]


class SearchBeams(WireMessage, frozen=True, tag=True):
    """Search the `width` best continuations of `token_ids`, of at most `length` tokens.
    -> BeamsFound, and a BeamsGrew for each step before it.

    `n_prompt`: how many of the tokens are the prompt; the others are the reply so far, which a
    grammar and `min_tokens` count from. `length_penalty` α: a text of n tokens scores Σ log p ÷ nᵅ.
    Of `sampling` only what forbids tokens counts: banned tokens, grammar or schema, `min_tokens`,
    `ban_end_token`. `end_ids`: tokens that end a text, besides the file's own.
    `adapters`: as in `Generate`.
    """

    id: Amount
    token_ids: list[int]
    n_prompt: int = 0
    width: int = 4
    length: int = 32
    length_penalty: float = 0.6
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    end_ids: list[int] = msgspec.field(default_factory=list)
    adapters: Adapters | None = None


class BeamNode(WireMessage, frozen=True, tag=True):
    """A token of the tree. `logprob`: its own; `total`: of all tokens from the root to it; `score`:
    that with the length penalty. `kind`, as it came: alive (one of the best of its step), finished
    (a beam that ends here), pruned (one of the best that were not kept), greedy (on the greedy line
    alone). `is_greedy`: it is on the greedy line; `is_end`: its token ends a text."""

    number: Amount
    parent: Amount
    token_id: TokenId
    piece: Piece
    logprob: LogSum
    total: LogSum
    score: LogSum
    kind: NodeKind
    is_greedy: bool = False
    is_end: bool = False

    def check(self) -> None:
        if not self.parent < self.number:
            raise ProtocolError("a node comes before its parent")


class BeamsGrew(WireMessage, frozen=True, tag=True):
    """Step `step` (from 1): its nodes, best first, and which nodes were given up in it: beams of
    the step before of which nothing was kept, or of this step where none can win any more."""

    id: Amount
    step: Count
    nodes: Annotated[list[BeamNode], FEW]
    pruned: Annotated[list[Amount], FEW] = msgspec.field(default_factory=list)


class BeamsFound(WireMessage, frozen=True, tag=True):
    """How the search ended. `leaves`: all texts that it found, best score first; `greedy`: where
    the greedy line ends. `ended`: length (beams were as long as was asked for), finished (each
    beam had ended), bound (none that was left could overtake the best ones). Of `n_before` tokens
    `n_copied` came from the cache and `n_read` were read; then `n_steps` decodes of `n_rows` rows
    together took `search_s`, all of it `total_s`."""

    n_before: Count
    n_copied: Count
    n_read: Count
    n_steps: Count
    n_rows: Count
    leaves: Annotated[list[Amount], FEW]
    greedy: Amount
    ended: Ended
    search_s: Seconds
    total_s: Seconds
    n_threads: Count
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)


_NUMBERS: Final = (
    ("width", "The number of beams", Bounds(1, MAX_WIDTH, f"between 1 and {MAX_WIDTH}", True)),
    ("length", "The beam length", Bounds(1, MAX_LENGTH, f"between 1 and {MAX_LENGTH}", True)),
    (
        "length_penalty",
        "The length penalty",
        Bounds(0, MAX_LENGTH_PENALTY, f"between 0 and {MAX_LENGTH_PENALTY:g}"),
    ),
)


def check_beams(width: object, length: object, length_penalty: object) -> None:
    """Raise BadSetting for the first number that cannot be used."""
    values: Sequence[object] = (width, length, length_penalty)
    for (field, label, bounds), value in zip(_NUMBERS, values, strict=True):
        check_number(value, label, field, bounds)
