"""A tiny GGUF file with a sliding window: Gemma 3's architecture, random weights, seeded."""

from __future__ import annotations

import random
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
_FF: Final = 64
_N_LAYER: Final = 6
"""Every sixth layer sees everything, the others a window."""


def tiny_gemma(
    path: Path,
    *,
    vocabulary: Vocabulary | None = None,
    window: int = 512,
    d_head: int = 16,
    seed: int = 0,
) -> Layout:
    vocabulary = vocabulary or bpe_vocabulary()
    source = random.Random(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (_EMBD, len(vocabulary)),
        "output_norm.weight": (_EMBD,),
    }
    for layer in range(_N_LAYER):
        parts = {
            "attn_norm": (_EMBD,),
            "attn_q": (_EMBD, 4 * d_head),
            "attn_k": (_EMBD, d_head),
            "attn_v": (_EMBD, d_head),
            "attn_q_norm": (d_head,),
            "attn_k_norm": (d_head,),
            "attn_output": (4 * d_head, _EMBD),
            "post_attention_norm": (_EMBD,),
            "ffn_norm": (_EMBD,),
            "ffn_gate": (_EMBD, _FF),
            "ffn_up": (_EMBD, _FF),
            "ffn_down": (_FF, _EMBD),
            "post_ffw_norm": (_EMBD,),
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return write_gguf(
        path,
        architecture="gemma3",
        vocabulary=vocabulary,
        template=CHATML,
        tensors={name: _tensor(source, shape) for name, shape in shapes.items()},
        metadata={
            "general.name": "Tiny Gemma",
            "general.file_type": 0,
            "gemma3.context_length": 1024,
            "gemma3.embedding_length": _EMBD,
            "gemma3.block_count": _N_LAYER,
            "gemma3.feed_forward_length": _FF,
            "gemma3.attention.head_count": 4,
            "gemma3.attention.head_count_kv": 1,
            "gemma3.attention.key_length": d_head,
            "gemma3.attention.value_length": d_head,
            "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
            "gemma3.attention.sliding_window": window,
            "gemma3.rope.freq_base": 1000000.0,
            "gemma3.vocab_size": len(vocabulary),
        },
    )


def _tensor(source: random.Random, shape: tuple[int, ...]) -> Tensor:
    if len(shape) == 1:
        return Tensor(shape, [1.0] * shape[0])
    return Tensor(shape, normal_numbers(source, shape[0] * shape[1], 0.2))
