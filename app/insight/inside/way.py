"""The way of one token through the layers: how long its vector is, and what each layer adds.

    stream after layer l = stream before + attention's write + feed-forward network's write
    share of a write     = ‖write‖ ÷ ‖stream after the layer‖

‖·‖ is the Euclidean norm. Shares don't add up to one: the writes point in different directions, and
may partly cancel what was there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Way:
    """All [n_layer]; NaN where a layer has no such node. `norms`: of the stream after each layer;
    `attention`, `ffn`: of what is written."""

    norms: Values
    attention: Values
    ffn: Values

    def __len__(self) -> int:
        return len(self.norms)

    @property
    def attention_shares(self) -> Values:
        return _shares(self.attention, self.norms)

    @property
    def ffn_shares(self) -> Values:
        return _shares(self.ffn, self.norms)


def way(residual: Values, attn_out: Values | None = None, ffn_out: Values | None = None) -> Way:
    """Of arrays [n_layer, n_embd]; what an architecture does not offer is None.

    >>> found = way(np.array([[3.0, 4.0]], np.float32), np.array([[0.0, 1.0]], np.float32))
    >>> found.norms.tolist(), found.attention_shares.tolist(), np.isnan(found.ffn_shares).tolist()
    ([5.0], [0.20000000298023224], [True])
    """
    none = np.full(len(residual), np.nan, np.float32)
    return Way(
        norms(residual),
        none if attn_out is None else norms(attn_out),
        none if ffn_out is None else norms(ffn_out),
    )


def norms(vectors: Values) -> Values:
    """[n, n_embd] → [n]: Euclidean, summed in double precision."""
    squares = np.square(vectors, dtype=np.float64).sum(axis=-1)
    return np.asarray(np.sqrt(squares), np.float32)


def _shares(writes: Values, streams: Values) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: Values = writes / streams
    return np.where(streams > 0, shares, np.nan).astype(np.float32)
