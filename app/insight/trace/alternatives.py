"""The best candidates of a token, as far as they were recorded, each by its ID or by its bytes.

A token of this machine has IDs, and whose vocabulary is loaded knows their bytes. A server may say
the bytes alone: IDs are `NO_ID` then, and tell nothing apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.engine.protocol.messages import TokenTrace
from app.engine.protocol.pieces import unpack

NO_ID: Final = -1


@dataclass(frozen=True, slots=True)
class Alternative:
    """`piece`: its bytes, where they were recorded with it. `logprob`: nat, before samplers."""

    token_id: int
    logprob: float
    piece: bytes | None
    is_drawn: bool


def alternatives_of(token: TokenTrace) -> list[Alternative]:
    """The best first. The drawn one has the log-probability of the token itself: of a stored trace
    the others are rounded."""
    ids, logprobs = unpack(token.alternative_ids), unpack(token.alternative_logprobs)
    drawn, pieces = drawn_place(token), token.alternative_pieces
    return [
        Alternative(
            token_id,
            token.logprob if at == drawn else logprob,
            pieces[at] if at < len(pieces) else None,
            at == drawn,
        )
        for at, (token_id, logprob) in enumerate(zip(ids, logprobs, strict=False))
    ]


def drawn_place(token: TokenTrace) -> int | None:
    """Where the token itself stands among them; None: it is not there, or that is not known. Two
    tokens may have the same bytes: then it is the one whose log-probability is nearest."""
    ids = unpack(token.alternative_ids)
    if token.token_id != NO_ID:
        return ids.index(token.token_id) if token.token_id in ids else None
    logprobs = unpack(token.alternative_logprobs)
    same = [at for at, piece in enumerate(token.alternative_pieces) if piece == token.piece]
    return min(same, key=lambda at: abs(logprobs[at] - token.logprob), default=None)


def has_ids(token: TokenTrace) -> bool:
    """Whether it and its candidates are known by their IDs."""
    return token.token_id != NO_ID and NO_ID not in unpack(token.alternative_ids)
