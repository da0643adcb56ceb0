"""Three tiny float32 networks as files, and what each makes of a text of one token, by numpy.

One token attends to itself alone, so that attention is its own values: no rotation, no softmax and
no cache stand between a file and its numbers, and a whole forward pass is a few lines.

    llama    RMSNorm, two query heads to a KV head, an output matrix of its own
    gemma2   a norm behind each block, soft-capped scores, the embedding is the output matrix
    gpt2     LayerNorm, biases everywhere, positions that are added
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from gguf_writer import Tensor, bpe_vocabulary, write_gguf

Values = np.ndarray[Any, Any]

N_EMBD: Final = 64
N_HEAD: Final = 4
N_KV: Final = 2
D_HEAD: Final = N_EMBD // N_HEAD
N_FF: Final = 96
N_LAYER: Final = 3
CAP: Final = 30.0
_EPS: Final = 1e-5


@dataclass
class Pass:
    """What one token became. `mixed`: the product of all heads with W_O, before bias and norm."""

    embedding: Values
    heads: list[Values] = field(default_factory=list)
    mixed: list[Values] = field(default_factory=list)
    attn: list[Values] = field(default_factory=list)
    ffn: list[Values] = field(default_factory=list)
    stream: Values = field(default_factory=lambda: np.empty(0))
    normed: Values = field(default_factory=lambda: np.empty(0))
    scores: Values = field(default_factory=lambda: np.empty(0))
    """Before the soft cap."""

    logits: Values = field(default_factory=lambda: np.empty(0))


@dataclass
class Network:
    """`tensors`: float64, [n_out, n_in]."""

    architecture: str
    path: Path
    tensors: dict[str, Values]

    def run(
        self,
        token: int,
        *,
        change_heads: Callable[[int, Values], Values] = lambda layer, heads: heads,
        change_write: Callable[[int, str, Values], Values] = lambda layer, block, write: write,
    ) -> Pass:
        """`change_heads(layer, heads)` and `change_write(layer, "attn" or "ffn", write)` stand for
        what somebody does to them."""
        w, is_gpt = self.tensors, self.architecture == "gpt2"
        x = w["token_embd.weight"][token]
        if is_gpt:
            x = x + w["position_embd.weight"][0]
        if self.architecture == "gemma2":
            x = x * np.sqrt(N_EMBD)
        found = Pass(x)
        for layer in range(N_LAYER):
            at = f"blk.{layer}."
            h = self._norm(x, at + "attn_norm")
            values = (
                w[at + "attn_qkv.weight"][-N_EMBD:] @ h if is_gpt else w[at + "attn_v.weight"] @ h
            )
            if is_gpt:
                values = values + w[at + "attn_qkv.bias"][-N_EMBD:]
            shared = values.reshape(-1, D_HEAD)
            heads = np.repeat(shared, N_HEAD // len(shared), axis=0).reshape(-1)
            found.heads.append(heads)
            mixed = w[at + "attn_output.weight"] @ change_heads(layer, heads.copy())
            found.mixed.append(mixed)
            write = self._behind(mixed, at + "attn_output.bias", at + "post_attention_norm")
            found.attn.append(change_write(layer, "attn", write))
            x = x + found.attn[-1]
            h = self._norm(x, at + "ffn_norm")
            write = self._behind(self._feed(h, at), at + "ffn_down.bias", at + "post_ffw_norm")
            found.ffn.append(change_write(layer, "ffn", write))
            x = x + found.ffn[-1]
        found.stream, found.normed = x, self._norm(x, "output_norm")
        found.scores = w.get("output.weight", w["token_embd.weight"]) @ found.normed
        is_capped = self.architecture == "gemma2"
        found.logits = CAP * np.tanh(found.scores / CAP) if is_capped else found.scores
        return found

    def _feed(self, h: Values, at: str) -> Values:
        w = self.tensors
        up = w[at + "ffn_up.weight"] @ h
        if self.architecture == "gpt2":
            inner = _gelu(up + w[at + "ffn_up.bias"])
        else:
            gate = w[at + "ffn_gate.weight"] @ h
            bent = _gelu(gate) if self.architecture == "gemma2" else gate / (1 + np.exp(-gate))
            inner = bent * up
        return w[at + "ffn_down.weight"] @ inner

    def _behind(self, write: Values, bias: str, norm: str) -> Values:
        write = write + self.tensors.get(bias, 0.0)
        return self._norm(write, norm) if norm + ".weight" in self.tensors else write

    def _norm(self, x: Values, name: str) -> Values:
        if self.architecture == "gpt2":
            x = x - x.mean()
        normed: Values = x / np.sqrt(np.mean(x * x) + _EPS) * self.tensors[name + ".weight"]
        return normed + self.tensors.get(name + ".bias", 0.0)


def _gelu(x: Values) -> Values:
    bent: Values = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return bent


def write_network(
    path: Path,
    architecture: str,
    seed: int = 3,
    change: Callable[[dict[str, Values]], None] = lambda tensors: None,
) -> Network:
    """Write a file of random numbers; gains and biases are no ones and zeros. `change` is done to
    the tensors before they are written."""
    vocabulary = bpe_vocabulary()
    random = np.random.default_rng(seed)
    tensors: dict[str, Values] = {}

    def matrix(name: str, n_out: int, n_in: int) -> None:
        tensors[name] = random.normal(0, 1.5 / np.sqrt(n_in), (n_out, n_in)).astype(np.float32)

    def vector(name: str, n: int, around: float) -> None:
        tensors[name] = (around + random.normal(0, 0.3, n)).astype(np.float32)

    def norm(name: str) -> None:
        vector(name + ".weight", N_EMBD, 1.0)
        if architecture == "gpt2":
            vector(name + ".bias", N_EMBD, 0.0)

    matrix("token_embd.weight", len(vocabulary), N_EMBD)
    norm("output_norm")
    if architecture == "llama":
        matrix("output.weight", len(vocabulary), N_EMBD)
    if architecture == "gpt2":
        matrix("position_embd.weight", 256, N_EMBD)
    for layer in range(N_LAYER):
        at = f"blk.{layer}."
        norm(at + "attn_norm")
        norm(at + "ffn_norm")
        if architecture == "gpt2":
            matrix(at + "attn_qkv.weight", 3 * N_EMBD, N_EMBD)
            for name, n in (("attn_qkv", 3 * N_EMBD), ("attn_output", N_EMBD)):
                vector(f"{at}{name}.bias", n, 0.0)
            vector(at + "ffn_up.bias", N_FF, 0.0)
            vector(at + "ffn_down.bias", N_EMBD, 0.0)
        else:
            matrix(at + "attn_q.weight", N_EMBD, N_EMBD)
            matrix(at + "attn_k.weight", N_KV * D_HEAD, N_EMBD)
            matrix(at + "attn_v.weight", N_KV * D_HEAD, N_EMBD)
            matrix(at + "ffn_gate.weight", N_FF, N_EMBD)
        matrix(at + "attn_output.weight", N_EMBD, N_EMBD)
        matrix(at + "ffn_up.weight", N_FF, N_EMBD)
        matrix(at + "ffn_down.weight", N_EMBD, N_FF)
        if architecture == "gemma2":
            norm(at + "post_attention_norm")
            norm(at + "post_ffw_norm")
    change(tensors)
    key = architecture + "."
    epsilon = "layer_norm_epsilon" if architecture == "gpt2" else "layer_norm_rms_epsilon"
    write_gguf(
        path,
        architecture=architecture,
        vocabulary=vocabulary,
        metadata={
            "general.file_type": 0,
            key + "context_length": 256,
            key + "embedding_length": N_EMBD,
            key + "block_count": N_LAYER,
            key + "feed_forward_length": N_FF,
            key + "attention.head_count": N_HEAD,
            key + "attention.head_count_kv": N_HEAD if architecture == "gpt2" else N_KV,
            key + "attention.key_length": D_HEAD,
            key + "attention.value_length": D_HEAD,
            key + "attention." + epsilon: _EPS,
            key + "attention.sliding_window": 64 if architecture == "gemma2" else None,
            key + "attn_logit_softcapping": 50.0 if architecture == "gemma2" else None,
            key + "final_logit_softcapping": CAP if architecture == "gemma2" else None,
            key + "vocab_size": len(vocabulary),
        },
        tensors={
            name: Tensor(tuple(reversed(values.shape)), array("f", values.tobytes()))
            for name, values in tensors.items()
        },
    )
    return Network(architecture, path, {n: v.astype(np.float64) for n, v in tensors.items()})
