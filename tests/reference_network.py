"""A transformer in numpy, to be read: what a llama and a Gemma compute, in float32, from the file.

It shares no code with llama.cpp, so the two prove each other. Everything is done for all tokens of
a text at once; a row of an array is a token.

    token ─▶ a row of token_embd ─────────────── the stream x [n_tok, n_embd]
    each layer:
      x += W_O · attention(norm(x))             tokens look at each other
      x += FFN(norm(x))                         each token thinks for itself
    scores = W_U · norm(x)                      one number for each word of the vocabulary

What differs between files: Gemma scales its embeddings, norms each head's queries and keys, norms
what a block writes once more, bends its scores by a soft cap (2) and lets most layers look back no
further than a window; experts stand in an FFN's place in some llamas. Weights are W [n_out, n_in],
so a product is `x @ W.T`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from reference_weights import Values, Weights, cpu_product

_CHUNK: Final = 16384
"""Rows of the output matrix at once: a large vocabulary in float32 takes 700 MB."""


@dataclass
class Reading:
    """All that was computed of a text. Of lists, item i is layer i's.

    `embedding`, `attn_out[i]`, `ffn_out[i]`, `residual[i]`, `result_norm`: [n_tok, n_embd];
    `q_before[i]`, `q_after[i]`: [n_tok, n_head, d_head]; `k_after[i]`, `values[i]`: [n_tok,
    n_kv_head, d_head];
    `attention[i]`: [n_head, n_tok, n_tok], who looks (rows) at whom; `heads[i]`: [n_tok, n_head ·
    d_head]; `visible[i]`: [n_tok, n_tok], whether it may be seen; `experts[i]`,
    `expert_weights[i]`: [n_tok, n_used], where there are experts.
    """

    embedding: Values
    q_before: list[Values] = field(default_factory=list)
    q_after: list[Values] = field(default_factory=list)
    k_after: list[Values] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    attention: list[Values] = field(default_factory=list)
    visible: list[np.ndarray[Any, np.dtype[np.bool_]]] = field(default_factory=list)
    heads: list[Values] = field(default_factory=list)
    attn_out: list[Values] = field(default_factory=list)
    ffn_out: list[Values] = field(default_factory=list)
    residual: list[Values] = field(default_factory=list)
    experts: list[Values] = field(default_factory=list)
    expert_weights: list[Values] = field(default_factory=list)

    def at(self, position: int) -> dict[str, Values]:
        """What belongs to one token, in the shapes of `inside_messages.AXES`. No token depends on
        later ones, so it is the same as if the text had ended there."""
        names = ("q_before", "q_after", "k_after", "heads", "attn_out", "ffn_out", "residual")
        arrays = {name: np.stack([v[position] for v in getattr(self, name)]) for name in names}
        rows = [layer[:, position, : position + 1] for layer in self.attention]
        return arrays | {"embedding": self.embedding[position], "attention": np.stack(rows)}


class Network:
    """`as_cpu`: round what ggml rounds on a CPU: the factor of a quantised tensor to 8 bits, and
    queries, keys, values and shares to float16. `half_cache`: these alone."""

    def __init__(self, path: Path, *, as_cpu: bool = False, half_cache: bool = False) -> None:
        self._file = file = Weights(path)
        self._as_cpu, self._half_cache = as_cpu, as_cpu or half_cache
        self._is_gemma = file.architecture in ("gemma2", "gemma3")
        assert self._is_gemma or file.architecture == "llama", file.architecture
        self.n_layer = int(file.number("block_count"))
        self.n_embd = int(file.number("embedding_length"))
        self.n_head = int(file.number("attention.head_count"))
        self.n_kv_head = int(file.number("attention.head_count_kv"))
        self.d_head = int(file.number("attention.key_length", self.n_embd // self.n_head))
        self._epsilon = file.number("attention.layer_norm_rms_epsilon")
        self._rope_base = file.number("rope.freq_base", 10_000.0)
        self._window = int(file.number("attention.sliding_window", 0))
        self._attention_cap = file.number("attn_logit_softcapping", 0.0)
        self._score_cap = file.number("final_logit_softcapping", 0.0)

    # --- the whole ----------------------------------------------------------------------------

    def embedding(self, ids: list[int]) -> Values:
        """What enters the first layer, [n_tok, n_embd]."""
        x = np.stack([self._file.matrix("token_embd.weight", (i, i + 1))[0] for i in ids])
        if self._is_gemma:  # its rows have length 1; the stream is about sqrt(n_embd) long
            x = x * np.float32(math.sqrt(self.n_embd))
        return x

    def read(self, ids: list[int]) -> Reading:
        """Run the text through all layers."""
        x = self.embedding(ids)
        reading = Reading(x)
        for layer in range(self.n_layer):
            x = self.run_layer(layer, x, reading)
        return reading

    def run_layer(self, layer: int, x: Values, reading: Reading) -> Values:
        """One layer of any streams; what is computed is noted. Returns the streams after it."""
        x = x + self.mix(layer, self.find(layer, x, reading), reading)
        x = x + self.feed_forward(layer, x, reading)
        reading.residual.append(x)
        return x

    def scores(self, streams: Values) -> Values:
        """What streams [n, n_embd] say: [n, n_vocab]. Of the last layer these are the logits, of an
        earlier one its lens. Without an output matrix the embedding is used once more: the score of
        a word is then how well the stream fits the word's own vector."""
        x = self.result_norm(streams)
        name = "output.weight" if "output.weight" in self._file else "token_embd.weight"
        n_vocab = self._file.n_rows(name)
        ends = [*range(0, n_vocab, _CHUNK), n_vocab]
        parts = [self._product(name, x, rows) for rows in itertools.pairwise(ends)]
        return _capped(np.concatenate(parts, axis=1), self._score_cap)

    def result_norm(self, streams: Values) -> Values:
        return self._norm(streams, "output_norm.weight")

    # --- parts --------------------------------------------------------------------------------

    def _norm(self, x: Values, name: str) -> Values:
        """RMSNorm: x / sqrt(mean(x²) + ε), each number then scaled by a weight. Only the direction
        of the stream is read, so a block need not know how long it has grown."""
        mean = np.mean(np.square(x, dtype=np.float32), axis=-1, keepdims=True)
        scaled: Values = x / np.sqrt(mean + np.float32(self._epsilon)) * self._file.tensor(name)
        return scaled

    def _product(self, name: str, x: Values, rows: tuple[int, int] | None = None) -> Values:
        """x · Wᵀ, of all rows of W or of some."""
        if self._as_cpu:
            return cpu_product(self._file, name, x, rows)
        out: Values = x @ self._file.matrix(name, rows).T
        return out

    def _written(self, x: Values, norm: str) -> Values:
        """What a block adds to the stream; Gemma norms that, too."""
        return self._norm(x, norm) if norm in self._file else x

    # --- attention ----------------------------------------------------------------------------

    def find(self, layer: int, x: Values, reading: Reading) -> Values:
        """Each token asks (query), each offers itself (key) and what it has to give (value):

            score[i, j] = q_i · k_j / sqrt(d_head)           for each j that i may see
            share[i, :] = softmax(score[i, :])               sums to 1
            found[i]    = Σ_j share[i, j] · v_j

        Heads do so side by side, each with d_head numbers: [n_tok, n_head · d_head]. Groups of
        query heads share one head of keys and values (grouped-query attention), which makes the
        cache smaller.
        """
        block = f"blk.{layer}"
        h = self._norm(x, f"{block}.attn_norm.weight")
        q = self._product(f"{block}.attn_q.weight", h).reshape(len(x), self.n_head, -1)
        k = self._product(f"{block}.attn_k.weight", h).reshape(len(x), self.n_kv_head, -1)
        v = self._product(f"{block}.attn_v.weight", h).reshape(len(x), self.n_kv_head, -1)
        if f"{block}.attn_q_norm.weight" in self._file:
            q = self._norm(q, f"{block}.attn_q_norm.weight")
            k = self._norm(k, f"{block}.attn_k_norm.weight")
        reading.q_before.append(q)
        q, k = self.rotated(q, layer), self.rotated(k, layer)
        reading.q_after.append(q)
        reading.k_after.append(k)
        reading.values.append(v)
        visible = self._visible(layer, len(x))
        found, shares = self._look(q, k, v, visible)
        reading.attention.append(shares)
        reading.visible.append(visible)
        reading.heads.append(found)
        return found

    def mix(self, layer: int, found: Values, reading: Reading) -> Values:
        """What attention adds to the stream: W_O puts together what all heads found."""
        write = self._product(f"blk.{layer}.attn_output.weight", found)
        write = self._written(write, f"blk.{layer}.post_attention_norm.weight")
        reading.attn_out.append(write)
        return write

    def value_norms(self, layer: int, reading: Reading) -> Values:
        """How large what each head has to give is once it is mixed, [n_head, n_tok]: the length of
        v · W_O, multiplied out."""
        w_o = self._file.matrix(f"blk.{layer}.attn_output.weight")
        values = np.repeat(reading.values[layer], self.n_head // self.n_kv_head, axis=1)
        slices = w_o.reshape(len(w_o), self.n_head, -1)
        brought = np.einsum("thd,ehd->hte", values, slices)
        return np.asarray(np.linalg.norm(brought, axis=-1), np.float32)

    def _look(self, q: Values, k: Values, v: Values, visible: Any) -> tuple[Values, Values]:
        """What all heads found, [n_tok, n_head · d_head], and their shares, [n_head, n_tok, n_tok].
        Query head h reads the keys of head h // (n_head / n_kv_head)."""
        if self._half_cache:
            q, k, v = (part.astype(np.float16).astype(np.float32) for part in (q, k, v))
        group = self.n_head // self.n_kv_head
        k, v = (np.repeat(part, group, axis=1).transpose(1, 0, 2) for part in (k, v))
        scores = q.transpose(1, 0, 2) @ k.transpose(0, 2, 1) / np.float32(math.sqrt(self.d_head))
        scores = _capped(scores, self._attention_cap)
        shares = _softmax(np.where(visible, scores, -np.inf).astype(np.float32))
        taken = shares.astype(np.float16).astype(np.float32) if self._half_cache else shares
        return (taken @ v).transpose(1, 0, 2).reshape(len(q), -1), shares

    def _visible(self, layer: int, n: int) -> Any:
        """[n, n]: nobody sees what comes later, and in a layer with a window nobody sees further
        back than its last `window` tokens, itself counted."""
        back = np.arange(n)[:, None] - np.arange(n)
        return (back >= 0) & ((back < self._window) | (not self.has_window(layer)))

    def has_window(self, layer: int) -> bool:
        """Every sixth layer of a Gemma 3 sees everything, every second of a Gemma 2."""
        every = {"gemma3": 6, "gemma2": 2}.get(self._file.architecture, 1)
        every = int(self._file.number("attention.sliding_window_pattern", every))
        return self._window > 0 and layer % every < every - 1

    def rotated(self, x: Values, layer: int) -> Values:
        """RoPE of [n_tok, n_head, d_head]: token p turns pair i by the angle p · base^(−2i/d).

        The dot product of two vectors, turned by p and by q, depends on p − q only: so attention
        knows how far apart two words are. A pair is two neighbours in a llama, (2i, 2i + 1), and
        two of different halves in a Gemma, (i, i + d/2). Layers with a window have a base of their
        own in Gemma 3: they need not tell far distances apart.
        """
        base = self._rope_base
        if self._file.architecture == "gemma3" and self.has_window(layer):
            base = self._file.number("rope.freq_base_swa", 10_000.0)
        n, half = len(x), self.d_head // 2
        angles = np.arange(n)[:, None] * base ** (-np.arange(half) / half)
        turn = np.exp(1j * angles)[:, None, :]  # a pair as a complex number is turned by one
        if self._is_gemma:
            pairs = (x[..., :half] + 1j * x[..., half:]) * turn
            return np.concatenate([pairs.real, pairs.imag], axis=-1).astype(np.float32)
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape).astype(np.float32)

    # --- the feed-forward network -------------------------------------------------------------

    def feed_forward(self, layer: int, x: Values, reading: Reading) -> Values:
        """What this layer's network adds to the stream, of each token alone."""
        block = f"blk.{layer}"
        h = self._norm(x, f"{block}.ffn_norm.weight")
        if f"{block}.ffn_gate_inp.weight" in self._file:
            write = self._experts(block, h, reading)
        else:
            gate = self._product(f"{block}.ffn_gate.weight", h)
            up = self._product(f"{block}.ffn_up.weight", h)
            write = self._product(f"{block}.ffn_down.weight", self._gated(gate, up))
        write = self._written(write, f"{block}.post_ffw_norm.weight")
        reading.ffn_out.append(write)
        return write

    def _gated(self, gate: Values, up: Values) -> Values:
        """A gate that opens more or less for each number: SwiGLU in a llama, x · σ(x) · up; GeGLU
        in a Gemma. ggml looks GELU up in a table of all float16 numbers, so this rounds as well."""
        if not self._is_gemma:
            return gate / (1 + np.exp(-gate)) * up
        x = gate.astype(np.float16).astype(np.float32)
        bend = np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x))
        bent = (0.5 * x * (1 + bend)).astype(np.float16).astype(np.float32)
        return np.where(gate <= -10, 0, np.where(gate >= 10, gate, bent)).astype(np.float32) * up

    def _experts(self, block: str, h: Values, reading: Reading) -> Values:
        """A router gives each expert a share, by softmax over all of them; the best few take part,
        and their shares are made to sum to 1 again."""
        n_used = int(self._file.number("expert_used_count"))
        shares = _softmax(self._product(f"{block}.ffn_gate_inp.weight", h))
        gate, up, down = (
            self._file.tensor(f"{block}.ffn_{part}_exps.weight") for part in ("gate", "up", "down")
        )
        chosen = np.argsort(-shares, axis=1)[:, :n_used]
        parts = np.take_along_axis(shares, chosen, axis=1)
        parts /= parts.sum(axis=1, keepdims=True)
        reading.experts.append(chosen)
        reading.expert_weights.append(parts)
        out = np.zeros_like(h)
        for token, row in enumerate(h):
            for expert, share in zip(chosen[token], parts[token], strict=True):
                found = down[expert] @ self._gated(gate[expert] @ row, up[expert] @ row)
                out[token] += share * found
        return out


def _softmax(x: Values) -> Values:
    """exp(x) over its sum. What is subtracted cancels, and keeps exp from overflowing."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    shares: Values = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def _capped(x: Values, cap: float) -> Values:
    """A soft cap: near 0 it changes nothing, and nothing gets beyond ±cap."""
    return x if not cap else np.float32(cap) * np.tanh(x / np.float32(cap))
