"""Traces of replies that nobody wrote, for tests of what shows them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import SURVIVED, StageEffect, TokenTrace


def trace_of(
    pieces: Sequence[bytes], probabilities: Sequence[float] | None = None
) -> tuple[TokenTrace, ...]:
    """One token per piece, of ID 100, 101, …; two candidates each, of which the second was removed
    by the first stage."""
    shares = probabilities or [0.5] * len(pieces)
    return tuple(
        TokenTrace(
            index=at,
            token_id=100 + at,
            piece=piece,
            logprob=math.log(share),
            rank=1,
            entropy=1.0 + at % 7,
            alternative_ids=Array("i4", [2], struct.pack("<2i", 100 + at, 7)),
            alternative_logprobs=Array(
                "f4", [2], struct.pack("<2f", math.log(share), math.log((1 - share) / 2))
            ),
            stages=[StageEffect("top-k", 1, 1.0), StageEffect("dist", 1, 1.0)],
            ms=20.0 + at % 3,
            removed_by=Array("u1", [2], bytes([SURVIVED, 0])),
            uniform=0.25,
        )
        for at, (piece, share) in enumerate(zip(pieces, shares, strict=True))
    )
