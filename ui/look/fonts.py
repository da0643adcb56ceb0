"""The two type families, which the program carries: Inter, and JetBrains Mono for code.

They are the same files on every platform (`resources/fonts`, with their licences), under names of
their own, so that nothing is wider or higher on another machine. Characters that a family lacks
come from the other one, then from the system's fonts, as Qt finds them by script.

Sizes are pixels at 100 %: interface, reading and small, and no others. The user may choose other
families and sizes (`Choice`). Figures are tabular, so that a counting number does not dance.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from PySide6.QtGui import QFont, QFontDatabase

REPLY_PX = 15
HEADING_PX = (21, 18, 16, REPLY_PX)
TEXT_PX = 14
SMALL_PX = 12

TEXT_FAMILY: Final = "Cutaway Inter"
MONO_FAMILY: Final = "Cutaway Mono"
KNOWN_AS: Final = {TEXT_FAMILY: "Inter", MONO_FAMILY: "JetBrains Mono"}
_FOLDER: Final = Path(__file__).parents[2] / "resources" / "fonts"
_FILES: Final = (
    "CutawayInter-Regular.otf",
    "CutawayInter-Italic.otf",
    "CutawayInter-SemiBold.otf",
    "CutawayInter-SemiBoldItalic.otf",
    "CutawayMono-Regular.ttf",
    "CutawayMono-Italic.ttf",
    "CutawayMono-SemiBold.ttf",
)


class FontsMissingError(Exception):
    """A font that the program carries cannot be read: the installation is damaged."""


@lru_cache(maxsize=1)
def load() -> None:
    """Make the carried families known to Qt, once. About 0.2 ms a file; all of them at once,
    since each one empties Qt's cache of fonts."""
    for name in _FILES:
        if QFontDatabase.addApplicationFont(str(_FOLDER / name)) < 0:
            raise FontsMissingError(f"The font {name} can't be read. Reinstall Cutaway.")


class Choice(NamedTuple):
    """What the user chose: families (empty: the carried ones) and sizes in pixels at 100 %. A
    tuple, as the colours are: it is made before the first paint."""

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
    font = _font(family, TEXT_FAMILY, MONO_FAMILY)
    font.setPixelSize(max(1, round(size_px)))
    font.setWeight(weight)
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setFeature(QFont.Tag("calt"), 0)
    return font


def mono_font(size_px: float, family: str = "") -> QFont:
    """The fixed-pitch font, without ligatures: code is shown letter by letter."""
    font = _font(family, MONO_FAMILY, TEXT_FAMILY)
    font.setFeature(QFont.Tag("calt"), 0)
    font.setFeature(QFont.Tag("liga"), 0)
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setFixedPitch(True)
    font.setPixelSize(max(1, round(size_px)))
    return font


def _font(chosen: str, *carried: str) -> QFont:
    """Of the chosen family, if it is there, and of the carried ones, each for what those before
    it lack. Letters keep their own widths: what the system says of hinting would change them."""
    load()
    font = QFont([chosen, *carried] if chosen else list(carried))
    font.setHintingPreference(QFont.HintingPreference.PreferVerticalHinting)
    return font
