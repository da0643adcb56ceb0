"""Every field of a GGUF header and where it lies, and what a liar would write there.

Walks a sound file on its own, without the reader under test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
BOUNDARIES: Final = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True)
class Field:
    """`kind` is "number" (unsigned, whatever it means) or "text"."""

    name: str
    kind: str
    at: int
    size: int


@dataclass(frozen=True)
class Mutation:
    """`data` at `at`, and the file cut to `length` bytes where that is not None."""

    name: str
    at: int
    data: bytes
    length: int | None = None

    def applied(self, whole: bytes) -> bytes:
        changed = whole[: self.at] + self.data + whole[self.at + len(self.data) :]
        return changed if self.length is None else changed[: self.length]


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.fields: list[Field] = []

    def number(self, name: str, size: int) -> int:
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.fields.append(Field(name, "number", self.at, size))
        self.at += size
        return value

    def text(self, name: str) -> str:
        length = self.number(f"{name} length", 8)
        if length:
            self.fields.append(Field(name, "text", self.at, length))
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def array(self, name: str) -> None:
        kind, count = self.number(f"{name} item type", 4), self.number(f"{name} count", 8)
        for item in range(count):
            known = len(self.fields)
            if kind == _STRING:
                self.text(f"{name} item {item}")
            else:
                self.number(f"{name} item {item}", _SIZES[kind])
            if 1 < item < count - 1:
                del self.fields[known:]  # the first and last ones tell it all

    def pair(self) -> None:
        key = self.text("key")
        kind = self.number(f"{key} type", 4)
        if kind == _STRING:
            self.text(key)
        elif kind == _ARRAY:
            self.array(key)
        else:
            self.number(key, _SIZES[kind])

    def tensor(self) -> None:
        name = self.text("tensor")
        for dimension in range(self.number(f"{name} dimensions", 4)):
            self.number(f"{name} extent {dimension}", 8)
        self.number(f"{name} type", 4)
        self.number(f"{name} offset", 8)


def fields_of(data: bytes) -> list[Field]:
    """All fields of the header, in order."""
    walk = _Walk(data)
    for name, size in (("magic", 4), ("version", 4)):
        walk.number(name, size)
    n_tensors, n_keys = walk.number("tensor count", 8), walk.number("key count", 8)
    for _ in range(n_keys):
        walk.pair()
    for _ in range(n_tensors):
        walk.tensor()
    return walk.fields


def mutations_of(data: bytes) -> Iterator[Mutation]:
    """Each field at each boundary, one less and one more, and the file cut before and in it."""
    for field in fields_of(data):
        old = data[field.at : field.at + field.size]
        for new in _lies(field, old):
            if new != old:
                yield Mutation(f"{field.name} = {new[:8].hex()}", field.at, new)
        for length in {field.at, field.at + field.size // 2}:
            yield Mutation(f"cut at {field.name} ({length})", field.at, b"", length)


def _lies(field: Field, old: bytes) -> list[bytes]:
    if field.kind == "text":
        return [bytes(len(old)), b"\xff" * len(old), b"../\\\n\x1b"[: len(old)]]
    value, limit = int.from_bytes(old, "little"), 1 << 8 * field.size
    wanted = {number % limit for number in (*BOUNDARIES, value - 1, value + 1)}
    return [number.to_bytes(field.size, "little") for number in sorted(wanted)]


def packed_text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text
