"""A probe on weights of its own, and one question to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from native_session import load_quietly

from app.engine.process.cache.cells import Cells
from app.engine.process.native.native import NativeLog
from app.engine.process.native.weights import Weights
from app.engine.process.probe.file_tensors import FileTensors
from app.engine.process.probe.probe import Asked, Looked, Probe
from app.engine.process.scheduling.scheduler import traits_of
from app.engine.protocol.inside_messages import WANTED

Arrays = dict[str, np.ndarray[Any, Any]]

PLAIN: dict[str, Any] = {"type_k": "f32", "type_v": "f32", "flash_attention": "off"}
"""Nothing is rounded to less than float32."""


@contextmanager
def weights_of(path: Path, log: NativeLog, **options: Any) -> Iterator[Weights]:
    """On the processor, whose roundings are known, with one thread."""
    fixed: dict[str, Any] = {"n_ctx": 256, "n_threads": 1, "n_gpu_layers": 0}
    weights = load_quietly(path, log, **(fixed | options))
    try:
        yield weights
    finally:
        weights.close()


@contextmanager
def probe_of(
    weights: Weights, slots: Callable[[], Iterable[Cells]] = lambda: ()
) -> Iterator[Probe]:
    probe = Probe(weights, slots, traits_of(weights))
    try:
        yield probe
    finally:
        probe.close()


def look(probe: Probe, ids: list[int], want: Iterable[str] = WANTED, **fields: Any) -> Looked:
    """The answer to one question."""

    def matrix(name: str) -> np.ndarray[Any, Any]:
        path = Path(probe._weights.loaded.path)
        tensors = _tensors(path, path.stat().st_mtime_ns)
        return tensors.rows(name, 0, tensors.shape(name)[0])

    *before, found = probe.look(Asked(ids, want, mixing=matrix, **fields))
    assert before == [None] * len(before)
    assert found is not None
    return found


@cache
def _tensors(path: Path, _written_ns: int) -> FileTensors:
    return FileTensors(path)


def walk(probe: Probe, ids: list[int], want: Iterable[str]) -> list[Arrays]:
    """What is found at each token of a text."""
    return [look(probe, ids[: n + 1], want).arrays for n in range(len(ids))]


def some_ids(count: int, seed: int = 3) -> list[int]:
    """Tokens of the vocabulary that tiny files have."""
    ids: list[int] = np.random.default_rng(seed).integers(3, 300, count).tolist()
    return ids


def distance(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """‖found − wanted‖ ÷ ‖wanted‖ of each layer, or of the one vector that there is."""
    assert found.shape == wanted.shape
    if found.ndim > 1:
        found, wanted = (each.reshape(len(each), -1) for each in (found, wanted))
    lengths = np.linalg.norm(np.atleast_2d(wanted), axis=1)
    return np.asarray(np.linalg.norm(np.atleast_2d(found - wanted), axis=1) / lengths)
