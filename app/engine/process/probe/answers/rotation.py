"""How each layer rotates its queries and keys, as the graph that runs says it.

A header may be silent (Gemma 3 has another base in its window layers, which stands in llama.cpp
alone), and settings of a load may change what it says; a ROPE node's parameters are what counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from app.engine.process.native.arrays import as_array
from app.engine.process.probe.file_tensors import FileTensors
from app.engine.process.probe.graph import NO_ROTATION, GraphMap
from app.engine.protocol.embedding_messages import Rotation, Rotations
from app.engine.protocol.frames import Array

_INTERLEAVED: Final = 0
"""GGML_ROPE_TYPE_NORMAL: dimensions 2k and 2k + 1 are a pair. In all other modes k and
k + n_dims / 2 are (NEOX); those with sections (M-RoPE) give each section a position of its own,
which for text is the same."""
_FLOATS: Final = slice(5, 11)


def told_rotations(
    graph: GraphMap, file: Callable[[], FileTensors], window_layers: Sequence[int]
) -> Rotations:
    """Those of all layers, alike ones together. Raises Refusal where the file, which has the
    factors, can no longer be read."""
    alike: dict[tuple[tuple[int, ...], str, bool], list[int]] = {}
    for number, layer in enumerate(graph.layers):
        if layer.rotation:
            key = (layer.rotation, layer.rotation_factors, number in window_layers)
            alike.setdefault(key, []).append(number)
    return Rotations(
        [
            _rotation(layers, params, _factors(name, params[1], file), is_window)
            for (params, name, is_window), layers in alike.items()
        ],
        n_layer=len(graph.layers),
        sentence="" if alike else graph.missing.get("q_after", NO_ROTATION),
    )


def _factors(name: str, n_dims: int, file: Callable[[], FileTensors]) -> Array:
    """One for each pair; none where the rotation has none."""
    return as_array(file().vector(name)[: n_dims // 2] if name else np.zeros(0, np.float32))


def _rotation(
    layers: list[int], params: tuple[int, ...], factors: Array, is_window: bool
) -> Rotation:
    """`params` as `ggml_rope_impl` fills them: integers, and floats in the places of integers."""
    n_dims, mode, _, n_ctx_orig = params[1:5]
    floats: Any = struct.unpack("<6f", struct.pack("<6i", *params[_FLOATS]))
    freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow = floats
    return Rotation(
        layers=layers,
        order="interleaved" if mode == _INTERLEAVED else "halves",
        n_dims=n_dims,
        first_dim=params[15],
        freq_base=freq_base,
        freq_scale=freq_scale,
        ext_factor=ext_factor,
        attn_factor=attn_factor,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        n_ctx_orig=n_ctx_orig,
        factors=factors,
        is_window=is_window,
    )
