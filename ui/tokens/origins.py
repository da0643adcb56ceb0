"""Where tokens come from, as the window says and shows it: one word and one colour for each.

The colour alone never says it: a legend, a caption or a tooltip always has the word beside it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from PySide6.QtGui import QColor

from ui.look.colors import Colors

_NAMES: Final = {
    "bos": "from_template",
    "scaffold": "from_template",
    "system": "from_system",
    "summary": "from_tool",
    "user": "from_you",
    "attachment": "from_attachment",
    "passage": "from_attachment",
    "assistant": "from_reply",
    "tool": "from_tool",
    "tools": "from_tool",
    "text": "from_you",
    "unknown": "dim",
}
_TONE: Final = 0.26
_TONE_DARK: Final = 0.34


@lru_cache(maxsize=64)
def origin_color(colors: Colors, origin: str) -> QColor:
    """For bars, maps and legends."""
    return QColor(getattr(colors, _NAMES.get(origin, "dim")))


@lru_cache(maxsize=64)
def origin_tone(colors: Colors, origin: str) -> QColor:
    """For behind text: the colour thinned into a card, so that ink stays legible on it."""
    color, card = origin_color(colors, origin), QColor(colors.card)
    share = _TONE_DARK if colors.is_dark else _TONE

    def mix(one: int, other: int) -> int:
        return round(one + (other - one) * share)

    return QColor(
        mix(card.red(), color.red()),
        mix(card.green(), color.green()),
        mix(card.blue(), color.blue()),
    )
