"""The pieces of a vocabulary on our side of the wire: ID to bytes and text, without numpy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Literal

from app.engine.protocol.frames import Array
from app.engine.protocol.messages import VocabularyTable


def unpack(array: Array) -> tuple[Any, ...]:
    """The numbers of an array, flat, as int or float."""
    return tuple(array.numbers())


PieceKind = Literal["normal", "control", "byte", "user-defined", "unknown", "unused"]

CONTROL: Final = 8
_KINDS: Final[tuple[tuple[int, PieceKind], ...]] = (
    (CONTROL, "control"),
    (1, "unknown"),
    (16, "user-defined"),
    (32, "byte"),
    (2, "unused"),
)
"""Bits of llama.cpp's token attributes; of several the first one here is what matters."""


def kind_of(attributes: int) -> PieceKind:
    """What sort of token it is, by llama.cpp's attributes."""
    return next((kind for bit, kind in _KINDS if attributes & bit), "normal")


class Pieces:
    """What each token ID stands for."""

    def __init__(self, vocabulary: VocabularyTable) -> None:
        # 262,144 tokens, and the window waits for it: no Python loop.
        self._offsets = vocabulary.offsets.numbers()
        self._blob = vocabulary.blob
        self._attributes = vocabulary.attributes.numbers()
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

    def kind(self, token_id: int) -> PieceKind | None:
        """What sort of token it is; None for an ID that is not in the vocabulary."""
        if not 0 <= token_id < min(len(self), len(self._attributes)):
            return None
        return kind_of(self._attributes[token_id])

    @cached_property
    def control_ids(self) -> frozenset[int]:
        return frozenset(i for i, bits in enumerate(self._attributes) if bits & CONTROL)
