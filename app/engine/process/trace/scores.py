"""Scores as they come out of a decode, and the exponentials of a whole vocabulary.

llama.cpp writes the scores (logits) of the next decode over those of the last one. Until then they
are read where they lie; whoever wants them for longer keeps a copy. What must hold: a copy is
nobody else's as long as somebody has it.
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


class ScoreRows:
    """The scores of a context's batch rows, where llama.cpp has written them. `latest`: the address
    of the row asked for last; numpy takes long to tell it of its array."""

    def __init__(self, context: Any, n_vocab: int) -> None:
        self._context = context
        self._n_vocab = n_vocab
        self.latest = 0
        self._views: dict[int, Scores] = {}
        """By address: to make one costs 10 µs, and they stay where they are from pass to pass."""

    def at(self, row: int) -> Scores:
        """[n_vocab], until the next decode. Raises NativeError where the row has none."""
        self.latest = address = _address_of(self._context, row)
        view = self._views.get(address)
        if view is None:
            if len(self._views) == _MOST_VIEWS:
                self._views.clear()
            there = (ctypes.c_float * self._n_vocab).from_address(address)
            view = self._views[address] = np.ctypeslib.as_array(there)
            view.flags.writeable = False
        return view


_MOST_VIEWS: Final = 1024


class ScoreBuffers:
    """Copies of one row's scores after the other: an array that nobody holds any more is used
    again, since a fresh one costs more than the copy (80 µs for 49,152 scores, 100 for 262,144).

    Whoever wants to keep scores just keeps the array, or a view of it. One thread copies; any
    thread lets go.
    """

    MOST: Final = 16
    """More are in use only where the trace is far behind; those are not kept."""

    def __init__(self, n_vocab: int, most: int = MOST) -> None:
        self._n_vocab = n_vocab
        self._most = most
        self._arrays: list[Scores] = []
        self._next = 0
        self._add()
        self._references_if_free = self._references(0)

    def copy(self, scores: Scores) -> Scores:
        """`scores` [n_vocab] as they are now."""
        at = self._free()
        if at < 0:
            return scores.copy()
        array = self._arrays[at]
        np.copyto(array, scores)
        return array

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

    def of(self, address: int, largest: float) -> float | None:
        """out = exp(values − largest) for the n values that lie there; their sum. None where only
        numpy could do it, which doesn't know the place."""
        if _exp is None:
            return None
        n, out, _ = self._places
        return float(_exp(n, out, address, largest))
