"""Who wrote a token, as a list: what each head, network and the embedding added to its score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.inside_messages import TokenAttributed
from app.insight.inside.arrays import floats_of
from app.insight.inside.cuts import cut_words

MOST_ROWS: Final = 12
"""So many contributions are shown one by one."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """`value` logits, from a part of the network. `cut`: what takes just this part out."""

    words: str
    value: float
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What made the score of `target` `difference` higher than that of `other`; all contributions
    and `unexplained` add up to it. The largest come first. `shown_difference`: after a scale or a
    soft cap at the end."""

    target: int
    other: int
    difference: float
    shown_difference: float
    contributions: tuple[Contribution, ...]
    unexplained: float
    n_layer: int
    n_head: int
    notes: tuple[str, ...]
    missing: Mapping[str, str]


def written_of(told: TokenAttributed) -> Written:
    """Of a layer whose heads are known these are listed, and whatever else its attention wrote; of
    another one its attention as a whole."""
    arrays = floats_of(told.floats)
    n_layer = len(arrays.get("attn", ()))
    nothing = np.full(n_layer, np.nan, np.float32)
    heads = arrays.get("heads", np.empty((n_layer, 0), np.float32))
    found = [Contribution("embedding", told.embedding)]
    found += [
        Contribution("norm’s bias", told.norm_bias),
        Contribution("output’s bias", told.output_bias),
    ]
    for layer in range(n_layer):
        known = [head for head in range(heads.shape[1]) if not math.isnan(heads[layer, head])]
        found += [_of(Cut("head", layer, head), heads[layer, head]) for head in known]
        if known:
            bias, rest = (arrays.get(n, nothing)[layer] for n in ("attn_bias", "between_heads"))
            found.append(Contribution(f"attention’s bias, layer {layer}", _number(bias)))
            found.append(Contribution(f"rest of attention, layer {layer}", _number(rest)))
        else:
            found.append(_of(Cut("attention", layer), arrays["attn"][layer]))
        found.append(_of(Cut("ffn", layer), arrays.get("ffn", nothing)[layer]))
        other = arrays.get("others", nothing)[layer]
        found.append(Contribution(f"other block, layer {layer}", _number(other)))
    ranked = sorted((each for each in found if each.value), key=lambda each: -abs(each.value))
    return Written(
        told.target,
        told.other,
        told.difference,
        told.shown_difference,
        tuple(ranked),
        told.unexplained,
        n_layer,
        heads.shape[1],
        tuple(told.notes),
        {each.name: each.sentence for each in told.missing},
    )


def _of(cut: Cut, value: float) -> Contribution:
    return Contribution(cut_words(cut), _number(value), cut)


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else float(value)
