"""Arrays of numpy as C has them, and as they travel on the wire."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from app.engine.protocol.frames import Array

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
