"""The candidates of a draw as llama.cpp's samplers take them: one array shared with C.

Each sampler changes the array in place, shrinks it or puts another one in its place; between two
of them Python reads what is left without copying it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from app.engine.process.native.arrays import CANDIDATE
from app.engine.process.native.native import llama
from app.engine.process.trace.shortlist import Scores, Shortlist, ShortlistFinder


class _Array(ctypes.Structure):
    """llama_token_data_array with its pointer as a number: reading a typed pointer costs more
    than most stages do."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


class Candidates:
    """One candidate array for a vocabulary: filled by columns, shrunk in place by samplers.

    Writing 262,144 candidates costs more than any stage does, so they are written only when a
    stage asks for them; until then there are the scores alone. A stage that keeps the best k gets
    those few that can be among them (`narrow`).
    """

    def __init__(self, n_vocab: int) -> None:
        self._array = np.zeros(n_vocab, CANDIDATE)
        self._id_column: np.ndarray[Any, np.dtype[np.int32]] = self._array["id"]
        self._logit_column: Scores = self._array["logit"]
        self._ids = np.arange(n_vocab, dtype=np.int32)
        self._own = np.zeros(n_vocab, np.float32)
        self._scores: Scores = self._own
        self._shortlist: Shortlist | None = None
        self._finder = ShortlistFinder(n_vocab)
        self._is_written = False
        self._address = self._array.ctypes.data
        self._pointer = self._array.ctypes.data_as(llama.llama_token_data_p)
        self.native = llama.llama_token_data_array()
        self._reference = ctypes.byref(self.native)
        self._raw = _Array.from_buffer(self.native)
        self._first = llama.llama_token_data.from_address(self._address)

    def fill(self, logits: Scores, shortlist: Shortlist | None = None) -> None:
        """Start again with the whole vocabulary. Samplers write `p` before they read it.

        `logits` must stay as they are until the token is drawn; they are only read. `shortlist`:
        of these logits, if there is one.
        """
        self._scores = logits
        self._shortlist = shortlist
        self._is_written = False
        self.native.data = self._pointer
        self.native.size = len(self._array)
        self.native.selected = -1
        self.native.sorted = False

    def _changeable(self) -> Scores:
        """The scores by ID, to be written into: a copy of our own, or the array's column."""
        self._shortlist = None
        if self._is_written:
            return self._logit_column
        if self._scores is not self._own:
            self._own[:] = self._scores
            self._scores = self._own
        return self._own

    def _write(self) -> None:
        if not self._is_written:
            self._is_written = True
            self._id_column[:] = self._ids
            self._logit_column[:] = self._scores

    @property
    def reference(self) -> Any:
        """The array as samplers take it."""
        self._write()
        return self._reference

    @property
    def best_score(self) -> float:
        """The largest score of those that are left."""
        return float(np.max(self.view["logit"] if self._is_written else self._scores))

    @property
    def first_score(self) -> float:
        """The score of the first candidate; where one is finite, it nearly always is."""
        if not self._is_written:
            return float(self._scores[0])
        is_here = self._raw.data == self._address
        return float(self._first.logit if is_here else self.native.data[0].logit)

    @property
    def selected_id(self) -> int:
        """The token that a selecting stage has chosen; −1 where it has chosen none."""
        selected = self._raw.selected
        if not 0 <= selected < self._raw.size:
            return -1
        return int(self.native.data[selected].id)

    def narrow(self, k: int) -> None:
        """Keep only candidates that can be among the best k, in their order; a stage that sorts
        out the best k comes next and finds the same ones. Without effect where they were written
        already, or where equal scores leave it to the sorting which of them come first.
        """
        if self._is_written or not 0 < k <= len(self._scores) // 8:
            return
        found = self._shortlist
        best = None if found is None else found.highest(k + 1)
        if found is None or best is None:
            found = self._finder.find(self._scores, k + 1)
            best = found.highest(k + 1)
        if best is None or len(set(best)) <= k:
            return
        count = len(found)
        self._id_column[:count] = found.ids
        self._logit_column[:count] = found.scores
        self._is_written = True
        self.native.size = count

    def ban(self, token_ids: np.ndarray[Any, np.dtype[np.int32]]) -> None:
        """Set tokens to −inf; only right after `fill`, while candidate i is token i."""
        self._changeable()[token_ids] = -np.inf

    def keep(self, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Drop the candidates that are not `wanted`; the others keep their order."""
        left = self.view[wanted]
        self.view[: len(left)] = left
        self.native.size = len(left)

    def apply_to(self, sampler: Any, token_ids: np.ndarray[Any, np.dtype[np.int32]]) -> Any:
        """Apply a sampler that judges each candidate by itself to these tokens alone, while
        candidate i is token i. Returns their new scores."""
        scores = self._changeable()
        few = np.empty(len(token_ids), CANDIDATE)
        few["id"] = token_ids
        few["logit"] = scores[token_ids]
        pointer = few.ctypes.data_as(llama.llama_token_data_p)
        array = llama.llama_token_data_array(data=pointer, size=len(few), selected=-1)
        llama.llama_sampler_apply(sampler, ctypes.byref(array))
        scores[token_ids] = few["logit"]
        return few["logit"].copy()

    @property
    def address(self) -> int:
        """Where the first candidate lies (a sampler may have moved it)."""
        self._write()
        return self._raw.data or 0

    def copy(self) -> bytes:
        """What is left now, as llama.cpp's candidates one after the other."""
        self._write()
        return ctypes.string_at(self._raw.data, self._raw.size * CANDIDATE.itemsize)

    @property
    def view(self) -> np.ndarray[Any, Any]:
        """What is left now, as it lies in memory (a sampler may have replaced the array)."""
        address = self.address
        size = int(self.native.size)
        if address == self._address:
            left: np.ndarray[Any, Any] = self._array[:size]
            return left
        raw = (ctypes.c_ubyte * (size * CANDIDATE.itemsize)).from_address(address)
        elsewhere: np.ndarray[Any, Any] = np.ctypeslib.as_array(raw).view(CANDIDATE)
        return elsewhere
