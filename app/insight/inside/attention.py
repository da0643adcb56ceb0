"""Attention of one token as a person looks at it: rows, heads, sinks, roles, spans of a text.

A row says how much of a head's look falls on each token; it sums to one. Much of it often falls on
the first token, which has nothing to say: the *sink* (Xiao et al. 2309.17453; Gu et al.
2410.10781). Without it the rest is divided by what is left, so that it can be seen, and how much
was taken away is always told. What must hold: nothing is scaled unsaid; a role has a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from app.engine.protocol.inside_messages import HEAD_SCORES

Values = np.ndarray[Any, np.dtype[np.float32]]

ROLE_FROM: Final = 0.3
"""A head has a role from this score on: the border that Gu et al. draw for sinks."""


def without_sink(rows: Values, sink: int = 0) -> tuple[Values, Values]:
    """`rows` [..., n_tok] with nothing on the token `sink` and the rest summing to one, and the
    mass that was taken away [...]. A head that looks nowhere else keeps a row of zeros.

    >>> rest, mass = without_sink(np.array([[0.75, 0.25, 0.0]], np.float32))
    >>> rest.tolist(), mass.tolist()
    ([[0.0, 1.0, 0.0]], [0.75])
    """
    mass = rows[..., sink].copy()
    rest = rows.copy()
    rest[..., sink] = 0.0
    total = rest.sum(axis=-1, keepdims=True)
    # Below this the rest is rounding, and dividing by it would draw noise in full colour.
    found = np.divide(rest, total, where=total > 1e-6, out=np.zeros_like(rest))
    return found, mass


def value_weighted(rows: Values, norms: Values) -> Values:
    """How much of what a head writes comes from each token: its attention times the size of what it
    brings from there, ‖a · v · W_O‖ (Kobayashi et al. 2004.10102), summing to one. Both [...,
    n_tok]. A sink that is looked at and brings nothing vanishes here.

    >>> value_weighted(np.array([0.9, 0.1], np.float32), np.array([0.0, 2.0], np.float32)).tolist()
    [0.0, 1.0]
    """
    sizes = rows * norms
    total = sizes.sum(axis=-1, keepdims=True)
    found: Values = np.divide(sizes, total, where=total > 0, out=np.zeros_like(sizes))
    return found


def entropy_bits(rows: Values) -> Values:
    """How spread a row is, in bits: 0 for one token, log₂ n for n tokens alike. [..., n_tok] →
    [...].

    >>> entropy_bits(np.array([0.5, 0.5, 0.0], np.float32)).item()
    1.0
    """
    logs = np.log2(rows, where=rows > 0, out=np.zeros_like(rows))
    found: Values = -(rows * logs).sum(axis=-1)
    return found


def strongest(row: Values, count: int) -> list[tuple[int, float]]:
    """The tokens that a row [n_tok] falls on most, and their shares; none of them is 0.

    >>> strongest(np.array([0.25, 0.75, 0.0], np.float32), 5)
    [(1, 0.75), (0, 0.25)]
    """
    order = np.argsort(-row, kind="stable")[:count]
    return [(int(at), float(row[at])) for at in order if row[at] > 0]


class HardLook(NamedTuple):
    """A head gives a token this part of its attention."""

    head: int
    token: int
    weight: float


def hardest_look(rows: Values) -> HardLook | None:
    """The head of a layer that looks hardest, and at which token. `rows` [n_head, n_tok].

    The first token is left out: heads that find nothing rest there, and it would win in nearly
    every layer. None: nothing else is seen, or the layer has no attention (NaN).

    >>> hardest_look(np.array([[0.75, 0.125, 0.125], [0.5, 0.0, 0.5]], np.float32))
    HardLook(head=1, token=2, weight=0.5)
    """
    seen = rows[:, 1:]
    if not seen.size or not seen.max() > 0:
        return None
    head, token = divmod(int(seen.argmax()), seen.shape[1])
    return HardLook(head, token + 1, float(seen[head, token]))


def by_span(rows: Values, spans: Sequence[tuple[int, int]]) -> Values:
    """How much falls on each stretch [start, end) of the text: [..., n_tok] → [..., n_spans]."""
    sums = np.concatenate([np.zeros((*rows.shape[:-1], 1), rows.dtype), rows.cumsum(-1)], axis=-1)
    starts, ends = (np.array([span[i] for span in spans], np.int64) for i in (0, 1))
    found: Values = sums[..., ends] - sums[..., starts]
    return found


def group_of(head: int, n_head: int, n_kv_head: int) -> int:
    """The KV head whose keys and values a query head reads (grouped queries, Ainslie et al.
    2305.13245): heads lie in groups, one after the other.

    >>> [group_of(head, 9, 3) for head in range(9)]
    [0, 0, 0, 1, 1, 1, 2, 2, 2]
    """
    return head // max(n_head // max(n_kv_head, 1), 1)


@dataclass(frozen=True, slots=True)
class HeadRole:
    """What a head was measured to do: a name of `HEAD_SCORES`, and its score."""

    name: str
    score: float


def role_of(scores: Values) -> HeadRole | None:
    """The role of a head by its `scores` [len(HEAD_SCORES)]; None where it has none for certain."""
    named = [
        (float(score), name)
        for score, name in zip(scores, HEAD_SCORES, strict=True)
        if name != "entropy" and score >= ROLE_FROM
    ]
    if not named:
        return None
    score, name = max(named)
    return HeadRole(name, score)
