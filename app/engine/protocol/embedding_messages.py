"""The embedding matrix and the rotation of positions, as the two processes speak of them.

The matrix has a row for each token, [n_vocab, n_embd]: the vector that a token enters the network
as. It is read from the file, in slices beside replies. *Centred* is a row without the mean of all
rows: that mean is long, so that without this any two tokens look alike.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from app.engine.protocol.frames import (
    FEW,
    Amount,
    Count,
    Float32s,
    Int32s,
    Scale,
    Sentence,
    WireMessage,
    Word,
    check_equal,
)

MAX_ROWS: Final = 512
"""Vectors that may be asked for at once."""
MAX_TERMS: Final = 64
"""Tokens that may be added and subtracted."""
MAX_NEAREST: Final = 1000

PERCENTILES: Final = (0, 1, 50, 99, 100)
"""At which the lengths of all rows are told."""


class ReadEmbedding(WireMessage, frozen=True, tag=True):
    """The rows of these tokens, as they stand in the file. -> EmbeddingRows"""

    id: Amount
    token_ids: list[int]


class DescribeEmbedding(WireMessage, frozen=True, tag=True):
    """What all rows have in common; the first time the whole matrix is read. -> EmbeddingFacts"""

    id: Amount


class Term(WireMessage, frozen=True, tag=True):
    """`factor` times the row of a token."""

    token_id: int
    factor: float = 1.0


class FindNearest(WireMessage, frozen=True, tag=True):
    """The `n` tokens whose centred rows point most the way that the sum of the terms does, by
    cosine in all dimensions. king − man + woman is three terms. -> NearestTokens"""

    id: Amount
    terms: list[Term]
    n: int = 20


class ReadRotations(WireMessage, frozen=True, tag=True):
    """How each layer of the loaded weights rotates its queries and keys. -> Rotations"""

    id: Amount


class EmbeddingRows(WireMessage, frozen=True, tag=True):
    """`rows` [n_tokens, n_embd], flat, and the length of each."""

    n_embd: Count
    rows: Float32s
    norms: Float32s
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)

    def check(self) -> None:
        check_equal("rows and their numbers", self.norms.size * self.n_embd, self.rows.size)


class EmbeddingFacts(WireMessage, frozen=True, tag=True):
    """`mean`: the mean row [n_embd]. `norms`: the length of rows at `PERCENTILES`. `mean_cosine`:
    of two different rows, the mean over all pairs. `type_name`: how the file stores a row."""

    n_vocab: Count
    n_embd: Count
    type_name: Word
    mean: Float32s
    norms: Float32s
    mean_cosine: Annotated[float, msgspec.Meta(ge=-1.001, le=1.001)]
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)

    def check(self) -> None:
        check_equal("the mean and its numbers", self.n_embd, self.mean.size)
        check_equal("lengths and percentiles", len(PERCENTILES), self.norms.size)


class NearestTokens(WireMessage, frozen=True, tag=True):
    """`token_ids` with their `cosines`, best first; tokens that were asked with are ranked among
    them. `input_ranks` (from 0) and `input_cosines`: where each of these stands, in the order of
    the question's terms, however far down."""

    token_ids: Int32s
    cosines: Float32s
    input_ranks: Int32s
    input_cosines: Float32s
    n_vocab: Count
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)

    def check(self) -> None:
        check_equal("tokens and cosines", self.token_ids.size, self.cosines.size)
        check_equal("inputs", self.input_ranks.size, self.input_cosines.size)


class Rotation(WireMessage, frozen=True, tag=True):
    """What ggml's ROPE node is given in these layers (`ggml_rope_ext`); `Rope` in
    `app/insight/inside/position.py` says what each of it means. `order`: which dimensions are a
    pair. `factors` [n_dims / 2]: empty where the file has none. `is_window`: these layers look back
    no further than the window."""

    layers: Annotated[list[Count], FEW]
    order: Literal["interleaved", "halves"]
    n_dims: Annotated[int, msgspec.Meta(ge=0, le=1 << 16, multiple_of=2)]
    first_dim: Count
    freq_base: Scale
    freq_scale: Scale
    ext_factor: Scale
    attn_factor: Scale
    beta_fast: Scale
    beta_slow: Scale
    n_ctx_orig: Count
    factors: Float32s
    is_window: bool = False

    def check(self) -> None:
        if self.factors.size:
            check_equal("pairs and their factors", self.n_dims // 2, self.factors.size)


class Rotations(WireMessage, frozen=True, tag=True):
    """Layers that rotate alike are told together; `sentence` says why there are none."""

    rotations: Annotated[list[Rotation], FEW]
    n_layer: Count
    sentence: Sentence = ""


EmbeddingCommand = ReadEmbedding | DescribeEmbedding | FindNearest
EmbeddingResult = EmbeddingRows | EmbeddingFacts | NearestTokens
