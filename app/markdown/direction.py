"""Which way a text runs."""

from __future__ import annotations

import unicodedata
from typing import Final

_TURNS: Final = frozenset(("R", "AL", "AN", "RLE", "RLO", "RLI", "FSI"))


def is_right_to_left(text: str) -> bool | None:
    """By the first strong character, as Unicode and Qt have it; None where there is none.

    >>> is_right_to_left("שלום"), is_right_to_left("😀 12 hello"), is_right_to_left("12 %")
    (True, False, None)
    """
    for char in text:
        direction = unicodedata.bidirectional(char)
        if direction == "L":
            return False
        if direction in ("R", "AL"):
            return True
    return None


def is_mixed(text: str) -> bool:
    """Whether any of it runs from right to left, however it begins.

    >>> is_mixed("Sí, 12 %"), is_mixed("hello שלום"), is_mixed("a\u202eb")
    (False, True, True)
    """
    return not text.isascii() and any(unicodedata.bidirectional(char) in _TURNS for char in text)
