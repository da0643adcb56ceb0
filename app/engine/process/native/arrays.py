"""Arrays of numpy as C has them, and as they travel on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from app.engine.protocol.frames import Array
from app.engine.protocol.inside_messages import FloatArray, IntArray

CANDIDATE: Final = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])
"""llama_token_data, so that an array of them is filled by columns and read without copies."""


def as_array(values: np.ndarray[Any, Any]) -> Array:
    """A numpy array as it travels on the wire.

    >>> as_array(np.array([1, 2], np.int32)).dtype
    'i4'
    """
    values = np.ascontiguousarray(values)
    name = f"{values.dtype.kind}{values.dtype.itemsize}"
    data = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    return Array(name, list(values.shape), data)


def named_arrays(
    found: Mapping[str, np.ndarray[Any, Any]], axes: Mapping[str, Sequence[str]]
) -> tuple[list[FloatArray], list[IntArray]]:
    """Arrays of any shape with the names of their axes: what is counted as int32, all else as
    float32.

    >>> floats, ints = named_arrays({"norms": np.ones((2, 3))}, {"norms": ("n_layer", "n_head")})
    >>> floats[0].axes, floats[0].shape, ints
    (['n_layer', 'n_head'], [2, 3], [])
    """
    floats, ints = [], []
    for name, values in found.items():
        own, shape = list(axes[name]), list(values.shape)
        if values.dtype.kind == "i":
            ints.append(IntArray(name, own, shape, as_array(values.astype(np.int32).reshape(-1))))
        else:
            flat = values.astype(np.float32, copy=False).reshape(-1)
            floats.append(FloatArray(name, own, shape, as_array(flat)))
    return floats, ints
