"""Tiny GGUF files of architectures that keep a state instead of cells: Mamba, and Jamba, which
mixes such layers with attention. Random weights, seeded."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gguf_writer import (
    CHATML,
    Layout,
    Tensor,
    Vocabulary,
    bpe_vocabulary,
    normal_numbers,
    write_gguf,
)

_EMBD: Final = 64
_INNER: Final = 2 * _EMBD
_STATE: Final = 8
_CONV: Final = 4
_RANK: Final = 4
_FF: Final = 64
_HEADS: Final = 4


def tiny_mamba(
    path: Path, *, vocabulary: Vocabulary | None = None, n_layer: int = 2, seed: int = 0
) -> Layout:
    """A recurrent file: no attention at all."""
    return _write(path, "mamba", vocabulary or bpe_vocabulary(), [0] * n_layer, seed)


def tiny_jamba(path: Path, *, vocabulary: Vocabulary | None = None, seed: int = 0) -> Layout:
    """A hybrid file: a layer with a state, one with attention, one with a state."""
    return _write(path, "jamba", vocabulary or bpe_vocabulary(), [0, 2, 0], seed)


def _write(
    path: Path, architecture: str, vocabulary: Vocabulary, kv_heads: Sequence[int], seed: int
) -> Layout:
    source = random.Random(seed)
    tensors = {
        "token_embd.weight": _matrix(source, _EMBD, len(vocabulary)),
        "output_norm.weight": _ones(_EMBD),
        "output.weight": _matrix(source, _EMBD, len(vocabulary)),
    }
    for layer, heads in enumerate(kv_heads):
        parts = _attention(source, heads) if heads else _state_space(source, architecture)
        if architecture == "jamba":
            parts |= _feed_forward(source)
        tensors |= {f"blk.{layer}.{name}": tensor for name, tensor in parts.items()}
    hybrid = {
        f"{architecture}.attention.head_count": _HEADS,
        f"{architecture}.attention.head_count_kv": list(kv_heads),
    }
    return write_gguf(
        path,
        architecture=architecture,
        vocabulary=vocabulary,
        template=CHATML,
        tensors=tensors,
        metadata={
            "general.name": f"Tiny {architecture}",
            "general.file_type": 0,
            f"{architecture}.context_length": 512,
            f"{architecture}.embedding_length": _EMBD,
            f"{architecture}.feed_forward_length": _FF if architecture == "jamba" else 0,
            f"{architecture}.block_count": len(kv_heads),
            f"{architecture}.attention.head_count": 0,
            f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
            f"{architecture}.ssm.conv_kernel": _CONV,
            f"{architecture}.ssm.inner_size": _INNER,
            f"{architecture}.ssm.state_size": _STATE,
            f"{architecture}.ssm.time_step_rank": _RANK,
            f"{architecture}.vocab_size": len(vocabulary),
        }
        | (hybrid if architecture == "jamba" else {}),
    )


def _state_space(source: random.Random, architecture: str) -> dict[str, Tensor]:
    parts = {
        "attn_norm.weight": _ones(_EMBD),
        "ssm_in.weight": _matrix(source, _EMBD, 2 * _INNER),
        "ssm_conv1d.weight": _matrix(source, _CONV, _INNER),
        "ssm_conv1d.bias": _vector(source, _INNER),
        "ssm_x.weight": _matrix(source, _INNER, _RANK + 2 * _STATE),
        "ssm_dt.weight": _matrix(source, _RANK, _INNER),
        "ssm_dt.bias": _vector(source, _INNER),
        # Negative, so that the state fades.
        "ssm_a": Tensor((_STATE, _INNER), [-1.0 - source.random() for _ in range(_STATE * _INNER)]),
        "ssm_d": _ones(_INNER),
        "ssm_out.weight": _matrix(source, _INNER, _EMBD),
    }
    if architecture == "jamba":
        parts |= {
            "ssm_dt_norm.weight": _ones(_RANK),
            "ssm_b_norm.weight": _ones(_STATE),
            "ssm_c_norm.weight": _ones(_STATE),
        }
    return parts


def _attention(source: random.Random, kv_heads: int) -> dict[str, Tensor]:
    width = _EMBD // _HEADS * kv_heads
    return {
        "attn_norm.weight": _ones(_EMBD),
        "attn_q.weight": _matrix(source, _EMBD, _EMBD),
        "attn_k.weight": _matrix(source, _EMBD, width),
        "attn_v.weight": _matrix(source, _EMBD, width),
        "attn_output.weight": _matrix(source, _EMBD, _EMBD),
    }


def _feed_forward(source: random.Random) -> dict[str, Tensor]:
    return {
        "ffn_norm.weight": _ones(_EMBD),
        "ffn_gate.weight": _matrix(source, _EMBD, _FF),
        "ffn_up.weight": _matrix(source, _EMBD, _FF),
        "ffn_down.weight": _matrix(source, _FF, _EMBD),
    }


def _ones(size: int) -> Tensor:
    return Tensor((size,), [1.0] * size)


def _vector(source: random.Random, size: int) -> Tensor:
    return Tensor((size,), normal_numbers(source, size, 0.2))


def _matrix(source: random.Random, *shape: int) -> Tensor:
    return Tensor(shape, normal_numbers(source, shape[0] * shape[1], 0.2))
