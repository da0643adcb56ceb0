"""The pieces of a vocabulary on our side of the wire: ID to bytes and text, without numpy."""

from __future__ import annotations

import struct
from typing import Any, Final

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


class Pieces:
    """What each token ID stands for."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._offsets = [int(offset) for offset in unpack(vocabulary.offsets)]
        self._blob = vocabulary.blob
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
