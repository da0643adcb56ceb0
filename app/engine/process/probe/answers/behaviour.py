"""What each head does, measured by the field's standard probe, once per file.

The text is random: a start token, then the same 25 tokens four times over. It means nothing, so
whatever a head finds in it is the head's own way of looking, and repeats are all there is to find:

    <s>  a b c … y  a b c … y  a b c … y  a b c … y
                    ↑ an induction head looks at the b after the earlier a, to say b again

Scores are means over the tokens of A[i, j], the attention that token i pays to token j:

    previous   A[i, i − 1]                              (TransformerLens)
    duplicate  Σ A[i, j], token j = token i, j < i      (Wang et al. 2211.00593)
    induction  Σ A[i, j + 1], token j = token i, j < i  (Olsson et al. 2209.11895)
    sink       A[i, 0]                                  (Gu et al. 2410.10781)
    entropy    −Σ A · log₂ A ÷ log₂ of what is visible  (Clark et al. 1906.04341)

`duplicate` and `induction` are taken over the tokens that stood in the text before; all but the
sink leave the start token out as a target where it is not meant, and it counts in the entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from app.engine.process.probe.attention import rows_of_flash_attention_of, rows_of_softmax_of
from app.engine.process.probe.graph import GraphMap, Node
from app.engine.process.probe.probe import Probe
from app.engine.process.probe.tensors import Tensor, Values
from app.engine.process.probe.watch import Take
from app.engine.protocol.inside_messages import HEAD_SCORES
from app.insight.inside.attention import entropy_bits

N_RANDOM: Final = 25
N_TIMES: Final = 4
N_TEXTS: Final = 3
"""Random texts whose scores are averaged: one alone may have its own chance likeness."""


def random_text(start: int, ordinary: Sequence[int], seed: int) -> list[int]:
    """The start token and `N_TIMES` times the same random tokens, no two of which are equal."""
    source = np.random.default_rng(seed)
    count = min(N_RANDOM, len(ordinary))
    chosen = source.choice(np.asarray(ordinary), size=count, replace=False).tolist()
    return [start, *(chosen * N_TIMES)]


def scores_of_rows(rows: Values, ids: Sequence[int]) -> Values:
    """[n_head, len(HEAD_SCORES)] of one layer, whose attention to the text is `rows` [n_tok,
    n_head, n_tok]. A window is taken to be longer than the text."""
    n_tokens = len(ids)
    tokens = np.asarray(ids)
    earlier = np.tri(n_tokens, k=-1, dtype=bool)  # j < i
    same = (tokens[:, None] == tokens[None, :]) & earlier
    after = np.zeros_like(same)
    after[:, 1:] = same[:, :-1]  # j + 1 of an equal j; it may be i itself only where j = i − 1
    seen = same.any(axis=1)
    previous = np.arange(1, n_tokens)
    per_token = rows.transpose(1, 0, 2)  # [n_head, n_tok, n_tok]
    bits = entropy_bits(per_token)[:, 1:]
    visible = np.arange(2, n_tokens + 1)
    found = [
        per_token[:, previous, previous - 1].mean(axis=1),
        (per_token * same).sum(axis=2)[:, seen].mean(axis=1),
        (per_token * after).sum(axis=2)[:, seen].mean(axis=1),
        per_token[:, 1:, 0].mean(axis=1),
        (bits / np.log2(visible)).mean(axis=1),
    ]
    return np.stack(found, axis=1).astype(np.float32)


class HeadScores:
    """Measures all heads. `result` [n_layer, n_head, len(HEAD_SCORES)] once `run` has ended; NaN
    for a layer without attention."""

    def __init__(self, probe: Probe, n_layer: int, n_head: int) -> None:
        self._probe = probe
        self.result = np.full((n_layer, n_head, len(HEAD_SCORES)), np.nan, np.float32)

    def run(self, start: int, ordinary: Sequence[int]) -> Iterator[None]:
        """A slice for each `next`. Raises Refusal."""
        measured: list[Values] = []
        for seed in range(N_TEXTS):
            ids = random_text(start, ordinary, seed)
            rows: dict[int, list[Values]] = {}
            yield from self._probe.over_text(ids, _picking(rows, len(ids)))
            scores = np.full_like(self.result, np.nan)
            for layer, chunks in rows.items():
                whole = np.concatenate(chunks)
                if len(whole) == len(ids) and whole.shape[1] == scores.shape[1]:
                    scores[layer] = scores_of_rows(whole, ids)
                yield None
            measured.append(scores)
        self.result = np.mean(measured, axis=0)


def _picking(
    rows: dict[int, list[Values]], n_tokens: int
) -> Callable[[GraphMap, Sequence[Node], int], dict[int, Take]]:
    def pick(graph: GraphMap, nodes: Sequence[Node], first: int) -> dict[int, Take]:
        wanted: dict[int, Take] = {}
        for number, layer in enumerate(graph.layers):
            if layer.attention is None:
                continue
            flash = nodes[layer.attention].op == "FLASH_ATTN_EXT"
            read = rows_of_flash_attention_of if flash else rows_of_softmax_of

            def take(
                node: Tensor, number: int = number, read: Callable[..., Values] = read
            ) -> None:
                # The text was read into an empty cache, so cell j holds token j.
                found = read(node)[:, :, :n_tokens]
                whole = np.zeros((*found.shape[:2], n_tokens), np.float32)
                whole[:, :, : found.shape[2]] = found
                rows.setdefault(number, []).append(whole)

            wanted[layer.attention] = take
        return wanted

    return pick
