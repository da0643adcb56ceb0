"""The card of speculative decoding: its figures are those that were counted."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.insight.time.drafts import DraftFigures
from ui.look.theme import Theme
from ui.section.time.drafts import GROWING, MEASURED, NONE_YET, CountBar, DraftsCard

FIGURES = DraftFigures("lookup", "", 10, ((10, 8), (10, 5), (4, 1)), 1.0, 24, 0.5, 8)


@pytest.fixture
def card(theme: Theme, qtbot: QtBot) -> DraftsCard:
    made = DraftsCard(theme)
    qtbot.addWidget(made)
    return made


def test_figures_have_numerator_and_denominator(card: DraftsCard) -> None:
    card.show_figures(FIGURES, is_growing=False)
    assert not card.isHidden()
    assert card.accepted.value.text() == "14 of 24 (58%)"
    assert card.length.value.text() == "2.40 tokens in 10 passes"
    assert (card.fast.value.text(), card.fast.label.text()) == (
        "24.0 tokens/s",
        "With drafts (24 tokens)",
    )
    assert (card.plain.value.text(), card.plain.label.text()) == (
        "16.0 tokens/s",
        "Without (8 tokens)",
    )
    assert card.figure.text() == "1.50× · Lookup in the chat"
    assert card.places.bars == (CountBar("1", 8, 10), CountBar("2", 5, 10), CountBar("3", 1, 4))
    assert card.lengths.bars == tuple(CountBar(f"{n}", c, 10) for n, c in enumerate((2, 3, 4, 1)))
    assert card.caption.text() == MEASURED
    assert "2: 5 of 10 (50%)" in card.places.accessibleName()


def test_it_says_what_is_not_known(card: DraftsCard) -> None:
    card.show_figures(DraftFigures(passes=1, by_position=((1, 1),)), is_growing=True)
    assert card.caption.text() == GROWING
    assert not card.fast.value.isVisibleTo(card)
    assert card.length.value.text() == "2.00 tokens in 1 pass"
    card.show_figures(DraftFigures(), is_growing=False)
    assert card.caption.text() == NONE_YET
    assert not card.places.isVisibleTo(card)
    card.show_figures(DraftFigures(passes=1, by_position=((1, 0),), off="Off."), is_growing=False)
    assert card.caption.text() == "Off."
    card.show_figures(None, is_growing=False)
    assert card.isHidden()


@pytest.mark.parametrize("zoom", [100, 200])
def test_bars_are_as_long_as_their_shares(card: DraftsCard, theme: Theme, zoom: int) -> None:
    theme.set_zoom(zoom)
    card.show_figures(FIGURES, is_growing=False)
    card.resize(theme.px(360), card.sizeHint().height())
    card.ensurePolished()
    bars = card.places
    bars.resize(theme.px(336), bars.sizeHint().height())
    image = QImage(bars.size(), QImage.Format.Format_RGB32)
    bars.render(image)
    accent = theme.colors.accent
    lengths = [
        sum(image.pixelColor(x, y).name() == accent.lower() for x in range(image.width()))
        for y in (theme.px(18) // 2 + at * theme.px(18) for at in range(3))
    ]
    assert lengths[0] / lengths[1] == pytest.approx(8 / 5, rel=0.1)
    assert lengths[0] / lengths[2] == pytest.approx(8 / 2.5, rel=0.15)
