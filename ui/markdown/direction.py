"""Which way a text runs."""

from __future__ import annotations

import unicodedata


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
