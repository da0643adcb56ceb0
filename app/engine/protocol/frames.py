"""What every struct on the wire is made of: the base, arrays, bounded values, clean text.

What the engine says is untrusted, so each of its fields has a type from here that says what it may
be at most, and each struct whose fields must fit each other a `check`. Both are enforced where
frames are decoded (`wire.py`), once, and nobody behind that asks again. What must hold for a bound:
wide enough for whatever an engine of ours can say, and narrow enough for Qt's and C's numbers.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
MAX_ARRAY_RANK: Final = 8

DTYPES: Final[dict[str, int]] = {
    "i4": 4,
    "i8": 8,
    "f2": 2,
    "f4": 4,
    "f8": 8,
    "u1": 1,
    "u2": 2,
    "u4": 4,
}
"""numpy dtype codes (little endian) that may travel, and their item size in bytes."""

_CODES: Final = {"u1": "B", "u2": "H", "u4": "I", "i4": "i", "i8": "q", "f4": "f", "f8": "d"}
"""Python's own letters for them; it has none for f2."""

# --- values that have a bound -----------------------------------------------------------------

_Meta = msgspec.Meta

Count = Annotated[int, _Meta(ge=0, le=2**31 - 1)]
"""Tokens, cells, threads, lines: what Qt and llama.cpp count in int32."""
TokenId = Annotated[int, _Meta(ge=-1, le=2**31 - 1)]
"""-1: none."""
Amount = Annotated[int, _Meta(ge=0, le=2**53)]
"""Bytes, parameters, and the numbers of requests: exact as a float, too."""

Seconds = Annotated[float, _Meta(ge=-1.0, le=1e9)]
"""As the difference of two clocks it may be a hair below 0."""
Milliseconds = Annotated[float, _Meta(ge=-1e3, le=1e12)]
Rate = Annotated[float, _Meta(ge=0.0, le=1e18)]
"""Per second; the time that it was counted in may be a nanosecond."""
Share = Annotated[float, _Meta(ge=0.0, le=1.001)]
"""From 0 to 1, and what summing up float32 adds."""
Nats = Annotated[float, _Meta(le=1.0)]
"""A log-probability, never NaN; `is_nats` says the rest. What cannot be has -inf."""
Bits = Annotated[float, _Meta(ge=0.0, le=64.0)]
Scale = Annotated[float, _Meta(ge=-1e9, le=1e9)]
Logit = Annotated[float, _Meta(ge=-3.5e38, le=3.5e38)]
"""Whatever finite float32 a network makes; damaged weights make any."""

Word = Annotated[str, _Meta(max_length=256)]
Name = Annotated[str, _Meta(max_length=65_536)]
"""Of files, devices, messages; keys of a GGUF are as long as this at most."""
Sentence = Annotated[str, _Meta(max_length=65_536)]
Evidence = Annotated[str, _Meta(max_length=1 << 20)]
Text = Annotated[str, _Meta(max_length=MAX_FRAME_BYTES)]
"""A whole prompt or reply."""
Piece = Annotated[bytes, _Meta(max_length=1 << 22)]
Blob = Annotated[bytes, _Meta(max_length=MAX_FRAME_BYTES)]

FEW: Final = _Meta(max_length=1 << 16)
"""Of a list: devices, notes, stages."""
MANY: Final = _Meta(max_length=1 << 24)
"""Of a list: what there may be one of for each token."""


class ProtocolError(Exception):
    """A frame that does not fit. The receiver ends the connection."""


class FrameTooLarge(ProtocolError):  # noqa: N818 - it is an outcome, not an error of ours
    """A struct that no frame can hold."""


class WireMessage(msgspec.Struct, frozen=True, tag_field="@", forbid_unknown_fields=False):
    """Base of all structs on the wire; the class name travels as `@`. One whose fields must fit
    each other has a `check()` that raises ProtocolError where they do not."""


class Array(WireMessage, frozen=True, tag=True):
    """A dense little-endian array in C order. `data` has prod(shape) * itemsize bytes."""

    dtype: Word
    shape: Annotated[list[Amount], _Meta(max_length=MAX_ARRAY_RANK)]
    data: Blob

    @staticmethod
    def of(dtype: str, values: Sequence[float]) -> Array:
        """A list of numbers as it travels.

        >>> Array.of("i4", [1, 2])
        Array(dtype='i4', shape=[2], data=b'\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00')
        """
        found = array(_CODES[dtype], values)
        if sys.byteorder == "big":
            found.byteswap()
        return Array(dtype, [len(found)], found.tobytes())

    def check(self) -> Array:
        """Return self, or raise ProtocolError if dtype, shape and length do not fit."""
        size = DTYPES.get(self.dtype)
        if size is None:
            raise ProtocolError(f"array dtype {self.dtype!r} is not allowed")
        if len(self.shape) > MAX_ARRAY_RANK:
            raise ProtocolError(f"an array of rank {len(self.shape)} is not allowed")
        count = 1
        for extent in self.shape:
            if extent < 0:
                raise ProtocolError("array shape has a negative extent")
            count *= extent
        if count * size != len(self.data):
            raise ProtocolError(f"array of {len(self.data)} bytes does not fit shape {self.shape}")
        return self

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return len(self.data) // DTYPES[self.dtype]

    def numbers(self) -> array[Any]:
        """All of it, flat. Raises ProtocolError for a dtype of no use here."""
        code = _CODES.get(self.dtype)
        if code is None:
            raise ProtocolError(f"numbers of dtype {self.dtype!r} were not expected")
        found = array(code, self.data)
        if sys.byteorder == "big":
            found.byteswap()
        return found


def list_of(dtype: str) -> msgspec.Meta:
    """Of a field that is an Array: it is a list of such numbers."""
    return _Meta(extra={"dtype": dtype})


Int32s = Annotated[Array, list_of("i4")]
Int64s = Annotated[Array, list_of("i8")]
UInt8s = Annotated[Array, list_of("u1")]
Float32s = Annotated[Array, list_of("f4")]
Float64s = Annotated[Array, list_of("f8")]


def is_nats(value: float) -> bool:
    """Whether a log-probability is float32's, or -inf."""
    return -3.5e38 < value <= 1.0 or value == -math.inf


def are_nats(values: array[float]) -> bool:
    """The same of float32 numbers, in C: a loop over the candidates of each token took 30 µs of the
    50 that a token costs the window's process, which shares the cores with the engine."""
    # A sum is NaN where one of them is; `max` may pass over it.
    return not values or (max(values) <= 1.0 and not math.isnan(sum(values)))


def check_equal(what: str, *lengths: int) -> None:
    """Raise ProtocolError where there is not one of each for every one of the others."""
    if len(set(lengths)) > 1:
        raise ProtocolError(f"{what} are of different lengths: {', '.join(map(str, lengths))}")


def check_pieces(offsets: Array, blob: bytes) -> None:
    """Raise ProtocolError unless piece i is blob[offsets[i]:offsets[i + 1]], and all are it."""
    places = offsets.numbers().tolist()
    # Sorted in C: a loop over 262,144 of them would take 10 ms from the window's thread.
    if not places or places[0] != 0 or places[-1] != len(blob) or places != sorted(places):
        raise ProtocolError("pieces do not make up their bytes")


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD: they cannot be encoded and would poison later turns."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
