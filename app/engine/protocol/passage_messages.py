"""Vectors of passages and questions, by a small embedding model beside the loaded weights.

The model is loaded at the first such question, stays while it is used, and goes when nobody has
asked for a while. `pooling_messages.py` has vectors by the loaded weights themselves.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.frames import Amount, Count, Float32s, WireMessage, Word, check_equal

MAX_PASSAGES: Final = 64
MAX_PASSAGE_CHARACTERS: Final = 20_000


class EmbedPassages(WireMessage, frozen=True, tag=True):
    """Vectors of texts by the embedding model at `path`, in order; of no texts: load it, so that
    what is wrong with it is known. `are_questions`: some models were taught to read a question
    otherwise than what answers it. `path_bytes` as in LoadWeights. What a text has beyond the
    model's window is left out. -> PassagesEmbedded"""

    id: Amount
    path: str
    texts: Annotated[list[str], msgspec.Meta(max_length=MAX_PASSAGES)] = msgspec.field(
        default_factory=list
    )
    are_questions: bool = False
    path_bytes: bytes = b""


class PassagesEmbedded(WireMessage, frozen=True, tag=True):
    """`vectors` (f4) [n, n_embd], each of length 1. `memory_bytes`: what the model takes, measured,
    with its context of `n_ctx` tokens. `n_cut`: so many texts were longer than that."""

    n: Count
    n_embd: Count
    vectors: Float32s
    pooling: Word
    n_ctx: Count
    memory_bytes: Amount
    n_cut: Count = 0

    def check(self) -> None:
        check_equal("vectors of passages", self.n * self.n_embd, self.vectors.size)
