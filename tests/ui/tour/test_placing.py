"""The card is inside the window and beside its target."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from PySide6.QtCore import QRect, QSize

from ui.tour.placing import place

WINDOW = QRect(0, 0, 900, 600)
GAP = 8


@pytest.mark.parametrize(
    "aim",
    [
        QRect(520, 100, 360, 200),  # a panel at the right
        QRect(0, 100, 200, 200),  # the sidebar
        QRect(0, 0, 900, 80),  # a head over the whole width
        QRect(0, 520, 900, 80),  # a foot
    ],
)
def test_beside_its_target(aim: QRect) -> None:
    spot = place(QSize(320, 240), aim, WINDOW, GAP)
    assert WINDOW.contains(spot)
    assert not spot.intersects(aim)


def test_over_what_fills_the_window_it_stands_inside() -> None:
    spot = place(QSize(320, 240), WINDOW, WINDOW, GAP)
    assert WINDOW.contains(spot)


def test_without_a_target_it_stands_in_the_corner() -> None:
    assert place(QSize(320, 240), QRect(), WINDOW, GAP).bottomRight() == WINDOW.bottomRight()


def test_a_target_out_of_sight_counts_as_none() -> None:
    away = place(QSize(320, 240), QRect(2000, 0, 10, 10), WINDOW, GAP)
    assert away == place(QSize(320, 240), QRect(), WINDOW, GAP)


numbers = st.integers(-200, 1200)
sizes = st.integers(1, 1500)


@given(numbers, numbers, sizes, sizes, sizes, sizes)
def test_it_never_leaves_the_window(
    x: int, y: int, w: int, h: int, width: int, height: int
) -> None:
    spot = place(QSize(width, height), QRect(x, y, w, h), WINDOW, GAP)
    assert WINDOW.contains(spot)
    assert (spot.width(), spot.height()) == (min(width, 900), min(height, 600))
