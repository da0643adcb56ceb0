"""Cuts beside their control, and how they are called.

A reply changes whatever is cut, a little. So a cut is held against another one of the same kind
that was chosen by chance: what only the first one does is about that part.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from app.engine.protocol.cut_messages import Cut, CutMode


def control_of(
    cuts: Sequence[Cut], *, n_layer: int, n_head: int, n_kv_head: int, seed: int
) -> list[Cut]:
    """As many parts of the same kind that are not cut: of a head another one of its layer, of a
    block the same one of another layer; the same for each run with this seed. Empty where there
    are not enough others.

    >>> control_of([Cut("head", 3, 1)], n_layer=9, n_head=2, n_kv_head=1, seed=7)
    [Cut(kind='head', layer=3, index=0)]
    """
    source = random.Random(seed)
    taken = {(cut.kind, cut.layer, cut.index) for cut in cuts}
    found = []
    for cut in cuts:
        if cut.kind in ("head", "kv_head"):
            count = n_head if cut.kind == "head" else n_kv_head
            others = [Cut(cut.kind, cut.layer, index) for index in range(count)]
        else:
            others = [Cut(cut.kind, layer) for layer in range(n_layer)]
        free = [other for other in others if (other.kind, other.layer, other.index) not in taken]
        if not free:
            return []
        found.append(source.choice(free))
        taken.add((found[-1].kind, found[-1].layer, found[-1].index))
    return found


def cut_words(cut: Cut) -> str:
    """
    >>> cut_words(Cut("kv_head", 3, 1)), cut_words(Cut("ffn", 3))
    ('KV head 1 of layer 3', 'FFN of layer 3')
    """
    place = f"layer {cut.layer}"
    if cut.kind == "layer":
        return place
    if cut.kind in ("head", "kv_head"):
        return f"{'KV head' if cut.kind == 'kv_head' else 'head'} {cut.index} of {place}"
    return f"{'FFN' if cut.kind == 'ffn' else 'attention'} of {place}"


def label_of(cuts: Sequence[Cut], mode: CutMode) -> str:
    """What stands at a reply. Many parts are counted.

    >>> label_of([Cut("head", 3, 1), Cut("ffn", 3)], "zero")
    'without head 1 of layer 3, FFN of layer 3 (zero)'
    """
    named = [cut_words(cut) for cut in cuts]
    words = (
        ", ".join(named) if len(named) <= 3 else f"{', '.join(named[:2])} and {len(named) - 2} more"
    )
    return f"without {words} ({mode})"
