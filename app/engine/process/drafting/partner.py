"""A draft model: smaller weights with the same vocabulary that say how a reply may go on.

It has a context of its own with the same sequences. What must hold: whatever its cache holds of a
sequence beyond what the reply says is cut off before it drafts again; a long prompt is read in
parts, so that nobody waits for it; what fails here ends drafting, never a reply.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from app.engine.process.drafting.state import Proposal
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights

_READ_S: Final = 0.08
"""What reading may take in a step beside what is written."""

_FIRST_CHUNK: Final = 16

Clock = Callable[[], float]


class DraftFailed(Exception):  # noqa: N818 - an outcome: the reply goes on without
    """llama.cpp refused; `args` are evidence."""


class Partner:
    """Drafts greedily: a proposal is its most probable token. `token_s`: what drafting one takes,
    as measured lately; 0 before."""

    def __init__(self, weights: Weights, clock: Clock) -> None:
        self.name = weights.loaded.name
        self._weights = weights
        self._clock = clock
        self._batch = Batch(weights.n_ubatch, weights.n_slots)
        self._held: list[list[int]] = [[] for _ in range(weights.n_slots)]
        self._row = 0
        self._rows_per_s = 0.0
        llama.llama_memory_clear(weights.memory, True)
        self.token_s = 0.0

    def set_threads(self, n_threads: int) -> None:
        if n_threads != self._weights.n_threads:
            self._weights.set_threads(n_threads)

    def propose(
        self, sequence: int, ids: list[int], most: int, goes_on: Callable[[float], bool]
    ) -> list[Proposal]:
        """Up to `most` tokens behind `ids`; nothing while those are still being read. After each,
        `goes_on(probability)` says whether to draft another. Raises DraftFailed."""
        if not self._catch_up(sequence, ids, most):
            return []
        found: list[Proposal] = []
        started = self._clock()
        while True:
            token_id, logprob = self._best()
            if self._weights.vocabulary.is_eog(token_id):
                break
            found.append(Proposal(token_id, logprob))
            if len(found) == most or not goes_on(math.exp(logprob)):
                break
            self._decode(sequence, [token_id], wants=True)
        if len(found) > 1:
            taken = (self._clock() - started) / (len(found) - 1)
            self.token_s = 0.7 * self.token_s + 0.3 * taken if self.token_s else taken
        return found

    def _catch_up(self, sequence: int, ids: list[int], most: int) -> bool:
        """Bring its cells to where the reply stands. False: there is more to read than a step may
        take."""
        held = self._held[sequence]
        keep = min(_common(held, ids), len(ids) - 1)
        if keep < len(held):
            self._cut(sequence, keep)
        rest = ids[keep:]
        self._make_room(sequence, len(ids) + most)
        limit = max(int(self._rows_per_s * _READ_S), _FIRST_CHUNK)
        chunk = rest[: min(limit, self._batch.capacity)]
        is_whole = len(chunk) == len(rest)
        started = self._clock()
        self._decode(sequence, chunk, wants=is_whole)
        elapsed = self._clock() - started
        if len(chunk) > 1 and elapsed > 0:
            self._rows_per_s = len(chunk) / elapsed
        if is_whole and len(chunk) == 1:
            self.token_s = self.token_s or elapsed
        return is_whole

    def _cut(self, sequence: int, keep: int) -> None:
        memory = self._weights.memory
        if not llama.llama_memory_seq_rm(memory, sequence, keep or -1, -1):
            llama.llama_memory_seq_rm(memory, sequence, -1, -1)
            keep = 0
        del self._held[sequence][keep:]

    def _make_room(self, sequence: int, wanted: int) -> None:
        """Others read theirs again when they draft next."""
        if wanted > self._weights.n_ctx:
            raise DraftFailed("the context window of the draft model is full")
        others = sorted(
            (i for i in range(len(self._held)) if i != sequence), key=lambda i: len(self._held[i])
        )
        while others and wanted + sum(len(self._held[i]) for i in others) > self._weights.n_ctx:
            self._cut(others.pop(), 0)

    def _decode(self, sequence: int, ids: list[int], *, wants: bool) -> None:
        held = self._held[sequence]
        self._batch.clear()
        self._row = self._batch.add(ids, len(held), sequence, want_scores=wants)
        code = self._weights.decode(self._batch.native)
        if code:
            self._cut(sequence, 0)
            raise DraftFailed(f"llama_decode of the draft model returned {code}")
        held.extend(ids)

    def _best(self) -> tuple[int, float]:
        """The most probable token, and how probable (nat)."""
        n_vocab = self._weights.vocabulary.n_vocab
        address = llama.llama_get_logits_ith(self._weights.context, self._row)
        scores = np.ctypeslib.as_array(address, (n_vocab,))
        token_id = int(scores.argmax())
        best = scores[token_id]
        if not math.isfinite(best):
            raise DraftFailed("the draft model gave no usable scores")
        return token_id, -math.log(float(np.exp(scores - best).sum()))


def _common(held: list[int], ids: list[int]) -> int:
    """Length of the longest common beginning; mostly one is the beginning of the other.

    >>> _common([1, 2, 3, 9], [1, 2, 4]), _common([1, 2], [1, 2, 4])
    (2, 2)
    """
    shorter = min(len(held), len(ids))
    if held[:shorter] == ids[:shorter]:
        return shorter
    different = np.flatnonzero(np.array(held[:shorter]) != np.array(ids[:shorter]))
    return int(different[0])
