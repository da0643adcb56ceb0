"""How figures of the panel *Inside* are written."""

from __future__ import annotations

import math


def percent(share: float) -> str:
    """With as many digits as tell it from nothing, and from all.

    >>> percent(0.2534), percent(0.034), percent(1.54), percent(0.00004), percent(0.0)
    ('25%', '3.4%', '154%', '<0.1%', '0%')
    >>> percent(0.9949), percent(0.9962), percent(0.99996), percent(1.0)
    ('99%', '99.6%', '>99.9%', '100%')
    """
    if math.isnan(share):
        return "–"
    if 0.995 <= share < 1:
        return f"{100 * share:.1f}%" if share < 0.9995 else ">99.9%"
    if share >= 0.0995 or share == 0:
        return f"{100 * share:.0f}%"
    return f"{100 * share:.1f}%" if share >= 0.001 else "<0.1%"


def quoted(word: str) -> str:
    """
    >>> quoted("·Paris")
    '“·Paris”'
    """
    return f"“{word}”"
