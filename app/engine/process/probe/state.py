"""In which cells a copied sequence comes to lie: read from the copy itself.

llama.cpp's copy of a sequence begins with the position of each cell, in the order of the cells it
was taken from, and an empty cache takes them in that order. Attention is stored by cell, so without
this order nobody could say which word a column is. The form is llama.cpp's own (`state_write_meta`
and `state_write_data` in llama-kv-cache.cpp) and nobody has promised it: each number is checked
against what must be there, and where one does not fit, the text is read again instead.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Positions = np.ndarray[Any, np.dtype[np.int32]]

_MAX_LAYERS: Final = 4096


class _Reader:
    def __init__(self, data: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self._data, self._at = data, 0

    def take(self, dtype: str, count: int = 1) -> np.ndarray[Any, Any]:
        size = np.dtype(dtype).itemsize * count
        if count < 0 or self._at + size > len(self._data):
            raise ValueError("the copy is shorter than it says")
        found = np.frombuffer(self._data, dtype, count, self._at)
        self._at += size
        return found

    def number(self, dtype: str = "<u4") -> int:
        return int(self.take(dtype)[0])

    def skip(self, size: int) -> None:
        self.take("u1", size)

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)


def positions_in(
    data: np.ndarray[Any, np.dtype[np.uint8]], n_caches: int, n_tokens: int
) -> list[tuple[Positions, int]] | None:
    """Of each cache in a copy of a sequence: the position in each cell, as they are restored, and
    of how many layers it is. The one without a window comes first. None where the copy has another
    form than the one that is known here."""
    try:
        reader = _Reader(data)
        reader.skip(8)  # a mark of the form, and the sequence's number
        found = [_positions(reader) for _ in range(n_caches)]
        if not reader.is_at_end:
            return None
    except ValueError:
        return None
    for positions, _ in found:
        held = np.sort(positions)
        # Each cache holds an unbroken stretch that reaches the last token.
        first = n_tokens - len(held)
        if first < 0 or not np.array_equal(held, np.arange(first, n_tokens)):
            return None
    return found


def _positions(reader: _Reader) -> tuple[Positions, int]:
    if reader.number() != 1:  # streams
        raise ValueError
    n_cells = reader.number()
    if not n_cells:
        return np.empty(0, np.int32), 0
    cells = reader.take("<i4", 3 * n_cells).reshape(-1, 3)  # position, 1 sequence, its number
    if not (cells[:, 1] == 1).all():
        raise ValueError
    is_transposed, n_layer = reader.number(), reader.number()
    if is_transposed > 1 or n_layer > _MAX_LAYERS:
        raise ValueError
    for _ in range(n_layer):  # keys: a type, bytes of a row, rows
        reader.skip(4)
        reader.skip(reader.number("<u8") * n_cells)
    for _ in range(n_layer):  # values: the same, or column by column
        reader.skip(4)
        if is_transposed:
            size, width = reader.number(), reader.number()
            reader.skip(size * width * n_cells)
        else:
            reader.skip(reader.number("<u8") * n_cells)
    return np.ascontiguousarray(cells[:, 0]), n_layer
