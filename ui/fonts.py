"""The two type families: the system's interface font and its fixed-pitch font.

Sizes are pixels at 100 %: interface, reading and small, and no others. The user may choose other
families and sizes (`Choice`). Figures are tabular, so that a counting number does not dance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtGui import QFont, QFontDatabase

REPLY_PX = 15
HEADING_PX = (21, 18, 16, REPLY_PX)
TEXT_PX = 14
SMALL_PX = 12

# Platforms without a desktop theme answer with a generic name instead of a font.
_GENERIC = frozenset({"sans serif", "sans", "sans-serif", "monospace", ""})
_TEXT_CHOICES = ("Inter", "Noto Sans", "Cantarell", "Ubuntu", "Liberation Sans")
_MONO_CHOICES = ("JetBrains Mono", "Noto Sans Mono", "DejaVu Sans Mono", "Liberation Mono")


@lru_cache(maxsize=4)
def _family(system: QFontDatabase.SystemFont, choices: tuple[str, ...]) -> str:
    family = QFontDatabase.systemFont(system).family()
    if family.lower() not in _GENERIC:
        return family
    return next((name for name in choices if QFontDatabase.hasFamily(name)), family)


def text_family() -> str:
    """The system's interface font, or a good installed one where it has none."""
    return _family(QFontDatabase.SystemFont.GeneralFont, _TEXT_CHOICES)


def mono_family() -> str:
    """The system's fixed-pitch font."""
    return _family(QFontDatabase.SystemFont.FixedFont, _MONO_CHOICES)


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user chose: families (empty: the system's) and sizes in pixels at 100 %."""

    text: str = ""
    reading: str = ""
    mono: str = ""
    text_px: int = TEXT_PX
    reading_px: int = REPLY_PX

    @property
    def small_px(self) -> int:
        """Figures and captions, in the same proportion to the interface."""
        return max(9, round(self.text_px * SMALL_PX / TEXT_PX))


def text_font(
    size_px: float, *, weight: QFont.Weight = QFont.Weight.Normal, family: str = ""
) -> QFont:
    """The interface font with tabular figures, and letters as they were written: "-->" would
    become an arrow."""
    font = QFont(family or text_family())
    font.setPixelSize(max(1, round(size_px)))
    font.setWeight(weight)
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setFeature(QFont.Tag("calt"), 0)
    return font


def mono_font(size_px: float, family: str = "") -> QFont:
    """The fixed-pitch font, without ligatures: code is shown letter by letter."""
    font = QFont(family or mono_family())
    font.setFeature(QFont.Tag("calt"), 0)
    font.setFeature(QFont.Tag("liga"), 0)
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setFixedPitch(True)
    font.setPixelSize(max(1, round(size_px)))
    return font
