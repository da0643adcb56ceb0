"""Windows that grow with the zoom, within the screen."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from ui.look.theme import Theme
from ui.widgets.zoomed_size import SCREEN_SHARE, ZoomedSize


def made(qtbot: QtBot, theme: Theme, size_px: tuple[int, int] = (300, 200)) -> QWidget:
    window = QWidget()
    qtbot.addWidget(window)
    ZoomedSize(window, theme, size_px)
    window.show()
    return window


def test_it_begins_as_designed_at_the_zoom_of_now(qtbot: QtBot, theme: Theme) -> None:
    theme.set_zoom(150)
    assert made(qtbot, theme).size() == QSize(450, 300)


def test_it_grows_and_shrinks_while_it_is_open(qtbot: QtBot, theme: Theme) -> None:
    window = made(qtbot, theme)
    theme.set_zoom(200)
    assert window.size() == QSize(600, 400)
    theme.set_zoom(100)
    qtbot.waitUntil(lambda: window.size() == QSize(300, 200))


def test_it_stays_within_the_screen_and_finds_back(qtbot: QtBot, theme: Theme) -> None:
    window = made(qtbot, theme)
    theme.set_zoom(300)
    most = window.screen().availableSize() * SCREEN_SHARE
    assert window.width() == min(900, most.width()) < 900
    theme.set_zoom(100)
    qtbot.waitUntil(lambda: window.size() == QSize(300, 200))


def test_what_the_user_made_of_it_is_kept_in_proportion(qtbot: QtBot, theme: Theme) -> None:
    window = made(qtbot, theme)
    window.resize(200, 300)
    theme.set_zoom(200)
    assert window.size() == QSize(400, 600)


def test_another_theme_leaves_it_as_it_is(qtbot: QtBot, theme: Theme) -> None:
    window = made(qtbot, theme)
    window.resize(210, 330)
    theme.set_mode("dark")
    assert window.size() == QSize(210, 330)


def test_a_least_size_is_not_taken_for_a_wish(qtbot: QtBot, theme: Theme) -> None:
    window = made(qtbot, theme)
    theme.changed.connect(lambda: window.setMinimumWidth(theme.px(290)))
    theme.set_zoom(300)
    assert window.width() == 870
    theme.set_zoom(100)
    qtbot.waitUntil(lambda: window.size() == QSize(300, 200))
