"""A small made-up network, for looking inside without weights.

It obeys the laws of a real one, so that whoever draws it can be tested: 4 layers of 4 query heads
that share 2 KV heads, 32 wide, no window. Its weights are drawn once from a fixed seed, and what it
computes follows from the token IDs alone. What is made up is what it votes for: the last layer
pushes the stream towards the token that the script says next.

    stream = embedding;  in each layer: stream += attention(stream), stream += ffn(stream)
    logits = W_U · stream ÷ rms(stream)
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from app.engine.process.native.arrays import as_array, named_arrays
from app.engine.process.scripted.embedding import answer_of, rotations
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.embedding_messages import EmbeddingCommand, EmbeddingResult, Rotations
from app.engine.protocol.inside_messages import (
    AXES,
    BY_TEXT,
    HEAD_SCORES,
    NO_EXPERTS,
    OF_EXPERTS,
    AttributeToken,
    GraphOffer,
    HeadsMeasured,
    Inside,
    LookInside,
    Missing,
    TokenAttributed,
)
from app.engine.protocol.machine_messages import FlashCompared, FlashSide, StepProfiled

N_LAYER: Final = 4
N_HEAD: Final = 4
N_KV_HEAD: Final = 2
N_EMBD: Final = 32
D_HEAD: Final = N_EMBD // N_HEAD
_WITHOUT_EXPERTS: Final = dict.fromkeys(OF_EXPERTS, NO_EXPERTS)
N_LENS: Final = 10
SCORE_SCALE: Final = 12 / np.sqrt(N_EMBD)
"""Of the output's rows, which have length 1: with it the vote is as certain as a real one."""
ROPE_BASE: Final = 100.0

Values = npt.NDArray[np.float32]


class MadeUpNetwork:
    """`look` answers a question whose text has `n_vocab` kinds of tokens at most."""

    def __init__(self, n_vocab: int) -> None:
        chance = np.random.default_rng(3)

        def drawn(*shape: int) -> Values:
            values = chance.standard_normal(shape) / np.sqrt(shape[-1])
            return np.asarray(values, np.float32)

        self._embeddings = drawn(n_vocab, N_EMBD) * 3
        rows = drawn(n_vocab, N_EMBD)
        self._unembedding = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._w_q = drawn(N_LAYER, N_HEAD, D_HEAD, N_EMBD) * 2
        self._w_k = drawn(N_LAYER, N_KV_HEAD, D_HEAD, N_EMBD) * 2
        self._w_v = drawn(N_LAYER, N_KV_HEAD, D_HEAD, N_EMBD)
        self._w_o = drawn(N_LAYER, N_EMBD, N_HEAD * D_HEAD)
        self._w_up = drawn(N_LAYER, 2 * N_EMBD, N_EMBD)
        self._w_down = drawn(N_LAYER, N_EMBD, 2 * N_EMBD)

    def offer(self, missing: Mapping[str, str]) -> GraphOffer:
        return GraphOffer(
            N_LAYER, _reasons({**_WITHOUT_EXPERTS, **missing}), [], bytes_per_token=0, fixed_bytes=0
        )

    def heads(self) -> HeadsMeasured:
        """Head 1 of layer 2 is an induction head; the others do nothing that has a name."""
        scores = np.full((N_LAYER, N_HEAD, len(HEAD_SCORES)), 0.1, np.float32)
        scores[2, 1, HEAD_SCORES.index("induction")] = 0.9
        return HeadsMeasured(N_LAYER, N_HEAD, as_array(scores.reshape(-1)), 3, 101)

    def profiled(self, n_tokens: int, n_threads: int) -> StepProfiled:
        """As if its last layer took longest, and cutting a twentieth."""
        attention = [1.0 + layer for layer in range(N_LAYER)]
        ffn, others = [2 * ms for ms in attention], [0.0] * N_LAYER
        total = 0.5 + 0.25 + sum(attention) + sum(ffn) + 4.0
        return StepProfiled(
            *(n_tokens, 7, n_threads, 0.5, 0.25),
            attention=attention,
            others=others,
            ffn=ffn,
            output=4.0,
            total=total,
            plain=total / 1.05,
        )

    def flash(self, n_tokens: int, n_threads: int) -> FlashCompared:
        """As if flash attention were a quarter faster."""
        on = FlashSide([75.0] * 5, [7.5] * 5, 16 << 20, 7)
        off = FlashSide([100.0] * 5, [10.0] * 5, 24 << 20, 7)
        return FlashCompared(n_tokens, min(64, n_tokens - 1), n_threads, on, off, 0.125)

    def look(self, command: LookInside, next_id: int | None, missing: Mapping[str, str]) -> Inside:
        """`next_id`: what the script says behind the text; None: nobody knows. `missing`: what
        this network is said not to offer."""
        missing = {**_WITHOUT_EXPERTS, **missing}
        found = self._replay(command.token_ids, command.layers, command.cuts)
        self._vote(found, next_id, command.token_ids)
        if "lens" in command.want:
            found |= self._lens(found["residual"], command.targets)
        found["logits"] = self._logits(found["residual"][-1])
        found["result_norm"] = _normed(found["residual"][-1])
        if command.only_layers and command.layers is not None:
            found |= {name: found[name][command.layers] for name in BY_TEXT}
        wanted = {name for name in found if name.startswith("lens_")} | {*command.want}
        told = [name for name in AXES if name in wanted and name in found]
        told = [n for n in told if ("lens" if n.startswith("lens_") else n) not in missing]
        floats, ints = named_arrays({name: found[name] for name in told}, AXES)
        n_tokens = len(command.token_ids)
        asked_in_vain = {name: missing[name] for name in command.want if name in missing}
        return Inside(n_tokens, n_tokens - 1, 0, 0, 0.0, floats, ints, _reasons(asked_in_vain))

    def attribute(self, command: AttributeToken, next_id: int | None) -> TokenAttributed:
        """What wrote the vote, part by part; nothing is left unexplained."""
        found = self._replay(command.token_ids, None)
        self._vote(found, next_id, command.token_ids)
        logits = self._logits(found["residual"][-1])
        target = int(logits.argmax()) if command.target is None else command.target
        best = [int(token) for token in np.argsort(-logits)[:2] if token != target]
        other = best[0] if command.other is None else command.other
        last = found["residual"][-1]
        direction = self._unembedding[target] - self._unembedding[other]
        direction = direction * SCORE_SCALE * (_normed(last) @ last / (last @ last))
        slices = self._w_o.reshape(N_LAYER, N_EMBD, N_HEAD, D_HEAD)
        parts = {
            "heads": np.einsum(
                "lhd,lehd,e->lh",
                found["heads"].reshape(N_LAYER, N_HEAD, D_HEAD),
                slices,
                direction,
            ),
            "attn": found["attn_out"] @ direction,
            "ffn": found["ffn_out"] @ direction,
            "others": np.zeros(N_LAYER, np.float32),
            "attn_bias": np.zeros(N_LAYER, np.float32),
            "between_heads": np.zeros(N_LAYER, np.float32),
        }
        difference = float(logits[target] - logits[other])
        embedding = float(found["embedding"] @ direction)
        explained = embedding + float(parts["attn"].sum() + parts["ffn"].sum())
        axes = ["n_layer", "n_head"]
        floats, _ = named_arrays(parts, {name: axes[: each.ndim] for name, each in parts.items()})
        return TokenAttributed(
            target,
            other,
            difference,
            difference,
            embedding,
            0.0,
            0.0,
            difference - explained,
            floats,
        )

    def embedding(self, command: EmbeddingCommand) -> EmbeddingResult:
        """Raises Refusal."""
        return answer_of(self._embeddings, command)

    def rotations(self) -> Rotations:
        return rotations(N_LAYER, D_HEAD, ROPE_BASE)

    def _replay(
        self, ids: Sequence[int], layers: Sequence[int] | None, cuts: Sequence[Cut] = ()
    ) -> dict[str, Values]:
        """Everything about the last of `ids`. What is cut is nothing. The keys and values of the
        tokens before it follow from their embeddings, so that a long text costs no more than one
        product."""
        n_tok = len(ids)
        before = self._embeddings[np.asarray(ids, np.int64)]
        positions = np.arange(n_tok, dtype=np.float32)
        stream = before[-1]
        found: dict[str, list[Values]] = {name: [] for name in _BY_LAYER}
        for layer in range(N_LAYER):
            seen = before.copy()
            seen[-1] = _normed(stream)
            query = self._w_q[layer] @ _normed(stream)  # [n_head, d_head]
            turned = _rotated(query, positions[-1:])
            keys = np.einsum("kde,te->tkd", self._w_k[layer], seen)
            keys = _rotated(keys, positions[:, None])
            values = np.einsum("kde,te->tkd", self._w_v[layer], seen)
            group = np.arange(N_HEAD) // (N_HEAD // N_KV_HEAD)
            scores = np.einsum("hd,thd->ht", turned, keys[:, group]) / np.sqrt(D_HEAD)
            rows = np.exp(scores - scores.max(axis=1, keepdims=True))
            rows /= rows.sum(axis=1, keepdims=True)
            heads = np.einsum("ht,thd->hd", rows, values[:, group]).reshape(-1)
            gone = [cut for cut in cuts if cut.layer == layer]
            whole = {cut.kind for cut in gone}
            for cut in gone:
                if cut.kind in ("head", "kv_head"):
                    heads[
                        np.repeat(group if cut.kind == "kv_head" else _HEADS, D_HEAD) == cut.index
                    ] = 0
            attn_out = self._w_o[layer] @ heads * np.float32(not whole & {"attention", "layer"})
            stream = stream + attn_out
            ffn_out = self._w_down[layer] @ np.maximum(self._w_up[layer] @ _normed(stream), 0)
            ffn_out = ffn_out * np.float32(not whole & {"ffn", "layer"})
            stream = stream + ffn_out
            slices = self._w_o[layer].reshape(N_EMBD, N_HEAD, D_HEAD)
            brought = np.einsum("thd,ehd->hte", values[:, group], slices)
            norms = np.linalg.norm(brought, axis=-1)
            is_wanted = layers is None or layer in layers
            for name, value in (
                ("q_before", query),
                ("q_after", turned),
                ("k_after", keys[-1]),
                ("attention", rows if is_wanted else np.full_like(rows, np.nan)),
                ("value_norms", norms if is_wanted else np.full_like(norms, np.nan)),
                ("heads", heads),
                ("attn_out", attn_out),
                ("ffn_out", ffn_out),
                ("residual", stream),
            ):
                found[name].append(value)
        arrays = {name: np.stack(rows).astype(np.float32) for name, rows in found.items()}
        arrays["embedding"] = before[-1]
        return arrays

    def _vote(self, found: dict[str, Values], next_id: int | None, ids: Sequence[int]) -> None:
        """Push the last two layers' feed-forward networks towards a token: what the script says, or
        one that follows from the text. The rows of W_U have length 1, so its product with its own
        row grows by more than with any other."""
        chance = zlib.crc32(np.asarray(ids, "<i4").tobytes()) % len(self._unembedding)
        aim = chance if next_id is None else next_id
        row, stream, push = self._unembedding[aim], found["residual"][-1], np.float32(0)
        while int(np.argmax(self._unembedding @ (stream + push * row))) != aim:
            push += np.float32(2)
        push += np.float32(4)
        for layer, share in ((N_LAYER - 2, 0.4), (N_LAYER - 1, 0.6)):
            found["ffn_out"][layer] += np.float32(share) * push * row
            found["residual"][layer:] += np.float32(share) * push * row

    def _logits(self, streams: Values) -> Values:
        """Of one stream, or of a row of them."""
        logits: Values = SCORE_SCALE * (_normed(streams) @ self._unembedding.T)
        return logits.astype(np.float32)

    def _lens(self, streams: Values, targets: Sequence[int]) -> dict[str, Values]:
        scores = self._logits(streams)
        n_lens = min(N_LENS, scores.shape[1])
        ids = np.argsort(-scores, axis=1, kind="stable")[:, :n_lens].astype(np.int32)
        highest = scores.max(axis=1)
        total = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
        of_targets = scores[:, np.asarray(targets, np.int64)]
        ranks = (scores[:, None, :] > of_targets[:, :, None]).sum(axis=2).astype(np.int32)
        return {
            "lens_ids": ids,
            "lens_logits": np.take_along_axis(scores, ids, axis=1),
            "lens_total": total.astype(np.float32),
            "lens_target_logits": of_targets,
            "lens_target_ranks": ranks,
        }


_HEADS: Final = np.arange(N_HEAD)
_BY_LAYER: Final = (
    "q_before",
    "q_after",
    "k_after",
    "attention",
    "value_norms",
    "heads",
    "attn_out",
    "ffn_out",
    "residual",
)


def _reasons(missing: Mapping[str, str]) -> list[Missing]:
    return [Missing(name, sentence) for name, sentence in missing.items()]


def _normed(streams: Values) -> Values:
    """By their root mean square, as RMSNorm does."""
    normed: Values = streams / np.sqrt((streams**2).mean(axis=-1, keepdims=True) + 1e-6)
    return normed


def _rotated(vectors: Values, positions: Values) -> Values:
    """RoPE: pairs of dimensions, turned by an angle that grows with the position."""
    half = vectors.shape[-1] // 2
    angles = positions[..., None] * (ROPE_BASE ** -(np.arange(half, dtype=np.float32) / half))
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = vectors[..., :half], vectors[..., half:]
    turned: Values = np.concatenate([first * cos - second * sin, first * sin + second * cos], -1)
    return turned.astype(np.float32)
