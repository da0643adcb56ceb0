"""The colours behind tokens, from a palette: sequential, blue to yellow, so that they are told
apart with any kind of colour vision; the text on them stays as legible as on the plane."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Final

from PySide6.QtGui import QColor

from ui.look.colors import Colors

N_LEVELS: Final = 16


@lru_cache(maxsize=8)
def tint_colors(colors: Colors) -> tuple[QColor, ...]:
    """From weak to strong."""
    stops = (colors.tint_low, colors.tint_middle, colors.tint_high)
    spans = list(pairwise(map(QColor, stops)))
    found = []
    for level in range(N_LEVELS):
        at = level / (N_LEVELS - 1) * len(spans)
        first, second = spans[min(int(at), len(spans) - 1)]
        found.append(_between(first, second, at - min(int(at), len(spans) - 1)))
    return tuple(found)


def _between(first: QColor, second: QColor, share: float) -> QColor:
    def mix(one: int, other: int) -> int:
        return round(one + (other - one) * share)

    return QColor(
        mix(first.red(), second.red()),
        mix(first.green(), second.green()),
        mix(first.blue(), second.blue()),
    )
