"""Two words of a text exchanged: what the order of words changes.

The same tokens stand in the text, and as many before the last one; only two of them have changed
places. A network that could not tell order would vote the same. What is compared is what it makes
of the last token in both texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.insight.inside.votes import best_of, log_total
from app.insight.inside.word_spans import Span

Values = np.ndarray[Any, Any]


def exchanged(ids: Sequence[int], one: Span, other: Span) -> list[int]:
    """The text with the tokens of two places exchanged. They need not be equally many; what stands
    between moves along. Raises ValueError for places that are empty, overlap, or hold the last
    token, which is the one that is looked at.

    >>> exchanged([1, 2, 3, 4, 5, 6], (0, 1), (3, 5))
    [4, 5, 2, 3, 1, 6]
    """
    (a, b), (c, d) = sorted((one, other))
    if not 0 <= a < b <= c < d < len(ids):
        raise ValueError("choose two places before the last token")
    return [*ids[:a], *ids[c:d], *ids[b:c], *ids[a:b], *ids[d:]]


@dataclass(frozen=True, slots=True)
class Exchanged:
    """`token_ids`: the best of both, those of the text as it was first; their probabilities
    `before` and `after`, at temperature 1. `bits`: how far the votes are apart (KL divergence).
    `turned` [n_layer]: by how much the stream after each layer points elsewhere, 1 − cosine; empty
    where that is not known."""

    token_ids: Values
    before: Values
    after: Values
    bits: float
    turned: Values


def compare(
    before: Values, after: Values, streams: tuple[Values, Values] | None = None, n: int = 8
) -> Exchanged:
    """`before`, `after`: logits [n_vocab]. `streams`: `residual` of both, [n_layer, n_embd].

    KL = Σ pᵢ log₂ (pᵢ ÷ qᵢ)        p before, q after
    """
    log_p, log_q = (scores.astype(np.float64) - log_total(scores) for scores in (before, after))
    p = np.exp(log_p)
    there = p > 0
    bits = float((p[there] * (log_p[there] - log_q[there])).sum() / np.log(2.0))
    best = [*best_of(before, n), *best_of(after, n)]
    ids = np.array(list(dict.fromkeys(best)), np.int32)
    turned = np.zeros(0) if streams is None else 1.0 - _cosines(*streams)
    return Exchanged(ids, p[ids], np.exp(log_q[ids]), max(bits, 0.0), turned)


def _cosines(one: Values, other: Values) -> Values:
    """Of each row with the same row of the other, [n]; NaN where a layer has none."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products = np.einsum("ij,ij->i", a, b)
    found: Values = np.divide(products, lengths, out=np.full(len(a), np.nan), where=lengths > 0)
    return found
