"""What changes the weights while they compute, as the two processes speak of it.

A LoRA adapter adds a product of two small matrices to some of the weights. A control vector (RepE,
Zou et al. 2310.01405) adds a direction to the residual stream after each layer from `first` to
`last`. Both are GGUF files of their own, both have a scale, and a reply may have several. They
shape whatever is computed, so cells that were computed with others are never gone on from.

`hash` is that of the whole file, as `AdapterUsed` told it: a file that has changed since is
refused. Empty, any file at that path will do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.frames import (
    FEW,
    Amount,
    Count,
    Float32s,
    Name,
    ProtocolError,
    Scale,
    Sentence,
    Share,
    WireMessage,
    Word,
)
from app.engine.protocol.prompt_messages import Prompt

MAX_ADAPTERS: Final = 16
"""Of each kind, for one reply."""
MAX_SCALE: Final = 100.0
MAX_LAYER: Final = 10_000
MAX_EXAMPLES: Final = 256
"""In each of the two groups that a control vector is made of."""

VectorMethod = Literal["mean", "pca"]


class Lora(WireMessage, frozen=True, tag=True):
    """A LoRA adapter (a GGUF file of its own) and how strongly it is applied."""

    path: Name
    scale: Scale = 1.0
    hash: Word = ""


class ControlVector(WireMessage, frozen=True, tag=True):
    """A file with a direction for each layer. `first`, `last`: the layers it acts on, as the file
    numbers them (0: from its first, to its last)."""

    path: Name
    scale: Scale = 1.0
    first: Count = 0
    last: Count = 0
    hash: Word = ""


class Adapters(WireMessage, frozen=True, tag=True):
    """All that a reply is written with. Empty lists: the file's own weights and nothing else."""

    loras: list[Lora] = msgspec.field(default_factory=list)
    vectors: list[ControlVector] = msgspec.field(default_factory=list)


class AdapterUsed(WireMessage, frozen=True, tag=True):
    """What one of them was: the whole file's `hash`, and for a vector the layers it acted on."""

    kind: Word
    path: Name
    hash: Word
    scale: Scale
    first: Count = 0
    last: Count = 0


class MakeVector(WireMessage, frozen=True, tag=True):
    """Find the direction that tells two groups of prompts apart, at the last token of each.

    mean: the difference of the two groups' means (Rimsky et al. 2312.06681). pca: the main
    direction of the differences of pairs (Zou et al.; as repeng and llama.cpp's cvector-generator
    do it), so there are as many examples in each group. -> VectorMade"""

    id: Amount
    positive: list[Prompt]
    negative: list[Prompt]
    method: VectorMethod = "mean"


class VectorMade(WireMessage, frozen=True, tag=True):
    """`directions` [n_layer - 1, n_embd]: of the layers 1 … n_layer - 1; layer 0 can have none.
    `separation`, of each: how many of the examples lie on their own group's side of the middle
    (1: all, 0.5: as by chance). `spread`, of each: which share of the examples' variance lies along
    the direction."""

    n_layer: Count
    n_embd: Count
    n_positive: Count
    n_negative: Count
    method: Word
    directions: Float32s
    separation: Annotated[list[Share], FEW]
    spread: Annotated[list[Share], FEW]
    notes: Annotated[list[Sentence], FEW] = msgspec.field(default_factory=list)

    def check(self) -> None:
        n_directions = max(self.n_layer - 1, 0)
        if self.directions.size != n_directions * self.n_embd:
            raise ProtocolError("the directions do not fit the layers")
        if not len(self.separation) == len(self.spread) == n_directions:
            raise ProtocolError("not each layer says how well it tells the groups apart")


def check_adapters(adapters: Adapters | None) -> None:
    """Raise BadSetting for what no file could be applied with."""
    if adapters is None:
        return
    for words, given in (("LoRA adapters", adapters.loras), ("control vectors", adapters.vectors)):
        if len(given) > MAX_ADAPTERS:
            raise BadSetting("adapters", f"At most {MAX_ADAPTERS} {words} can be used at once.")
    for lora in adapters.loras:
        _check("LoRA adapter", lora.path, lora.scale)
    for vector in adapters.vectors:
        _check("control vector", vector.path, vector.scale)
        if not (0 <= vector.first <= MAX_LAYER and 0 <= vector.last <= MAX_LAYER):
            raise BadSetting("adapters", "A control vector acts on the layers from 1 on.")
        if vector.last and vector.first > vector.last:
            raise BadSetting(
                "adapters",
                f"A control vector can't act on the layers {vector.first} to {vector.last}: the "
                "first must come first.",
            )


def _check(words: str, path: str, scale: float) -> None:
    if not path:
        raise BadSetting("adapters", f"A {words} has no path. Choose a GGUF file.")
    if not math.isfinite(scale) or abs(scale) > MAX_SCALE:
        raise BadSetting(
            "adapters",
            f"The scale of a {words} must be between -{MAX_SCALE:g} and {MAX_SCALE:g}, not "
            f"{scale:g}.",
        )


def check_groups(positive: Sequence[object], negative: Sequence[object], method: str) -> None:
    """Raise BadSetting where no direction can be told from these examples."""
    if not positive or not negative:
        raise BadSetting("examples", "Write at least one example in each group.")
    if max(len(positive), len(negative)) > MAX_EXAMPLES:
        raise BadSetting("examples", f"Each group can have at most {MAX_EXAMPLES} examples.")
    if method == "pca" and len(positive) != len(negative):
        raise BadSetting(
            "examples",
            "PCA compares the examples in pairs, so both groups need the same number (here "
            f"{len(positive)} and {len(negative)}).",
        )
    if method == "pca" and len(positive) < 2:
        raise BadSetting("examples", "PCA needs at least two pairs of examples.")
