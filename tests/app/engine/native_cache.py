"""What llama.cpp itself says of its KV cache, and a model of it made of plain sets.

llama.cpp tells neither how many cells are taken nor which are shared, but the size of its whole
state (llama_state_get_size) follows from both: for each taken cell 8 bytes, its rows, and 4 bytes
for each sequence that holds it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from app.engine.process.native.native import Batch, llama
from app.engine.process.native.weights import Weights
from app.engine.protocol.cache_messages import CacheMap
from app.insight.cache.cells import CellMap


@dataclass
class CacheModel:
    """Each cell is its position and the sequences that hold it, as llama.h tells of `seq_cp` and
    `seq_rm`."""

    cells: list[tuple[int, set[int]]] = field(default_factory=list)

    def write(self, sequence: int, n: int) -> None:
        start = self.length(sequence)
        self.cells += [(start + i, {sequence}) for i in range(n)]

    def copy(self, source: int, target: int, end: int) -> None:
        self.remove(target, 0)
        for position, holders in self.cells:
            if source in holders and position < end:
                holders.add(target)

    def remove(self, sequence: int, start: int) -> None:
        for position, holders in self.cells:
            if position >= start:
                holders.discard(sequence)
        self.cells = [cell for cell in self.cells if cell[1]]

    def length(self, sequence: int) -> int:
        return sum(sequence in holders for _, holders in self.cells)

    def held(self) -> Counter[tuple[int, frozenset[int]]]:
        return Counter((position, frozenset(holders)) for position, holders in self.cells)


def shown(told: CacheMap) -> Counter[tuple[int, frozenset[int]]]:
    """The same of the cells that the map shows."""
    cells = CellMap(told)
    found: Counter[tuple[int, frozenset[int]]] = Counter()
    for cell in range(cells.n_used):
        stretch = cells.at(cell)
        assert stretch is not None
        holders = frozenset(told.slots[index].sequence for index in stretch.holders)
        found[stretch.position + cell - stretch.first, holders] += 1
    return found


def native_used(weights: Weights, n_held: int) -> int:
    """Cells that are taken in llama.cpp's cache. `n_held`: in how many sequences, all told."""
    shape = weights.loaded.cache
    assert shape is not None
    n_caches = 2 if shape.n_window_layers else 1
    empty = 8 + 9 * n_caches
    size = llama.llama_state_get_size(weights.context)
    if size == empty:
        return 0
    head = empty + 8 * n_caches + 24 * sum(group.n_layers for group in shape.layers)
    rest = size - head - 4 * n_caches * n_held
    used, left_over = divmod(rest, shape.bytes_per_token + 8 * n_caches)
    assert left_over == 0, "the state is no whole number of cells"
    return int(used)


def decode(weights: Weights, ids: list[int], position: int, sequence: int) -> None:
    batch = Batch(weights.n_ubatch, weights.n_slots)
    for start in range(0, len(ids), weights.n_ubatch):
        batch.clear()
        chunk = ids[start : start + weights.n_ubatch]
        batch.add(chunk, position + start, sequence, want_scores=False)
        assert llama.llama_decode(weights.context, batch.native) == 0


def ends(weights: Weights, sequence: int) -> tuple[int, int]:
    """The first and the last position that llama.cpp has of a sequence; -1 for none."""
    first = llama.llama_memory_seq_pos_min(weights.memory, sequence)
    return int(first), int(llama.llama_memory_seq_pos_max(weights.memory, sequence))
