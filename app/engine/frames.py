"""What every struct on the wire is made of: the base, arrays, limits, clean text."""

from __future__ import annotations

from typing import Final

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


class ProtocolError(Exception):
    """A frame that does not fit. The receiver ends the connection."""


class FrameTooLarge(ProtocolError):  # noqa: N818 - it is an outcome, not an error of ours
    """A struct that no frame can hold."""


class Message(msgspec.Struct, frozen=True, tag_field="@", forbid_unknown_fields=False):
    """Base of all structs on the wire; the class name travels as `@`."""


class Array(Message, frozen=True, tag=True):
    """A dense little-endian array in C order. `data` has prod(shape) * itemsize bytes."""

    dtype: str
    shape: list[int]
    data: bytes

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


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD: they cannot be encoded and would poison later turns."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
