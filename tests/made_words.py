"""Vocabularies as they arrive from the engine, for tests of what shows them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import VocabularyTable
from app.engine.protocol.pieces import Pieces

NORMAL, CONTROL, BYTE, USER_DEFINED = 4, 8, 32, 16


def made_pieces(texts: Sequence[bytes], attributes: Sequence[int] = ()) -> Pieces:
    """IDs 0, 1, …; what has no attribute is normal."""
    ends = [0, *accumulate(map(len, texts))]
    bits = [*attributes, *[NORMAL] * (len(texts) - len(attributes))]
    return Pieces(
        VocabularyTable(
            Array.of("i8", ends),
            b"".join(texts),
            Array.of("i4", bits),
        )
    )
