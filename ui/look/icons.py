"""Icons from one family: Phosphor, as the qtawesome package ships it.

Only qtawesome's font and its table of names are read. The package itself is not imported:
that costs a quarter of a second (it draws in qtpy and QtOpenGL), which is more than the
window's first paint may take. The font is not loaded before the first icon is painted, and Qt's
font database never knows it: a font that is added there while texts are laid out changes which
font a character comes from that the carried ones lack, and Qt then draws the glyph numbers of one
font with another (Chinese in the chat that was open at the start was blank).
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QIcon,
    QIconEngine,
    QPainter,
    QPixmap,
    QRawFont,
)

_FONT = "phosphor-1.3.0.ttf"
_NAMES = "phosphor-charmap-1.3.0.json"


class IconsMissingError(Exception):
    """The qtawesome package lacks the font: the installation is damaged."""


@cache
def icon(name: str, color: str, disabled_color: str | None = None) -> QIcon:
    """The icon called `name` in Phosphor ("copy", "caret-left"), crisp at any size and scale.

    Raises KeyError for a name that the family lacks: here, since Qt cannot carry an exception
    out of an icon engine.

    Each is made once and stays: where an icon and its engine are garbage together, Python's
    collector ends the engine first, and Qt ends it once more with the icon.
    """
    if name not in _codes():
        raise KeyError(name)
    return QIcon(_GlyphEngine(name, QColor(color), QColor(disabled_color or color)))


def paint_icon(painter: QPainter, rect: QRectF, name: str, color: QColor) -> None:
    """Draw an icon into a rectangle, centred, as high as the rectangle."""
    path = _font(round(rect.height())).pathForGlyph(_glyph(name))
    box = path.boundingRect()
    em = float(rect.height())
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    # Glyphs of this family fill an em square whose middle lies half an em above the baseline
    # less the descent; centring the advance keeps carets and dots where they belong.
    x = rect.center().x() - em / 2 if box.width() <= em else rect.center().x() - box.width() / 2
    baseline = rect.top() + em * _ascent_share()
    painter.translate(x, baseline)
    painter.fillPath(path, color)
    painter.restore()


class _GlyphEngine(QIconEngine):
    def __init__(self, name: str, color: QColor, disabled_color: QColor) -> None:
        super().__init__()
        self._name = name
        self._color = color
        self._disabled_color = disabled_color

    def clone(self) -> QIconEngine:
        return _GlyphEngine(self._name, self._color, self._disabled_color)

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        color = self._disabled_color if mode == QIcon.Mode.Disabled else self._color
        paint_icon(painter, QRectF(rect), self._name, color)

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        pixmap = QPixmap(size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        self.paint(painter, QRect(QPoint(0, 0), size), mode, state)
        painter.end()
        return pixmap


def _folder() -> Path:
    spec = find_spec("qtawesome")
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise IconsMissingError("The package qtawesome is missing. Reinstall the requirements.")
    return Path(places[0]) / "fonts"


@lru_cache(maxsize=1)
def _codes() -> dict[str, str]:
    codes: dict[str, str] = json.loads((_folder() / _NAMES).read_text("utf-8"))
    return codes


@lru_cache(maxsize=16)
def _font(size_px: int) -> QRawFont:
    path = str(_folder() / _FONT)
    font = QRawFont(path, max(1, size_px), QFont.HintingPreference.PreferNoHinting)
    if not font.isValid():
        raise IconsMissingError("The icon font can't be read. Reinstall the requirements.")
    return font


@lru_cache(maxsize=1)
def _ascent_share() -> float:
    """How much of the em lies above the baseline."""
    font = _font(1000)
    return font.ascent() / (font.ascent() + font.descent())


@lru_cache(maxsize=256)
def _glyph(name: str) -> int:
    indexes = _font(16).glyphIndexesForString(chr(int(_codes()[name], 16)))
    return int(indexes[0])
