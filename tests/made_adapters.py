"""LoRA adapters and control vectors for small files, written byte by byte by the tests' own writer,
and the transformer in numpy with the same in force: merged into its weights, added to its stream.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf_writer import Tensor, Typed, normal_numbers, write_gguf
from reference_network import Network, Reading

from app.gguf.header import read_header

Values = np.ndarray[Any, np.dtype[np.float32]]


def write_lora(
    path: Path,
    base: Path,
    targets: Sequence[str],
    *,
    rank: int = 3,
    alpha: float = 6.0,
    seed: int = 5,
) -> dict[str, Values]:
    """A LoRA adapter for some matrices of `base`. Returns what it adds to each at scale 1, [n_out,
    n_in]: alpha / rank · B · A."""
    header, source = read_header(base), random.Random(seed)
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    tensors: dict[str, Tensor] = {}
    added: dict[str, Values] = {}
    for target in targets:
        n_in, n_out = shapes[target][:2]
        a = np.array(normal_numbers(source, rank * n_in, 0.2), np.float32)
        b = np.array(normal_numbers(source, rank * n_out, 0.2), np.float32)
        tensors[f"{target}.lora_a"] = Tensor((n_in, rank), a.tolist())
        tensors[f"{target}.lora_b"] = Tensor((rank, n_out), b.tolist())
        added[target] = alpha / rank * (b.reshape(n_out, rank) @ a.reshape(rank, n_in))
    metadata = {
        "general.type": "adapter",
        "general.name": "Small adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": alpha,
    }
    write_gguf(
        path, architecture=header.architecture, template=None, metadata=metadata, tensors=tensors
    )
    return added


def write_vector(
    path: Path,
    n_layer: int,
    n_embd: int,
    *,
    seed: int = 7,
    spread: float = 0.5,
    layers: Sequence[int] | None = None,
    metadata: Mapping[str, Any] | None = None,
    architecture: str = "controlvector",
    replaced: Mapping[str, Tensor] | None = None,
    **options: Any,
) -> dict[int, Values]:
    """A control vector in llama.cpp's form. Returns the direction of each layer."""
    source = random.Random(seed)
    rows = {
        layer: np.array(normal_numbers(source, n_embd, spread), np.float32)
        for layer in (range(1, n_layer) if layers is None else layers)
    }
    tensors = {f"direction.{n}": Tensor((n_embd,), row.tolist()) for n, row in rows.items()}
    pairs = {
        "controlvector.model_hint": "llama",
        "controlvector.layer_count": Typed("u32", len(rows)),
    }
    write_gguf(
        path,
        architecture=architecture,
        template=None,
        metadata=pairs | dict(metadata or {}),
        tensors=tensors | dict(replaced or {}),
        **options,
    )
    return rows


class Adapted(Network):
    """`added`: to each matrix, [n_out, n_in]. `directions`: to the stream behind each layer."""

    def __init__(
        self,
        path: Path,
        added: Mapping[str, Values] | None = None,
        directions: Mapping[int, Values] | None = None,
    ) -> None:
        super().__init__(path)
        self._added = dict(added or {})
        self._directions = dict(directions or {})

    def _product(self, name: str, x: Values, rows: tuple[int, int] | None = None) -> Values:
        matrix = self._file.matrix(name, rows)
        if name in self._added:
            added = self._added[name]
            matrix = matrix + (added if rows is None else added[rows[0] : rows[1]])
        out: Values = x @ matrix.T
        return out

    def run_layer(self, layer: int, x: Values, reading: Reading) -> Values:
        x = super().run_layer(layer, x, reading)
        if layer in self._directions:
            x = reading.residual[-1] = x + self._directions[layer]
        return x


def last_scores(network: Network, ids: list[int]) -> Values:
    """What follows a text, [n_vocab]."""
    scores: Values = network.scores(network.read(ids).residual[-1][-1:])[0]
    return scores


def scaled(added: Mapping[Any, Values], scale: float) -> dict[Any, Values]:
    return {name: np.float32(scale) * values for name, values in added.items()}


def distance(found: Values, wanted: Values) -> float:
    """Relative: the largest difference, by the spread of what was wanted."""
    return float(np.abs(found - wanted).max() / max(float(wanted.std()), math.ulp(1.0)))
