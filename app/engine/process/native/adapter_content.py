"""The numbers in an adapter's file, read and looked at before native code has them.

One number that is none (NaN, infinity) makes every score of a reply one, and then nothing can be
drawn. So all of a file is read once: each tensor is looked through, and the whole file is hashed,
by which it is known again. 300 MB take half a second.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from app.gguf.header import Header, TensorInfo
from app.refusal import Refusal

_PIECE_BYTES: Final = 34 << 17
"""A whole number of blocks of each type."""
_DIGEST_BYTES: Final = 16

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def _f32(data: _Bytes) -> bool:
    return bool(np.isfinite(data.view("<f4")).all())


def _f16(data: _Bytes) -> bool:
    return bool(np.all(data.view("<u2") & 0x7C00 != 0x7C00))


def _bf16(data: _Bytes) -> bool:
    return bool(np.all(data.view("<u2") & 0x7F80 != 0x7F80))


def _q8_0(data: _Bytes) -> bool:
    """Blocks of 34 bytes, of which the first two are the factor of the others, a half."""
    factors = np.ascontiguousarray(data.reshape(-1, 34)[:, :2])
    return _f16(factors.reshape(-1))


_FINITE: Final[dict[str, tuple[int, Callable[[_Bytes], bool]]]] = {
    "F32": (4, _f32),
    "F16": (2, _f16),
    "BF16": (2, _bf16),
    "Q8_0": (34, _q8_0),
}
"""Bytes of a block, and whether all its numbers are finite: the types that adapters come in."""

Stamp = tuple[int, int]


def stamp_of(found: os.stat_result) -> Stamp:
    """By which a file that was written since is known."""
    return found.st_size, found.st_mtime_ns


def checked_hash(header: Header, words: str) -> str:
    """The hash of the whole file, 32 hexadecimal digits. Raises Refusal where it holds a number
    that is none, or a type that no adapter comes in. `words`: what it is, in a sentence."""
    path = header.path
    try:
        with path.open("rb") as file:
            for tensor in header.tensors:
                file.seek(header.data_offset + tensor.offset)
                _look_through(file.read, tensor, path, words)
            file.seek(0)
            digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise unreadable(path, words, error) from error
    return digest.hexdigest()


def _look_through(read: Callable[[int], bytes], tensor: TensorInfo, path: Path, words: str) -> None:
    if tensor.type_name not in _FINITE:
        raise Refusal(
            "unsupported",
            f"The {words} “{path.name}” is stored as {tensor.type_name}. Use one in F32, F16, BF16 "
            "or Q8_0.",
            tensor.name,
        )
    block, is_finite = _FINITE[tensor.type_name]
    left = tensor.size_bytes
    while left > 0:
        data = np.frombuffer(read(min(left, _PIECE_BYTES)), np.uint8)
        if not len(data) or len(data) % block:
            raise OSError("the file is shorter than its header says")
        if not is_finite(data):
            raise Refusal(
                "damaged_file",
                f"The {words} “{path.name}” holds values that aren't numbers, so it can't be used. "
                "Download or make it again.",
                tensor.name,
            )
        left -= len(data)


def unreadable(path: Path, words: str, error: OSError) -> Refusal:
    return Refusal(
        "not_readable",
        f"The {words} “{path.name}” can't be read. Check its permissions and disk.",
        str(error),
    )
