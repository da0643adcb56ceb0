"""From the last vector to the next token: scores, probabilities, and what each layer would say.

    logit(t)       = W_U[t] · norm(stream)             raw, absolute, one for each token
    probability(t) = e^logit(t) ÷ Σ e^logit(u) = e^(logit(t) − total),   total = log Σ e^logit(u)

The lens asks the same of the stream after each layer, as if it were the last one: what is readable
there, which is not what the layer "thinks". The last row is the real vote.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Vote:
    """One token. `rank` counts from 1. `logprob`: natural logarithm of its probability at
    temperature 1."""

    token_id: int
    logit: float
    logprob: float
    rank: int

    @property
    def probability(self) -> float:
        return math.exp(min(self.logprob, 0.0))


@dataclass(frozen=True, slots=True)
class Votes:
    """The best, the highest first, then `also` where it is none of them. `total`: see above."""

    rows: tuple[Vote, ...]
    total: float

    def of(self, token_id: int | None) -> Vote | None:
        return next((vote for vote in self.rows if vote.token_id == token_id), None)


def votes(logits: Floats, n: int = 10, also: int | None = None) -> Votes:
    """Of all scores [n_vocab].

    >>> found = votes(np.log([1, 6, 3]), 2).rows
    >>> [(vote.token_id, vote.rank, round(vote.probability, 3)) for vote in found]
    [(1, 1, 0.6), (2, 2, 0.3)]
    """
    total = log_total(logits)
    best = best_of(logits, n)
    rows = [
        Vote(int(i), float(logits[i]), float(logits[i]) - total, rank)
        for rank, i in enumerate(best, 1)
    ]
    if also is not None and 0 <= also < len(logits) and also not in best:
        score = float(logits[also])
        rank = 1 + int(np.count_nonzero(logits > logits[also]))
        rows.append(Vote(also, score, score - total, rank))
    return Votes(tuple(rows), total)


def best_of(scores: Floats, n: int) -> list[int]:
    """Where the `n` highest are, the highest first; partly sorted, since there are many.

    >>> best_of(np.array([1.0, 6.0, 3.0], np.float32), 2)
    [1, 2]
    """
    n = min(n, len(scores))
    among = np.argpartition(-scores, n - 1)[:n]
    return [int(each) for each in among[np.argsort(-scores[among], kind="stable")]]


def log_total(logits: Floats) -> float:
    """log Σ e^logit, with the highest taken out first, so that nothing overflows."""
    highest = float(logits.max())
    return highest + math.log(float(np.exp(logits - highest, dtype=np.float64).sum()))


@dataclass(frozen=True, slots=True)
class Lens:
    """`ids`, `logits`: the best of each layer [n_layer, n_lens]. `total` [n_layer]. `ranks`
    [n_layer] of the token that came next, from 1; None where nothing came."""

    ids: Ints
    logits: Floats
    total: Floats
    ranks: Ints | None

    def __len__(self) -> int:
        return len(self.ids)

    def probability(self, layer: int, place: int = 0) -> float:
        return math.exp(min(float(self.logits[layer, place] - self.total[layer]), 0.0))

    @property
    def leads_from(self) -> int | None:
        """The layer from which on the token that came next is the best of every layer; None where
        it isn't even that of the last one."""
        if self.ranks is None or self.ranks[-1] != 1:
            return None
        others = np.flatnonzero(self.ranks != 1)
        return int(others[-1]) + 1 if len(others) else 0

    def difference(self, logits: Floats) -> float:
        """The most that the last row differs from the real scores [n_vocab]."""
        return float(np.abs(self.logits[-1] - logits[self.ids[-1]]).max())


def lens_of(arrays: Mapping[str, Any]) -> Lens | None:
    """From the arrays of an answer; None where they are not among them."""
    if "lens_ids" not in arrays:
        return None
    ranks = arrays.get("lens_target_ranks")
    has_target = ranks is not None and ranks.shape[1] > 0
    return Lens(
        arrays["lens_ids"],
        arrays["lens_logits"],
        arrays["lens_total"],
        ranks[:, 0] + 1 if has_target and ranks is not None else None,
    )
