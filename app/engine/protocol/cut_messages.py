"""What may be cut out of the network while it computes, as both sides speak of it.

A cut replaces what a part wrote: by its mean over the positions of the prompt, so that the rest
still meets a usual input, or by zero. Parts are numbered from 0, as the file numbers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from app.engine.protocol.bounds import BadSetting
from app.engine.protocol.frames import Count, WireMessage

CutKind = Literal["head", "kv_head", "attention", "ffn", "layer"]
CutMode = Literal["mean", "zero"]

MAX_CUTS: Final = 4096
_MANY: Final = 1 << 16


class Cut(WireMessage, frozen=True, tag=True):
    """A query head, all query heads that share a KV head, what attention or the feed-forward
    network of a layer writes, or both. `index`: of the head; 0 for a block."""

    kind: CutKind
    layer: Count
    index: Count = 0


def check_cuts(
    cuts: Sequence[Cut], n_layer: int = _MANY, n_head: int = 0, n_kv_head: int = 0
) -> None:
    """Raise BadSetting for a part that the loaded weights don't have. Numbers of heads are those of
    most layers, 0 where the first layer has none: each layer's own are known by its graph."""
    if len(cuts) > MAX_CUTS:
        raise BadSetting("cuts", f"Cut at most {MAX_CUTS:,} parts at once.")
    for cut in cuts:
        if not 0 <= cut.layer < n_layer:
            raise BadSetting("cuts", f"This model has the layers 0 to {n_layer - 1}.")
        most = {"head": n_head or _MANY, "kv_head": n_kv_head or _MANY}.get(cut.kind)
        if most is None and cut.index:
            raise BadSetting("cuts", "Attention and FFN can only be cut as a whole.")
        if most is not None and not 0 <= cut.index < most:
            kind = "KV heads" if cut.kind == "kv_head" else "heads"
            raise BadSetting("cuts", f"A layer of this model has the {kind} 0 to {most - 1}.")
