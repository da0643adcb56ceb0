"""The label of a fit: words, a sign and a colour, and what is read aloud."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter
from pytestqt.qtbot import QtBot

from app.engine.planning.fit import Fit, Verdict
from ui.library.fit.badge import (
    SIGNS,
    UNKNOWN,
    FitBadge,
    badge_color,
    badge_size,
    paint_badge,
)
from ui.look.theme import Theme


def fit_of(verdict: Verdict, words: str = "fits") -> Fit:
    return Fit(verdict, words, f"Because of {verdict}.", (), 1, 2)


def picture(fit: Fit | None, theme: Theme, width: int) -> QImage:
    image = QImage(width, 24, QImage.Format.Format_RGB32)
    image.fill(theme.colors.card)
    painter = QPainter(image)
    paint_badge(painter, QRectF(0, 0, width, 24), fit, theme)
    painter.end()
    return image


def test_verdicts_differ_by_sign_words_and_colour(qtbot: QtBot) -> None:
    theme = Theme("light")
    assert SIGNS.keys() == set(Verdict)
    assert len(set(SIGNS.values())) == len(Verdict)
    colors = {badge_color(fit_of(verdict), theme).name() for verdict in Verdict}
    assert len(colors) == len(Verdict)
    signs = [picture(fit_of(verdict, "same"), theme, 14) for verdict in Verdict]
    assert all(one != other for one, other in zip(signs, signs[1:] + signs[:1], strict=True))


def test_the_widget_says_words_and_the_reason(qtbot: QtBot) -> None:
    badge = FitBadge(Theme("light"))
    qtbot.addWidget(badge)
    assert badge.text() == UNKNOWN
    assert badge.accessibleName() == f"Memory: {UNKNOWN}"
    badge.show_fit(fit_of(Verdict.FITS_LESS, "fits with 4,096 tokens of context"))
    assert badge.accessibleName() == "Memory: fits with 4,096 tokens of context"
    assert badge.accessibleDescription() == "Because of fits with less."
    assert badge.toolTip() == "Fits with 4,096 tokens of context\nBecause of fits with less."


@pytest.mark.parametrize("percent", [100, 200])
def test_it_has_room_for_its_words_and_cuts_them_in_less(qtbot: QtBot, percent: int) -> None:
    theme = Theme("dark", percent)
    fit = fit_of(Verdict.FITS, "fits with 12 of 25 layers on GPU 0")
    whole = badge_size(fit, theme)
    badge = FitBadge(theme, fit=fit)
    qtbot.addWidget(badge)
    assert badge.sizeHint() == whole
    narrow = picture(fit, theme, whole.width() // 2)
    assert narrow != picture(fit, theme, whole.width()).copy(0, 0, whole.width() // 2, 24)
    assert picture(fit, theme, 4).width() == 4  # less room than the sign: nothing fails
