"""The line of tokens per second: where it goes, its axes, how often it is drawn, its name."""

from __future__ import annotations

import time

import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.tokens.speed_plot import DRAWN_MS, MOST_TICKS, SpeedPlot, ticks

SPEEDS = [(0.5, 40.0), (1.0, 50.0), (1.5, 45.0)]


def shown(theme: Theme, qtbot: QtBot) -> SpeedPlot:
    plot = SpeedPlot(theme)
    qtbot.addWidget(plot)
    plot.resize(380, 100)
    plot.show_speeds(SPEEDS)
    plot.show()
    return plot


def test_the_line_goes_through_what_was_measured(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    box, (last_s, top) = plot.box, plot.ends
    there = [
        (
            (point.x() - box.left()) / box.width() * last_s,
            (box.bottom() - point.y()) / box.height() * top,
        )
        for point in plot.points
    ]
    assert there == [pytest.approx(pair) for pair in SPEEDS]
    assert plot.accessibleDescription() == "From 40.0 to 50.0 tokens/s in 1.5 s"
    plot.show_speeds([])
    assert plot.points == []
    assert plot.accessibleDescription() == ""


def test_the_line_is_painted_where_it_goes_and_is_not_an_area(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    image = plot.grab().toImage()
    ratio, accent = image.devicePixelRatio(), QColor(theme.colors.accent)
    painted = [
        (x / ratio, y / ratio)
        for x in range(image.width())
        for y in range(image.height())
        if is_near(image.pixelColor(x, y), accent)
    ]
    assert 0 < len(painted) < 0.05 * image.width() * image.height()
    for point in plot.points:
        assert any(abs(x - point.x()) < 3 and abs(y - point.y()) < 3 for x, y in painted)
    assert all(plot.box.adjusted(-2, -2, 2, 2).contains(x, y) for x, y in painted)


def is_near(one: QColor, other: QColor) -> bool:
    pairs = zip(one.getRgb()[:3], other.getRgb()[:3], strict=True)  # type: ignore[index]
    return max(abs(a - b) for a, b in pairs) < 60


@pytest.mark.parametrize("zoom", [80, 100, 200])
def test_both_axes_have_room_for_their_figures_and_units(
    theme: Theme, qtbot: QtBot, zoom: int
) -> None:
    theme.set_zoom(zoom)
    plot = shown(theme, qtbot)
    plot.resize(theme.px(300), plot.height())
    box = plot.box
    assert box.height() > 0.4 * plot.height()
    assert box.top() > 0
    assert box.right() < plot.width()


@pytest.mark.parametrize("most", MOST_TICKS)
@pytest.mark.parametrize("end", [0.14, 0.3, 1.0, 9.9, 35.1, 55.0, 79.0, 95.0, 101.0, 640.0])
def test_ticks_are_few_and_even_and_told_as_they_are(end: float, most: int) -> None:
    values = ticks(end, most)
    assert 2 <= len(values) <= most + 1
    assert values[0] == 0
    assert end - (values[1] - values[0]) < values[-1] <= end
    for number, value in enumerate(values):
        assert value == pytest.approx(number * values[1])
        assert float(f"{value:g}") == value


def test_speeds_of_nothing_are_a_line_too(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    plot.show_speeds([(0.0, 0.0)])
    plot.grab()
    assert plot.points == [plot.box.bottomLeft()]


def test_it_has_the_theme_s_colours_and_size(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    height = plot.height()
    theme.set_mode("dark")
    theme.set_zoom(200)
    assert plot.height() == 2 * height
    plot.resize(700, plot.height())
    image = plot.grab().toImage()
    seen = {
        image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())
    }
    assert QColor(theme.colors.accent).name() in seen


def test_a_line_that_grows_is_drawn_at_most_once_a_second(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    drawn: list[float] = []
    plot.drawn.connect(lambda: drawn.append(time.monotonic()))
    for more in range(20):
        plot.show_speeds([*SPEEDS, (2.0 + more, 30.0)])
    assert not drawn
    qtbot.waitUntil(lambda: bool(drawn), timeout=10 * DRAWN_MS)
    assert len(drawn) == 1
    assert plot.ends[0] == 21.0
    plot.show_speeds(plot._speeds)
    assert not plot._timer.isActive(), "nothing is new"
