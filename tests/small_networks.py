"""Tiny GGUF files in float32, each with one thing that networks differ in: for whoever compares
what llama.cpp computes with a reference, number by number. Random weights, seeded, norms included,
so that nothing that is forgotten looks right.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gguf_writer import Tensor, bpe_vocabulary, normal_numbers, write_gguf

_EMBD: Final = 64
_HEADS: Final = 4
_FF: Final = 96
_D_HEAD: Final = 24
"""Of the Gemmas, whose heads together are wider than the stream."""

WINDOW: Final = 8
"""Tokens that a layer with a window sees."""

ATTENTION_CAP: Final = 4.0
SCORE_CAP: Final = 3.0
"""So low that they bend what these networks compute."""

_WIDE: Final = 4.0
"""Spread of a Gemma's gates: what GELU's table rounds to float16 (|x| < 10) is then small beside
what passes it by, so that float32 is what these files are computed in."""

NETWORKS: Final = ("grouped", "experts", "window", "capped")

_WRITTEN: Final[dict[tuple[str, int], bytes]] = {}
"""What was written once: its random numbers take a tenth of a second."""


def small_network(path: Path, kind: str, seed: int = 0) -> None:
    """Write one of `NETWORKS`. grouped: a llama whose four query heads share two of keys and
    values. experts: a llama that uses two of five. window: a Gemma 3 of seven layers, of which the
    sixth sees everything. capped: a Gemma 2 with both soft caps."""
    writer = {"grouped": _llama, "experts": _llama, "window": _gemma3, "capped": _gemma2}[kind]
    if (kind, seed) not in _WRITTEN:
        writer(path, random.Random(seed), 5 if kind == "experts" else 0)
        _WRITTEN[kind, seed] = path.read_bytes()
    path.write_bytes(_WRITTEN[kind, seed])


def _llama(path: Path, source: random.Random, n_expert: int) -> None:
    n_layer, d_head = 3, _EMBD // _HEADS
    more = {"rope.dimension_count": d_head, "rope.freq_base": 500.0}
    if n_expert:
        more |= {"expert_count": n_expert, "expert_used_count": 2}
    tensors = _ends(source, is_tied=False)
    for layer in range(n_layer):
        parts = _attention(source, d_head, 2) | _feed_forward(source, n_expert)
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
    _write(path, "llama", n_layer, 2, tensors, more)


def _gemma3(path: Path, source: random.Random, _: int) -> None:
    n_layer = 7
    tensors = _ends(source, is_tied=True)
    for layer in range(n_layer):
        parts = _gemma_layer(source)
        parts |= {f"attn_{part}_norm": _norm(source, _D_HEAD) for part in "qk"}
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
    more = {
        **{f"attention.{part}_length": _D_HEAD for part in ("key", "value")},
        "attention.sliding_window": WINDOW,
        "rope.freq_base": 1_000_000.0,
    }
    _write(path, "gemma3", n_layer, 1, tensors, more)


def _gemma2(path: Path, source: random.Random, _: int) -> None:
    n_layer = 4
    tensors = _ends(source, is_tied=True)
    for layer in range(n_layer):
        parts = _gemma_layer(source)
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
    more = {
        **{f"attention.{part}_length": _D_HEAD for part in ("key", "value")},
        "attention.sliding_window": WINDOW,
        "attn_logit_softcapping": ATTENTION_CAP,
        "final_logit_softcapping": SCORE_CAP,
    }
    _write(path, "gemma2", n_layer, 1, tensors, more)


def tiny_bert(path: Path) -> None:
    """A network for embeddings, which the app refuses to load: no cache, no scores, and a norm
    after each addition, so that no stream runs through it."""
    source, n_layer = random.Random(0), 2
    tensors = {
        "token_embd.weight": _matrix(source, _EMBD, len(bpe_vocabulary())),
        "position_embd.weight": _matrix(source, _EMBD, 512),
        "token_embd_norm.weight": _norm(source, _EMBD),
        "token_embd_norm.bias": _norm(source, _EMBD),
    }
    for layer in range(n_layer):
        parts = _attention(source, _EMBD // _HEADS, _HEADS) | _feed_forward(source, 0)
        tensors |= {f"blk.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
        for name in ("attn_output_norm", "layer_output_norm"):
            for part in ("weight", "bias"):
                tensors[f"blk.{layer}.{name}.{part}"] = _norm(source, _EMBD)
        for name in ("attn_norm", "ffn_norm", "ffn_gate"):
            del tensors[f"blk.{layer}.{name}.weight"]
    more = {"attention.layer_norm_epsilon": 1e-5, "attention.causal": False, "pooling_type": 1}
    _write(path, "bert", n_layer, _HEADS, tensors, more | {"tokenizer.ggml.token_type_count": 2})


def _gemma_layer(source: random.Random) -> dict[str, Tensor]:
    posts = {f"post_{part}_norm": _norm(source, _EMBD) for part in ("attention", "ffw")}
    gate = {"ffn_gate": _matrix(source, _EMBD, _FF, spread=_WIDE)}
    return _attention(source, _D_HEAD, 1) | _feed_forward(source, 0) | gate | posts


def _attention(source: random.Random, d_head: int, kv_heads: int) -> dict[str, Tensor]:
    return {
        "attn_norm": _norm(source, _EMBD),
        "attn_q": _matrix(source, _EMBD, _HEADS * d_head),
        "attn_k": _matrix(source, _EMBD, kv_heads * d_head),
        "attn_v": _matrix(source, _EMBD, kv_heads * d_head),
        "attn_output": _matrix(source, _HEADS * d_head, _EMBD),
    }


def _feed_forward(source: random.Random, n_expert: int) -> dict[str, Tensor]:
    ending, experts = ("_exps", (n_expert,)) if n_expert else ("", ())
    parts = {
        "ffn_norm": _norm(source, _EMBD),
        f"ffn_gate{ending}": _matrix(source, _EMBD, _FF, *experts),
        f"ffn_up{ending}": _matrix(source, _EMBD, _FF, *experts),
        f"ffn_down{ending}": _matrix(source, _FF, _EMBD, *experts),
    }
    return parts | ({"ffn_gate_inp": _matrix(source, _EMBD, n_expert)} if n_expert else {})


def _ends(source: random.Random, *, is_tied: bool) -> dict[str, Tensor]:
    n_vocab = len(bpe_vocabulary())
    tensors = {
        "token_embd.weight": _matrix(source, _EMBD, n_vocab),
        "output_norm.weight": _norm(source, _EMBD),
    }
    return tensors if is_tied else tensors | {"output.weight": _matrix(source, _EMBD, n_vocab)}


def _write(
    path: Path,
    architecture: str,
    n_layer: int,
    kv_heads: int,
    tensors: Mapping[str, Tensor],
    more: Mapping[str, Any],
) -> None:
    keys = {
        "context_length": 512,
        "embedding_length": _EMBD,
        "block_count": n_layer,
        "feed_forward_length": _FF,
        "attention.head_count": _HEADS,
        "attention.head_count_kv": kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "vocab_size": len(bpe_vocabulary()),
    } | dict(more)
    write_gguf(
        path,
        architecture=architecture,
        vocabulary=bpe_vocabulary(),
        metadata={
            key if key.startswith("tokenizer") else f"{architecture}.{key}": value
            for key, value in keys.items()
        },
        tensors=tensors,
    )


def _norm(source: random.Random, size: int) -> Tensor:
    return Tensor((size,), [source.uniform(0.5, 1.5) for _ in range(size)])


def _matrix(source: random.Random, *shape: int, spread: float = 0.2) -> Tensor:
    return Tensor(shape, normal_numbers(source, math.prod(shape), spread))
