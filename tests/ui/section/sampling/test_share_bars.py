"""Bars and the draw's mark, as they are painted."""

from __future__ import annotations

from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.sampling.share_bars import Bar, DrawMark, Segment, ShareBars
from ui.section.switch import Switch


def painted(widget: QWidget) -> QImage:
    return widget.grab().toImage()


def n_accent(image: QImage, y: int, theme: Theme) -> int:
    """How many points of a line have the accent's full colour."""
    accent = QColor(theme.colors.accent)
    return sum(image.pixelColor(x, y) == accent for x in range(image.width()))


def test_a_bar_is_as_long_as_its_share(qtbot: QtBot, theme: Theme) -> None:
    bars = ShareBars(theme)
    qtbot.addWidget(bars)
    bars.resize(300, 72)
    lengths = []
    for share in (0.25, 0.5, 1.0):
        bars.show_bars([Bar("a", share, is_drawn=True)])
        lengths.append(n_accent(painted(bars), 9, theme))
    assert abs(lengths[1] - 2 * lengths[0]) <= 4
    assert abs(lengths[2] - 4 * lengths[0]) <= 8
    assert lengths[0] > 20


def test_only_the_drawn_one_has_the_full_colour_and_all_are_spoken(
    qtbot: QtBot, theme: Theme
) -> None:
    bars = ShareBars(theme)
    qtbot.addWidget(bars)
    bars.show_bars([Bar("a", 0.5, True), Bar("b", 0.4, False), Bar("c", None, False)])
    bars.resize(300, bars.sizeHint().height())
    image = painted(bars)
    assert n_accent(image, 9, theme) > 20
    assert n_accent(image, 27, theme) == n_accent(image, 45, theme) == 0
    assert bars.accessibleName() == "a 50.0%, drawn; b 40.0%; c –"


def test_the_mark_stands_where_the_number_fell(qtbot: QtBot, theme: Theme) -> None:
    mark = DrawMark(theme)
    qtbot.addWidget(mark)
    mark.resize(400, 34)
    mark.show_draw([Segment("a", 0.0, 0.6, False), Segment("b", 0.6, 1.0, True)], 0.75)
    image = painted(mark)
    ink = QColor(theme.colors.ink)
    tip = [x for x in range(400) if image.pixelColor(x, 29) == ink]
    assert tip
    assert abs(sum(tip) / len(tip) - 300) < 3
    accent = QColor(theme.colors.accent)
    assert image.pixelColor(380, 3) == accent
    assert image.pixelColor(100, 3) != accent
    assert mark.accessibleName().startswith("The number 0.7500 falls on b")


def test_a_switch_shows_its_state_by_shape_too(qtbot: QtBot, theme: Theme) -> None:
    switch = Switch(theme, "Top-k on")
    qtbot.addWidget(switch)
    off = painted(switch)
    switch.setChecked(True)
    on = painted(switch)
    middle = off.height() // 2
    left, right = off.width() // 4, off.width() * 3 // 4
    # The knob stands left when it is off and right when it is on.
    assert off.pixelColor(left, middle) == QColor(theme.colors.dim)
    assert on.pixelColor(right, middle) == QColor(theme.colors.on_accent)
    assert on.pixelColor(left, middle) == QColor(theme.colors.accent)
