"""The embedding of the made-up network, and its rotation: asked about as that of real weights.

The whole matrix is here, so its answers are one product each.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from app.engine.protocol.embedding_messages import (
    PERCENTILES,
    DescribeEmbedding,
    EmbeddingCommand,
    EmbeddingFacts,
    EmbeddingResult,
    EmbeddingRows,
    NearestTokens,
    ReadEmbedding,
    Rotation,
    Rotations,
)
from app.engine.protocol.frames import Array
from app.refusal import Refusal

OUTSIDE: Final = "Choose tokens with IDs from 0 to {last:,}."


def answer_of(rows: npt.NDArray[np.float32], command: EmbeddingCommand) -> EmbeddingResult:
    """`rows` [n_vocab, n_embd]. Raises Refusal."""
    n_vocab, n_embd = rows.shape
    norms = np.linalg.norm(rows, axis=1)
    mean = rows.mean(axis=0)
    if isinstance(command, DescribeEmbedding):
        units = rows / norms[:, None]
        total = units.sum(axis=0)
        cosine = float((total @ total - n_vocab) / max(n_vocab * (n_vocab - 1), 1))
        spread = _floats(np.percentile(norms, PERCENTILES))
        return EmbeddingFacts(n_vocab, n_embd, "F32", _floats(mean), spread, cosine)
    if isinstance(command, ReadEmbedding):
        ids = command.token_ids
    else:
        ids = [term.token_id for term in command.terms]
    if not ids or not 0 <= min(ids) <= max(ids) < n_vocab:
        raise Refusal("bad_setting", OUTSIDE.format(last=n_vocab - 1))
    if isinstance(command, ReadEmbedding):
        return EmbeddingRows(n_embd, _floats(rows[ids].reshape(-1)), _floats(norms[ids]))
    centred = rows - mean
    wanted = np.array([term.factor for term in command.terms]) @ centred[ids]
    lengths = np.linalg.norm(centred, axis=1) * np.linalg.norm(wanted)
    scores = centred @ wanted / np.maximum(lengths, 1e-12)
    order = np.argsort(-scores, kind="stable")
    ranks = [int(np.flatnonzero(order == each)[0]) for each in ids]
    best = order[: command.n]
    return NearestTokens(
        Array.of("i4", best.tolist()),
        _floats(scores[best]),
        Array.of("i4", ranks),
        _floats(scores[ids]),
        n_vocab,
    )


def rotations(n_layer: int, d_head: int, base: float) -> Rotations:
    """All layers alike, without scaling."""
    layers = list(range(n_layer))
    turn = Rotation(layers, "halves", d_head, 0, base, *(1.0, 0.0, 1.0, 32.0, 1.0), 0, _floats([]))
    return Rotations([turn], n_layer)


def _floats(values: npt.ArrayLike) -> Array:
    return Array.of("f4", np.asarray(values, np.float32).tolist())
