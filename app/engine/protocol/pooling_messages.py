"""Vectors of whole texts: what other programs search and compare by.

Each is made of the last layer's vectors of a text's tokens: all of them added up (mean), the last
one (last) or the first one (cls), as the file says, and of length 1.
"""

from __future__ import annotations

from typing import Final

import msgspec

from app.engine.protocol.frames import Amount, Count, Float32s, WireMessage, Word, check_equal

MAX_INPUTS: Final = 256


class EmbedTexts(WireMessage, frozen=True, tag=True):
    """Vectors of texts that are token IDs. -> TextsEmbedded"""

    id: Amount
    inputs: list[list[int]] = msgspec.field(default_factory=list)


class TextsEmbedded(WireMessage, frozen=True, tag=True):
    """`vectors` (f4) [n, n_embd], one for each text. `pooling`: mean, last or cls."""

    n: Count
    n_embd: Count
    vectors: Float32s
    pooling: Word

    def check(self) -> None:
        check_equal("vectors of texts", self.n * self.n_embd, self.vectors.size)
