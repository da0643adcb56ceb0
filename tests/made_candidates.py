"""Tokens with 64 recorded candidates that no weights have scored."""

from __future__ import annotations

import math
import struct

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import TokenTrace

SHARES = [0.4, 0.2, 0.1, *(0.2 * 0.8**at / 4 for at in range(61))]


def token(index: int = 0, shares: list[float] = SHARES, drawn: int = 1) -> TokenTrace:
    count = len(shares)
    logs = [math.log(share) for share in shares]
    return TokenTrace(
        index=index,
        token_id=100 + drawn,
        piece=b"x",
        logprob=logs[drawn],
        rank=drawn + 1,
        entropy=2.5,
        alternative_ids=Array("i4", [count], struct.pack(f"<{count}i", *range(100, 100 + count))),
        alternative_logprobs=Array("f4", [count], struct.pack(f"<{count}f", *logs)),
        stages=[],
        ms=1.0,
        uniform=0.5,
    )
