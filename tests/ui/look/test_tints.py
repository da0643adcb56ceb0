"""The tints: legible, in order for any kind of colour vision, and never red against green."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtGui import QColor

from ui.look.colors import DARK, LIGHT, Colors
from ui.look.tints import N_LEVELS, tint_colors

BOTH = pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])


def linear(color: QColor) -> list[float]:
    parts = [color.redF(), color.greenF(), color.blueF()]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


def luminance(color: QColor) -> float:
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@BOTH
def test_ink_is_legible_on_every_tint_and_on_what_has_none(colors: Colors) -> None:
    grounds = [*tint_colors(colors), QColor(colors.line)]
    assert len(grounds) == N_LEVELS + 1
    for ground in grounds:
        light, dark = sorted((luminance(QColor(colors.ink)), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, ground.name()


@BOTH
def test_each_level_is_further_from_the_plane_than_the_one_before(colors: Colors) -> None:
    plane = luminance(QColor(colors.chat))
    distances = [abs(luminance(tint) - plane) for tint in tint_colors(colors)]
    assert all(first < second for first, second in pairwise(distances))


@BOTH
def test_without_telling_red_from_green_the_order_is_the_same(colors: Colors) -> None:
    """As deuteranopes see it (Viénot 1999): lightness goes one way, blue against yellow another."""
    seen = []
    for tint in tint_colors(colors):
        red, green, blue = linear(tint)
        one = 0.29275 * red + 0.70725 * green  # what red and green both become
        seen.append((one, blue - one))
    yellower = [chroma for _one, chroma in seen]
    assert all(first > second for first, second in pairwise(yellower))


@BOTH
def test_weak_is_blue_and_strong_is_yellow(colors: Colors) -> None:
    weak, strong = tint_colors(colors)[0], tint_colors(colors)[-1]
    assert weak.blue() > weak.red()
    assert strong.red() > 2 * strong.blue()
    assert strong.green() > 2 * strong.blue()
