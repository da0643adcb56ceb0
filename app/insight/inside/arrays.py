"""The arrays of an answer, as numpy has them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from app.engine.protocol.inside_messages import HEAD_SCORES, FloatArray, HeadsMeasured, Inside

Values = npt.NDArray[np.float32] | npt.NDArray[np.int32]


def arrays_of(told: Inside) -> dict[str, Values]:
    """By their names; nothing is copied, so nothing can be written.

    >>> from app.engine.protocol.frames import Array
    >>> from app.engine.protocol.inside_messages import FloatArray
    >>> told = FloatArray("residual", ["n_layer", "n_embd"], [1, 2], Array.of("f4", [1.5, 2.0]))
    >>> arrays_of(Inside(1, 0, 0, 0, 0.0, [told], [], []))["residual"].tolist()
    [[1.5, 2.0]]
    """
    found: dict[str, Values] = {**floats_of(told.floats)}
    for ints in told.ints:
        found[ints.name] = np.frombuffer(ints.values.data, "<i4").reshape(ints.shape)
    return found


def floats_of(told: Iterable[FloatArray]) -> dict[str, npt.NDArray[np.float32]]:
    """The same of some of them."""
    return {each.name: np.frombuffer(each.values.data, "<f4").reshape(each.shape) for each in told}


def head_scores(told: HeadsMeasured) -> npt.NDArray[np.float32]:
    """[n_layer, n_head, len(HEAD_SCORES)]."""
    shape = (told.n_layer, told.n_head, len(HEAD_SCORES))
    return np.frombuffer(told.scores.data, "<f4").reshape(shape)
