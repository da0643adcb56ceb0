"""The direction in which two groups of prompts differ, layer by layer: a control vector.

Each prompt is read, and the residual stream behind each layer is taken at its last token, where the
network has made up its mind how to go on. Of each layer

    mean   d = mean(positive) - mean(negative)      Rimsky et al., 2312.06681 (CAA)
    pca    d = main direction of the pairs' differences: the first right singular vector of
           [positive_i - negative_i], not centred, as llama.cpp's cvector-generator takes it; it
           points to the positive ones, as repeng has it (Zou et al., 2310.01405)

Those two write directions of length 1, and each model then needs another scale. Here a direction is
as long as the groups lie apart along it, so a scale of 1 moves the stream from the one to the
other, in each layer by what is usual there. Direction N is taken behind layer N, counted from 0,
and llama.cpp adds it there (so does repeng; cvector-generator's are one layer late).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from app.engine.process.native.arrays import as_array
from app.engine.process.probe.probe import Asked, Probe
from app.engine.protocol.adapter_messages import VectorMade, VectorMethod
from app.refusal import Refusal

NO_STREAM: Final = (
    "The residual stream of this model can't be read in each layer, so no control vector can be "
    "made."
)
SAME: Final = "The two groups say the same, so there is no direction between them."
ONE_LAYER: Final = "A model of one layer can't have a control vector."

Values = np.ndarray[Any, np.dtype[np.float32]]


class Direction(NamedTuple):
    """Of one layer: `values` [n_embd]; `separation` and `spread` as in `VectorMade`."""

    values: Values
    separation: float
    spread: float


def direction(positive: Values, negative: Values, method: VectorMethod) -> Direction:
    """Of streams [n, n_embd] each; for "pca" row i of the one is the pair of row i of the other."""
    apart = positive.mean(axis=0, dtype=np.float64) - negative.mean(axis=0, dtype=np.float64)
    unit = _unit(apart)
    if method == "pca":
        unit = _main(positive.astype(np.float64) - negative)
        if unit @ apart < 0:
            unit = -unit
    on_it = positive @ unit, negative @ unit
    middle = (on_it[0].mean() + on_it[1].mean()) / 2
    n_right = int(np.sum(on_it[0] > middle) + np.sum(on_it[1] < middle))
    everyone = np.concatenate([positive, negative]).astype(np.float64)
    everyone -= everyone.mean(axis=0)
    total = float(np.sum(everyone**2))
    spread = float(np.sum((everyone @ unit) ** 2)) / total if total > 0 else 0.0
    return Direction(
        (unit * (unit @ apart)).astype(np.float32), n_right / len(everyone), min(spread, 1.0)
    )


def _unit(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


def _main(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The direction of length 1 along which the rows are longest together. There are far fewer rows
    than columns, so it is found among the rows: rowsᵀ · v / σ, of the eigenvector v of rows · rowsᵀ
    with the largest eigenvalue σ²."""
    _, vectors = np.linalg.eigh(rows @ rows.T)
    return _unit(rows.T @ vectors[:, -1])


def make_vector(
    probe: Probe,
    positive: Sequence[Sequence[int]],
    negative: Sequence[Sequence[int]],
    method: VectorMethod,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[VectorMade | None]:
    """Of token IDs. Work in slices, as `Probe.look`; `progress` counts examples. Raises Refusal."""
    groups: list[list[Values]] = [[], []]
    n_all = len(positive) + len(negative)
    for group, texts in zip(groups, (positive, negative), strict=True):
        for ids in texts:
            for found in probe.look(Asked(ids, ("residual",))):
                if found is None:
                    yield None
                    continue
                streams = found.arrays.get("residual")
                if streams is None or not np.isfinite(streams).all():
                    raise Refusal("unsupported", found.missing.get("residual") or NO_STREAM)
                group.append(streams[1:])
            progress(sum(map(len, groups)), n_all)
            yield None
    plus, minus = (np.stack(group, axis=1) for group in groups)
    if not len(plus):
        raise Refusal("unsupported", ONE_LAYER)
    found_in = [direction(p, m, method) for p, m in zip(plus, minus, strict=True)]
    values = np.stack([each.values for each in found_in])
    if not values.any():
        raise Refusal("bad_setting", SAME)
    yield VectorMade(
        n_layer=len(values) + 1,
        n_embd=values.shape[1],
        n_positive=len(positive),
        n_negative=len(negative),
        method=method,
        directions=as_array(values.reshape(-1)),
        separation=[each.separation for each in found_in],
        spread=[each.spread for each in found_in],
    )
