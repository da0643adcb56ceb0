"""The bar of the token view: what it offers, says, and leaves out where it is narrow."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.insight.trace.tokens_shown import TINTS
from ui.look.theme import Theme
from ui.tokens.token_bar import ENDS, TokenBar


@pytest.fixture
def bar(theme: Theme, qtbot: QtBot) -> TokenBar:
    made = TokenBar(theme)
    qtbot.addWidget(made)
    made.resize(700, 40)
    made.show()
    return made


def test_every_tint_has_its_scale_with_a_unit(bar: TokenBar) -> None:
    assert set(ENDS) == set(TINTS)
    for tint, caption in TINTS.items():
        bar.show_tint(tint)
        assert bar.picker.currentText() == caption
        weak, strong = bar.legend.ends
        assert (weak, strong) == ENDS[tint]
        assert bar.legend.accessibleName() == f"Tint from {weak} (weak) to {strong} (strong)"
        assert bar.legend.toolTip()


def test_time_says_what_is_usual(bar: TokenBar) -> None:
    bar.show_tint("time", 15.2)
    assert bar.legend.ends == ("0 ms", "3 × median (46 ms) or more")


def test_choosing_asks_for_it(bar: TokenBar, qtbot: QtBot) -> None:
    with qtbot.waitSignal(bar.tint_chosen) as chosen:
        bar.picker.activated.emit(2)
    assert chosen.args == ["entropy"]
    bar.set_has_trace(True)
    with qtbot.waitSignal(bar.uncertain_requested):
        bar.uncertain_button.click()
    with qtbot.waitSignal(bar.picture_requested):
        bar.picture_button.click()
    bar.set_has_trace(False)
    assert not bar.uncertain_button.isEnabled()
    assert not bar.picture_button.isEnabled()


@pytest.mark.parametrize("zoom", [100, 200, 300])
def test_where_it_is_narrow_the_scale_leaves(bar: TokenBar, theme: Theme, zoom: int) -> None:
    theme.set_zoom(zoom)
    bar.show_tint("probability")
    bar.resize(zoom * 7, bar.sizeHint().height())
    assert bar.legend.isVisible()
    bar.resize(zoom * 3, bar.height())
    assert not bar.legend.isVisible()
    assert "100%" in bar.picker.toolTip()
    assert bar.picture_button.geometry().right() < bar.width()


def test_what_it_says_is_there_only_while_there_is_something_to_say(bar: TokenBar) -> None:
    assert not bar.sentence.isVisible()
    bar.say("Load some weights.")
    assert bar.sentence.isVisible()
    bar.say("")
    assert not bar.sentence.isVisible()


def test_while_a_panel_paints_the_bar_says_what(bar: TokenBar) -> None:
    bar.show_tint("probability")
    before = bar.ends()
    bar.show_paint("Attention of “is”")
    assert not bar.picker.isEnabled()
    assert bar.ends() == ("Attention of “is”: little", "much")
    bar.show_tint("probability")
    assert bar.picker.isEnabled()
    assert bar.ends() == before
