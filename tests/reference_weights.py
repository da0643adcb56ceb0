"""The numbers in a GGUF file, by numpy alone: what the network's values are proved against.

A quantised tensor is a row of blocks. A block holds a few small integers and the numbers that turn
them back: a step d, often a lowest value m, both float16. Of the types here

    Q8_0   32 values   v = d · q                          q: −128 … 127
    Q5_0   32 values   v = d · (q − 16)                   q: 5 bits, the fifth of all in one word
    Q4_1   32 values   v = d · q + m                      q: 4 bits, first halves in the low ones
    Q4_K  256 values   v = d · s · q − m · t              s, t: 6 bits for each 32 values
    Q6_K  256 values   v = d · s · (q − 32)               s: 8 bits for each 16 values

(ggml-common.h has the blocks; none of ggml's code is used here.) Where the CPU multiplies by such a
tensor it rounds the *other* factor, too: `cpu_product`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from app.gguf.header import Header, read_header

Values = np.ndarray[Any, np.dtype[np.float32]]
Blocks = np.ndarray[Any, np.dtype[np.uint8]]


class Weights:
    """One file. Tensors are made float32 when they are asked for, and not kept."""

    def __init__(self, path: Path) -> None:
        header = _header(path, path.stat().st_mtime_ns)
        self.architecture = header.architecture
        self._metadata = header.metadata
        self._table = {tensor.name: tensor for tensor in header.tensors}
        self._start = header.data_offset
        self._bytes = np.memmap(path, np.uint8, "r")

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def number(self, key: str, default: float | None = None) -> float:
        """A value of this architecture: `block_count` is `llama.block_count`."""
        value = self._metadata.get(f"{self.architecture}.{key}", default)
        assert isinstance(value, int | float), key
        return value

    def type_of(self, name: str) -> str:
        return self._table[name].type_name

    def n_rows(self, name: str) -> int:
        return self._table[name].shape[1]

    def matrix(self, name: str, rows: tuple[int, int] | None = None) -> Values:
        """All rows of a matrix, or some: [n_rows, n_in]."""
        values = _values(self.type_of(name), self.blocks(name, rows))
        return values.reshape(-1, self._table[name].shape[0])

    def blocks(self, name: str, rows: tuple[int, int] | None = None) -> Blocks:
        """Its bytes as they lie in the file."""
        table = self._table[name]
        first, last = rows or (0, table.shape[1])
        size, start = table.size_bytes // table.shape[1], self._start + table.offset
        return np.asarray(self._bytes[start + first * size : start + last * size])

    def tensor(self, name: str) -> Values:
        """All of it, in numpy's order: a matrix [n_out, n_in], experts [n_expert, n_out, n_in]."""
        table = self._table[name]
        start = self._start + table.offset
        data = self._bytes[start : start + table.size_bytes]
        return _values(table.type_name, data).reshape(table.shape[::-1])


@cache
def _header(path: Path, _written_ns: int) -> Header:
    """Networks of the same file are made several times, and a Gemma's header is long."""
    return read_header(path)


def _values(type_name: str, data: Blocks) -> Values:
    if type_name == "F32":
        return np.frombuffer(data.tobytes(), "<f4")
    if type_name == "F16":
        return np.frombuffer(data.tobytes(), "<f2").astype(np.float32)
    size, read = _BLOCKS[type_name]
    return read(np.asarray(data).reshape(-1, size)).astype(np.float32).reshape(-1)


def _half(block: Blocks, at: int) -> Values:
    """The float16 at a place of each block, [n_blocks, 1]."""
    return np.ascontiguousarray(block[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(data: Blocks) -> Blocks:
    """Two values of each byte: all low ones, then all high ones."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _q8_0(block: Blocks) -> Values:
    step = _half(block, 0)
    return step * np.ascontiguousarray(block[:, 2:34]).view(np.int8)


def _q4_1(block: Blocks) -> Values:
    return _half(block, 0) * _nibbles(block[:, 4:20]) + _half(block, 2)


def _q5_0(block: Blocks) -> Values:
    fifth = np.unpackbits(block[:, 2:6], axis=1, bitorder="little")
    return _half(block, 0) * ((_nibbles(block[:, 6:22]) | fifth << 4).astype(np.float32) - 16)


def _q4_k(block: Blocks) -> Values:
    """Twelve bytes hold eight scales and eight minima of six bits: those of the first four groups
    lie in the low bits of bytes 0 to 3 and 4 to 7, those of the last four are put together of
    bytes 8 to 11 and of the two high bits that the first ones left."""
    a, b, c = block[:, 4:8], block[:, 8:12], block[:, 12:16]
    scales = np.concatenate([a & 63, (c & 15) | (a >> 6) << 4], axis=1)
    minima = np.concatenate([b & 63, (c >> 4) | (b >> 6) << 4], axis=1)
    # Each 32 bytes hold two groups of 32 values: the low halves, then the high ones.
    values = _nibbles(block[:, 16:144].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    steps = (_half(block, 0) * scales)[:, :, None]
    return steps * values - (_half(block, 2) * minima)[:, :, None]


def _q6_k(block: Blocks) -> Values:
    """Each half of a block: 64 bytes with four low bits twice, 32 bytes with two high bits four
    times."""
    low = block[:, :128].reshape(-1, 2, 64)
    high = block[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    values = _nibbles(low).reshape(-1, 2, 4, 32) | (high & 3) << 4
    scales = np.ascontiguousarray(block[:, 192:208]).view(np.int8).astype(np.float32)
    steps = _half(block, 208) * scales
    return steps[:, :, None] * (values.reshape(-1, 16, 16).astype(np.float32) - 32)


_BLOCKS: Final[dict[str, tuple[int, Callable[[Blocks], Values]]]] = {
    "Q8_0": (34, _q8_0),
    "Q5_0": (22, _q5_0),
    "Q4_1": (20, _q4_1),
    "Q4_K": (144, _q4_k),
    "Q6_K": (210, _q6_k),
}
"""Bytes of a block, and its values."""


# --- as the CPU does it -------------------------------------------------------------------------


def cpu_product(file: Weights, name: str, x: Values, rows: tuple[int, int] | None = None) -> Values:
    """x · Wᵀ with the roundings of ggml's CPU code: each block of `x` becomes integers of 8 bits
    and a step, q = round(x / step), step = max |x| / 127, so that integers are multiplied."""
    type_name = file.type_of(name)
    weights = file.matrix(name, rows)
    if type_name == "F32":
        return np.asarray(x @ weights.T, np.float32)
    if type_name == "F16":
        return np.asarray(x.astype(np.float16).astype(np.float32) @ weights.T, np.float32)
    length = 256 if type_name.endswith("_K") else 32
    blocks = x.reshape(*x.shape[:-1], -1, length)
    step = np.abs(blocks).max(axis=-1, keepdims=True) / np.float32(127)
    whole = np.rint(np.divide(blocks, step, out=np.zeros_like(blocks), where=step > 0))
    kept = step if length == 256 else step.astype(np.float16).astype(np.float32)
    taken = whole * kept
    out: Values = taken.reshape(x.shape) @ weights.T
    if type_name == "Q4_1":
        # The sum of (d · q + m) · x is d · Σ q·x + m · Σ x, and that last sum is kept in float16.
        minima = _half(file.blocks(name, rows).reshape(-1, 20), 2).reshape(len(weights), -1)
        sums = (step * whole.sum(axis=-1, keepdims=True)).astype(np.float16).astype(np.float32)
        out = out + (sums - taken.sum(axis=-1, keepdims=True))[..., 0] @ minima.T
    return out
