"""The box to tick: as large as the zoom says, and the tick is seen."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.look.theme_sheet import CHOICE_PX
from ui.widgets.check_box import CheckBox


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("zoom", [100, 200])
def test_the_box_grows_and_its_tick_is_in_the_colour_of_the_theme(
    qtbot: QtBot, qapp: QApplication, mode: str, zoom: int
) -> None:
    theme = Theme(mode, zoom)
    theme.apply_to(qapp)
    box = CheckBox(theme, "Words")
    qtbot.addWidget(box)
    box.adjustSize()
    assert abs(box.box_rect().width() - theme.px(CHOICE_PX)) <= 1

    def colors() -> set[str]:
        picture, rect = box.grab().toImage(), box.box_rect().toRect()
        xs, ys = range(rect.left(), rect.right()), range(rect.top(), rect.bottom())
        return {picture.pixelColor(x, y).name() for x in xs for y in ys}

    unticked = colors()
    assert QColor(theme.colors.dim).name() in unticked
    assert QColor(theme.colors.accent).name() not in unticked
    box.setChecked(True)
    ticked = colors()
    assert theme.colors.accent in ticked
    # A thin tick is hardly anywhere of its full colour.
    mark = QColor(theme.colors.on_accent).lightness()
    assert min(abs(QColor(each).lightness() - mark) for each in ticked) < 48
