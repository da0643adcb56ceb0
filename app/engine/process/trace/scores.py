"""Scores as they come out of a decode: copies of them, and the exponentials of a whole vocabulary.

llama.cpp writes the scores (logits) of the next decode over those of the last one, and what is
said of a token is found out beside the next decode. So each row is copied. What must hold: a copy
is nobody else's as long as somebody has it.
"""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any, Final

import numpy as np

from app.engine.process.native.native import NativeError, cpu_library, llama
from app.engine.process.trace.shortlist import Scores

# The bindings' function makes a typed pointer, and numpy an array type of it: 60 µs per token.
_logits_address: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)(
    ctypes.cast(llama.llama_get_logits_ith, ctypes.c_void_p).value or 0
)


def _address_of(context: Any, row: int) -> int:
    """Where the scores of a batch row lie. Raises NativeError where it has none."""
    address: int | None = _logits_address(context, row)
    if not address:
        raise NativeError("llama.cpp has no scores for this row")
    return address


def scores_of(context: Any, row: int, n_vocab: int) -> Scores:
    """A copy of the scores of a batch row, [n_vocab]; the next decode overwrites the original.
    Raises NativeError where the row has none."""
    address = _address_of(context, row)
    scores = np.empty(n_vocab, np.float32)
    ctypes.memmove(scores.ctypes.data, address, scores.nbytes)
    return scores


class ScoreBuffers:
    """The same for one token after the other: an array that nobody holds any more is used again,
    since a fresh one costs more than the copy (80 µs for 49,152 scores, 100 for 262,144).

    Whoever wants to keep scores just keeps the array, or a view of it. One thread copies; any
    thread lets go.
    """

    MOST: Final = 16
    """More are in use only where the trace is far behind; those are not kept."""

    def __init__(self, n_vocab: int, most: int = MOST) -> None:
        self._n_vocab = n_vocab
        self._most = most
        self._arrays: list[Scores] = []
        self._addresses: list[int] = []
        self._next = 0
        self._add()
        self._references_if_free = self._references(0)

    def copy(self, context: Any, row: int) -> Scores:
        """As `scores_of`."""
        address = _address_of(context, row)
        at = self._free()
        if at < 0:
            return scores_of(context, row, self._n_vocab)
        ctypes.memmove(self._addresses[at], address, 4 * self._n_vocab)
        return self._arrays[at]

    def _free(self) -> int:
        """The place of an array that nobody holds; −1 where all are in use."""
        count = len(self._arrays)
        for step in range(count):
            at = (self._next + step) % count
            if self._references(at) == self._references_if_free:
                self._next = at + 1
                return at
        if count == self._most:
            return -1
        self._next = 0
        return self._add()

    def _references(self, at: int) -> int:
        return sys.getrefcount(self._arrays[at])

    def _add(self) -> int:
        self._arrays.append(np.zeros(self._n_vocab, np.float32))
        self._addresses.append(self._arrays[-1].ctypes.data)
        return len(self._arrays) - 1


def _native_exp() -> Any:
    """ggml's own vector code for y = exp(x − max), which returns Σ y as a double: twice as fast as
    numpy's. None where the library does not export it, or where it says something else."""
    try:
        function = cpu_library().ggml_vec_soft_max_f32
    except AttributeError:
        return None
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float]
    trial = np.concatenate([np.linspace(-60, 0, 997), [-np.inf, -130.0]]).astype(np.float32)
    wanted = np.exp(trial.astype(np.float64))
    given = np.empty_like(trial)
    total = function(len(trial), given.ctypes.data, trial.ctypes.data, 0.0)
    is_close = np.allclose(given, wanted, rtol=1e-6, atol=1e-30)
    return function if is_close and math.isclose(total, wanted.sum(), rel_tol=1e-6) else None


_exp: Final = _native_exp()


class ExpAndSum:
    """out = exp(values) for two arrays [n] that stay where they are: asking numpy for an address
    costs 50 µs between two decodes. `values` are ≤ 0 and may be −inf."""

    def __init__(self, values: Scores, out: Scores) -> None:
        self._values, self._out = values, out
        self._places = (len(values), out.ctypes.data, values.ctypes.data)

    def __call__(self) -> float:
        """Fill `out`; return its sum."""
        if _exp is not None:
            return float(_exp(*self._places, 0.0))
        np.exp(self._values, out=self._out)
        return float(self._out.sum())
