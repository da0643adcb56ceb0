"""Origins: each has a word and a colour of its own, and text stays legible on its tone."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtGui import QColor

from app.insight.prompt.parts import ORIGIN_WORDS, ORIGINS, origin_words
from ui.look.colors import DARK, LIGHT, Colors
from ui.tokens.origins import origin_color, origin_tone


def luminance(color: QColor) -> float:
    parts = [color.redF(), color.greenF(), color.blueF()]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: QColor, second: QColor) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_origin_has_a_word_of_its_own() -> None:
    assert set(ORIGINS) == set(ORIGIN_WORDS)
    assert len(set(ORIGIN_WORDS.values())) == len(ORIGIN_WORDS)
    assert origin_words("of a newer engine") == "of a newer engine"


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_legible_on_every_tone(colors: Colors) -> None:
    for origin in (*ORIGINS, "of a newer engine"):
        tone = origin_tone(colors, origin)
        assert contrast(QColor(colors.ink), tone) >= 4.5, origin
        assert contrast(QColor(colors.dim), tone) >= 3, origin  # marks, which are no text


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_the_origins_of_a_chat_are_told_apart_by_their_colours(colors: Colors) -> None:
    chat = ("scaffold", "system", "user", "attachment", "assistant", "tool")
    for one, other in combinations(chat, 2):
        first, second = origin_color(colors, one), origin_color(colors, other)
        parts = zip(first.getRgb()[:3], second.getRgb()[:3], strict=True)
        assert sum(abs(a - b) for a, b in parts) > 50, (one, other)
