"""The context of one search: a sequence for each open node, forked where a beam splits.

A node's sequence holds the text and the node's tokens before its own, which is decoded when the
search asks for the scores behind it. What two beams have in common is one set of cells, of which
each sequence holds a part; where a layer keeps one state instead, llama.cpp gives the fork a copy.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from app.engine.process.beams.search import Node
from app.engine.process.cache.cells import Cells, Traits, usable_in_copy
from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights
from app.engine.process.scheduling.slices import BrokenOff
from app.engine.process.trace.scores import scores_of
from app.engine.process.trace.shortlist import Scores
from app.refusal import Refusal

FAILED: Final = "llama.cpp failed during the search. The engine log has the details."

_WORTH_COPYING: Final = 32
"""Fewer tokens are read as fast."""

_ABORTED: Final = 2


class BeamWeights(Weights):
    """The same weights over the context of the search that runs, with threads of its own."""

    def __init__(self, weights: Weights) -> None:
        self.__dict__.update(weights.__dict__)
        self.context = None

    def take(self, context: Any) -> None:
        self.context = context
        self.set_threads(self.n_threads)

    def set_threads(self, n_threads: int) -> None:
        self.n_threads = n_threads
        if self.context is not None:
            super().set_threads(n_threads)


class Forks:
    """Works on the context that `weights` have taken, which has `n_sequences`; `close` frees it."""

    def __init__(
        self, weights: BeamWeights, traits: Traits, request_id: int, n_sequences: int
    ) -> None:
        context = weights.context
        self.request_id: Final = request_id
        self.n_copied = 0
        self.n_read = 0
        self._weights = weights
        self._context = context
        self._memory = llama.llama_get_memory(context)
        self._cells = Cells(context, 0, traits)
        self._batch = Batch(max(weights.n_ubatch, n_sequences), n_sequences)
        self._n_text = 0
        self._sequences = range(n_sequences)
        self._places: dict[int, int] = {0: 0}
        """Number of a node → the sequence that holds its text."""
        self._lock = threading.Lock()
        self._is_in_flight = False

    def close(self) -> None:
        llama.llama_free(self._context)
        self._context = self._weights.context = None

    def break_off(self) -> None:
        """End the decode that runs, if one does. From any thread."""
        with self._lock:
            if self._is_in_flight:
                self._weights.abort.set()

    # --- the text -----------------------------------------------------------------------------

    def copy_prefix(self, ids: Sequence[int], slots: Sequence[Cells], adapters: str) -> None:
        """Take over the longest beginning of the text that a slot holds, computed with the same
        adapters. The last token is always read: its scores are kept nowhere."""
        before = ids[:-1]
        spare = next((cells.sequence for cells in slots if not cells.ids), None)

        def usable(cells: Cells) -> int:
            if cells.adapters != adapters:
                return 0
            return usable_in_copy(cells, before, has_spare=spare is not None)

        source = max(slots, key=usable, default=None)
        length = usable(source) if source is not None else 0
        if source is None or length < _WORTH_COPYING:
            return
        held = list(source.ids)
        if source.first_position_of_copy > 0 and length < len(held) and spare is not None:
            held = held[:length]
            data = source.save_first(length, spare)
        else:
            data = source.save()
        if data is not None and self._cells.restore(data, held) and self._cells.cut(length):
            self.n_copied = length

    def n_left(self, ids: Sequence[int]) -> int:
        """Tokens of the text that are still to be read."""
        return len(ids) - len(self._cells)

    def read(self, ids: Sequence[int], chunk: int) -> None:
        """Decode the next tokens of the text. Raises Refusal or BrokenOff."""
        start = len(self._cells)
        tokens = list(ids[start : start + chunk])
        self._batch.clear()
        is_last = start + len(tokens) == len(ids)
        self._batch.add(tokens, start, 0, want_scores=is_last)
        self._decode()
        self._cells.extend(tokens)
        self._n_text = len(self._cells)
        self.n_read += len(tokens)

    def scores_of_text(self) -> Scores:
        """Behind its last token, which has just been read."""
        return scores_of(self._context, self._batch.size - 1, self._weights.vocabulary.n_vocab)

    def n_cells(self, nodes: Sequence[Node]) -> int:
        """Cells that the sequences of these nodes see, all together."""
        return sum(self._n_text + node.step for node in nodes)

    # --- the tree -----------------------------------------------------------------------------

    def follow(self, nodes: Sequence[Node]) -> dict[int, Scores]:
        """Decode the tokens of these nodes, whose parents were decoded last, in one batch; number
        → the scores behind each. Raises Refusal or BrokenOff."""
        self._fork(nodes)
        self._batch.clear()
        rows = {
            node.number: self._batch.add(
                [node.token_id],
                self._n_text + node.step - 1,
                self._places[node.number],
                want_scores=True,
            )
            for node in nodes
        }
        self._decode()
        n_vocab = self._weights.vocabulary.n_vocab
        return {number: scores_of(self._context, row, n_vocab) for number, row in rows.items()}

    def _fork(self, nodes: Sequence[Node]) -> None:
        """Each node gets its parent's sequence, or a fork of it. First those that nothing goes on
        from are emptied, so that there is always one to fork into."""
        places, others = dict[int, int](), list[tuple[Node, int]]()
        for node in nodes:
            assert node.parent is not None
            place = self._places[node.parent.number]
            if place in places.values():
                others.append((node, place))
            else:
                places[node.number] = place
        unused = [place for place in self._sequences if place not in places.values()]
        for place in unused:
            llama.llama_memory_seq_rm(self._memory, place, -1, -1)
        for (node, source), place in zip(others, unused, strict=False):
            llama.llama_memory_seq_cp(self._memory, source, place, -1, -1)
            places[node.number] = place
        self._places = places

    def _decode(self) -> None:
        with self._lock:
            self._weights.abort.clear()  # it was set for a reply
            self._is_in_flight = True
        code = llama.llama_decode(self._context, self._batch.native)
        llama.llama_synchronize(self._context)
        with self._lock:
            self._is_in_flight = False
            self._weights.abort.clear()
        if code == _ABORTED:
            raise BrokenOff
        if code:
            raise Refusal("native_error", FAILED, f"llama_decode returned {code}")
