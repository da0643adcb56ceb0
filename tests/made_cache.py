"""KV caches that no engine holds, for tests of what shows them."""

from __future__ import annotations

import struct
from typing import Any

from app.engine.protocol.cache_messages import CacheMap, CacheSlot, CellPart, CellRun, LastTurn
from app.engine.protocol.frames import Array


def slot(
    sequence: int,
    runs: list[tuple[int, int, int]],
    parts: list[CellPart] | None = None,
    conversation: str = "a",
    **fields: Any,
) -> CacheSlot:
    """Sequence s has the token 1000 (s + 1) + p at position p."""
    end = runs[-1][2]
    ids = [1000 * (sequence + 1) + position for position in range(end)]
    return CacheSlot(
        sequence=sequence,
        conversation=conversation,
        is_busy=fields.get("is_busy", False),
        first_position=0,
        token_ids=Array("i4", [end], struct.pack(f"<{end}i", *ids)),
        runs=[CellRun(*run) for run in runs],
        parts=parts or [],
        state_bytes=fields.get("state_bytes", 0),
    )


def told(
    *slots: CacheSlot, turns: list[LastTurn] | None = None, n_ctx: int = 4096, **fields: Any
) -> CacheMap:
    parked = fields.get("parked", [])
    return CacheMap(
        n_ctx=n_ctx,
        n_used=fields.get("n_used", 0),
        slots=list(slots),
        parked=parked,
        parked_bytes=sum(copy.size_bytes for copy in parked),
        parked_cap_bytes=2**30,
        turns=turns or [],
        saved=(saved := fields.get("saved", [])),
        saved_bytes=sum(copy.size_bytes for copy in saved),
        saved_cap_bytes=4_000_000_000,
    )
