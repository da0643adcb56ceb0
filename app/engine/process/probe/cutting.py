"""Cuts while the network computes: what a part wrote is replaced before anybody reads it.

    heads ──[ replaced: some heads' slices ]──▶ W_O ──▶ ──[ replaced: the write ]──▶ + stream

llama.cpp hands out a node once it is computed, and waits; what is put in its place then is what
the next nodes read. So a cut needs no change to a graph, works on any device, and costs a stop at
each node that is cut. Nothing is touched where nothing is cut.

A part is replaced by its mean over the positions of a prompt (the distribution that the rest has
learned to expect, Wang et al. 2211.00593) or by zero, which no layer has ever met. What is cut is
cut from a position on: keys and values of everything before it were computed with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from app.engine.process.probe.graph import NO_HEADS, NO_STREAM, GraphMap, LayerNodes
from app.engine.process.probe.tensors import Tensor, Values, read, write
from app.engine.process.probe.watch import Take
from app.engine.protocol.cut_messages import Cut
from app.refusal import Refusal

Rows = Callable[[int], Values]
"""Of a node with so many rows: which are meant, [n_rows] of bool."""


class Part(NamedTuple):
    """A node that a part is read and replaced at. `at`: one of several writes of a block."""

    layer: int
    block: str
    at: int = 0


def parts_of(graph: GraphMap) -> dict[Part, int]:
    """All parts that could be cut, with the ordinal of their node."""
    found: dict[Part, int] = {}
    for number, layer in enumerate(graph.layers):
        if layer.heads is not None:
            found[Part(number, "heads")] = layer.heads
        for block, ordinals in (
            ("attention", layer.attn_writes),
            ("ffn", layer.ffn_writes),
            ("other", layer.other_writes),
        ):
            for at, ordinal in enumerate(ordinals):
                found[Part(number, block, at)] = ordinal
    return found


class Means:
    """What each part wrote, averaged over positions."""

    def __init__(self) -> None:
        self._sums: dict[Part, Values] = {}
        self.n = 0
        """Positions."""

    def reading(self, graph: GraphMap) -> dict[int, Take]:
        """What to read of a graph whose rows are all wanted. Call `add` once it has run."""

        def take(part: Part, node: Tensor) -> None:
            rows = _rows_of(read(node), node)
            total = rows.sum(axis=0, dtype=np.float64)
            self._sums[part] = self._sums.get(part, 0.0) + total

        return {
            ordinal: lambda node, part=part: take(part, node)  # type: ignore[misc]
            for part, ordinal in parts_of(graph).items()
        }

    def add(self, n_positions: int) -> None:
        self.n += n_positions

    def of(self, part: Part) -> Values:
        """[n], float32."""
        mean: Values = (self._sums[part] / self.n).astype(np.float32)
        return mean


class Cutting:
    """Some cuts in one graph. `means`: None for zero."""

    def __init__(self, cuts: Sequence[Cut], graph: GraphMap, means: Means | None) -> None:
        """Raises Refusal where this graph has no such part."""
        self._means = means
        self._heads: dict[int, set[int]] = {}
        self._blocks: set[Part] = set()
        for cut in cuts:
            layer = graph.layers[cut.layer]
            if cut.kind in ("head", "kv_head"):
                if layer.heads is None or not layer.n_head or not layer.n_kv_head:
                    raise Refusal("unsupported", graph.missing.get("heads", NO_HEADS))
                self._heads.setdefault(cut.layer, set()).update(_heads_of(cut, layer))
                continue
            blocks = ("attention", "ffn", "other") if cut.kind == "layer" else (cut.kind,)
            parts = [p for p in parts_of(graph) if p.layer == cut.layer and p.block in blocks]
            if not parts:
                name = "ffn_out" if cut.kind == "ffn" else "attn_out"
                raise Refusal("unsupported", graph.missing.get(name, NO_STREAM))
            self._blocks.update(parts)

    def writing(self, graph: GraphMap, rows: Rows) -> dict[int, Take]:
        """What to put into a graph of the same structure, at the rows that are meant."""
        ordinals = parts_of(graph)
        found: dict[int, Take] = {}
        for number, heads in self._heads.items():
            part, n_head = Part(number, "heads"), graph.layers[number].n_head
            found[ordinals[part]] = self._putting(part, rows, sorted(heads), n_head)
        for part in self._blocks:
            found[ordinals[part]] = self._putting(part, rows, [0], 1)
        return found

    def _putting(self, part: Part, rows: Rows, slices: list[int], n_slices: int) -> Take:
        """Replaces some of `n_slices` equal slices of each row."""

        def put(node: Tensor) -> None:
            values = read(node)
            table = _rows_of(values, node)
            if not (meant := rows(len(table))).any():
                return
            cut = table.reshape(len(table), n_slices, -1)
            instead = np.zeros(table.shape[1], np.float32)
            if self._means is not None:
                instead = self._means.of(part)
            cut[np.ix_(meant, np.asarray(slices))] = instead.reshape(n_slices, -1)[slices]
            write(node, values)

        return put


def every_row(n_rows: int) -> Values:
    return np.ones(n_rows, bool)


def _heads_of(cut: Cut, layer: LayerNodes) -> set[int]:
    """Query heads share KV heads in groups: head h looks at KV head h // (n_head / n_kv_head)."""
    if cut.kind == "head":
        if cut.index >= layer.n_head:
            raise Refusal(
                "bad_setting", f"Layer {cut.layer} has the heads 0 to {layer.n_head - 1}."
            )
        return {cut.index}
    if cut.index >= layer.n_kv_head:
        last = layer.n_kv_head - 1
        raise Refusal("bad_setting", f"Layer {cut.layer} has the KV heads 0 to {last}.")
    size = layer.n_head // layer.n_kv_head
    return set(range(cut.index * size, (cut.index + 1) * size))


def _rows_of(values: Values, node: Tensor) -> Values:
    """[n_rows, n] of the same memory: one row for each token, whatever its shape is."""
    n_embd = int(node.ne[0])
    return values.reshape(-1, n_embd)
