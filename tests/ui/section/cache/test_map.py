"""The map of cells: what is painted where, what the pointer and the keyboard reach."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from made_cache import slot, told
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.engine.protocol.cache_messages import CellPart
from app.insight.cache.cells import CellMap, CellStretch
from ui.look.theme import Theme
from ui.section.cache.map import CacheMapView

PARTS = [
    CellPart(0, 4, "scaffold"),
    CellPart(4, 40, "user", "m1"),
    CellPart(40, 44, "scaffold"),
    CellPart(44, 70, "reply", "m2"),
]
COLORS = {"scaffold": "#808080", "user": "#0000ff", "assistant": "#00ff00"}
NAMES = list(COLORS)


def key(stretch: CellStretch) -> int:
    return NAMES.index(stretch.origin)


def colors() -> Sequence[QColor]:
    return [QColor(COLORS[name]) for name in NAMES]


def cells(n_ctx: int = 4096) -> CellMap:
    return CellMap(told(slot(0, [(1, 0, 70)], PARTS), n_ctx=n_ctx))


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> CacheMapView:
    made = CacheMapView(theme)
    qtbot.addWidget(made)
    made.resize(360, 100)
    with qtbot.waitExposed(made):
        made.show()
    made.show_cells(cells(), key, colors)
    made.clearFocus()
    return made


def painted(view: CacheMapView) -> QImage:
    return view.grab().toImage()


def middle(view: CacheMapView, square: int) -> QPoint:
    row, column = divmod(square, view.grid.columns)
    half = view.grid.pitch // 2
    return QPoint(column * view.grid.pitch + half - 1, row * view.grid.pitch + half - 1)


def test_each_square_has_the_colour_of_its_cell(view: CacheMapView) -> None:
    image = painted(view)
    assert view.grid.per_square == 1
    assert view.height() == view.grid.rows * view.grid.pitch
    for square in range(view.grid.n_squares):
        stretch = cells().at(square)
        expected = QColor(COLORS[stretch.origin] if stretch else view._theme.colors.card)
        assert image.pixelColor(middle(view, square)) == expected, square


def test_many_cells_are_painted_as_small_squares_with_the_same_colours(
    view: CacheMapView,
) -> None:
    parts = [CellPart(0, 9000, "user", "m1"), CellPart(9000, 30_000, "reply", "m2")]
    full = CellMap(told(slot(0, [(1, 0, 30_000)], parts), n_ctx=32_768))
    view.show_cells(full, key, colors)
    assert view.grid.per_square > 1
    image = painted(view)
    for square in range(0, view.grid.n_squares, 37):
        stretch = full.at(square * view.grid.per_square)
        expected = QColor(COLORS[stretch.origin] if stretch else view._theme.colors.line)
        assert image.pixelColor(middle(view, square)) == expected, square


def test_the_map_is_as_high_as_it_must_be_at_any_width_and_zoom(
    view: CacheMapView, theme: Theme
) -> None:
    heights = {}
    for zoom in (100, 200, 300):
        theme.set_zoom(zoom)
        for width in (260, 396, 800):
            view.resize(width, view.height())
            grid = view.grid
            assert view.height() == grid.rows * grid.pitch <= theme.px(208)
            assert grid.columns * grid.pitch <= max(width, grid.pitch)
            heights[zoom, width] = view.height()
    assert heights[300, 260] > heights[100, 800]


def test_the_pointer_says_which_cell_it_is_on(view: CacheMapView, qtbot: QtBot) -> None:
    said: list[int] = []
    view.pointed.connect(said.append)
    QTest.mouseMove(view, middle(view, 45))
    qtbot.waitUntil(lambda: said == [45])
    assert view.cell == 45
    assert view.square_at(QPointF(middle(view, 45))) == 45
    assert view.square_at(QPointF(view.grid.columns * view.grid.pitch + 5, 3)) == -1
    view.leaveEvent(QEvent(QEvent.Type.Leave))
    assert said == [45, -1]


def test_a_click_chooses_a_cell(view: CacheMapView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(view.chosen) as chosen:
        qtbot.mouseClick(view, Qt.MouseButton.LeftButton, pos=middle(view, 50))
    assert chosen.args == [50]
    qtbot.mouseClick(view, Qt.MouseButton.RightButton, pos=middle(view, 51))
    assert view._current == 50


def test_the_keyboard_reaches_every_cell_and_every_message(
    view: CacheMapView, qtbot: QtBot
) -> None:
    said: list[int] = []
    view.pointed.connect(said.append)
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    columns = view.grid.columns
    control = Qt.KeyboardModifier.ControlModifier
    for which, modifier, expected in (
        (Qt.Key.Key_Right, None, 1),
        (Qt.Key.Key_Down, None, 1 + columns),
        (Qt.Key.Key_Left, None, columns),
        (Qt.Key.Key_Up, None, 0),
        (Qt.Key.Key_Up, None, 0),
        (Qt.Key.Key_Right, control, 4),
        (Qt.Key.Key_Right, control, 40),
        (Qt.Key.Key_Right, control, 44),
        (Qt.Key.Key_Right, control, 69),
        (Qt.Key.Key_Left, control, 44),
        (Qt.Key.Key_Home, None, 0),
        (Qt.Key.Key_End, None, 69),
    ):
        qtbot.keyClick(view, which, modifier or Qt.KeyboardModifier.NoModifier)
        assert view.cell == expected, (which, modifier)
    with qtbot.waitSignal(view.chosen) as chosen:
        qtbot.keyClick(view, Qt.Key.Key_Return)
    assert chosen.args == [69]
    assert said[-1] == 69


def test_what_is_looked_at_is_outlined(view: CacheMapView) -> None:
    before = painted(view)
    view.mark((10, 20))
    marked = painted(view)
    assert marked != before
    ink = QColor(view._theme.colors.ink)
    edge = [marked.pixelColor(x, 0) for x in range(10 * view.grid.pitch, 20 * view.grid.pitch)]
    assert ink in edge
    view.mark(None)
    assert painted(view) == before


def test_another_theme_paints_in_its_colours(view: CacheMapView, theme: Theme) -> None:
    light = painted(view)
    theme.set_mode("dark")
    dark = painted(view)
    at = middle(view, 200)
    assert light.pixelColor(at) != dark.pixelColor(at)


def test_nothing_is_painted_of_a_cache_that_is_not_known(view: CacheMapView, qtbot: QtBot) -> None:
    view.show_cells(None, key, colors)
    painted(view)
    assert view.square_at(QPointF(3, 3)) == -1
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_End)
    qtbot.keyClick(view, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)


def test_a_full_window_of_32768_cells_is_shown_within_five_milliseconds(
    view: CacheMapView,
) -> None:
    """A refresh while a reply streams: the map laid out, and painted anew."""
    sides = ("user", "reply")
    parts = [CellPart(i * 64, i * 64 + 64, sides[i % 2], f"m{i}") for i in range(512)]
    full = told(slot(0, [(1, 0, 32_768)], parts), n_ctx=32_768)
    took = []
    for _ in range(10):
        began = time.thread_time()
        view.show_cells(CellMap(full), key, colors)
        view.repaint()
        took.append(time.thread_time() - began)
    assert min(took) < 0.005


@pytest.mark.parametrize("zoom", [100, 200, 300])
def test_lines_around_squares_at_the_rim_are_whole(
    view: CacheMapView, theme: Theme, zoom: int
) -> None:
    """The ring of the first square, and the outline of what is looked at in the first row, have
    ink on all four sides."""
    theme.set_zoom(zoom)
    view.resize(theme.px(360), view.height())
    ink = QColor(theme.colors.ink)

    def ink_of(image: QImage, x: int, y: int) -> float:
        """How much of it is in a pixel, from 0 to 1, where the ground is the card."""
        ground = QColor(theme.colors.card).lightnessF()
        return (ground - image.pixelColor(x, y).lightnessF()) / (ground - ink.lightnessF())

    def sides(image: QImage, left: int, top: int, right: int, bottom: int) -> list[float]:
        """The darkest pixel on the way out of the middle, on each side."""
        x, y, reach = (left + right) // 2, (top + bottom) // 2, theme.px(4)
        return [
            max(ink_of(image, x, max(at, 0)) for at in range(top - reach, top + reach)),
            max(ink_of(image, x, at) for at in range(bottom - reach, bottom + reach)),
            max(ink_of(image, max(at, 0), y) for at in range(left - reach, left + reach)),
            max(ink_of(image, at, y) for at in range(right - reach, right + reach)),
        ]

    view.show_cells(CellMap(told(n_ctx=4096)), key, colors)
    pitch = view.grid.pitch
    view._hover(0)
    assert min(sides(painted(view), 0, 0, pitch, pitch)) > 0.9
    view._hover(-1)
    view.mark((0, view.grid.columns - 1))
    assert min(sides(painted(view), 0, 0, view.grid.columns * pitch, pitch)) > 0.9
    # From the end of a row into the next one: two pieces that hardly touch.
    columns = view.grid.columns
    view.mark((3, columns + 2))
    image = painted(view)
    assert min(sides(image, 3 * pitch, 0, columns * pitch, pitch)) > 0.9
    assert min(sides(image, 0, pitch, 3 * pitch, 2 * pitch)) > 0.9
