"""The pieces of a vocabulary on our side of the wire: ID to bytes and text, without numpy."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal

from app.engine.protocol import Array, ProtocolError, Vocabulary

_CODES: Final = {
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "i4": "i",
    "i8": "q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
}


def unpack(array: Array) -> tuple[Any, ...]:
    """The numbers of a checked array, flat, as int or float. Raises ProtocolError for a dtype of
    no use here."""
    code = _CODES.get(array.dtype)
    if code is None:
        raise ProtocolError(f"numbers of dtype {array.dtype!r} were not expected")
    return struct.unpack(f"<{len(array.data) // struct.calcsize(code)}{code}", array.data)


def whole(numbers: Array, dtype: str = "") -> array[int]:
    """Whole numbers of a checked array. Raises ProtocolError for others, or another `dtype`."""
    code = _CODES.get(numbers.dtype, "")
    if code not in tuple("BHIiq") or dtype not in ("", numbers.dtype):
        raise ProtocolError(f"numbers of dtype {numbers.dtype!r} were not expected")
    found = array(code, numbers.data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


Kind = Literal["normal", "control", "byte", "user-defined", "unknown", "unused"]

CONTROL: Final = 8
_KINDS: Final[tuple[tuple[int, Kind], ...]] = (
    (CONTROL, "control"),
    (1, "unknown"),
    (16, "user-defined"),
    (32, "byte"),
    (2, "unused"),
)
"""Bits of llama.cpp's token attributes; of several the first one here is what matters."""


def kind_of(attributes: int) -> Kind:
    """What sort of token it is, by llama.cpp's attributes."""
    return next((kind for bit, kind in _KINDS if attributes & bit), "normal")


class Pieces:
    """What each token ID stands for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        # 262,144 tokens, and the window waits for it: no Python loop.
        self._offsets = whole(vocabulary.offsets)
        self._blob = vocabulary.blob
        self._attributes = whole(vocabulary.attributes)
        self._texts: dict[int, str] = {}

    def __len__(self) -> int:
        return max(0, len(self._offsets) - 1)

    def piece(self, token_id: int) -> bytes:
        """The token's bytes; empty for an ID that is not in the vocabulary."""
        if not 0 <= token_id < len(self):
            return b""
        return self._blob[self._offsets[token_id] : self._offsets[token_id + 1]]

    def text(self, token_id: int) -> str:
        """The bytes as text; a part of a character becomes U+FFFD."""
        text = self._texts.get(token_id)
        if text is None:
            text = self._texts[token_id] = self.piece(token_id).decode("utf-8", "replace")
        return text

    @property
    def blob(self) -> bytes:
        """All pieces, one behind the other."""
        return self._blob

    @property
    def offsets(self) -> Sequence[int]:
        """Where in `blob` each piece begins, and at last where it ends."""
        return self._offsets

    def kind(self, token_id: int) -> Kind | None:
        """What sort of token it is; None for an ID that is not in the vocabulary."""
        if not 0 <= token_id < min(len(self), len(self._attributes)):
            return None
        return kind_of(self._attributes[token_id])

    @cached_property
    def control_ids(self) -> frozenset[int]:
        return frozenset(i for i, bits in enumerate(self._attributes) if bits & CONTROL)
