"""The inside of the network as the two processes speak of it: one position of a text, replayed.

A text is token IDs; the one that is looked at is the last of them. What the network made of it is
asked for by name, and comes as arrays whose axes are named:

    embedding     [n_embd]                    what enters the first layer
    q_before      [n_layer, n_head, d_head]   queries before their rotation (RoPE) …
    q_after       [n_layer, n_head, d_head]   … and after it
    k_after       [n_layer, n_kv_head, d_head]   this token's keys, rotated
    attention     [n_layer, n_head, n_tok]    how much each head takes from each token: rows sum
                                              to 1, less what a learned sink takes; 0 where it
                                              can't see
    value_norms   [n_layer, n_head, n_tok]    how large what a head brings from each token would be
                                              with all of its attention: ‖v · W_O‖; 0 where it
                                              can't see
    heads         [n_layer, n_head · d_head]  what all heads found, before it is mixed
    attn_out      [n_layer, n_embd]           what attention adds to the stream …
    ffn_out       [n_layer, n_embd]           … and the feed-forward network
    residual      [n_layer, n_embd]           the stream after each layer
    experts       [n_layer, n_used]           which experts of each layer this token passes, best
                                              first; −1 where a layer has none
    expert_weights  [n_layer, n_used]         how much each of them counts
    result_norm   [n_embd]                    the stream after the last norm
    lens          five arrays, see below
    logits        [n_vocab]                   raw scores of the next token

`lens` is what each layer would say if it were the last one: `lens_ids`, `lens_logits` [n_layer,
10], best first; `lens_total` [n_layer], the logarithm of the sum of all exponentials, so that
exp(logit − total) is a probability; `lens_target_logits`, `lens_target_ranks` [n_layer, n_targets],
ranks from 0. A layer that has no such node has NaN.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from app.engine.protocol.adapter_messages import Adapters
from app.engine.protocol.cut_messages import Cut, CutMode
from app.engine.protocol.embedding_messages import EmbeddingCommand, ReadRotations
from app.engine.protocol.frames import (
    FEW,
    MAX_ARRAY_RANK,
    Amount,
    Array,
    Count,
    Float32s,
    Int32s,
    ProtocolError,
    Scale,
    Seconds,
    Sentence,
    TokenId,
    WireMessage,
    Word,
    check_equal,
)
from app.engine.protocol.machine_messages import MachineCommand

AXES: Final[dict[str, tuple[str, ...]]] = {
    "embedding": ("n_embd",),
    "q_before": ("n_layer", "n_head", "d_head"),
    "q_after": ("n_layer", "n_head", "d_head"),
    "k_after": ("n_layer", "n_kv_head", "d_head"),
    "attention": ("n_layer", "n_head", "n_tok"),
    "value_norms": ("n_layer", "n_head", "n_tok"),
    "heads": ("n_layer", "n_head * d_head"),
    "attn_out": ("n_layer", "n_embd"),
    "ffn_out": ("n_layer", "n_embd"),
    "residual": ("n_layer", "n_embd"),
    "experts": ("n_layer", "n_used"),
    "expert_weights": ("n_layer", "n_used"),
    "result_norm": ("n_embd",),
    "logits": ("n_vocab",),
    "lens_ids": ("n_layer", "n_lens"),
    "lens_logits": ("n_layer", "n_lens"),
    "lens_total": ("n_layer",),
    "lens_target_logits": ("n_layer", "n_targets"),
    "lens_target_ranks": ("n_layer", "n_targets"),
}
"""Every array that an answer may hold, and its axes."""

BY_TEXT: Final = tuple(name for name, axes in AXES.items() if "n_tok" in axes)
"""Those that grow with the text: of a long one several don't fit in one frame."""

WANTED: Final = (
    "embedding",
    "q_before",
    "q_after",
    "k_after",
    "attention",
    "value_norms",
    "heads",
    "attn_out",
    "ffn_out",
    "residual",
    "experts",
    "expert_weights",
    "result_norm",
    "lens",
    "logits",
)
"""What may be asked for."""

MAX_TARGETS: Final = 64

OF_EXPERTS: Final = ("experts", "expert_weights")
"""What only files with experts have."""

NO_EXPERTS: Final = "This model has no experts: all tokens pass the same feed-forward networks."

_RANK: Final = msgspec.Meta(max_length=MAX_ARRAY_RANK)


class LookInside(WireMessage, frozen=True, tag=True):
    """Replay the last of `token_ids` behind the others, and tell what is wanted. `layers`: whose
    attention (all: None); that of the others is NaN, or, with `only_layers`, not sent at all: what
    is too large for one frame comes in several. `targets`: tokens that each layer of the lens is
    asked about. `cuts`: parts that are cut at this token, by zero or by their mean over the last
    positions of the first `mean_tokens` tokens (None: all); everything before was computed with
    them. `adapters`: as in `Generate`. Answered beside a running reply, which goes first. -> Inside
    """

    id: Amount
    token_ids: list[int]
    want: list[str]
    targets: list[int] = msgspec.field(default_factory=list)
    layers: list[int] | None = None
    only_layers: bool = False
    cuts: list[Cut] = msgspec.field(default_factory=list)
    cut_mode: CutMode = "mean"
    mean_tokens: int | None = None
    adapters: Adapters | None = None


class ReadGraph(WireMessage, frozen=True, tag=True):
    """What the graph of the loaded weights offers. -> GraphOffer"""

    id: Amount


class AttributeToken(WireMessage, frozen=True, tag=True):
    """What wrote the score of `target` behind `token_ids`, rather than `other`'s. None: the best
    token, and the best one besides the target. -> TokenAttributed"""

    id: Amount
    token_ids: list[int]
    target: int | None = None
    other: int | None = None
    adapters: Adapters | None = None


class Missing(WireMessage, frozen=True, tag=True):
    """What could be wanted and is not there, or not in each layer; a sentence says why."""

    name: Word
    sentence: Sentence


class GraphOffer(WireMessage, frozen=True, tag=True):
    """`missing`: what can't be had of these weights; of `in_some_layers` some layers have it.
    `window_layers`: those that look back no further than the window. `bytes_per_token` and
    `fixed_bytes`: what looking inside takes."""

    n_layer: Count
    missing: Annotated[list[Missing], FEW]
    window_layers: Annotated[list[Count], FEW]
    bytes_per_token: Amount = 0
    fixed_bytes: Amount = 0
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)
    in_some_layers: Annotated[list[Word], FEW] = msgspec.field(default_factory=list)


class FloatArray(WireMessage, frozen=True, tag=True):
    """Float32 numbers in C order, with the names of their axes."""

    name: Word
    axes: Annotated[list[Word], _RANK]
    shape: Annotated[list[Count], _RANK]
    values: Float32s

    def check(self) -> None:
        _check_shape(self.axes, self.shape, self.values)


class IntArray(WireMessage, frozen=True, tag=True):
    """The same, of whole numbers."""

    name: Word
    axes: Annotated[list[Word], _RANK]
    shape: Annotated[list[Count], _RANK]
    values: Int32s

    def check(self) -> None:
        _check_shape(self.axes, self.shape, self.values)


class Inside(WireMessage, frozen=True, tag=True):
    """Of the last of `n_tokens` tokens. `n_reused` of those before it were there already, of which
    `n_copied` came from a chat's cells; `n_read` were read for this. `notes`: what the numbers are
    subject to. `mean_over`: positions that the mean of what was cut was taken over."""

    n_tokens: Count
    n_reused: Count
    n_copied: Count
    n_read: Count
    seconds: Seconds
    floats: Annotated[list[FloatArray], FEW]
    ints: Annotated[list[IntArray], FEW]
    missing: Annotated[list[Missing], FEW]
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)
    mean_over: Count = 0

    def check(self) -> None:
        _check_names([array.name for array in self.floats] + [array.name for array in self.ints])


HEAD_SCORES: Final = ("previous", "duplicate", "induction", "sink", "entropy")
"""What is measured of each head; all from 0 to 1. See `process/probe/answers/behaviour.py`."""


class MeasureHeads(WireMessage, frozen=True, tag=True):
    """Find out what each head does, by the standard probe of repeated random tokens; the same for
    each run on the same weights. -> HeadsMeasured"""

    id: Amount


class HeadsMeasured(WireMessage, frozen=True, tag=True):
    """`scores` [n_layer, n_head, len(HEAD_SCORES)]; NaN where a layer has no attention. From
    `n_texts` texts of `n_tokens`."""

    n_layer: Count
    n_head: Count
    scores: Float32s
    n_texts: Count
    n_tokens: Count

    def check(self) -> None:
        if self.n_layer * self.n_head * len(HEAD_SCORES) != self.scores.size:
            raise ProtocolError("there is not one score of each kind for each head")


class TokenAttributed(WireMessage, frozen=True, tag=True):
    """Contributions, in logits, to `difference`: the score of `target` less that of `other`.

    embedding                                 what entered the first layer
    attn, ffn, others  [n_layer]              what each layer's blocks wrote (others: blocks that
                                              are neither)
    norm_bias, output_bias                    of the last norm and the output matrix
    unexplained                               what is left: these all add up to `difference`
    heads              [n_layer, n_head]      each head's share of attn (NaN: has no such head)
    attn_bias          [n_layer]              the share of attention's own bias
    between_heads      [n_layer]              what is left of attn: heads, attn_bias and this add up

    `shown_difference`: after what is done to scores at last, a scale or a soft cap.
    """

    target: TokenId
    other: TokenId
    difference: Scale
    shown_difference: Scale
    embedding: Scale
    norm_bias: Scale
    output_bias: Scale
    unexplained: Scale
    floats: Annotated[list[FloatArray], FEW]
    seconds: Seconds = 0.0
    missing: Annotated[list[Missing], FEW] = msgspec.field(default_factory=list)
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)

    def check(self) -> None:
        _check_names([array.name for array in self.floats])


InsideCommand = (
    LookInside
    | ReadGraph
    | MeasureHeads
    | AttributeToken
    | ReadRotations
    | EmbeddingCommand
    | MachineCommand
)
"""What is answered a slice at a time, beside replies."""


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ProtocolError("an array came twice")


def _check_shape(axes: list[str], shape: list[int], values: Array) -> None:
    check_equal("axes and extents", len(axes), len(shape))
    count = 1
    for extent in shape:
        count *= extent
    if count != values.size:
        raise ProtocolError("an array does not have the numbers that its shape says")
