"""Numbers read back from what is shown, as a person reads them."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"[+−]?\d[\d,]*(?:\.\d+)?(?:e[+−-]\d+)?")


def numbers_in(text: str) -> list[float]:
    """All numbers of a text, by their signs: a hyphen is none.

    >>> numbers_in("Before: +2.12. Without it: −1,234.5, best 4%"), numbers_in("layer-2")
    ([2.12, -1234.5, 4.0], [2.0])
    """
    return [float(found.replace(",", "").replace("−", "-")) for found in _NUMBER.findall(text)]


def number_in(text: str) -> float:
    """The only one; units may stand around it."""
    (number,) = numbers_in(text)
    return number
