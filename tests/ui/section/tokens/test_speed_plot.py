"""The line of tokens per second: imported beside the window, drawn at most so often, named."""

from __future__ import annotations

import threading
import time

import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.section.tokens import speed_plot
from ui.section.tokens.speed_plot import DRAWN_MS, SpeedPlot

SPEEDS = [(0.5, 40.0), (1.0, 50.0), (1.5, 45.0)]


def shown(theme: Theme, qtbot: QtBot) -> SpeedPlot:
    plot = SpeedPlot(theme)
    qtbot.addWidget(plot)
    plot.resize(380, 100)
    plot.show_speeds(SPEEDS)
    with qtbot.waitSignal(plot.drawn, timeout=20_000):
        plot.show()
    return plot


def test_the_line_goes_through_what_was_measured(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    assert plot.points == SPEEDS
    assert plot.accessibleDescription() == "From 40.0 to 50.0 tokens/s in 1.5 s"
    plot.show_speeds([])
    assert plot.points == []
    assert plot.accessibleDescription() == ""


def test_axes_say_units_and_begin_at_zero(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    assert plot.axes["left"].labelText == "tokens/s"
    assert plot.axes["bottom"].labelText == "seconds after the first token"
    (x_low, x_high), (y_low, y_high) = plot._box.viewRange()
    assert x_low <= 0 <= 1.5 <= x_high
    assert y_low <= 0 < 50 <= y_high


def test_a_reply_of_under_a_second_is_told_in_seconds_too(theme: Theme, qtbot: QtBot) -> None:
    plot = SpeedPlot(theme)
    qtbot.addWidget(plot)
    plot.show_speeds([(0.05, 40.0), (0.14, 50.0)])
    with qtbot.waitSignal(plot.drawn, timeout=20_000):
        plot.show()
    axis = plot.axes["bottom"]
    for zoom in (200, 100):  # it is fitted again
        theme.set_zoom(zoom)
        shown = axis.tickStrings([0.1], axis.autoSIPrefixScale * axis.scale, 0.05)
        assert float(shown[0]) == 0.1


@pytest.mark.parametrize("top", [0.3, 1.0, 9.9, 35.1, 55.0, 79.0, 95.0, 101.0, 640.0])
def test_ticks_have_room_beneath_each_other(theme: Theme, qtbot: QtBot, top: float) -> None:
    plot = SpeedPlot(theme)
    qtbot.addWidget(plot)
    plot.show_speeds([(0.5, top / 2), (1.0, top)])
    with qtbot.waitSignal(plot.drawn, timeout=20_000):
        plot.show()
    axis = plot.axes["left"]
    low, high = plot._box.viewRange()[1]
    (_, values), *_ = axis.tickValues(low, high, 55)
    assert 2 <= len([value for value in values if low <= value <= high]) <= 4


def test_it_has_the_theme_s_colours_and_size(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    height = plot.height()
    theme.set_mode("dark")
    theme.set_zoom(200)
    assert plot._curve.opts["pen"].color() == QColor(theme.colors.accent)
    assert plot.axes["left"].textPen().color() == QColor(theme.colors.dim)
    assert plot.height() == 2 * height


def test_it_is_a_line_and_not_an_area(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    accent = QColor(theme.colors.accent)

    def share() -> float:
        image = plot.grab().toImage()
        points = [(x, y) for x in range(image.width()) for y in range(image.height())]
        return sum(is_near(image.pixelColor(x, y), accent) for x, y in points) / len(points)

    qtbot.waitUntil(lambda: share() > 0.001)
    assert share() < 0.05


def is_near(one: QColor, other: QColor) -> bool:
    pairs = zip(one.getRgb()[:3], other.getRgb()[:3], strict=True)  # type: ignore[index]
    return max(abs(a - b) for a, b in pairs) < 60


def test_a_line_that_grows_is_drawn_at_most_twice_a_second(theme: Theme, qtbot: QtBot) -> None:
    plot = shown(theme, qtbot)
    drawn: list[float] = []
    plot.drawn.connect(lambda: drawn.append(time.monotonic()))
    for more in range(20):
        plot.show_speeds([*SPEEDS, (2.0 + more, 30.0)])
    assert not drawn
    qtbot.waitUntil(lambda: bool(drawn), timeout=10 * DRAWN_MS)
    assert len(drawn) == 1
    assert plot.points[-1] == (21.0, 30.0)
    plot.show_speeds(plot._speeds)
    assert not plot._timer.isActive(), "nothing is new"


def test_it_is_imported_on_a_thread_once_and_when_a_plot_is_shown(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    imported = threading.Event()

    def import_slowly() -> None:
        threads.append(threading.current_thread())
        imported.set()

    monkeypatch.setattr(speed_plot, "_is_imported", imported)
    monkeypatch.setattr(speed_plot, "import_plots", import_slowly)
    plot = SpeedPlot(theme)
    qtbot.addWidget(plot)
    assert not threads
    plot.show_speeds(SPEEDS)
    with qtbot.waitSignal(plot.drawn):
        plot.show()
    shown(theme, qtbot)
    assert [thread.name for thread in threads] == ["plot-import"]


def test_a_plot_that_goes_while_it_waits_leaves_nothing(theme: Theme, qtbot: QtBot) -> None:
    plot = SpeedPlot(theme)
    plot.show()
    plot.deleteLater()
    qtbot.wait(1)
