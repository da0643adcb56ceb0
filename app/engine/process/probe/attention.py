"""Rows of attention, from what llama.cpp computes them of.

With flash attention on, no row of attention is ever stored; but queries, keys and mask lie there as
sources of its node, and from them the row of one token is quickly computed again:

    scores = scale · q·k        (bent by a soft cap where the file has one: c · tanh(scores / c))
    row    = softmax(scores + slope · mask), over the cells; a sink takes part and is left out

as `ggml_compute_forward_flash_attn_ext` does it (ggml-cpu/ops.cpp). Query heads share keys in
groups: head h looks at the keys of KV head h // (n_head / n_kv_head).
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from app.engine.process.probe.tensors import Tensor, Values, op_of, read

Row = np.ndarray[Any, np.dtype[np.float32]]


def rows_of_flash_attention(node: Tensor) -> Row:
    """[n_head, n_cells] of the first token of a FLASH_ATTN_EXT node, that has just been computed.
    A cell that may not be seen has 0."""
    rows: Row = rows_of_flash_attention_of(node, 1)[0]
    return rows


def rows_of_flash_attention_of(node: Tensor, n_tokens: int | None = None) -> Row:
    """The same of the first `n_tokens` (all: None), [n_tok, n_head, n_cells]."""
    query = read(node.src[0].contents)[0].transpose(1, 0, 2)[:n_tokens]
    keys = read(node.src[1].contents)[0]
    n_cells = keys.shape[1]
    masks = np.zeros((len(query), n_cells), np.float32)
    if node.src[3]:
        masks = read(node.src[3].contents)[0, 0, : len(query), :n_cells]
    sinks = read(node.src[4].contents).reshape(-1) if node.src[4] else None
    parameters = (ctypes.c_float * 3).from_buffer_copy(bytes(node.op_params)[:12])
    scale, max_bias, softcap = (float(p) for p in parameters)
    slopes = _slopes(query.shape[1], max_bias)
    return np.stack(
        [
            softmax_rows(q, keys, mask, scale=scale, softcap=softcap, slopes=slopes, sinks=sinks)
            for q, mask in zip(query, masks, strict=True)
        ]
    )


def softmax_rows(
    query: Values,
    keys: Values,
    mask: Values,
    *,
    scale: float,
    softcap: float = 0.0,
    slopes: Values | None = None,
    sinks: Values | None = None,
) -> Row:
    """`query` [n_head, d], `keys` [n_kv_head, n_cells, d], `mask` [n_cells] (0 or -inf, or a bias).

    >>> softmax_rows(np.ones((1, 2)), np.ones((1, 3, 2)), np.array([0, 0, -np.inf]), scale=1.0)
    array([[0.5, 0.5, 0. ]], dtype=float32)
    """
    n_head, n_kv_head = len(query), len(keys)
    grouped = query.reshape(n_kv_head, n_head // n_kv_head, -1)
    scores = np.matmul(grouped, keys.transpose(0, 2, 1)).reshape(n_head, -1) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = scores + (mask if slopes is None else slopes[:, None] * mask)
    highest = scores.max(axis=1, keepdims=True)
    if sinks is not None:
        highest = np.maximum(highest, sinks[:, None])
    weights = np.exp(scores - highest)
    total = weights.sum(axis=1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[:, None] - highest)
    rows: Row = (weights / total).astype(np.float32)
    return rows


def rows_of_softmax(node: Tensor) -> Row:
    """[n_head, n_cells] of the first token of a `kq_soft_max` node."""
    rows: Row = rows_of_softmax_of(node)[0]
    return rows


def rows_of_softmax_of(node: Tensor) -> Row:
    """The same of all tokens, [n_tok, n_head, n_cells]."""
    rows: Row = read(node)[0].transpose(1, 0, 2)
    return rows


def values_in_cells(node: Tensor) -> Values:
    """The values that attention weighs, [n_kv_head, n_cells, d], from the sources of a
    FLASH_ATTN_EXT node, or of the product of values and rows (where they lie transposed). 0 in
    cells that the first token can't see: what lies there depends on where the text came from."""
    if op_of(node) == "FLASH_ATTN_EXT":
        values: Values = read(node.src[2].contents)[0]
        mask = node.src[3]
    else:
        values = read(node.src[0].contents)[0].transpose(0, 2, 1)
        mask = node.src[1].contents.src[1]
    if mask:
        is_seen = np.isfinite(read(mask.contents)[0, 0, 0, : values.shape[1]])
        values = np.where(is_seen[:, None], values, np.float32(0))
    return values


def value_norms(values: Values, mixing: Values, n_head: int) -> Values:
    """How large what a head brings from each cell is once it is mixed: ‖v · W_O‖, [n_head, n_cells]
    (Kobayashi et al. 2004.10102). `values` [n_kv_head, n_cells, d]; `mixing` is W_O, [n_embd,
    n_head · d], of which each head has a slice.

    ‖v W‖² = v (W Wᵀ) vᵀ: the small matrix W Wᵀ [d, d] is made once per head, or a long text would
    be multiplied into n_embd numbers for each cell.
    """
    group = n_head // len(values)
    d = values.shape[2]
    norms = np.empty((n_head, values.shape[1]), np.float32)
    for head in range(n_head):
        of_head = mixing[:, head * d : (head + 1) * d]
        product = of_head.T @ of_head
        v = values[head // group]
        norms[head] = np.sqrt(np.maximum((v @ product * v).sum(axis=1), 0))
    return norms


def _slopes(n_head: int, max_bias: float) -> Values | None:
    """How strongly each head's scores fall with distance (ALiBi); None without."""
    if max_bias <= 0:
        return None
    power = 1 << math.floor(math.log2(n_head))
    first, second = 2.0 ** (-max_bias / power), 2.0 ** (-max_bias / 2 / power)
    return np.array(
        [first ** (h + 1) if h < power else second ** (2 * (h - power) + 1) for h in range(n_head)],
        np.float32,
    )
