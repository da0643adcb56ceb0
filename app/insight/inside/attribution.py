"""Who wrote it: what each block and head added to one score against another one.

The score of a token t is a product: logit_t = W_U[t] · n, where n is the stream after the last
norm. And the stream is a sum: the embedding and whatever each layer wrote to it. So the difference
of two scores falls apart into what each of them added, once the norm is taken as the number that
it was for this token (it is *frozen*; really each write changes it a little):

    x = embedding + Σ writes                     the last stream                      [n_embd]
    n = g ⊙ x / rms(x)                           RMSNorm; LayerNorm takes off mean(x) first
    logit_t − logit_o = (W_U[t] − W_U[o]) · n    against another token o
                      = Σ write · direction      over all writes
    direction = (W_U[t] − W_U[o]) ⊙ g / rms(x)

A head's share of what attention wrote is its slice of W_O: mix = Σ_h W_O[:, h] · heads[h], so its
contribution is heads[h] · W_O[:, h]ᵀ · direction. ("Direct logit attribution", as in Wang et al.,
2211.00593. It sees direct paths only: what a head writes for a later head to read counts as that
one's.)

What is left between the sum and the real difference is *unexplained*: llama.cpp rounds the inputs
of a quantised product, and the sums here do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Attribution:
    """Contributions to `difference` = score of `target` − score of `other`, in logits.

    `attn`, `ffn`, `others` (of blocks that are neither) [n_layer]; `heads` [n_layer, n_head], NaN
    where a layer has none or they cannot be told apart; `attn_bias` [n_layer]: of attention's own
    bias. `norm_bias`, `output_bias`: of the last norm's and the output's. `shown_difference`: after
    what is done to scores at last (a scale, a soft cap), which no sum can hold.
    """

    target: int
    other: int
    difference: float
    shown_difference: float
    embedding: float
    attn: Values
    ffn: Values
    others: Values
    heads: Values
    attn_bias: Values
    norm_bias: float = 0.0
    output_bias: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def explained(self) -> float:
        """The sum of all that wrote directly."""
        blocks = float(self.attn.sum() + self.ffn.sum() + self.others.sum())
        return self.embedding + blocks + self.norm_bias + self.output_bias

    @property
    def unexplained(self) -> float:
        return self.difference - self.explained

    @property
    def between_heads(self) -> Values:
        """[n_layer]: what attention wrote and neither a head nor the bias accounts for; NaN where
        heads are unknown."""
        rest: Values = self.attn - self.heads_sum - self.attn_bias
        return rest

    @property
    def heads_sum(self) -> Values:
        """[n_layer]; NaN where heads are unknown."""
        known = ~np.isnan(self.heads)
        total = np.where(known, self.heads, 0.0).sum(axis=1)
        return np.where(known.any(axis=1), total, np.nan)


@dataclass(frozen=True, slots=True)
class FrozenNorm:
    """The last norm as it was for one token: n = scale · (x − mean(x), or x) ⊙ gain + bias."""

    scale: float
    gain: Values
    bias: Values
    is_centred: bool

    def direction(self, row_difference: Values) -> Values:
        """[n_embd], float64: what a write is multiplied with. The mean that a LayerNorm takes off
        the write is taken off here instead, which comes to the same: (w − w̄) · d = w · (d − d̄).

        >>> norm = FrozenNorm(2.0, np.ones(2), np.zeros(2), is_centred=True)
        >>> norm.direction(np.array([3.0, 1.0]))
        array([ 2., -2.])
        """
        along = row_difference.astype(np.float64) * self.gain * self.scale
        return along - along.mean() if self.is_centred else along


def frozen_norm(x: Values, normed: Values, gain: Values, bias: Values, centred: bool) -> FrozenNorm:
    """From the norm's input and output, both measured, so that no epsilon has to be known: the
    scale is the one that fits best."""
    x = x.astype(np.float64)
    if centred:
        x = x - x.mean()
    return FrozenNorm(fitted_scale(x, normed), gain, bias, centred)


def fitted_scale(one: Values, other: Values) -> float:
    """s for which s · `one` is nearest to `other`.

    >>> fitted_scale(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    2.0
    """
    one = one.astype(np.float64)
    length = float(one @ one)
    return float(one @ other) / length if length else 0.0


def misfit(one: Values, other: Values) -> float:
    """How far two vectors are apart, as a share of the second one's length."""
    length = float(np.linalg.norm(other))
    apart = float(np.linalg.norm(one.astype(np.float64) - other))
    return apart / length if length else apart


def by_head(heads: Values, seen_by_heads: Values, n_head: int) -> Values:
    """[n_head] contributions. `heads` [n_head · d_head]: what they found; `seen_by_heads`, of the
    same shape: W_Oᵀ · direction.

    >>> by_head(np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4), 2)
    array([3., 7.])
    """
    shares: Values = (heads * seen_by_heads).reshape(n_head, -1).sum(axis=1)
    return shares
