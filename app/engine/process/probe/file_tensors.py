"""Tensors as they lie in the file, made float32 by ggml itself, some rows at a time.

The loaded ones may lie on a device, or in another order (llama.cpp repacks some types for its
processor kernels); the file has them all in one form. What must hold: no more than the rows that
were asked for is in memory, and a file that has changed since is refused, not guessed at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from app.engine.process.probe.tensors import Values, row_bytes, to_float32
from app.gguf.fingerprint import fast_hash
from app.gguf.header import TensorInfo, read_header
from app.gguf.local.split_names import part_names, set_name
from app.gguf.tensor_types import TENSOR_TYPES
from app.refusal import Refusal

CHUNK_BYTES: Final = 8 << 20
"""Of float32, at once."""

_NUMBERS: Final = {kind.name: number for number, kind in TENSOR_TYPES.items()}
_GONE: Final = "The model's file can no longer be read. Reload the model."
_REPLACED: Final = "The file was replaced after the model was loaded. Reload it."
_UNKNOWN: Final = "llama.cpp can't decode “{name}”, which this file stores as {type}."


class _Place(NamedTuple):
    path: Path
    start: int
    info: TensorInfo
    stamp: tuple[int, int]


class FileTensors:
    """The tensors of a GGUF file, or of all files of a set."""

    def __init__(self, path: Path, wanted_hash: str = "") -> None:
        """`wanted_hash`: what `fast_hash` says of the weights that are loaded; empty: any. Raises
        Refusal, also where it says something else of this file."""
        split = set_name(path.name)
        names = part_names(split) if split is not None else [path.name]
        self._places: dict[str, _Place] = {}
        for name in names:
            header = read_header(path.with_name(name))
            try:
                stamp = _stamp(header.path.stat())
                if name == path.name and wanted_hash and fast_hash(header) != wanted_hash:
                    raise Refusal("not_readable", _REPLACED)
            except OSError as error:
                raise Refusal("not_readable", _GONE, str(error)) from error
            for info in header.tensors:
                start = header.data_offset + info.offset
                self._places[info.name] = _Place(header.path, start, info, stamp)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def shape(self, name: str) -> tuple[int, ...]:
        """As numpy has it: [n_out, n_in] of a matrix. KeyError where there is no such tensor."""
        return tuple(reversed(self._places[name].info.shape))

    def type_name(self, name: str) -> str:
        """How the file stores it: Q8_0. KeyError where there is no such tensor."""
        return self._places[name].info.type_name

    def rows(self, name: str, first: int, count: int) -> Values:
        """[count, n_in] float32. Raises Refusal."""
        path, start, info, stamp = self._places[name]
        n_in, number = info.shape[0], _NUMBERS[info.type_name]
        size = row_bytes(number, n_in)
        try:
            with path.open("rb") as file:
                if _stamp(os.fstat(file.fileno())) != stamp:
                    raise Refusal("not_readable", _REPLACED)
                file.seek(start + first * size)
                data = np.frombuffer(file.read(count * size), np.uint8)
            if len(data) < count * size:
                raise OSError("the file is shorter than its header says")
        except OSError as error:
            raise Refusal("not_readable", _GONE, str(error)) from error
        try:
            return to_float32(number, data, count * n_in).reshape(count, n_in)
        except ValueError as error:
            sentence = _UNKNOWN.format(name=name, type=info.type_name)
            raise Refusal("unsupported", sentence, str(error)) from error

    def vector(self, name: str) -> Values:
        """All of a tensor of one dimension, [n]."""
        values: Values = self.rows(name, 0, 1)[0]
        return values

    def chunks(self, name: str) -> Iterator[tuple[int, Values]]:
        """All of a matrix: the number of the first row, and some rows."""
        n_in = self._places[name].info.shape[0]
        n_rows = int(np.prod(self.shape(name)[:-1]))
        step = max(CHUNK_BYTES // (4 * n_in), 1)
        for first in range(0, n_rows, step):
            yield first, self.rows(name, first, min(step, n_rows - first))


def _stamp(found: os.stat_result) -> tuple[int, int]:
    """By which a file that was written since is known."""
    return found.st_size, found.st_mtime_ns
